package codec

import (
	"encoding/binary"
	"fmt"
)

// FetchedTopic is one topic of a FetchResponse to a follower.
type FetchedTopic struct {
	Name       string
	Partitions []FetchedPartition
}

// FetchedPartition is what a fetch found in one partition.
type FetchedPartition struct {
	Partition     int32
	Error         Code
	HighWatermark int64
	// Set is a message set in the wire format.
	Set []byte
	// Rows are time-index rows for a follower; a consumer gets none (SPEC 5.9.28).
	Rows []FetchedRow
}

// FetchedRow is a row of the time index on the wire: a timestamp, and an offset
// relative to the base of the segment it belongs to. Rows are in the order of the log.
// One with offset 0 is of the first message of a segment (SPEC 5.9.30).
type FetchedRow struct {
	Timestamp Timestamp
	Relative  int32
}

const fetchedRowSize = 8 + 4

// AppendFetchResponse appends the body of a FetchResponse with time-index rows: version
// 0 of Kafka's, with an array of rows behind each message set (SPEC 5.9).
func AppendFetchResponse(dst []byte, topics []FetchedTopic) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(topics)))
	for i := range topics {
		t := &topics[i]
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(t.Name)))
		dst = append(dst, t.Name...)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(t.Partitions)))
		for j := range t.Partitions {
			p := &t.Partitions[j]
			dst = binary.BigEndian.AppendUint32(dst, uint32(p.Partition))
			dst = binary.BigEndian.AppendUint16(dst, uint16(p.Error))
			dst = binary.BigEndian.AppendUint64(dst, uint64(p.HighWatermark))
			dst = binary.BigEndian.AppendUint32(dst, uint32(len(p.Set)))
			dst = append(dst, p.Set...)
			dst = AppendFetchedRows(dst, p.Rows)
		}
	}
	return dst
}

// AppendFetchedRows appends the array of rows of one partition.
func AppendFetchedRows(dst []byte, rows []FetchedRow) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(rows)))
	for _, r := range rows {
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.Timestamp))
		dst = binary.BigEndian.AppendUint32(dst, uint32(r.Relative))
	}
	return dst
}

// ParseFetchResponse reads what AppendFetchResponse writes. Names and sets alias b;
// counts are checked against what is there before anything is made for them. The error
// is an *Error with CodeCorruptMessage.
func ParseFetchResponse(b []byte) ([]FetchedTopic, error) {
	r := fieldReader{rest: b}
	topics := make([]FetchedTopic, 0, r.count(2+4))
	for range cap(topics) {
		t := FetchedTopic{Name: string(r.bytes(int(int16(r.uint(2)))))}
		t.Partitions = make([]FetchedPartition, 0, r.count(4+2+8+4+4))
		for range cap(t.Partitions) {
			p := FetchedPartition{Partition: int32(r.uint(4)), Error: Code(r.uint(2)), HighWatermark: int64(r.uint(8))}
			p.Set = r.bytes(int(int32(r.uint(4))))
			for range r.count(fetchedRowSize) {
				row := FetchedRow{Timestamp: Timestamp(r.uint(8)), Relative: int32(r.uint(4))}
				if row.Relative < 0 {
					r.fail("row with the relative offset %d", row.Relative)
				}
				p.Rows = append(p.Rows, row)
			}
			t.Partitions = append(t.Partitions, p)
		}
		topics = append(topics, t)
	}
	if len(r.rest) > 0 {
		r.fail("%d bytes behind the response", len(r.rest))
	}
	if r.err != nil {
		return nil, r.err
	}
	return topics, nil
}

// fieldReader takes fields off bytes. After its first error it gives zeros.
type fieldReader struct {
	rest []byte
	err  error
}

func (r *fieldReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = Errorf(CodeCorruptMessage, "fetch response: %s", fmt.Sprintf(format, args...))
	}
	r.rest = nil
}

// uint reads a number of size bytes.
func (r *fieldReader) uint(size int) (v uint64) {
	if len(r.rest) < size {
		r.fail("ends inside of a number")
		return 0
	}
	for _, b := range r.rest[:size] {
		v = v<<8 | uint64(b)
	}
	r.rest = r.rest[size:]
	return v
}

func (r *fieldReader) bytes(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.fail("field of %d bytes in %d", n, len(r.rest))
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// count reads the length of an array whose elements take least bytes or more.
func (r *fieldReader) count(least int) int {
	n := int(int32(r.uint(4)))
	if n < 0 || n > len(r.rest)/least {
		r.fail("array of %d in %d bytes", n, len(r.rest))
		return 0
	}
	return n
}
