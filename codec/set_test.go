package codec_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/cairnlog/cairn/codec"
	"github.com/stretchr/testify/require"
)

// Of SPEC 13: a/1 T, b/2 T+20, c/3 T+10 at 0, 1, 2, and their gzip wrapper as a
// producer sends it.
const (
	goldenInner = "0000000000000000 00000018 f624fb49 01 00 0000015d3ef79800 00000001 61 00000001 31 /" +
		"0000000000000001 00000018 f7966f14 01 00 0000015d3ef79814 00000001 62 00000001 32 /" +
		"0000000000000002 00000018 b74d63ea 01 00 0000015d3ef7980a 00000001 63 00000001 33"
	goldenW = "0000000000000002 00000064 9bb8cd50 01 01 0000015d3ef79814 ffffffff 0000004e" +
		"1f8b08000000000002ff63608003896f2abf3d19810cc658bbef3340228c8920c2102a0f9292f83e2d5f04ae4604c44802114650354c2035db7d935fc1d5708118c920c21800a4b395b26c000000"
)

var goldenWMessages = []codec.Message{
	{Offset: 0, Timestamp: goldenTime, TimestampType: codec.CreateTime, Key: []byte("a"), Value: []byte("1")},
	{Offset: 1, Timestamp: goldenTime + 20, TimestampType: codec.CreateTime, Key: []byte("b"), Value: []byte("2")},
	{Offset: 2, Timestamp: goldenTime + 10, TimestampType: codec.CreateTime, Key: []byte("c"), Value: []byte("3")},
}

// shifted returns msgs moved by an offset, each changed by edit if that is set.
func shifted(msgs []codec.Message, by int64, edit func(*codec.Message)) []codec.Message {
	out := make([]codec.Message, len(msgs))
	for i, m := range msgs {
		m.Offset += by
		if edit != nil {
			edit(&m)
		}
		out[i] = m
	}
	return out
}

func readWrapper(t testing.TB, hex string) codec.Frame {
	t.Helper()
	f, n, err := codec.ReadFrame(unhex(t, hex))
	require.NoError(t, err)
	require.NotZero(t, n)
	return f
}

// wrapper returns a valid wrapper with any bytes as its inner set.
func wrapper(t testing.TB, c codec.Compression, magic int8, inner []byte) codec.Frame {
	t.Helper()
	payload, err := c.Compress(nil, inner, magic)
	require.NoError(t, err)
	return codec.Frame{
		Magic: magic, Compression: c, TimestampType: codec.CreateTime, Timestamp: codec.NoTimestamp, Value: payload,
	}
}

// S17, SPEC 1.3.12: the wrapper's offset is the last one; inner timestamps count.
func TestWrapperReadsWithInnerTimestamps(t *testing.T) {
	got, err := collect(unhex(t, goldenW))
	require.NoError(t, err)
	require.Equal(t, goldenWMessages, got)

	f := readWrapper(t, goldenW)
	f.Offset = 102
	got, err = collect(codec.AppendFrame(nil, &f))
	require.NoError(t, err)
	require.Equal(t, shifted(goldenWMessages, 100, nil), got)
}

// S19, and S18 as what must not happen: LogAppendTime on the wrapper overrides.
func TestLogAppendTimeWrapperOverridesInnerTimestamps(t *testing.T) {
	f := readWrapper(t, goldenW)
	f.TimestampType, f.Timestamp = codec.LogAppendTime, goldenTime+99
	got, err := collect(codec.AppendFrame(nil, &f))
	require.NoError(t, err)
	require.Equal(t, shifted(goldenWMessages, 0, func(m *codec.Message) {
		m.Timestamp, m.TimestampType = goldenTime+99, codec.LogAppendTime
	}), got)
}

// S20, SPEC C8: an inner -1 under CreateTime does not inherit the wrapper's.
func TestInnerNoTimestampStaysNone(t *testing.T) {
	msgs := shifted(goldenWMessages[:2], 0, nil)
	msgs[0].Timestamp = codec.NoTimestamp
	f, _, err := codec.BuildWrapper(nil, codec.Gzip, 1, msgs)
	require.NoError(t, err)
	require.Equal(t, goldenTime+20, f.Timestamp)
	got, err := collect(codec.AppendFrame(nil, &f))
	require.NoError(t, err)
	require.Equal(t, msgs, got)
}

