package codec_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
)

func TestPlainEntryReadsBackAsItWasWritten(t *testing.T) {
	rng := randomSource(t)
	for range 3_000 {
		dense := rng.IntN(2) == 0
		msgs := someMessages(rng, rng.Int64N(1<<50), dense)
		stamp := codec.Stamp{Timestamp: msgs[0].Timestamp, Clock: randomTimestamp(rng)}
		options := codec.PlainOptions{Magic: 1, Dense: dense && rng.IntN(2) == 0}
		key, value := sealPlain(msgs, options, lastOffset(msgs), stamp)
		require.Len(t, value, codec.PlainSize(msgs, options))

		e := parse(t, key, value)
		maxTimestamp, maxOffset := maxOf(msgs)
		require.Equal(t, codec.KindPlain, e.Kind)
		require.Equal(t, codec.None, e.Compression)
		require.EqualValues(t, 1, e.Magic)
		require.Equal(t, codec.CreateTime, e.TimestampType)
		require.Equal(t, stamp.Timestamp, e.Timestamp)
		require.Equal(t, stamp.Clock, e.Clock)
		require.Equal(t, msgs[0].Offset, e.First)
		require.Equal(t, lastOffset(msgs), e.Last)
		require.Equal(t, len(msgs), e.Count)
		require.Equal(t, maxTimestamp, e.MaxTimestamp)
		require.Equal(t, maxOffset, e.MaxOffset)
		require.Equal(t, keyValueBytes(msgs), e.KeyValueBytes)

		got, err := messagesOf(&e)
		require.NoError(t, err)
		require.Equal(t, msgs, got)
	}
}

func TestPlainEntryHoldsAnyTimestamps(t *testing.T) {
	extremes := []codec.Timestamp{-1, 0, 1, math.MaxInt64, math.MinInt64, math.MinInt64 + 1, -2, fixtureTime}
	for _, a := range extremes {
		for _, b := range extremes {
			for _, c := range extremes {
				msgs := []codec.Message{{Offset: 5, Timestamp: a}, {Offset: 6, Timestamp: b}, {Offset: 7, Timestamp: c}}
				key, value := sealPlain(msgs, codec.PlainOptions{Magic: 1}, 7, codec.Stamp{Timestamp: a})
				e := parse(t, key, value)
				got, err := messagesOf(&e)
				require.NoError(t, err)
				for i := range msgs {
					require.Equal(t, msgs[i].Timestamp, got[i].Timestamp)
				}
				ts, offset := maxOf(msgs)
				require.Equal(t, ts, e.MaxTimestamp)
				require.Equal(t, offset, e.MaxOffset)
			}
		}
	}
}

// SPEC 2.7.26: the first occurrence counts, and only of real timestamps.
func TestPlainMaxTimestampIsItsFirstOccurrence(t *testing.T) {
	for _, c := range []struct {
		timestamps []codec.Timestamp
		max        codec.Timestamp
		offset     int64
	}{
		{[]codec.Timestamp{1, 3, 2, 3}, 3, 101},
		{[]codec.Timestamp{3, 3, 3}, 3, 100},
		{[]codec.Timestamp{-1, -1}, -1, -1},
		{[]codec.Timestamp{-1}, -1, -1},
		{[]codec.Timestamp{-1, 0, -1}, 0, 101},
		{[]codec.Timestamp{0}, 0, 100},
		{[]codec.Timestamp{-5, -3}, -1, -1},
	} {
		msgs := make([]codec.Message, len(c.timestamps))
		for i, ts := range c.timestamps {
			msgs[i].Timestamp = ts
		}
		key, value := sealPlain(msgs, codec.PlainOptions{Magic: 1, Dense: true}, 100+int64(len(msgs))-1, codec.Stamp{Timestamp: c.timestamps[0]})
		e := parse(t, key, value)
		require.Equal(t, c.max, e.MaxTimestamp, "%v", c.timestamps)
		require.Equal(t, c.offset, e.MaxOffset, "%v", c.timestamps)
	}
}

func TestUnsetTimestampsTakeTheStamp(t *testing.T) {
	msgs := make([]codec.Message, 3) // no timestamps: the clock of the append
	options := codec.PlainOptions{Magic: 1, Dense: true}
	for _, c := range []struct {
		stamp, max codec.Timestamp
		maxOffset  int64
	}{
		{fixtureTime, fixtureTime, 10},
		{0, 0, 10},
		{codec.NoTimestamp, codec.NoTimestamp, -1},
	} {
		key, value := sealPlain(msgs, options, 12, codec.Stamp{Timestamp: c.stamp})
		e := parse(t, key, value)
		require.Equal(t, c.max, e.MaxTimestamp)
		require.Equal(t, c.maxOffset, e.MaxOffset)
		got, err := messagesOf(&e)
		require.NoError(t, err)
		for _, m := range got {
			require.Equal(t, c.stamp, m.Timestamp)
			require.Equal(t, codec.CreateTime, m.TimestampType)
		}
	}
}

