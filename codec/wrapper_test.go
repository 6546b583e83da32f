package codec_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/cairnlog/cairn/codec"
	"github.com/stretchr/testify/require"
)

var allCodecs = []codec.Compression{codec.Gzip, codec.Snappy, codec.LZ4}

// Case V10: inner timestamps t0-1, t0+1, t0 under a lying wrapper timestamp.
const lyingWrapper = "000000000000000200000063088d6f7d01010000000000000000ffffffff0000004d1f8b08000000000000ff" +
	"636080038979dddf273102198cb176dfa7ff073112418421541e2425a161ce3e17a66606989104228ca06a98406a421f59e7c1d580752683086300f2aaef806c000000"

func TestInspectWrapperFindsWhatTheLeaderNeeds(t *testing.T) {
	f := readWrapper(t, goldenW)
	in, err := codec.InspectWrapper(&f, nil)
	require.NoError(t, err)
	require.Equal(t, codec.Inner{
		Count: 3, MinTimestamp: goldenTime, MaxTimestamp: goldenTime + 20,
		Contiguous: true, LastRelative: 2, Messages: unhex(t, goldenInner),
	}, in)
	require.Equal(t, shifted(goldenWMessages, 40, nil), in.AppendMessages(nil, 40))
}

// Case V10, SPEC 2.2.16: CreateTime stores the largest inner timestamp.
func TestStoredWrapperTakesLargestInnerTimestamp(t *testing.T) {
	f := readWrapper(t, lyingWrapper)
	in, err := codec.InspectWrapper(&f, nil)
	require.NoError(t, err)
	require.Equal(t, goldenTime-1, in.MinTimestamp)
	require.Equal(t, goldenTime+1, in.MaxTimestamp)

	f.Offset, f.Timestamp = 12, in.MaxTimestamp
	stored := codec.AppendFrame(nil, &f)
	require.Equal(t, unhex(t, "000000000000000c00000063a4bbf91b01010000015d3ef79801"), stored[:26])
	require.Equal(t, unhex(t, lyingWrapper)[26:], stored[26:])
}

// Case V13, SPEC 2.3.18: LogAppendTime touches timestamp, type bit and CRC alone.
func TestStoredWrapperUnderLogAppendTime(t *testing.T) {
	f := readWrapper(t, lyingWrapper)
	f.Offset, f.TimestampType, f.Timestamp = 12, codec.LogAppendTime, goldenTime+777
	stored := codec.AppendFrame(nil, &f)
	require.Equal(t, unhex(t, "000000000000000c00000063107b074201090000015d3ef79b09"), stored[:26])
	require.Equal(t, unhex(t, lyingWrapper)[26:], stored[26:])
	got, err := collect(stored)
	require.NoError(t, err)
	require.Len(t, got, 3)
	for i, m := range got {
		require.Equal(t, int64(10+i), m.Offset)
		require.Equal(t, goldenTime+777, m.Timestamp)
		require.Equal(t, codec.LogAppendTime, m.TimestampType)
	}
}

// S3, S5, S7, S11: the header variants of W in SPEC 13.
func TestGoldenWrapperVariants(t *testing.T) {
	produced := unhex(t, goldenW)
	for _, c := range []struct {
		name, head string
		edit       func(*codec.Frame)
	}{
		{"stored at 100 under CreateTime", "0000000000000066 00000064 9bb8cd50 01 01 0000015d3ef79814",
			func(f *codec.Frame) { f.Offset = 102 }},
		{"LogAppendTime at T+99", "0000000000000002 00000064 98b9ddd5 01 09 0000015d3ef79863",
			func(f *codec.Frame) { f.TimestampType, f.Timestamp = codec.LogAppendTime, goldenTime+99 }},
		{"producer without a wrapper timestamp", "0000000000000002 00000064 97221802 01 01 0000000000000000",
			func(f *codec.Frame) { f.Timestamp = 0 }},
	} {
		f := readWrapper(t, goldenW)
		c.edit(&f)
		set := codec.AppendFrame(nil, &f)
		require.Equal(t, unhex(t, c.head), set[:26], c.name)
		require.Equal(t, produced[26:], set[26:], c.name)
		back, _, err := codec.ReadFrame(set)
		require.NoError(t, err)
		require.Equal(t, f, back)
	}
}

