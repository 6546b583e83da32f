package codec

import "slices"

// SetOptions says which frames of an entry AppendSet appends, and how.
type SetOptions struct {
	// From and To bound the offsets of the frames, [From, To). A wrapper counts
	// as its last offset, so it is whole or absent (SPEC 1.5).
	From, To int64
	// Magic is the newest format the reader understands. 0 converts v1 frames
	// down, each for itself (SPEC 1.6); 1 leaves every frame in its own format.
	Magic int8
	// Limit bounds the bytes appended.
	Limit int
	// First lets the first frame exceed Limit, so that a reader always gets on.
	First bool
	// Hide, if not nil, leaves messages out. It is asked for a wrapper as a whole, with
	// a Message that has its last offset alone.
	Hide func(*Message) bool
	// Scratch is the cursor to use; nil makes one.
	Scratch *Cursor
}

// AppendSet appends the frames of e that o selects to dst, as a message set. It
// stops with more set before a frame that o.Limit has no room for. The error is
// an ErrDamaged; set then ends with the last whole frame before the damage.
func (e *Entry) AppendSet(dst []byte, o SetOptions) (set []byte, more bool, err error) {
	if o.Scratch == nil {
		o.Scratch = new(Cursor)
	}
	switch {
	case e.Control != 0: // no client sees it (SPEC 10.7.9)
		return dst, false, nil
	case e.Kind == KindWrapper:
		return e.appendWrapper(dst, o)
	default:
		return e.appendMessages(dst, o)
	}
}

func (e *Entry) appendMessages(dst []byte, o SetOptions) (set []byte, more bool, err error) {
	c := o.Scratch
	if err := c.Reset(e); err != nil {
		return dst, false, err
	}
	magic := min(e.Magic, o.Magic)
	overhead := frameOverhead(magic)
	start := len(dst)
	dst = slices.Grow(dst, max(min(e.WireSize(), o.Limit), 0))
	m := &c.message // Hide may keep nothing of it, but the compiler cannot know
	for c.Next(m) {
		if m.Offset < o.From {
			continue
		}
		if m.Offset >= o.To {
			break
		}
		if o.Hide != nil && o.Hide(m) {
			continue
		}
		grown := len(dst) - start + overhead + len(m.Key) + len(m.Value)
		if grown > o.Limit && !(o.First && len(dst) == start) {
			return dst, true, nil
		}
		dst = AppendMessageFrame(dst, m, magic)
	}
	return dst, false, c.Err()
}

func (e *Entry) appendWrapper(dst []byte, o SetOptions) (set []byte, more bool, err error) {
	if e.outside(&o) {
		return dst, false, nil
	}
	f := Frame{
		Offset:        e.Last,
		Magic:         e.Magic,
		Compression:   e.Compression,
		TimestampType: e.TimestampType,
		Timestamp:     e.Timestamp,
		Value:         e.body,
	}
	if o.Magic < e.Magic || e.Enriched {
		if f, err = e.convertWrapper(o.Scratch, min(o.Magic, e.Magic)); err != nil {
			return dst, false, err
		}
	}
	if f.WireSize() > o.Limit && !o.First {
		return dst, true, nil
	}
	return AppendFrame(dst, &f), false, nil
}

// outside reports whether o leaves a wrapper out.
func (e *Entry) outside(o *SetOptions) bool {
	return e.Last < o.From || e.Last >= o.To || o.Hide != nil && o.Hide(&Message{Offset: e.Last})
}

// convertWrapper makes a v0 wrapper of a v1 wrapper: timestamps are lost and inner
// offsets become absolute, so it is compressed anew, by the same codec (SPEC
// 1.6.34). Of an enriched wrapper it makes one of v0 or v1, without tags.
func (e *Entry) convertWrapper(c *Cursor, magic int8) (Frame, error) {
	msgs, err := e.messages(c)
	if err != nil {
		return Frame{}, err
	}
	f, _, err := BuildWrapper(nil, e.Compression, magic, msgs)
	if err != nil {
		return Frame{}, damaged("wrapper: %w", err)
	}
	if magic != 0 {
		f.TimestampType, f.Timestamp = e.TimestampType, e.Timestamp
	}
	return f, nil
}

// messages returns the messages of e, valid until the next Reset of c.
func (e *Entry) messages(c *Cursor) ([]Message, error) {
	if err := c.Reset(e); err != nil {
		return nil, err
	}
	msgs := make([]Message, 0, e.Count)
	var m Message
	for c.Next(&m) {
		msgs = append(msgs, m)
	}
	return msgs, c.Err()
}
