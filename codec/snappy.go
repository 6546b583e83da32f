package codec

import (
	"encoding/binary"
	"slices"

	"github.com/klauspost/compress/s2"
)

// A xerial stream is what Java's SnappyOutputStream writes: a header of magic,
// version and compatible version, then blocks of raw snappy, each behind its
// length in 4 bytes, big endian. Raw snappy cannot start with the magic: after
// the length varint (82 53) it would begin with a copy from nothing.
const (
	xerialMagic      = "\x82SNAPPY\x00"
	xerialHeader     = xerialMagic + "\x00\x00\x00\x01\x00\x00\x00\x01"
	xerialBlockBytes = 32 << 10 // of the Java, Go and Python encoders
)

// snappyMaxRatio is the most bytes one byte of raw snappy can stand for,
// rounded up: a copy element of 3 bytes makes 64.
const snappyMaxRatio = 22

func snappyCompress(dst, src []byte) []byte {
	dst = append(dst, xerialHeader...)
	for len(src) > 0 {
		block := src[:min(len(src), xerialBlockBytes)]
		src = src[len(block):]
		dst = slices.Grow(dst, 4+s2.MaxEncodedLen(len(block)))
		at := len(dst) + 4
		n := len(s2.EncodeSnappy(dst[at:cap(dst)], block))
		dst = binary.BigEndian.AppendUint32(dst, uint32(n))[:at+n]
	}
	return dst
}

func snappyDecompress(dst, src []byte, limit int) ([]byte, error) {
	if len(src) < len(xerialHeader) || string(src[:len(xerialMagic)]) != xerialMagic {
		return snappyBlock(dst, src, limit)
	}
	src = src[len(xerialHeader):]
	start := len(dst)
	for len(src) > 0 {
		if len(src) < 4 {
			return dst, Errorf(CodeCorruptMessage, "xerial snappy stream is cut in a block length")
		}
		n := int64(int32(binary.BigEndian.Uint32(src)))
		src = src[4:]
		if n < 0 || n > int64(len(src)) {
			return dst, Errorf(CodeCorruptMessage, "xerial snappy block claims %d bytes of %d", n, len(src))
		}
		var err error
		if dst, err = snappyBlock(dst, src[:n], limit-(len(dst)-start)); err != nil {
			return dst, err
		}
		src = src[n:]
	}
	return dst, nil
}

// snappyBlock appends one raw snappy block of at most limit bytes.
func snappyBlock(dst, src []byte, limit int) ([]byte, error) {
	n, err := s2.DecodedLen(src)
	switch {
	case err != nil:
		return dst, Errorf(CodeCorruptMessage, "snappy block length: %v", err)
	case n > limit:
		return dst, inflatesBeyond(Snappy, limit)
	case n/snappyMaxRatio > len(src):
		return dst, Errorf(CodeCorruptMessage, "snappy block of %d bytes claims to inflate to %d", len(src), n)
	}
	dst = slices.Grow(dst, n)
	if _, err := s2.Decode(dst[len(dst):len(dst)+n], src); err != nil {
		return dst, Errorf(CodeCorruptMessage, "snappy block: %v", err)
	}
	return dst[:len(dst)+n], nil
}
