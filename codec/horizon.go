package codec

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// AppendHorizon appends a copy of value, the sealed entry stored under key, with
// h as its delete horizon: the instant from which compaction may drop the
// entry's tombstones (SPEC 9.7). A horizon it has already is replaced. h must
// not be negative. Body and stamp stay as they are, and so does WireSize: the
// horizon is of the stored entry, the wire does not know it.
func AppendHorizon(dst, key, value []byte, h Timestamp) []byte {
	start := len(dst)
	dst = slices.Grow(dst, len(value)+horizonSize)
	dst = append(dst, value[:entryHeader]...)
	dst[start+attributesAt] |= attributeHorizon
	dst = binary.BigEndian.AppendUint64(dst, uint64(h))
	body := value[headerSize(value[attributesAt]):]
	dst = append(dst, body...)
	b := dst[start:]
	finishChecksum(key, b, crc32.Checksum(body[:len(body)-checksumSize], castagnoli))
	return dst
}

// withHorizon gives an unsealed entry without a horizon the horizon h. It returns
// the entry, which has moved if its array had no room.
func withHorizon(value []byte, h Timestamp) []byte {
	value = slices.Insert(value, entryHeader, make([]byte, horizonSize)...)
	value[attributesAt] |= attributeHorizon
	binary.BigEndian.PutUint64(value[entryHeader:], uint64(h))
	return value
}

// horizonOf returns the horizon of an entry that has one.
func horizonOf(value []byte) Timestamp {
	return Timestamp(binary.BigEndian.Uint64(value[entryHeader:]))
}
