package engine_test

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
)

// The golden messages of SPEC 13, without the 12 bytes of offset and size.
const (
	goldenA     = "bf070c1c 01 00 0000015d3ef79800 00000001 6b 00000001 76"
	goldenB     = "5b41f4e3 01 00 ffffffffffffffff ffffffff ffffffff"
	goldenC     = "1fecd70a 00 00 00000001 6b 00000001 76"
	goldenD     = "c7f1bddb 01 08 0000015d3ef79805 00000001 6b 00000001 76"
	goldenE     = "b82b0724 01 00 ffffffffffffffff 00000001 6b 00000001 76"
	goldenG     = "d47c903d 01 00 0000015d3ef79800 00000000 00000000"
	goldenCheck = "8dc795a2 00 00 ffffffff 00000006 48656c6c6f21"

	// goldenPayload is the gzip payload of W: a/1 T, b/2 T+20, c/3 T+10.
	goldenPayload = "1f8b08000000000002ff63608003896f2abf3d19810cc658bbef3340228c8920c2102a0f9292f83e2d5f04ae4604c44802114650354c2035db7d935fc1d5708118c920c21800a4b395b26c000000"

	goldenW        = "9bb8cd50 01 01 0000015d3ef79814 ffffffff 0000004e" + goldenPayload
	goldenWAppend  = "98b9ddd5 01 09 0000015d3ef79863 ffffffff 0000004e" + goldenPayload
	goldenWZero    = "97221802 01 01 0000000000000000 ffffffff 0000004e" + goldenPayload
	goldenResponse = "00000001 0001 74 00000001 00000000 0000 0000000000000064"
)

// entry frames a golden message at an offset.
func entry(t testing.TB, offset int64, message string) []byte {
	t.Helper()
	m := unhex(t, message)
	b := binary.BigEndian.AppendUint64(nil, uint64(offset))
	b = binary.BigEndian.AppendUint32(b, uint32(len(m)))
	return append(b, m...)
}

// entries frames golden messages from an offset on; a wrapper counts as its
// three messages.
func entries(t testing.TB, offset int64, messages ...string) []byte {
	t.Helper()
	var set []byte
	for _, m := range messages {
		if len(unhex(t, m)) == 100 { // a form of W
			offset += 2
		}
		set = append(set, entry(t, offset, m)...)
		offset++
	}
	return set
}

// frame returns a frame with a right CRC.
func frame(f codec.Frame) []byte { return codec.AppendFrame(nil, &f) }

// plainFrame is an uncompressed v1 frame of the golden key and value.
func plainFrame(ts codec.Timestamp) []byte {
	return frame(codec.Frame{Magic: 1, TimestampType: codec.CreateTime, Timestamp: ts, Key: []byte("k"), Value: []byte("v")})
}

func plainFrames(timestamps ...codec.Timestamp) []byte {
	var set []byte
	for _, ts := range timestamps {
		set = append(set, plainFrame(ts)...)
	}
	return set
}

// gzipFrame is a wrapper as a producer sends it: one message per timestamp,
// inner offsets 0..n-1, the wrapper's own timestamp 0.
func gzipFrame(t testing.TB, timestamps ...codec.Timestamp) []byte {
	t.Helper()
	offsets := make([]int64, len(timestamps))
	for i := range offsets {
		offsets[i] = int64(i)
	}
	return gzipFrameAt(t, offsets, timestamps)
}

// gzipFrameAt is gzipFrame with inner offsets.
func gzipFrameAt(t testing.TB, offsets []int64, timestamps []codec.Timestamp) []byte {
	t.Helper()
	var inner []byte
	for i, ts := range timestamps {
		inner = append(inner, frame(codec.Frame{Offset: offsets[i], Magic: 1, TimestampType: codec.CreateTime,
			Timestamp: ts, Key: []byte{'a' + byte(i%26)}, Value: []byte{'0' + byte(i%10)}})...)
	}
	return wrap(t, codec.Gzip, inner)
}

// wrap compresses an inner set of magic 1 into a producer's wrapper.
func wrap(t testing.TB, c codec.Compression, inner []byte) []byte {
	t.Helper()
	payload, err := c.Compress(nil, inner, 1)
	require.NoError(t, err)
	return frame(codec.Frame{Magic: 1, Compression: c, TimestampType: codec.CreateTime, Value: payload})
}

// fixCRC makes the CRC of a single frame right again after an edit.
func fixCRC(set []byte) []byte {
	binary.BigEndian.PutUint32(set[12:], crc32.ChecksumIEEE(set[16:]))
	return set
}