// Case W08 and SPEC 1.3.18 to 1.3.22: what a leader refuses.
func TestInspectWrapperRefuses(t *testing.T) {
	inner := unhex(t, goldenInner)
	nested := wrapper(t, codec.Gzip, 1, inner)
	keyed := wrapper(t, codec.Gzip, 1, inner)
	keyed.Key = []byte("k")
	cut := wrapper(t, codec.Gzip, 1, inner)
	cut.Value = cut.Value[:len(cut.Value)-9]
	edited := func(at int, b byte) codec.Frame {
		set := bytes.Clone(inner)
		set[at] = b
		return wrapper(t, codec.Gzip, 1, set)
	}
	reserved := bytes.Clone(inner[:36])
	reserved[17] = 0x10

	for name, f := range map[string]codec.Frame{
		"not a wrapper":           {Magic: 1, Value: []byte("v")},
		"a null value":            {Magic: 1, Compression: codec.Gzip},
		"b gzip of zero bytes":    wrapper(t, codec.Gzip, 1, nil),
		"b snappy of zero bytes":  wrapper(t, codec.Snappy, 1, nil),
		"b lz4 of zero bytes":     wrapper(t, codec.LZ4, 1, nil),
		"b empty gzip value":      {Magic: 1, Compression: codec.Gzip, Value: []byte{}},
		"b empty snappy value":    {Magic: 1, Compression: codec.Snappy, Value: []byte{}},
		"b empty lz4 value":       {Magic: 1, Compression: codec.LZ4, Value: []byte{}},
		"c cut gzip":              cut,
		"d not gzip":              {Magic: 1, Compression: codec.Gzip, Value: inner},
		"d not snappy":            {Magic: 1, Compression: codec.Snappy, Value: inner},
		"d not lz4":               {Magic: 1, Compression: codec.LZ4, Value: inner},
		"e nested":                wrapper(t, codec.Gzip, 1, codec.AppendFrame(nil, &nested)),
		"f inner magic 0":         wrapper(t, codec.Gzip, 1, append(bytes.Clone(inner), entry(t, 3, goldenC)...)),
		"f inner magic 1 in 0":    wrapper(t, codec.Gzip, 0, inner),
		"g stray bytes":           wrapper(t, codec.Gzip, 1, append(bytes.Clone(inner), 1, 2, 3)),
		"g cut message":           wrapper(t, codec.Gzip, 1, inner[:len(inner)-1]),
		"inner size 13":           edited(36+11, 13),
		"inner size negative":     edited(36+8, 0x80),
		"inner size beyond":       edited(36+8, 0x7f),
		"inner crc":               edited(36+12, 0),
		"inner value":             edited(len(inner)-1, '4'),
		"inner reserved bit":      wrapper(t, codec.Gzip, 1, fixCRC(reserved)),
		"key on the wrapper":      keyed,
		"unknown codec":           {Magic: 1, Compression: 4, Value: inner},
		"uncompressed as its own": {Magic: 1, Compression: 7, Value: inner},
	} {
		in, err := codec.InspectWrapper(&f, nil)
		requireCorrupt(t, err, name)
		require.Zero(t, in, name)
	}
}

// Case W12: a size field inside the payload allocates nothing.
func TestHugeInnerSizeClaimAllocatesNothing(t *testing.T) {
	set := unhex(t, goldenInner)
	binary.BigEndian.PutUint32(set[8:], 0x7ffffff0)
	f := wrapper(t, codec.Snappy, 1, set)
	used := allocated(func() {
		_, err := codec.InspectWrapper(&f, nil)
		requireCorrupt(t, err)
		_, err = collect(codec.AppendFrame(nil, &f))
		requireCorrupt(t, err) // not one whole message
	})
	require.Less(t, used, uint64(1<<20))
}

