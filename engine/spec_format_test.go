package engine_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// S42: a frame is offset int64, size int32, message.
func TestS42FrameLayout(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	produce(t, p, entry(t, 77, goldenA))
	set := fetchAll(t, p, 0)
	require.Len(t, set, 36)
	require.Equal(t, entry(t, 0, goldenA), set)
	require.Equal(t, unhex(t, "00000018"), set[8:12])
}

// S43: message fields are crc, magic, attributes, timestamp, key, value; null
// fields are two lengths of -1.
func TestS43MessageLayout(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	produce(t, p, append(entry(t, 0, goldenA), entry(t, 0, goldenB)...))
	require.Equal(t, entries(t, 0, goldenA, goldenB), fetchAll(t, p, 0))
	b := readAll(t, p, 1)[0]
	require.Nil(t, b.Key)
	require.Nil(t, b.Value)
	require.Equal(t, none, b.Timestamp)
}

// S44: the CRC covers magic to value, not the offset.
func TestS44CRCCoversTheMessageOnly(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	for i := 16; i < 36; i++ {
		set := entry(t, 0, goldenA)
		set[i] ^= 0x40
		refuse(t, p, set, codec.CodeCorruptMessage, i)
	}
	set := entry(t, 0, goldenA)
	binary.BigEndian.PutUint64(set, 0xfedcba9876543210)
	produce(t, p, set)
	require.Equal(t, entries(t, 0, goldenA), fetchAll(t, p, 0))
}

// S45: the magic byte is 1; an unknown one is refused.
func TestS45UnknownMagicIsRefused(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	set := entry(t, 0, goldenA)
	require.EqualValues(t, 1, set[16])
	set[16] = 7
	refuse(t, p, fixCRC(set), codec.CodeCorruptMessage)
}

// S46: the 4th lowest attribute bit is the timestamp type; it is the log's to set.
func TestS46TimestampTypeBit(t *testing.T) {
	for name, config := range map[string]engine.TopicConfig{"CreateTime": {}, "LogAppendTime": logAppend} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			p := s.log(config)
			refuse(t, p, entry(t, 0, goldenD), codec.CodeInvalidTimestamp)
			refuse(t, p, entry(t, 0, goldenWAppend), codec.CodeInvalidTimestamp)
		})
	}
	s := newStore(t)
	p := s.log(logAppend)
	produce(t, p, append(entry(t, 0, goldenA), entry(t, 0, goldenW)...))
	set := fetchAll(t, p, 0)
	require.EqualValues(t, 0x08, set[17])
	require.EqualValues(t, 0x09, set[36+17])
}

// S47: the timestamp is an int64 in bytes 6 to 13 of the message.
func TestS47TimestampField(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	_, err := p.Append(t.Context(), codec.Message{Timestamp: t0})
	require.NoError(t, err)
	require.Equal(t, unhex(t, "0000015d3ef79800"), fetchAll(t, p, 0)[12+6:12+14])
}

// S48: null and empty keys and values differ, through both APIs.
func TestS48NullAndEmptyDiffer(t *testing.T) {
	s := newStore(t)
	wire := s.named("wire", engine.TopicConfig{})
	produce(t, wire, append(entry(t, 0, goldenB), entry(t, 0, goldenG)...))
	native := s.named("native", engine.TopicConfig{})
	_, err := native.Append(t.Context(), codec.Message{Timestamp: none},
		codec.Message{Timestamp: t0, Key: []byte{}, Value: []byte{}})
	require.NoError(t, err)
	for _, p := range []*engine.Partition{wire, native} {
		require.Equal(t, entries(t, 0, goldenB, goldenG), fetchAll(t, p, 0))
		msgs := readAll(t, p, 0)
		require.Nil(t, msgs[0].Key)
		require.Nil(t, msgs[0].Value)
		require.NotNil(t, msgs[1].Key)
		require.NotNil(t, msgs[1].Value)
		require.Empty(t, msgs[1].Key)
		require.Empty(t, msgs[1].Value)
	}
}

// SPEC 1.2.5: a negative length other than -1 is corrupt.
func TestNegativeLengthsAreRefused(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	for _, at := range []int{12 + 14, 12 + 14 + 4} { // lengths of null/null
		set := entry(t, 0, goldenB)
		binary.BigEndian.PutUint32(set[at:], 0xfffffffe)
		refuse(t, p, fixCRC(set), codec.CodeCorruptMessage, at)
	}
}

// SPEC 1.6.33, 1.6.37: a v0 message goes up to v1 without a timestamp under
// CreateTime, with the clock under LogAppendTime.
func TestV0MessagesAreConvertedUp(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	produce(t, p, entry(t, 9, goldenC))
	require.Equal(t, entries(t, 0, goldenE), fetchAll(t, p, 0))
	require.Zero(t, s.Recompressions())
}

