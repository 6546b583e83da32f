package codec

import (
	"encoding/binary"
	"math/bits"
)

// The uvarints of stored entries are those of encoding/binary, read and written
// by index. Nearly every one of them is a single byte, so that case comes first.

// uvarintSize returns the length of v as a uvarint.
func uvarintSize(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// putUvarint writes v at b[i:], which must have room, and returns the index
// behind it.
func putUvarint(b []byte, i int, v uint64) int {
	if v < 0x80 {
		b[i] = byte(v)
		return i + 1
	}
	return putLongUvarint(b, i, v)
}

func putLongUvarint(b []byte, i int, v uint64) int {
	return i + binary.PutUvarint(b[i:], v)
}

// uvarint reads the uvarint at b[i:] and returns the index behind it: -1 when
// there is none, and likewise when i is -1 already, so that several reads in a
// row need one check.
func uvarint(b []byte, i int) (v uint64, next int) {
	if uint(i) < uint(len(b)) && b[i] < 0x80 {
		return uint64(b[i]), i + 1
	}
	return longUvarint(b, i)
}

func longUvarint(b []byte, i int) (v uint64, next int) {
	if i < 0 {
		return 0, -1
	}
	if i+1 < len(b) && b[i+1] < 0x80 { // two bytes: the length of a medium value
		return uint64(b[i]&0x7f) | uint64(b[i+1])<<7, i + 2
	}
	v, n := binary.Uvarint(b[i:])
	if n <= 0 {
		return 0, -1
	}
	return v, i + n
}

// zigzag maps the integers of small magnitude to small unsigned ones.
func zigzag(v int64) uint64 { return uint64(v)<<1 ^ uint64(v>>63) }

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }
