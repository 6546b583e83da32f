package codec

import (
	"io"
	"math"
	"slices"
	"strconv"
)

// Compression is a codec of wrapper payloads. The values are those of the
// attribute bits 0-2 of a message (SPEC 1.2); 4 to 7 are not legal in the v0
// and v1 formats.
type Compression uint8

// The codecs of message formats v0 and v1.
const (
	None Compression = iota
	Gzip
	Snappy
	LZ4
)

// MaxInflated bounds the inflated bytes of one wrapper (SPEC 1.3.24): 100 MiB,
// 100 times the default limit of a message.
const MaxInflated = 100 << 20

// String returns the Kafka name: none, gzip, snappy or lz4.
func (c Compression) String() string {
	switch c {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case LZ4:
		return "lz4"
	default:
		return "codec(" + strconv.Itoa(int(c)) + ")"
	}
}

// ParseCompression returns the codec of a name that Compression.String
// returns; "uncompressed", Kafka's word in compression.type, is None too. Any
// other name is an *Error with CodeInvalidConfig.
func ParseCompression(name string) (Compression, error) {
	switch name {
	case "none", "uncompressed":
		return None, nil
	case "gzip":
		return Gzip, nil
	case "snappy":
		return Snappy, nil
	case "lz4":
		return LZ4, nil
	}
	return None, Errorf(CodeInvalidConfig, "unknown compression %q", name)
}

// Compress appends src compressed to dst, in the framing every client of the
// format reads (SPEC 1.3.23): one gzip member; a xerial snappy stream of 32 KiB
// blocks; one lz4 frame of independent 64 KiB blocks. magic is that of the
// wrapper: the lz4 header checksum of magic 0 is computed wrongly on purpose.
//
// src may lie in dst's array before len(dst), and is not changed. Compress may
// be called concurrently.
func (c Compression) Compress(dst, src []byte, magic int8) ([]byte, error) {
	switch c {
	case None:
		return append(dst, src...), nil
	case Gzip:
		return gzipCompress(dst, src)
	case Snappy:
		return snappyCompress(dst, src), nil
	case LZ4:
		return lz4Compress(dst, src, magic)
	}
	return dst, unknownCodec(c)
}

// Decompress appends the inflated bytes of src to dst, at most limit of them. It
// reads several gzip members, raw and xerial snappy, and every lz4 frame without
// a dictionary, linked blocks included. Any violation, more than limit bytes
// among them, is an *Error with CodeCorruptMessage; then nothing is appended.
//
// Memory follows the bytes that come out, never a length that src claims.
// src must not overlap dst. Decompress may be called concurrently.
func (c Compression) Decompress(dst, src []byte, magic int8, limit int) ([]byte, error) {
	limit = min(max(limit, 0), math.MaxInt-1)
	var out []byte
	var err error
	switch c {
	case None:
		if len(src) > limit {
			return dst, inflatesBeyond(c, limit)
		}
		return append(dst, src...), nil
	case Gzip:
		out, err = gzipDecompress(dst, src, limit)
	case Snappy:
		out, err = snappyDecompress(dst, src, limit)
	case LZ4:
		out, err = lz4Decompress(dst, src, magic, limit)
	default:
		err = unknownCodec(c)
	}
	if err != nil {
		return dst, err
	}
	return out, nil
}

func unknownCodec(c Compression) *Error {
	return Errorf(CodeCorruptMessage, "unknown compression codec %d", uint8(c))
}

func inflatesBeyond(c Compression, limit int) *Error {
	return Errorf(CodeCorruptMessage, "%s payload inflates to more than %d bytes", c, limit)
}

// sliceWriter appends what is written to it.
type sliceWriter struct{ b []byte }

func (w *sliceWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// appendFrom appends what r holds to dst, and stops after limit+1 bytes: the
// caller sees by the length that there were too many.
func appendFrom(dst []byte, r io.Reader, limit int) ([]byte, error) {
	end := len(dst) + limit + 1
	for len(dst) < end {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, min(max(512, len(dst)/2), end-len(dst)))
		}
		n, err := r.Read(dst[len(dst):min(cap(dst), end)])
		dst = dst[:len(dst)+n]
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}
