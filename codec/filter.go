package codec

import "slices"

// Filtered is what a filter leaves of an entry.
type Filtered struct {
	// Kept and Dropped count the messages, Tombstones the kept ones whose value is
	// null.
	Kept, Dropped, Tombstones int
	// Value is the unsealed rewritten entry: to be sealed with Stamp under the
	// log key of offset Last. Nil if all or none were kept.
	Value []byte
	Stamp Stamp
	Last  int64
}

// Filter rewrites the entry with only the messages that keep accepts, asked once
// for each and in order. Offsets never change: a plain entry stores the gaps, a
// wrapper is compressed anew by its own codec with gaps in its relative offsets,
// ends at its last kept message and has the largest kept timestamp, or under
// LogAppendTime its own (SPEC 9.9). A delete horizon stays with the entry while a
// tombstone does. keep sees the timestamps that are stored, not the view a reader
// gets. The error is an ErrDamaged.
//
// Only a rewritten entry allocates, once c has grown.
func (e *Entry) Filter(c *Cursor, keep func(*Message) bool) (Filtered, error) {
	stored := *e
	if e.Kind == KindWrapper && e.TimestampType == LogAppendTime && !e.Enriched {
		stored.TimestampType = CreateTime // inner timestamps stay what they are
	}
	if err := c.Reset(&stored); err != nil {
		return Filtered{}, err
	}
	var f Filtered
	m := &c.message
	accepted := c.accepted[:0]
	for c.Next(m) {
		ok := keep(m)
		accepted = append(accepted, ok)
		switch {
		case !ok:
			f.Dropped++
		case m.Value == nil:
			f.Tombstones++
			fallthrough
		default:
			f.Kept++
		}
	}
	c.accepted = accepted
	if err := c.Err(); err != nil || f.Kept == 0 || f.Dropped == 0 {
		return f, err
	}
	err := f.rewrite(e, c, c.acceptedOf(&stored))
	c.forget()
	return f, err
}

// acceptedOf returns the messages of the entry that the cursor was over which
// were accepted. They are valid until the cursor's next Reset.
func (c *Cursor) acceptedOf(e *Entry) []Message {
	c.rewind(e)
	kept := slices.Grow(c.kept[:0], len(c.accepted))
	var m Message
	for i := 0; c.Next(&m); i++ {
		if c.accepted[i] {
			kept = append(kept, m)
		}
	}
	c.kept = kept
	return kept
}

// keptScratch is how many messages a cursor keeps room for, 4.5 MiB. A wrapper of
// MaxInflated can hold millions.
const keptScratch = 64 << 10

// forget lets go of the bytes of the accepted messages, and of room for many.
func (c *Cursor) forget() {
	clear(c.kept)
	if cap(c.kept) > keptScratch {
		c.kept = nil
	}
}

func (f *Filtered) rewrite(e *Entry, c *Cursor, kept []Message) error {
	f.Last = kept[len(kept)-1].Offset
	f.Stamp = Stamp{Timestamp: kept[0].Timestamp, Clock: e.Clock, LogAppend: e.TimestampType == LogAppendTime}
	if e.Kind == KindPlain {
		f.Value = AppendPlain(nil, kept, PlainOptions{Magic: e.Magic, Enriched: e.Enriched, Control: e.Control})
	} else if err := f.wrap(e, c, kept); err != nil {
		return err
	}
	if e.Horizon != NoTimestamp && f.Tombstones > 0 {
		f.Value = withHorizon(f.Value, e.Horizon)
	}
	return nil
}

func (f *Filtered) wrap(e *Entry, c *Cursor, kept []Message) error {
	if e.Enriched {
		return f.wrapEnriched(e, c, kept)
	}
	frame, payload, err := BuildWrapper(c.payload[:0], e.Compression, e.Magic, kept)
	c.payload = payload
	if err != nil {
		return damaged("wrapper: %w", err)
	}
	f.Stamp.Timestamp = frame.Timestamp
	if f.Stamp.LogAppend {
		f.Stamp.Timestamp = e.Timestamp
	}
	f.Value = AppendStoredWrapper(nil, StoredWrapper{
		Compression: e.Compression,
		Magic:       e.Magic,
		Count:       len(kept),
		Span:        f.Last - kept[0].Offset,
		Payload:     frame.Value,
	})
	return nil
}

// wrapEnriched is wrap for an enriched wrapper. A positional one becomes an
// ordinary one, for its messages are not in their places any more.
func (f *Filtered) wrapEnriched(e *Entry, c *Cursor, kept []Message) error {
	payload, grown, err := BuildEnrichedWrapper(c.payload[:0], e.Compression, kept)
	c.payload = grown
	if err != nil {
		return damaged("wrapper: %w", err)
	}
	tags := e.Tags.Without(TagPositional)
	if _, ok := tags.NumMessages(); ok {
		tags = tags.WithTag(TagNumMessages, int64(len(kept)))
	}
	f.Stamp.Timestamp = e.Timestamp
	f.Value = AppendStoredWrapper(nil, StoredWrapper{
		Compression: e.Compression, Magic: e.Magic, Enriched: true, Tags: tags,
		Count: len(kept), Span: f.Last - kept[0].Offset, Payload: payload,
	})
	return nil
}
