package retention

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cairnlog/cairn/codec"
)

// ErrNewerVersion says that a newer version of this package wrote the row.
var ErrNewerVersion = errors.New("newer version of a segment row")

const (
	// rowVersion is the version of the rows this package writes.
	rowVersion = 1
	// maxRow bounds a row before it is decoded: several times the largest one
	// that can be written, which is 194 bytes.
	maxRow = 1 << 10
	// rowFields is the number of fields of a row, version and seal included.
	rowFields = len(numberNames) + 2
)

// numberNames are the names of the integer fields in the order of the row.
var numberNames = [...]string{
	"b", "e", "ft", "mt", "mo", "fa", "la", "by", "sb", "m", "n", "it", "ir", "si", "sf",
}

// numbers are the integer fields in the order of the row.
func (s *Segment) numbers() [len(numberNames)]*int64 {
	return [...]*int64{
		&s.Base, &s.End,
		(*int64)(&s.FirstTimestamp), (*int64)(&s.MaxTimestamp), &s.MaxOffset,
		(*int64)(&s.FirstAppend), (*int64)(&s.LastAppend),
		&s.Bytes, &s.StoredBytes, &s.Messages, &s.Entries,
		(*int64)(&s.IndexedTimestamp), &s.IndexRows, &s.SinceIndex, &s.ScanFrom,
	}
}

// AppendSegment appends the row of s to dst. Equal segments give equal bytes. It
// allocates only to grow dst.
func AppendSegment(dst []byte, s Segment) []byte {
	dst = append(dst, 0xde, 0, byte(rowFields)) // map 16
	dst = appendInt(appendName(dst, "v"), rowVersion)
	for i, n := range s.numbers() {
		dst = appendInt(appendName(dst, numberNames[i]), *n)
	}
	dst = appendName(dst, "s")
	if s.Sealed {
		return append(dst, 0xc3)
	}
	return append(dst, 0xc2)
}

// appendName appends a msgpack string of less than 32 bytes.
func appendName(dst []byte, name string) []byte {
	return append(append(dst, 0xa0|byte(len(name))), name...)
}

// appendInt appends n in the shortest msgpack form. It is written out here
// because a row goes with many appends and reflection is ten times slower.
func appendInt(dst []byte, n int64) []byte {
	switch {
	case n >= -32 && n <= math.MaxInt8:
		return append(dst, byte(n))
	case n > math.MaxUint32:
		return binary.BigEndian.AppendUint64(append(dst, 0xcf), uint64(n))
	case n > math.MaxUint16:
		return binary.BigEndian.AppendUint32(append(dst, 0xce), uint32(n))
	case n > math.MaxUint8:
		return binary.BigEndian.AppendUint16(append(dst, 0xcd), uint16(n))
	case n > 0:
		return append(dst, 0xcc, byte(n))
	case n >= math.MinInt8:
		return append(dst, 0xd0, byte(n))
	case n >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, 0xd1), uint16(n))
	case n >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, 0xd2), uint32(n))
	default:
		return binary.BigEndian.AppendUint64(append(dst, 0xd3), uint64(n))
	}
}

// DecodeSegment reads a row written by [AppendSegment]. It keeps no reference to
// row. Every field must be there once and nothing else: a field this version
// does not know would be lost at the next write. Its errors wrap
// [codec.ErrDamaged] or [ErrNewerVersion].
func DecodeSegment(row []byte) (Segment, error) {
	s, err := decodeRow(row)
	switch {
	case errors.Is(err, ErrNewerVersion):
		return Segment{}, err
	case err != nil:
		return Segment{}, fmt.Errorf("%w: segment row: %w", codec.ErrDamaged, err)
	}
	return s, nil
}

func decodeRow(row []byte) (Segment, error) {
	if len(row) > maxRow {
		return Segment{}, fmt.Errorf("%d bytes", len(row))
	}
	r := bytes.NewReader(row)
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(r)
	fields, err := dec.DecodeMapLen()
	if err != nil {
		return Segment{}, err
	}
	if err := decodeVersion(dec); err != nil {
		return Segment{}, err
	}
	if fields != rowFields {
		return Segment{}, fmt.Errorf("%d fields, want %d", fields, rowFields)
	}
	var s Segment
	for i, n := range s.numbers() {
		if err := expectName(dec, numberNames[i]); err != nil {
			return Segment{}, err
		}
		if *n, err = dec.DecodeInt64(); err != nil {
			return Segment{}, fmt.Errorf("field %s: %w", numberNames[i], err)
		}
	}
	if err := expectName(dec, "s"); err != nil {
		return Segment{}, err
	}
	if s.Sealed, err = dec.DecodeBool(); err != nil {
		return Segment{}, fmt.Errorf("field s: %w", err)
	}
	if r.Len() != 0 {
		return Segment{}, fmt.Errorf("%d bytes after the last field", r.Len())
	}
	return s, s.check()
}

// decodeVersion reads the version before anything that may depend on it, so that
// a newer row is reported as newer and not as damaged in some detail.
func decodeVersion(dec *msgpack.Decoder) error {
	if err := expectName(dec, "v"); err != nil {
		return err
	}
	v, err := dec.DecodeInt64()
	if err != nil {
		return fmt.Errorf("version: %w", err)
	}
	switch {
	case v > rowVersion:
		return fmt.Errorf("%w: %d, this one reads %d", ErrNewerVersion, v, rowVersion)
	case v != rowVersion:
		return fmt.Errorf("version %d", v)
	}
	return nil
}

func expectName(dec *msgpack.Decoder, want string) error {
	got, err := dec.DecodeString()
	if err != nil {
		return fmt.Errorf("field name %s: %w", want, err)
	}
	if got != want {
		return fmt.Errorf("field %.16q, want %q", got, want)
	}
	return nil
}

// check refuses numbers that contradict each other.
func (s *Segment) check() error {
	switch {
	case s.Base < 0 || s.End < s.Base:
		return fmt.Errorf("offsets [%d, %d)", s.Base, s.End)
	case min(s.Bytes, s.StoredBytes, s.Messages, s.Entries, s.IndexRows, s.SinceIndex) < 0:
		return fmt.Errorf("negative count")
	case s.MaxTimestamp < codec.NoTimestamp || s.FirstTimestamp < codec.NoTimestamp:
		return fmt.Errorf("negative timestamp")
	case s.MaxTimestamp == codec.NoTimestamp && s.MaxOffset != -1,
		s.MaxTimestamp != codec.NoTimestamp && (s.MaxOffset < 0 || s.MaxOffset >= s.End):
		return fmt.Errorf("largest timestamp %v at offset %d", s.MaxTimestamp, s.MaxOffset)
	case s.IndexedTimestamp < codec.NoTimestamp || s.IndexedTimestamp > s.MaxTimestamp:
		return fmt.Errorf("indexed timestamp %v, largest %v", s.IndexedTimestamp, s.MaxTimestamp)
	case s.ScanFrom < s.Base || s.ScanFrom > s.End:
		return fmt.Errorf("scan from %d outside [%d, %d]", s.ScanFrom, s.Base, s.End)
	}
	return nil
}