// SPEC 1.6.33: a v0 wrapper goes up by recompression, its messages without
// timestamps.
func TestV0WrappersAreConvertedUp(t *testing.T) {
	inner := append(entry(t, 7, goldenC), entry(t, 8, goldenC)...)
	payload, err := codec.Gzip.Compress(nil, inner, 0)
	require.NoError(t, err)
	set := frame(codec.Frame{Offset: 8, Compression: codec.Gzip, TimestampType: codec.NoTimestampType, Timestamp: none, Value: payload})
	for name, tc := range map[string]struct {
		config engine.TopicConfig
		ts     codec.Timestamp
	}{"CreateTime": {engine.TopicConfig{}, none}, "LogAppendTime": {logAppend, t0}} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			p := s.log(tc.config)
			p.StartAt(t, 40)
			produce(t, p, set)
			f, _, err := codec.ReadFrame(fetchAll(t, p, 40))
			require.NoError(t, err)
			require.EqualValues(t, 41, f.Offset)
			require.EqualValues(t, 1, f.Magic)
			require.Equal(t, tc.ts, f.Timestamp)
			require.Equal(t, []codec.Timestamp{tc.ts, tc.ts}, timestampsOf(readAll(t, p, 40)))
			require.EqualValues(t, 1, s.Recompressions())
		})
	}
}

// SPEC 1.6.34, 1.6.36: a topic of format v0 keeps messages without timestamps.
func TestFormatV0ConvertsDown(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{MessageFormat: engine.FormatV0})
	p.StartAt(t, 10)
	produce(t, p, append(entry(t, 0, goldenA), entry(t, 0, goldenW)...))
	set := fetchAll(t, p, 10)
	require.Equal(t, entry(t, 10, goldenC), set[:28])
	f, n, err := codec.ReadFrame(set[28:])
	require.NoError(t, err)
	require.Len(t, set[28:], n)
	require.EqualValues(t, 13, f.Offset)
	require.EqualValues(t, 0, f.Magic)
	require.Equal(t, codec.Gzip, f.Compression)
	msgs := readAll(t, p, 10)
	require.Equal(t, []int64{10, 11, 12, 13}, offsetsOf(msgs))
	for _, m := range msgs {
		require.Equal(t, none, m.Timestamp)
		require.Equal(t, codec.NoTimestampType, m.TimestampType) // SPEC 4.4
	}
	require.Equal(t, "1", string(msgs[1].Value))
	// SPEC 1.3.13: inner offsets of a v0 wrapper are absolute.
	inner, err := codec.Gzip.Decompress(nil, f.Value, 0, codec.MaxInflated)
	require.NoError(t, err)
	require.EqualValues(t, 11, binary.BigEndian.Uint64(inner))
}

// SPEC 1.6.36: stored frames keep their format when the topic's changes.
func TestStoredFramesKeepTheirFormat(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	produce(t, p, entry(t, 0, goldenA))
	s.alter(engine.TopicConfig{MessageFormat: engine.FormatV0})
	produce(t, p, entry(t, 0, goldenA))
	s.alter(engine.TopicConfig{})
	produce(t, p, entry(t, 0, goldenA))
	require.Equal(t, entries(t, 0, goldenA, goldenC, goldenA), fetchAll(t, p, 0))
}

// SPEC 1.6.35: a v0 reader gets v1 frames converted one by one, at the same
// offsets.
func TestFetchConvertsDownForV0Readers(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	produce(t, p, append(append(entry(t, 0, goldenA), entry(t, 0, goldenW)...), entry(t, 0, goldenA)...))
	res, err := p.Fetch(t.Context(), 0, engine.FetchOptions{Format: engine.FormatV0})
	require.NoError(t, err)
	require.EqualValues(t, 5, res.Next)
	require.Equal(t, entry(t, 0, goldenC), res.Set[:28])
	require.Equal(t, entry(t, 4, goldenC), res.Set[len(res.Set)-28:])
	f, _, err := codec.ReadFrame(res.Set[28:])
	require.NoError(t, err)
	require.EqualValues(t, 3, f.Offset)
	require.EqualValues(t, 0, f.Magic)
	var got []int64
	for m, err := range codec.Messages(res.Set) {
		require.NoError(t, err)
		require.Equal(t, none, m.Timestamp)
		got = append(got, m.Offset)
	}
	require.Equal(t, []int64{0, 1, 2, 3, 4}, got)
}

// SPEC 13, check: the published v0 message "Hello!".
func TestPublishedV0MessageIsAccepted(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{MessageFormat: engine.FormatV0})
	produce(t, p, entry(t, 3, goldenCheck))
	require.Equal(t, entry(t, 0, goldenCheck), fetchAll(t, p, 0))
	require.Equal(t, "Hello!", string(readAll(t, p, 0)[0].Value))
}
