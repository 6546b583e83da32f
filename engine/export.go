package engine

import (
	"bufio"
	"context"
	"io"

	"github.com/cairnlog/cairn/codec"
)

// ExportFormat is how exported messages are written.
type ExportFormat uint8

// The export formats.
const (
	// ExportSets is Kafka's v1 message sets, back to back; messages stored as v0 stay
	// v0. Compressed frames are written as they are stored. What the enriched format
	// has beyond v1 is lost.
	ExportSets ExportFormat = iota
	// ExportJSONL is a JSON object a line: offset, timestamp in milliseconds or null,
	// type, key and value as text, or as key_hex and value_hex where they are not
	// UTF-8, null where they are null; sent and tags where there are any.
	ExportJSONL
)

// ExportOptions say what to export. The zero value is the whole log as message sets.
type ExportOptions struct {
	Format ExportFormat
	// From and To bound the offsets, To exclusive; zero is no bound.
	From, To int64
	// Since and Until bound the range by time: from the first message at or after
	// Since, up to the first at or after Until, as a search finds them. Zero is no
	// bound.
	Since, Until codec.Timestamp
	// Isolation says which messages of transactions are exported.
	Isolation Isolation
	// Progress, if not nil, is called now and then with what is written so far.
	Progress func(Exported)
}

// Exported is what Export wrote.
type Exported struct {
	Messages, Bytes int64
	// First and Next are the offsets of the first message and after the last.
	First, Next int64
}

// Export writes a range of the log to w, as it is when the call begins. A compressed
// frame that lies in the range as a whole is written as it is, of another its
// messages are written uncompressed. Errors are Read's and w's; what was written
// before is whole messages.
func (p *Partition) Export(ctx context.Context, w io.Writer, o ExportOptions) (Exported, error) {
	e, err := p.export(ctx, w, o)
	return e, p.wrap("export", err)
}

func (p *Partition) export(ctx context.Context, w io.Writer, o ExportOptions) (Exported, error) {
	if o.Format > ExportJSONL {
		return Exported{}, codec.Errorf(codec.CodeInvalidRequest, "unknown export format %d", o.Format)
	}
	from, to, err := p.exportRange(ctx, o)
	if err != nil || to > 0 && from >= to {
		return Exported{First: from, Next: from}, err
	}
	x := &exporter{p: p, w: bufio.NewWriterSize(w, exportBuffer), o: o, done: Exported{First: -1, Next: from}}
	err = x.run(ctx, from, to)
	if flushErr := x.w.Flush(); err == nil {
		err = flushErr
	}
	if x.done.First < 0 {
		x.done.First = x.done.Next
	}
	return x.done, err
}

// exportRange returns the offsets that the options bound; to is 0 without an end.
func (p *Partition) exportRange(ctx context.Context, o ExportOptions) (from, to int64, err error) {
	if err := p.ready(); err != nil {
		return 0, 0, err
	}
	if err := p.settled(ctx); err != nil {
		return 0, 0, err
	}
	if from, to = o.From, o.To; from == 0 {
		from = p.logStart.Load()
	}
	for _, bound := range []struct {
		at     codec.Timestamp
		offset *int64
		later  bool
	}{{o.Since, &from, true}, {o.Until, &to, false}} {
		if bound.at == 0 {
			continue
		}
		pos, err := p.offsetFor(ctx, bound.at)
		if err != nil {
			return 0, 0, err
		}
		if bound.later {
			*bound.offset = max(*bound.offset, pos.Offset)
		} else if *bound.offset == 0 || pos.Offset < *bound.offset {
			*bound.offset = pos.Offset
		}
	}
	return from, to, nil
}

const exportBuffer = 256 << 10

// exporter is one Export.
type exporter struct {
	p    *Partition
	w    *bufio.Writer
	o    ExportOptions
	done Exported
	buf  []byte
}

func (x *exporter) run(ctx context.Context, from, to int64) error {
	bounds, err := x.p.readBounds(ctx, from, ReadOptions{Before: to, Isolation: x.o.Isolation})
	if err != nil {
		return err
	}
	r := newReading(x.p, ReadOptions{Isolation: x.o.Isolation})
	scan := x.p.scanFrom(from, bounds.cuts)
	defer scan.close()
	for scan.from < bounds.end {
		if err := ctx.Err(); err != nil {
			return err
		}
		ok, err := scan.next()
		if err != nil || !ok {
			return err
		}
		if scan.entry.Control != 0 {
			continue
		}
		if err := x.entry(scan, r.aborted, from, bounds.end); err != nil {
			return err
		}
		if x.o.Progress != nil {
			x.o.Progress(x.done)
		}
	}
	return nil
}

// entry writes the messages of an entry that are in [from, end).
func (x *exporter) entry(scan *entryScan, hidden *aborted, from, end int64) error {
	e := &scan.entry
	whole := e.Kind == codec.KindWrapper && e.First >= from && e.Last < end && e.Count > 0
	if x.o.Format == ExportSets && whole {
		if hide, err := hidden.hides(e, &codec.Message{Offset: e.Last}); err != nil || hide {
			return err
		}
		set, _, err := e.AppendSet(x.buf[:0], codec.SetOptions{From: from, To: end, Magic: 1, First: true, Scratch: &scan.cursor})
		if err != nil {
			return x.p.corrupt(e.Last, err)
		}
		x.buf = set
		return x.write(e.First, e.Last, int64(e.Count))
	}
	if err := scan.open(); err != nil {
		return err
	}
	var m codec.Message
	for scan.cursor.Next(&m) {
		if m.Offset < from || m.Offset >= end {
			continue
		}
		hide, err := hidden.hides(e, &m)
		if err == nil && !hide {
			err = x.message(&m, e.Magic)
		}
		if err != nil {
			return err
		}
	}
	return scan.damage()
}

func (x *exporter) message(m *codec.Message, magic int8) (err error) {
	if x.o.Format == ExportSets {
		x.buf = codec.AppendMessageFrame(x.buf[:0], m, magic)
	} else if x.buf, err = appendJSON(x.buf[:0], m); err != nil {
		return err
	}
	return x.write(m.Offset, m.Offset, 1)
}

func (x *exporter) write(first, last, messages int64) error {
	n, err := x.w.Write(x.buf)
	x.done.Bytes += int64(n)
	if err != nil {
		return err
	}
	if x.done.First < 0 {
		x.done.First = first
	}
	x.done.Next = last + 1
	x.done.Messages += messages
	return nil
}
