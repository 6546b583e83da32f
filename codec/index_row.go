package codec

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/cairnlog/cairn/keys"
)

// indexRowKind is the kind byte of a time-index row; Kind lists the entries.
const indexRowKind = 3

// Where the fields of an index row are; the package comment draws them.
const (
	rowTimestampAt = 1
	rowBaseAt      = 9
	rowScanFromAt  = 17
	rowChecksumAt  = 25
	indexRowSize   = rowChecksumAt + checksumSize
)

// IndexRow is one row of a partition's time index, as its companion stores it:
// of the segment that starts at Base, no message up to and including Offset has a
// timestamp above Timestamp (SPEC 5.1).
type IndexRow struct {
	Timestamp Timestamp
	// Offset is the one the row's key holds.
	Offset int64
	Base   int64
	// ScanFrom is where a scan for a timestamp up to Timestamp may begin: below it
	// the segment holds nothing newer than the row before this one says.
	ScanFrom int64
}

// AppendIndexRow appends the value of r under key, the log key of the companion
// at r.Offset.
func AppendIndexRow(dst, key []byte, r IndexRow) []byte {
	start := len(dst)
	dst = append(dst, indexRowKind)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Timestamp))
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Base))
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.ScanFrom))
	return binary.BigEndian.AppendUint32(dst, rowChecksum(key, dst[start:]))
}

// ParseIndexRow reads the row stored under a log key of a companion. The error
// is an ErrDamaged.
func ParseIndexRow(key, value []byte) (IndexRow, error) {
	_, offset, err := keys.DecodeLog(key)
	if err != nil {
		return IndexRow{}, damaged("%w", err)
	}
	if len(value) != indexRowSize {
		return IndexRow{}, damaged("index row of %d bytes", len(value))
	}
	want := binary.BigEndian.Uint32(value[rowChecksumAt:])
	if sum := rowChecksum(key, value[:rowChecksumAt]); sum != want {
		return IndexRow{}, damaged("index row checksum is %08x, stored %08x", sum, want)
	}
	if value[kindAt] != indexRowKind {
		return IndexRow{}, damaged("unknown index row kind %d", value[kindAt])
	}
	r := IndexRow{
		Timestamp: Timestamp(binary.BigEndian.Uint64(value[rowTimestampAt:])),
		Offset:    offset,
		Base:      int64(binary.BigEndian.Uint64(value[rowBaseAt:])),
		ScanFrom:  int64(binary.BigEndian.Uint64(value[rowScanFromAt:])),
	}
	if r.Base < 0 || r.ScanFrom < 0 {
		return IndexRow{}, damaged("index row with base %d and scan start %d", r.Base, r.ScanFrom)
	}
	return r, nil
}

func rowChecksum(key, fields []byte) uint32 {
	return crc32.Update(crc32.Checksum(fields, castagnoli), castagnoli, key)
}

// timestampRowSize is the length of a value in the timestamps keyspace.
const timestampRowSize = 8 + 8 + checksumSize

// AppendTimestampRow appends the value of r under key, its key in the timestamps
// keyspace: offset u64 | scan-from u64 | CRC-32C over both and the key.
func AppendTimestampRow(dst, key []byte, r IndexRow) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Offset))
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.ScanFrom))
	return binary.BigEndian.AppendUint32(dst, rowChecksum(key, dst[start:]))
}

// ParseTimestampRow reads the row stored under a key of the timestamps keyspace.
// The error is an ErrDamaged.
func ParseTimestampRow(key, value []byte) (IndexRow, error) {
	_, base, ts, err := keys.DecodeTimestamp(key)
	if err != nil {
		return IndexRow{}, damaged("%w", err)
	}
	if len(value) != timestampRowSize {
		return IndexRow{}, damaged("timestamp row of %d bytes", len(value))
	}
	want := binary.BigEndian.Uint32(value[16:])
	if sum := rowChecksum(key, value[:16]); sum != want {
		return IndexRow{}, damaged("timestamp row checksum is %08x, stored %08x", sum, want)
	}
	r := IndexRow{
		Timestamp: Timestamp(ts),
		Offset:    int64(binary.BigEndian.Uint64(value)),
		Base:      base,
		ScanFrom:  int64(binary.BigEndian.Uint64(value[8:])),
	}
	if r.Offset < 0 || r.ScanFrom < 0 {
		return IndexRow{}, damaged("timestamp row with offset %d and scan start %d", r.Offset, r.ScanFrom)
	}
	return r, nil
}