// S21: a plain message has its own timestamp.
func TestPlainMessageReadsWithItsTimestamp(t *testing.T) {
	got, err := collect(append(unhex(t, goldenEntryA), entry(t, 1, goldenD)...))
	require.NoError(t, err)
	require.Equal(t, goldenTime, got[0].Timestamp)
	require.Equal(t, codec.CreateTime, got[0].TimestampType)
	require.Equal(t, goldenTime+5, got[1].Timestamp)
	require.Equal(t, codec.LogAppendTime, got[1].TimestampType)
}

// SPEC 1.2.9, case V06: an inner type bit is ignored on read.
func TestInnerTypeBitIsIgnored(t *testing.T) {
	f := wrapper(t, codec.Snappy, 1, entry(t, 0, goldenD))
	for _, read := range []func() ([]codec.Message, error){
		func() ([]codec.Message, error) { return collect(codec.AppendFrame(nil, &f)) },
		func() ([]codec.Message, error) {
			in, err := codec.InspectWrapper(&f, nil)
			return in.AppendMessages(nil, 0), err
		},
	} {
		got, err := read()
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Equal(t, codec.CreateTime, got[0].TimestampType)
		require.Equal(t, goldenTime+5, got[0].Timestamp)
	}
}

// Case W10, SPEC 1.3.17.
func TestWrapperOffsetArithmetic(t *testing.T) {
	for _, c := range []struct {
		last int64
		want []int64
	}{
		{0, []int64{0, 1, 2}}, // offsets never assigned: the legacy allowance
		{2, []int64{0, 1, 2}},
		{500, []int64{498, 499, 500}},
		{math.MaxInt64, []int64{math.MaxInt64 - 2, math.MaxInt64 - 1, math.MaxInt64}},
		{1, nil},
		{-1, nil},
		{math.MinInt64, nil},
	} {
		f := readWrapper(t, goldenW)
		f.Offset = c.last
		got, err := collect(codec.AppendFrame(nil, &f))
		if c.want == nil {
			requireCorrupt(t, err, "wrapper offset %d", c.last)
			require.Empty(t, got)
			continue
		}
		require.NoError(t, err)
		require.Len(t, got, 3)
		for i := range got {
			require.Equal(t, c.want[i], got[i].Offset)
		}
	}
}

// Inner offsets no producer writes neither panic nor overflow into the log.
func TestOddInnerOffsets(t *testing.T) {
	inner := func(offsets ...int64) []byte {
		var set []byte
		for _, o := range offsets {
			set = append(set, entry(t, o, goldenA)...)
		}
		return set
	}
	read := func(last int64, offsets ...int64) ([]codec.Message, error) {
		f := wrapper(t, codec.LZ4, 1, inner(offsets...))
		f.Offset = last
		return collect(codec.AppendFrame(nil, &f))
	}
	_, err := read(10, math.MinInt64)
	requireCorrupt(t, err)
	_, err = read(10, -3, 1)
	requireCorrupt(t, err)
	_, err = read(math.MaxInt64, math.MaxInt64, 1)
	requireCorrupt(t, err)
	got, err := read(10, 0, 0, 0)
	require.NoError(t, err)
	require.Len(t, got, 3)
	got, err = read(12, 5, 9, 2)
	require.NoError(t, err)
	require.Equal(t, []int64{15, 19, 12}, []int64{got[0].Offset, got[1].Offset, got[2].Offset})
}

