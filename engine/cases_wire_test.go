package engine_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// frameW01 is the message of case W01 in a set.
const frameW01 = "000000000000000000000018cf056e6e01000000000000000001000000016b0000000176"

// Case W01: the wire form of one message.
func TestW01WireForm(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	_, err := p.Append(t.Context(), codec.Message{Timestamp: 1, Key: []byte("k"), Value: []byte("v")})
	require.NoError(t, err)
	require.Equal(t, unhex(t, frameW01), fetchAll(t, p, 0))
}

// Case W03: null and empty keys and values, all four ways.
func TestW03NullAndEmpty(t *testing.T) {
	for name, tc := range map[string]struct {
		m    codec.Message
		want string
	}{
		"null, null":   {codec.Message{TimestampType: codec.CreateTime}, "000000000000000000000016cc2f79d901000000000000000000ffffffffffffffff"},
		"empty, empty": {codec.Message{TimestampType: codec.CreateTime, Key: []byte{}, Value: []byte{}}, "000000000000000000000016884979ac010000000000000000000000000000000000"},
		"null, empty":  {codec.Message{TimestampType: codec.CreateTime, Value: []byte{}}, "0000000000000000000000161294593a01000000000000000000ffffffff00000000"},
		"empty, null":  {codec.Message{TimestampType: codec.CreateTime, Key: []byte{}}, "00000000000000000000001656f2594f0100000000000000000000000000ffffffff"},
		"tombstone":    {codec.Message{Timestamp: none, Key: []byte("k")}, "00000000000000000000001730744b120100ffffffffffffffff000000016bffffffff"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			native, wire := s.named("native", engine.TopicConfig{}), s.named("wire", engine.TopicConfig{})
			_, err := native.Append(t.Context(), tc.m)
			require.NoError(t, err)
			produce(t, wire, unhex(t, tc.want))
			for _, p := range []*engine.Partition{native, wire} {
				require.Equal(t, unhex(t, tc.want), fetchAll(t, p, 0))
				m := readAll(t, p, 0)[0]
				require.Equal(t, tc.m.Key, m.Key)
				require.Equal(t, tc.m.Value, m.Value)
				require.Equal(t, tc.m.Key == nil, m.Key == nil)
				require.Equal(t, tc.m.Value == nil, m.Value == nil)
			}
		})
	}
}

// Case W04, SPEC 1.4.27: a leader refuses a set that ends in a partial message.
func TestW04PartialTailIsRefused(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	whole := unhex(t, frameW01)
	for n := 1; n < len(whole); n++ {
		refuse(t, p, append(bytes.Clone(whole), whole[:n]...), codec.CodeCorruptMessage, n)
		refuse(t, p, whole[:n:n], codec.CodeCorruptMessage, n)
	}
	produce(t, p, whole)
}

// Case W05: sizes below the smallest message, negative and huge, are refused
// without allocating what they claim.
func TestW05ImpossibleSizesAreRefused(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	for _, size := range []uint32{13, 0, 0xffffffff, 0x7fffffff, 0x80000000} {
		set := append(unhex(t, frameW01), unhex(t, frameW01)...)
		binary.BigEndian.PutUint32(set[36+8:], size)
		allocated := allocatedBy(func() {
			_, err := p.Produce(t.Context(), set)
			requireCode(t, codec.CodeCorruptMessage, err)
		})
		require.Less(t, allocated, uint64(1<<20), "size %#x", size)
		require.Zero(t, end(t, p))
	}
}

// allocatedBy returns the bytes allocated while f runs, others' included.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Case W06: an unknown magic is refused.
func TestW06UnknownMagicIsRefused(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	for _, magic := range []byte{2, 37, 0xff} {
		set := unhex(t, frameW01)
		set[16] = magic
		refuse(t, p, fixCRC(set), codec.CodeCorruptMessage, magic)
	}
}

// Case W06: magic 0 goes up, without a timestamp or with the clock.
func TestW06Magic0IsConvertedUp(t *testing.T) {
	for name, tc := range map[string]struct {
		config engine.TopicConfig
		ts     codec.Timestamp
	}{"CreateTime": {engine.TopicConfig{}, none}, "LogAppendTime": {logAppend, t0}} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			p := s.log(tc.config)
			produce(t, p, unhex(t, "0000000000000000000000101fecd70a0000000000016b0000000176"))
			require.Equal(t, []codec.Timestamp{tc.ts}, timestampsOf(readAll(t, p, 0)))
		})
	}
}

