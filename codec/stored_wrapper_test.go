package codec_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
)

var compressions = []codec.Compression{codec.Gzip, codec.Snappy, codec.LZ4}

// buildStored compresses msgs and returns the entry of it, as a leader that
// counted the messages stores it.
func buildStored(t testing.TB, c codec.Compression, magic int8, msgs []codec.Message, s codec.Stamp) (codec.Frame, codec.Entry) {
	t.Helper()
	f, _, err := codec.BuildWrapper(nil, c, magic, msgs)
	require.NoError(t, err)
	w := codec.StoredWrapper{
		Compression: c, Magic: magic, Payload: f.Value,
		Count: len(msgs), Span: lastOffset(msgs) - msgs[0].Offset,
	}
	key, value := sealWrapper(w, f.Offset, s)
	require.Len(t, value, w.Size())
	return f, parse(t, key, value)
}

func TestWrapperReadsBackAsItWasWritten(t *testing.T) {
	rng := randomSource(t)
	for _, c := range compressions {
		for magic := range int8(2) {
			for range 100 {
				msgs := someMessages(rng, rng.Int64N(1<<50), rng.IntN(2) == 0)
				maxTimestamp, _ := maxOf(msgs)
				stamp := codec.Stamp{Timestamp: maxTimestamp, Clock: fixtureTime}
				f, e := buildStored(t, c, magic, msgs, stamp)
				require.Equal(t, codec.KindWrapper, e.Kind)
				require.Equal(t, c, e.Compression)
				require.Equal(t, magic, e.Magic)
				require.Equal(t, msgs[0].Offset, e.First)
				require.Equal(t, lastOffset(msgs), e.Last)
				require.Equal(t, len(msgs), e.Count)
				require.Equal(t, fixtureTime, e.Clock)
				require.Equal(t, f.WireSize(), e.WireSize())
				require.Equal(t, len(f.Value), e.KeyValueBytes)

				if magic == 0 {
					for i := range msgs {
						msgs[i].Timestamp, msgs[i].TimestampType = codec.NoTimestamp, codec.NoTimestampType
					}
					maxTimestamp = codec.NoTimestamp
				}
				// SPEC 2.7.26: a wrapper reports its last offset.
				require.Equal(t, maxTimestamp, e.MaxTimestamp)
				if maxTimestamp == codec.NoTimestamp {
					require.EqualValues(t, -1, e.MaxOffset)
				} else {
					require.Equal(t, e.Last, e.MaxOffset)
				}
				got, err := messagesOf(&e)
				require.NoError(t, err)
				require.Equal(t, msgs, got)
			}
		}
	}
}

// SPEC 4.3: the wrapper's type bit gives every message the wrapper's timestamp.
func TestWrapperWithLogAppendTimeOverridesEveryMessage(t *testing.T) {
	msgs := someMessages(randomSource(t), 40, true)
	_, e := buildStored(t, codec.Gzip, 1, msgs, codec.Stamp{Timestamp: fixtureTime, LogAppend: true})
	require.Equal(t, codec.LogAppendTime, e.TimestampType)
	require.Equal(t, fixtureTime, e.MaxTimestamp)
	require.Equal(t, e.Last, e.MaxOffset)
	got, err := messagesOf(&e)
	require.NoError(t, err)
	for i := range msgs {
		msgs[i].Timestamp, msgs[i].TimestampType = fixtureTime, codec.LogAppendTime
	}
	require.Equal(t, msgs, got)
}

func TestWrapperOfUnknownCountReadsAllTheSame(t *testing.T) {
	msgs := someMessages(randomSource(t), 40, false)
	f, _, err := codec.BuildWrapper(nil, codec.Snappy, 1, msgs)
	require.NoError(t, err)
	w := codec.StoredWrapper{Compression: codec.Snappy, Magic: 1, Span: 99, Payload: f.Value}
	key, value := sealWrapper(w, f.Offset, codec.Stamp{Timestamp: f.Timestamp})
	require.Len(t, value, w.Size())
	e := parse(t, key, value)
	require.Zero(t, e.Count)
	require.EqualValues(t, -1, e.First)
	got, err := messagesOf(&e)
	require.NoError(t, err)
	require.Equal(t, msgs, got)
}

func TestAppendStoredWrapperKeepsDst(t *testing.T) {
	w := codec.StoredWrapper{Compression: codec.Gzip, Magic: 1, Count: 1, Payload: []byte("payload")}
	dst := codec.AppendStoredWrapper([]byte("kept"), w)
	require.Equal(t, "kept", string(dst[:4]))
	require.Equal(t, dst[4:], codec.AppendStoredWrapper(bytes.Repeat([]byte{0xee}, 100)[:0], w))
}

func TestDamagedWrapperEndsTheCursor(t *testing.T) {
	msgs := make([]codec.Message, 3)
	for i := range msgs {
		msgs[i] = codec.Message{Offset: int64(10 + i), Value: []byte("value")}
	}
	f, _, err := codec.BuildWrapper(nil, codec.Gzip, 1, msgs)
	require.NoError(t, err)
	inner, err := codec.Gzip.Decompress(nil, f.Value, 1, codec.MaxInflated)
	require.NoError(t, err)
	compressed := func(set []byte) []byte {
		payload, err := codec.Gzip.Compress(nil, set, 1)
		require.NoError(t, err)
		return payload
	}
	flipped := bytes.Clone(inner)
	flipped[len(flipped)-1] ^= 1 // the last inner message's CRC

	for name, w := range map[string]codec.StoredWrapper{
		"no payload":                 {Count: 3, Span: 2},
		"not compressed":             {Count: 3, Span: 2, Payload: []byte("not gzip")},
		"payload cut":                {Count: 3, Span: 2, Payload: f.Value[:len(f.Value)-9]},
		"inner checksum":             {Count: 3, Span: 2, Payload: compressed(flipped)},
		"no inner message":           {Count: 3, Span: 2, Payload: compressed(nil)},
		"fewer messages than stored": {Count: 4, Span: 3, Payload: f.Value},
		"more messages than stored":  {Count: 2, Span: 2, Payload: f.Value},
		"message before the first":   {Count: 2, Span: 1, Payload: f.Value},
		"inner message cut":          {Count: 3, Span: 2, Payload: compressed(inner[:len(inner)-3])},
	} {
		t.Run(name, func(t *testing.T) {
			w.Compression, w.Magic = codec.Gzip, 1
			key, value := sealWrapper(w, 12, codec.Stamp{})
			e := parse(t, key, value)
			_, err := messagesOf(&e)
			require.ErrorIs(t, err, codec.ErrDamaged)
			_, _, err = e.AppendSet(nil, codec.SetOptions{To: 100, Limit: 1 << 20, First: true})
			require.ErrorIs(t, err, codec.ErrDamaged, "down-conversion reads the inside")
		})
	}
}

func TestInflatingIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("compresses more than MaxInflated")
	}
	bomb, err := codec.Gzip.Compress(nil, make([]byte, codec.MaxInflated+1), 1)
	require.NoError(t, err)
	w := codec.StoredWrapper{Compression: codec.Gzip, Magic: 1, Payload: bomb}
	key, value := sealWrapper(w, math.MaxInt64, codec.Stamp{})
	e := parse(t, key, value)
	var c codec.Cursor
	require.ErrorIs(t, c.Reset(&e), codec.ErrDamaged)
	require.False(t, c.Next(new(codec.Message)))
}
