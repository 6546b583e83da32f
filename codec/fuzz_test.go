package codec_test

import (
	"bytes"
	"testing"

	"github.com/cairnlog/cairn/codec"
	"github.com/stretchr/testify/require"
)

// maxSeed keeps sets that are slow to mutate out of the corpora.
const maxSeed = 32 << 10

// vectorSets returns the sets of testdata/vectors, as produced and as stored.
func vectorSets(f *testing.F) [][]byte {
	var sets [][]byte
	for _, v := range loadVectors(f) {
		for _, s := range []string{v.Hex, v.LogHex} {
			if set := unhex(f, s); len(set) > 0 && len(set) <= maxSeed {
				sets = append(sets, set)
			}
		}
	}
	return sets
}

// vectorPayloads calls add with the compressed payloads of the vectors.
func vectorPayloads(f *testing.F, add func(codec.Frame)) {
	for _, set := range vectorSets(f) {
		for len(set) > 0 {
			frame, n, err := codec.ReadFrame(set)
			if n == 0 || err != nil {
				break
			}
			if frame.Compression != codec.None {
				add(frame)
			}
			set = set[n:]
		}
	}
}

// A frame that is read is written back byte for byte.
func FuzzReadFrame(f *testing.F) {
	for _, set := range vectorSets(f) {
		f.Add(set)
	}
	f.Fuzz(func(t *testing.T, set []byte) {
		frame, n, err := codec.ReadFrame(set)
		size, sizeErr := codec.FrameSize(set)
		if err != nil {
			requireCorrupt(t, err)
			require.Zero(t, n)
			return
		}
		require.NoError(t, sizeErr)
		require.Equal(t, size, n)
		if n == 0 {
			return
		}
		require.Equal(t, n, frame.WireSize())
		require.True(t, bytes.Equal(set[:n], codec.AppendFrame(nil, &frame)))
	})
}

// Messages are within their set or an inflated wrapper, and those of a set that
// reads without error survive being written anew.
func FuzzMessages(f *testing.F) {
	for _, set := range vectorSets(f) {
		f.Add(set)
	}
	f.Fuzz(func(t *testing.T, set []byte) {
		msgs, err := collect(set)
		if err != nil {
			requireCorrupt(t, err)
		}
		var v1 []byte
		for i := range msgs {
			m := &msgs[i]
			require.NotEqual(t, codec.TimestampUnset, m.TimestampType)
			require.LessOrEqual(t, len(m.Key)+len(m.Value), codec.MaxInflated)
			if m.TimestampType == codec.NoTimestampType {
				require.Equal(t, codec.NoTimestamp, m.Timestamp)
				m.TimestampType = codec.CreateTime
			}
			v1 = codec.AppendMessageFrame(v1, m, 1)
		}
		again, err := collect(v1)
		require.NoError(t, err)
		require.Equal(t, msgs, again)
	})
}

// Inflating any bytes stays within the limit; the bytes themselves survive
// compression, by the codec and magic that were drawn.
func FuzzDecompress(f *testing.F) {
	vectorPayloads(f, func(frame codec.Frame) { f.Add(uint8(frame.Compression), frame.Magic, frame.Value) })
	f.Fuzz(func(t *testing.T, c uint8, magic int8, src []byte) {
		const limit = 1 << 20
		compression := codec.Compression(c % 5)
		out, err := compression.Decompress(nil, src, magic, limit)
		require.LessOrEqual(t, len(out), limit)
		if err != nil {
			requireCorrupt(t, err)
			require.Empty(t, out)
		}
		if compression > codec.LZ4 {
			require.Error(t, err)
			return
		}
		packed, err := compression.Compress(nil, src, magic)
		require.NoError(t, err)
		back, err := compression.Decompress(nil, packed, magic, len(src))
		require.NoError(t, err)
		require.True(t, bytes.Equal(src, back))
	})
}

// A wrapper that passes the leader reads back as Inner describes it, and so does
// the wrapper that is built from its messages.
func FuzzInspectWrapper(f *testing.F) {
	vectorPayloads(f, func(frame codec.Frame) {
		f.Add(uint8(frame.Compression), frame.Magic, frame.Value)
		// As the fuzzer cannot guess CRCs through a codec, let it see the inside too.
		if in, err := codec.InspectWrapper(&frame, nil); err == nil {
			f.Add(uint8(codec.None), frame.Magic, in.Messages)
		}
	})
	f.Fuzz(func(t *testing.T, c uint8, magic int8, payload []byte) {
		frame := codec.Frame{Magic: magic & 1, Compression: codec.Compression(c % 8), Value: payload}
		if frame.Compression == codec.None {
			frame = wrapper(t, codec.LZ4, frame.Magic, payload)
		}
		in, err := codec.InspectWrapper(&frame, nil)
		if err != nil {
			requireCorrupt(t, err)
			return
		}
		require.Positive(t, in.Count)
		require.LessOrEqual(t, len(in.Messages), codec.MaxInflated)
		if in.Contiguous {
			require.EqualValues(t, in.Count-1, in.LastRelative)
		}

		msgs := in.AppendMessages(nil, 0)
		require.Len(t, msgs, in.Count)
		built, _, err := codec.BuildWrapper(nil, frame.Compression, frame.Magic, msgs)
		require.NoError(t, err)
		got, err := collect(codec.AppendFrame(nil, &built))
		require.NoError(t, err)
		require.Equal(t, msgs, got)

		if in.Contiguous { // stored as it came, but for the offset
			frame.Offset, frame.TimestampType = in.LastRelative, codec.CreateTime
			got, err = collect(codec.AppendFrame(nil, &frame))
			require.NoError(t, err)
			require.Equal(t, msgs, got)
		}
	})
}