// Case W12: a gzip payload of 1 GiB of zeros stops at the limit.
func TestDecompressionBombStopsAtTheLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("inflates 100 MiB")
	}
	member, err := codec.Gzip.Compress(nil, make([]byte, 16<<20), 1)
	require.NoError(t, err)
	f := codec.Frame{Magic: 1, Compression: codec.Gzip, Value: bytes.Repeat(member, 64)}
	used := allocated(func() {
		_, err := codec.InspectWrapper(&f, nil)
		requireCorrupt(t, err)
	})
	require.Less(t, used, uint64(8*codec.MaxInflated), "all growth steps together, of 1 GiB")
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// SPEC 2.2.13, 2.2.15, 2.4.23: the facts that topic settings are held against.
func TestInnerFacts(t *testing.T) {
	message := func(offset int64, ts codec.Timestamp, key []byte) []byte {
		return codec.AppendMessageFrame(nil, &codec.Message{Offset: offset, Timestamp: ts, Key: key}, 1)
	}
	k := []byte("k")
	for name, c := range map[string]struct {
		set  [][]byte
		want codec.Inner
	}{
		"no timestamps": {
			[][]byte{message(0, -1, k), message(1, -1, k)},
			codec.Inner{Count: 2, MinTimestamp: -1, MaxTimestamp: -1, Contiguous: true, LastRelative: 1},
		},
		"none beside some": {
			[][]byte{message(0, -1, k), message(1, 7, k), message(2, 0, k), message(3, -1, k)},
			codec.Inner{Count: 4, MinTimestamp: 0, MaxTimestamp: 7, Contiguous: true, LastRelative: 3},
		},
		"negative": {
			[][]byte{message(0, 5, k), message(1, -2, k)},
			codec.Inner{Count: 2, MinTimestamp: -2, MaxTimestamp: 5, NegativeTimestamp: true, Contiguous: true, LastRelative: 1},
		},
		"extremes": {
			[][]byte{message(0, math.MaxInt64, k), message(1, math.MinInt64, k)},
			codec.Inner{Count: 2, MinTimestamp: math.MinInt64, MaxTimestamp: math.MaxInt64, NegativeTimestamp: true, Contiguous: true, LastRelative: 1},
		},
		"null key": {
			[][]byte{message(0, 1, []byte{}), message(1, 1, nil)},
			codec.Inner{Count: 2, MinTimestamp: 1, MaxTimestamp: 1, NullKey: true, Contiguous: true, LastRelative: 1},
		},
		"gap": {
			[][]byte{message(0, 1, k), message(2, 1, k)},
			codec.Inner{Count: 2, MinTimestamp: 1, MaxTimestamp: 1, LastRelative: 2},
		},
		"not from zero": {
			[][]byte{message(1, 1, k), message(2, 1, k)},
			codec.Inner{Count: 2, MinTimestamp: 1, MaxTimestamp: 1, LastRelative: 2},
		},
		"out of order": {
			[][]byte{message(1, 1, k), message(0, 1, k)},
			codec.Inner{Count: 2, MinTimestamp: 1, MaxTimestamp: 1, LastRelative: 0},
		},
		"absurd offset": {
			[][]byte{message(math.MinInt64, 1, k)},
			codec.Inner{Count: 1, MinTimestamp: 1, MaxTimestamp: 1, LastRelative: math.MinInt64},
		},
	} {
		c.want.Messages = bytes.Join(c.set, nil)
		for _, compression := range allCodecs {
			f := wrapper(t, compression, 1, c.want.Messages)
			in, err := codec.InspectWrapper(&f, nil)
			require.NoError(t, err, name)
			require.Equal(t, c.want, in, name)
		}
	}
}

// randomMessages returns messages with growing offsets, dense or with holes.
func randomMessages(rng *rand.Rand, dense bool) []codec.Message {
	msgs := make([]codec.Message, 1+rng.IntN(40))
	offset := rng.Int64N(1 << 40)
	for i := range msgs {
		m := codec.Message{Offset: offset, Timestamp: codec.Timestamp(rng.Int64N(1<<42) - 1), TimestampType: codec.CreateTime}
		if rng.IntN(4) > 0 {
			m.Key = randomBytes(rng, rng.IntN(20))
		}
		if rng.IntN(8) > 0 {
			m.Value = randomBytes(rng, rng.IntN(6000))
		}
		msgs[i] = m
		if offset++; !dense {
			offset += rng.Int64N(5)
		}
	}
	return msgs
}

// randomBytes returns n bytes that compress a little.
func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefghijklmnop"[rng.IntN(16)]
	}
	return b
}

