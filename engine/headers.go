package engine

import (
	"context"
	"iter"

	"github.com/cairnlog/cairn/codec"
)

// Header is what a frame of the log, a plain message, a wrapper or a control message,
// says of itself outside of its key, its value and its payload.
type Header struct {
	// First and Last are the offsets of its messages, First -1 where a wrapper's is
	// not known.
	First, Last int64
	// Messages is how many there are, 0 where a wrapper does not say.
	Messages    int
	Compression codec.Compression // None unless a wrapper
	Control     codec.ControlType // 0 unless a control message
	Format      MessageFormat
	// Timestamp is the message's, the wrapper's own, or the receipt time.
	Timestamp     codec.Timestamp
	TimestampType codec.TimestampType
	// Tags of the enriched format, those of a wrapper its own. They are valid until
	// the next iteration.
	Tags codec.Tags
	// KeyBytes and ValueBytes are lengths, -1 for null; of a wrapper those of its
	// null key and its payload.
	KeyBytes, ValueBytes int
	// WireBytes is the size of the frame in its own format.
	WireBytes int
}

// ReadHeaders yields the headers of all frames from the one that holds offset from
// on, control messages included: an audit that looks at no key, no value and no
// payload, and inflates nothing (SPEC 10.9, S62). The checksums of entries, which
// cover those, are not checked; Pebble's of its blocks are. Bounds, errors and
// concurrency are Read's; MaxMessages counts frames; Isolation is not looked at.
func (p *Partition) ReadHeaders(ctx context.Context, from int64, o ReadOptions) iter.Seq2[Header, error] {
	return func(yield func(Header, error) bool) {
		stopped, err := p.readHeaders(ctx, from, o, yield)
		if err != nil && !stopped {
			yield(Header{}, p.wrap("read headers", err))
		}
	}
}

func (p *Partition) readHeaders(ctx context.Context, from int64, o ReadOptions, yield func(Header, error) bool) (stopped bool, err error) {
	o.Isolation = ReadUncommitted
	bounds, err := p.readBounds(ctx, from, o)
	if err != nil {
		return false, err
	}
	scan := p.scanFrom(from, bounds.cuts)
	scan.headers = true
	defer scan.close()
	left := o.MaxMessages
	frame := func(h *Header) bool { // reports whether to go on
		stopped = !yield(*h, nil)
		left--
		return !stopped && left != 0
	}
	for scan.from < bounds.end {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		ok, err := scan.next()
		if err != nil || !ok {
			return false, err
		}
		h := headerOf(&scan.entry)
		if scan.entry.Kind == codec.KindWrapper {
			if h.Last < bounds.end && !frame(&h) {
				return stopped, nil
			}
			continue
		}
		if more, err := scan.eachHeader(h, from, bounds.end, frame); err != nil || !more {
			return stopped, err
		}
	}
	return false, nil
}

// eachHeader calls frame for the messages of a plain entry in [from, end).
func (s *entryScan) eachHeader(h Header, from, end int64, frame func(*Header) bool) (more bool, err error) {
	if err := s.open(); err != nil {
		return false, err
	}
	var m codec.Message
	for s.cursor.Next(&m) {
		if m.Offset < from {
			continue
		}
		if m.Offset >= end {
			return false, nil
		}
		h.First, h.Last, h.Timestamp, h.Tags = m.Offset, m.Offset, m.Timestamp, m.Tags
		h.KeyBytes, h.ValueBytes = fieldBytes(m.Key), fieldBytes(m.Value)
		h.WireBytes = s.entry.FrameSize(&m)
		if !frame(&h) {
			return false, nil
		}
	}
	return true, s.damage()
}

func fieldBytes(field []byte) int {
	if field == nil {
		return -1
	}
	return len(field)
}

// headerOf returns what an entry says for all of its messages.
func headerOf(e *codec.Entry) Header {
	h := Header{
		First: e.First, Last: e.Last, Messages: 1, Compression: e.Compression, Control: e.Control,
		Timestamp: e.Timestamp, TimestampType: e.TimestampType, Tags: e.Tags, KeyBytes: -1,
	}
	switch {
	case e.Enriched:
		h.Format = FormatEnriched
	case e.Magic == 0:
		h.Format = FormatV0
	default:
		h.Format = FormatV1
	}
	if e.Kind == codec.KindWrapper {
		h.Messages, h.ValueBytes, h.WireBytes = e.Count, e.PayloadBytes(), e.WireSize()
	}
	return h
}