// SPEC 2.3.20 and 2.7.26: one time for all, reported at the first offset.
func TestLogAppendTimeOverridesEveryMessage(t *testing.T) {
	msgs := someMessages(randomSource(t), 40, true)
	stamp := codec.Stamp{Timestamp: fixtureTime, Clock: fixtureTime, LogAppend: true}
	key, value := sealPlain(msgs, codec.PlainOptions{Magic: 1}, lastOffset(msgs), stamp)
	e := parse(t, key, value)
	require.Equal(t, codec.LogAppendTime, e.TimestampType)
	require.Equal(t, fixtureTime, e.MaxTimestamp)
	require.EqualValues(t, 40, e.MaxOffset)

	got, err := messagesOf(&e)
	require.NoError(t, err)
	for i := range msgs {
		msgs[i].Timestamp, msgs[i].TimestampType = fixtureTime, codec.LogAppendTime
	}
	require.Equal(t, msgs, got)
}

// SPEC 4.4: a v0 message has no timestamp, whatever its producer set.
func TestMagic0HasNoTimestamps(t *testing.T) {
	msgs := someMessages(randomSource(t), 40, false)
	options := codec.PlainOptions{Magic: 0}
	stamp := codec.Stamp{Timestamp: fixtureTime, Clock: fixtureTime, LogAppend: true}
	key, value := sealPlain(msgs, options, lastOffset(msgs), stamp)
	require.Len(t, value, codec.PlainSize(msgs, options))
	e := parse(t, key, value)
	require.Zero(t, e.Magic)
	require.Equal(t, codec.NoTimestampType, e.TimestampType)
	require.Equal(t, codec.NoTimestamp, e.Timestamp)
	require.Equal(t, fixtureTime, e.Clock)
	require.Equal(t, codec.NoTimestamp, e.MaxTimestamp)
	require.EqualValues(t, -1, e.MaxOffset)
	require.Equal(t, len(msgs)*26+keyValueBytes(msgs), e.WireSize())

	got, err := messagesOf(&e)
	require.NoError(t, err)
	for i := range msgs {
		msgs[i].Timestamp, msgs[i].TimestampType = codec.NoTimestamp, codec.NoTimestampType
	}
	require.Equal(t, msgs, got)
}

func TestDenseIgnoresOffsets(t *testing.T) {
	a := []codec.Message{{Value: []byte("x")}, {Value: []byte("y")}}
	b := slices.Clone(a)
	b[0].Offset, b[1].Offset = 900, 7
	dense := codec.PlainOptions{Magic: 1, Dense: true}
	require.Equal(t, codec.AppendPlain(nil, a, dense), codec.AppendPlain(nil, b, dense))
}

func TestAppendPlainKeepsDstAndCopiesMessages(t *testing.T) {
	value := []byte("value")
	msgs := []codec.Message{{Value: value}}
	options := codec.PlainOptions{Magic: 1, Dense: true}
	dst := codec.AppendPlain([]byte("kept"), msgs, options)
	require.Equal(t, "kept", string(dst[:4]))
	want := bytes.Clone(dst)
	copy(value, "other")
	require.Equal(t, want, dst)

	dirty := bytes.Repeat([]byte{0xee}, 100)
	copy(value, "value")
	require.Equal(t, want[4:], codec.AppendPlain(dirty[:0], msgs, options), "reused memory leaves no trace")
}

func TestNoMessagesMakeNoEntry(t *testing.T) {
	require.Zero(t, codec.PlainSize(nil, codec.PlainOptions{}))
	require.Equal(t, []byte("kept"), codec.AppendPlain([]byte("kept"), nil, codec.PlainOptions{}))
}

func TestPlainEntriesDoNotAllocate(t *testing.T) {
	msgs := benchMessages(100, 100)
	options := codec.PlainOptions{Magic: 1, Dense: true}
	value := make([]byte, 0, codec.PlainSize(msgs, options))
	key := logKey(99)
	var c codec.Cursor
	var m codec.Message
	allocs := testing.AllocsPerRun(100, func() {
		value = codec.AppendPlain(value[:0], msgs, options)
		codec.Seal(key, value, codec.Stamp{Timestamp: msgs[0].Timestamp})
		e, err := codec.ParseEntry(key, value)
		if err != nil || c.Reset(&e) != nil {
			panic("entry does not parse")
		}
		for c.Next(&m) {
		}
	})
	require.NoError(t, c.Err())
	require.Zero(t, allocs)
}