// S15, SPEC 1.3.11, 1.3.12, 1.3.16: what BuildWrapper builds reads back, with its
// offsets, and passes a leader that would take it as it is.
func TestBuildWrapperRoundTrips(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var buf, scratch []byte
	for i := range 120 {
		compression, magic, dense := allCodecs[i%3], int8(i/3%2), i%5 != 0
		msgs := randomMessages(rng, dense)
		f, grown, err := codec.BuildWrapper(append(buf[:0], "head"...), compression, magic, msgs)
		require.NoError(t, err)
		buf = grown
		require.Equal(t, "head", string(buf[:4]))
		require.Equal(t, string(buf[4:]), string(f.Value))
		require.Equal(t, msgs[len(msgs)-1].Offset, f.Offset)

		in, err := codec.InspectWrapper(&f, scratch)
		require.NoError(t, err)
		scratch = in.Messages
		require.Equal(t, len(msgs), in.Count)
		want := msgs
		if magic == 0 {
			want = shifted(msgs, 0, func(m *codec.Message) {
				m.Timestamp, m.TimestampType = codec.NoTimestamp, codec.NoTimestampType
			})
			require.Equal(t, msgs[len(msgs)-1].Offset, in.LastRelative)
		} else {
			require.Equal(t, msgs[len(msgs)-1].Offset-msgs[0].Offset, in.LastRelative)
			require.Equal(t, dense || in.LastRelative == int64(in.Count)-1, in.Contiguous)
		}
		require.Equal(t, f.Timestamp, in.MaxTimestamp)

		got, err := collect(codec.AppendFrame(nil, &f))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestBuildWrapperRefuses(t *testing.T) {
	one := goldenWMessages[:1]
	for name, err := range map[string]error{
		"no messages":    buildError(codec.Gzip, nil),
		"no compression": buildError(codec.None, one),
		"unknown codec":  buildError(4, one),
		"same offset":    buildError(codec.Gzip, []codec.Message{{Offset: 3}, {Offset: 3}}),
		"going back":     buildError(codec.Gzip, []codec.Message{{Offset: 3}, {Offset: 4}, {Offset: 2}}),
	} {
		require.ErrorIs(t, err, &codec.Error{Code: codec.CodeInvalidRequest}, name)
	}
	huge := make([]byte, codec.MaxInflated/2)
	require.ErrorIs(t, buildError(codec.LZ4, []codec.Message{{Value: huge}, {Offset: 1, Value: huge}}), codec.ErrMessageTooLarge)
}

func buildError(c codec.Compression, msgs []codec.Message) error {
	_, _, err := codec.BuildWrapper(nil, c, 1, msgs)
	return err
}

// Checking, reading and building wrappers allocate nothing once warm.
func TestWrapperPathsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool drops items under the race detector")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	msgs := randomMessages(rng, true)
	for _, c := range allCodecs {
		t.Run(c.String(), func(t *testing.T) {
			buf := make([]byte, 0, 1<<20)
			scratch := make([]byte, 0, 1<<20)
			var inner codec.InnerReader
			require.Zero(t, testing.AllocsPerRun(200, func() {
				f, _, err := codec.BuildWrapper(buf, c, 1, msgs)
				if err != nil {
					t.Error(err)
				}
				in, err := codec.InspectWrapper(&f, scratch)
				if err != nil {
					t.Error(err)
				}
				inner.Reset(in.Messages, codec.InnerContext{Magic: 1, Last: f.Offset})
				n := 0
				for m := (codec.Message{}); ; n++ {
					if ok, err := inner.Next(&m); err != nil || !ok {
						break
					}
				}
				if n != len(msgs) {
					t.Errorf("%d messages", n)
				}
			}))
		})
	}
}

// The zero InnerReader and one that failed stay harmless.
func TestInnerReaderKeepsItsError(t *testing.T) {
	var r codec.InnerReader
	var m codec.Message
	ok, err := r.Next(&m)
	require.NoError(t, err)
	require.False(t, ok)

	r.Reset(nil, codec.InnerContext{Magic: 1})
	for range 2 {
		ok, err = r.Next(&m)
		requireCorrupt(t, err)
		require.False(t, ok)
	}
	r.Reset(unhex(t, goldenInner), codec.InnerContext{Magic: 1, Last: 2})
	ok, err = r.Next(&m)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, goldenWMessages[0], m)
}

func BenchmarkInspectWrapper(b *testing.B) {
	msgs := randomMessages(rand.New(rand.NewPCG(1, 2)), true)
	for _, c := range allCodecs {
		f, _, err := codec.BuildWrapper(nil, c, 1, msgs)
		require.NoError(b, err)
		b.Run(fmt.Sprintf("codec=%s", c), func(b *testing.B) {
			var scratch []byte
			b.ReportAllocs()
			for b.Loop() {
				in, err := codec.InspectWrapper(&f, scratch)
				if err != nil {
					b.Fatal(err)
				}
				scratch = in.Messages
				b.SetBytes(int64(len(scratch)))
			}
		})
	}
}