// Case W07: each single bit of the message is noticed; those of the offset do not
// matter.
func TestW07EverySingleBitIsNoticed(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	for bit := range 36 * 8 {
		set := unhex(t, frameW01)
		set[bit/8] ^= 1 << (bit % 8)
		if bit < 8*8 {
			produce(t, p, set)
			continue
		}
		_, err := p.Produce(t.Context(), set)
		code := engine.KafkaCode(err)
		if bit < 12*8 && code == codec.CodeMessageTooLarge { // the size is checked first (SPEC 2.1.1)
			continue
		}
		require.Equal(t, codec.CodeCorruptMessage, code, "bit %d: %v", bit, err)
	}
	require.EqualValues(t, 64, end(t, p))
	require.Equal(t, unhex(t, frameW01), fetchAll(t, p, 0)[:36])
}

// Case W08: damaged wrappers are refused.
func TestW08DamagedWrappersAreRefused(t *testing.T) {
	good := unhex(t, frameW01)
	gz := func(b []byte) []byte {
		payload, err := codec.Gzip.Compress(nil, b, 1)
		require.NoError(t, err)
		return payload
	}
	wrapper := func(payload []byte) []byte {
		return frame(codec.Frame{Magic: 1, Compression: codec.Gzip, TimestampType: codec.CreateTime, Value: payload})
	}
	cut := gz(good)
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	for name, set := range map[string][]byte{
		"a: null value":        wrapper(nil),
		"   empty value":       wrapper([]byte{}),
		"b: gzip of nothing":   wrapper(gz(nil)),
		"c: truncated gzip":    wrapper(cut[:len(cut)-9]),
		"d: not gzip":          wrapper([]byte("not gzip at all")),
		"e: nested":            wrapper(gz(wrapper(gz(good)))),
		"f: inner magic 0":     wrapper(gz(unhex(t, "0000000000000000000000101fecd70a0000000000016b0000000176"))),
		"g: stray bytes":       wrapper(gz(append(bytes.Clone(good), 1, 2, 3))),
		"   key on a wrapper":  frame(codec.Frame{Magic: 1, Compression: codec.Gzip, TimestampType: codec.CreateTime, Key: []byte("k"), Value: gz(good)}),
		"   magic 0 holding 1": frame(codec.Frame{Magic: 0, Compression: codec.Gzip, TimestampType: codec.NoTimestampType, Timestamp: none, Value: gz(good)}),
	} {
		refuse(t, p, set, codec.CodeCorruptMessage, name)
		refuse(t, p, append(bytes.Clone(good), set...), codec.CodeCorruptMessage, name)
	}
	require.Zero(t, end(t, p))
}

// Case W10, SPEC C21: a producer's wrapper offset does not matter, not even one
// below its last inner offset.
func TestW10ProducersWrapperOffsetIsIgnored(t *testing.T) {
	for _, offset := range []int64{0, 1, 2, 500, -1} {
		s := newStore(t)
		p := s.log(engine.TopicConfig{})
		produce(t, p, entry(t, offset, goldenW))
		require.Equal(t, entries(t, 0, goldenW), fetchAll(t, p, 0), "wrapper offset %d", offset)
		require.Equal(t, []int64{0, 1, 2}, offsetsOf(readAll(t, p, 0)))
		require.Zero(t, s.Recompressions())
	}
}

// Case W11: codecs 4 to 7 and the reserved attribute bits are refused.
func TestW11UnknownCodecsAndReservedBitsAreRefused(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	for _, attributes := range []byte{4, 5, 6, 7, 0x10, 0x20, 0x40, 0x80} {
		set := unhex(t, frameW01)
		set[17] = attributes
		refuse(t, p, fixCRC(set), codec.CodeCorruptMessage, attributes)
	}
}

// Case W12: a payload that inflates beyond the limit is refused within bounded
// memory.
func TestW12DecompressionIsBounded(t *testing.T) {
	var payload bytes.Buffer
	z, err := gzip.NewWriterLevel(&payload, gzip.BestSpeed)
	require.NoError(t, err)
	zeros := make([]byte, 1<<20)
	for range codec.MaxInflated>>20 + 60 {
		_, err := z.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	s := newStore(t)
	p := s.log(engine.TopicConfig{MaxMessageBytes: 16 << 20, SegmentBytes: 64 << 20})
	set := frame(codec.Frame{Magic: 1, Compression: codec.Gzip, TimestampType: codec.CreateTime, Value: payload.Bytes()})
	allocated := allocatedBy(func() {
		_, err := p.Produce(t.Context(), set)
		requireCode(t, codec.CodeCorruptMessage, err)
	})
	require.Less(t, allocated, uint64(8*codec.MaxInflated))
	require.Zero(t, end(t, p))
}

// Case W12: neither does a size field inside a payload allocate.
func TestW12InnerSizeFieldAllocatesNothing(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	inner := unhex(t, frameW01)
	binary.BigEndian.PutUint32(inner[8:], 0x7ffffff0)
	set := wrap(t, codec.Gzip, inner)
	allocated := allocatedBy(func() {
		_, err := p.Produce(t.Context(), set)
		requireCode(t, codec.CodeCorruptMessage, err)
	})
	require.Less(t, allocated, uint64(4<<20))
	require.Zero(t, end(t, p))
}