// SPEC 1.3.21: mixed magic is read; the outer magic decides the arithmetic.
func TestMixedInnerMagicIsReadByTheOuterOne(t *testing.T) {
	inner := append(entry(t, 3, goldenC), entry(t, 5, goldenA)...)

	f := wrapper(t, codec.Gzip, 1, inner)
	f.Offset = 105
	got, err := collect(codec.AppendFrame(nil, &f))
	require.NoError(t, err)
	require.Equal(t, []codec.Message{
		{Offset: 103, Timestamp: codec.NoTimestamp, TimestampType: codec.NoTimestampType, Key: []byte("k"), Value: []byte("v")},
		{Offset: 105, Timestamp: goldenTime, TimestampType: codec.CreateTime, Key: []byte("k"), Value: []byte("v")},
	}, got)

	f = wrapper(t, codec.Gzip, 0, inner)
	f.Offset = 105
	got, err = collect(codec.AppendFrame(nil, &f))
	require.NoError(t, err)
	require.Equal(t, []int64{3, 5}, []int64{got[0].Offset, got[1].Offset})
}

// Case W04, SPEC 1.1.4: a partial tail of any length ends the set.
func TestPartialTailEndsTheSet(t *testing.T) {
	for _, tail := range []string{goldenEntryA, goldenW} {
		head, rest := unhex(t, goldenEntryA), unhex(t, tail)
		for n := range len(rest) {
			got, err := collect(append(bytes.Clone(head), rest[:n]...))
			require.NoError(t, err, "cut to %d bytes", n)
			require.Len(t, got, 1)
		}
	}
	got, err := collect(nil)
	require.NoError(t, err)
	require.Empty(t, got)
}

// SPEC 1.3.22: a partial inner message is tolerated by a reader.
func TestPartialInnerTailIsToleratedOnRead(t *testing.T) {
	inner := unhex(t, goldenInner)
	for n := 36; n < len(inner); n++ {
		f := wrapper(t, codec.Snappy, 1, inner[:n])
		f.Offset = 7
		got, err := collect(codec.AppendFrame(nil, &f))
		require.NoError(t, err)
		require.Len(t, got, n/36)
		require.EqualValues(t, 7, got[len(got)-1].Offset)
	}
}

// SPEC 1.3.18 to 1.3.20 and C20 on the reader's side.
func TestBrokenWrapperIsAnErrorOnRead(t *testing.T) {
	inner := unhex(t, goldenInner)
	nested := wrapper(t, codec.Gzip, 1, inner)
	damaged := bytes.Clone(inner)
	damaged[len(damaged)-1] ^= 1
	small := bytes.Clone(inner)
	small[36+11] = 13

	for name, f := range map[string]codec.Frame{
		"null value":    {Magic: 1, Compression: codec.Gzip},
		"empty value":   {Magic: 1, Compression: codec.Gzip, Value: []byte{}},
		"no message":    wrapper(t, codec.Gzip, 1, nil),
		"only a part":   wrapper(t, codec.Gzip, 1, inner[:35]),
		"nested":        wrapper(t, codec.Gzip, 1, codec.AppendFrame(nil, &nested)),
		"inner crc":     wrapper(t, codec.Gzip, 1, damaged),
		"inner size 13": wrapper(t, codec.Gzip, 1, small),
		"garbage":       {Magic: 1, Compression: codec.LZ4, Value: []byte("not lz4 at all")},
	} {
		f.Offset = 50
		got, err := collect(append(unhex(t, goldenEntryA), codec.AppendFrame(nil, &f)...))
		requireCorrupt(t, err, name)
		require.NotEmpty(t, got, name) // what came before is delivered
		require.Zero(t, got[0].Offset)
	}
}

func TestMessagesStopsAndRestarts(t *testing.T) {
	set := append(unhex(t, goldenW), entry(t, 3, goldenA)...)
	seq := codec.Messages(set)
	for stop := 1; stop <= 4; stop++ {
		n := 0
		for _, err := range seq {
			require.NoError(t, err)
			if n++; n == stop {
				break
			}
		}
		require.Equal(t, stop, n)
	}
}

// Bytes of a wrapper's messages stay valid after the loop.
func TestMessagesMayBeKept(t *testing.T) {
	var set []byte
	for i := range int64(20) {
		f := readWrapper(t, goldenW)
		f.Offset = 3*i + 2
		set = codec.AppendFrame(set, &f)
	}
	got, err := collect(set)
	require.NoError(t, err)
	require.Len(t, got, 60)
	for i, m := range got {
		require.Equal(t, goldenWMessages[i%3].Key, m.Key)
	}
}
