package main

import (
	"context"

	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/retention"
)

// holdings are what one partition holds, or several.
type holdings struct {
	partitions int64
	start, end int64 // of one partition
	segments   int64
	// messages are those that can be read; wire and stored are the bytes of whole
	// segments, as retention counts them.
	messages, wire, stored int64
	rows                   int64
	disk                   any // a byteCount, nil if it is not known
}

// holdingsOf adds up the segments of a partition that has these borders.
func holdingsOf(o engine.Offsets, segments []retention.Segment) holdings {
	h := holdings{partitions: 1, start: o.Start, end: o.End, segments: int64(len(segments))}
	for i := range segments {
		seg := &segments[i]
		h.messages += min(seg.Messages, max(0, seg.End-max(seg.Base, o.Start)))
		h.wire += seg.Bytes
		h.stored += seg.StoredBytes
		h.rows += seg.IndexRows
	}
	return h
}

// add adds another partition's; the borders are the last one's.
func (h *holdings) add(o *holdings) {
	h.partitions += o.partitions
	h.start, h.end = o.start, o.end
	h.segments += o.segments
	h.messages += o.messages
	h.wire += o.wire
	h.stored += o.stored
	h.rows += o.rows
}

// contents returns the borders of a partition and its segments.
func contents(p *engine.Partition) (o engine.Offsets, segments []retention.Segment, err error) {
	if o, err = p.Offsets(); err == nil {
		segments, err = p.Segments()
	}
	return o, segments, err
}

// holdings adds up what partitions hold.
func (s *session) holdings(ctx context.Context, list ...*engine.Partition) (sum holdings, err error) {
	for _, p := range list {
		if err := ctx.Err(); err != nil {
			return sum, err
		}
		o, segments, err := contents(p)
		if err != nil {
			return sum, err
		}
		h := holdingsOf(o, segments)
		sum.add(&h)
	}
	return sum, nil
}

// measure notes the size of the store's files.
func (h *holdings) measure(s *session) error {
	n, err := diskBytes(s.dir)
	h.disk = byteCount(n)
	return err
}

// record is a line of a table: with the borders of one partition, or with
// the number of several.
func (h *holdings) record(sum bool) record {
	r := record{{name: "start", value: h.start}, {name: "end", value: h.end}}
	if sum {
		r = record{{name: "partitions", value: h.partitions}}
	}
	return append(r,
		field{name: "segments", value: h.segments},
		field{name: "messages", value: h.messages},
		field{name: "wire bytes", value: byteCount(h.wire)},
		field{name: "stored bytes", value: byteCount(h.stored)},
		field{name: "disk bytes", value: h.disk},
	)
}
