package codec

// Cursor yields the messages of stored entries, one entry at a time. It keeps
// the buffer it inflates wrappers into, and what Filter works with, so a Cursor
// that lives long stops allocating; the buffer is as large as the largest wrapper
// was, at most MaxInflated, and goes with the Cursor. The zero Cursor is ready for
// Reset. It is for one goroutine.
type Cursor struct {
	// The place in a plain entry. Invariant: pos <= len(body).
	body []byte
	pos  int
	left int // messages not yet yielded

	wrapped bool // the entry is a wrapper: inner yields its messages
	gaps    bool
	tagged  bool // messages have tags
	long    bool // gaps or tagged: no short form
	started bool // the first message has been yielded

	typ       TimestampType
	timestamp Timestamp // of the last message yielded
	deltaMask int64     // 0 where timestamp deltas do not count, else -1
	offset    int64     // of the last message yielded
	first     int64     // bounds of the offsets, 0 and up where unknown
	last      int64
	count     int // 0 where unknown

	inner    InnerReader
	enriched *enrichedReader // of an enriched wrapper; nil in others
	inflated []byte
	err      error

	// Scratch of Filter and of sets.
	message  Message
	accepted []bool
	kept     []Message
	payload  []byte
}

// Reset points the cursor before the first message of e, and inflates e if it is
// a wrapper, to at most MaxInflated bytes. The error is an ErrDamaged. e itself
// is not kept, but the bytes it aliases are.
func (c *Cursor) Reset(e *Entry) error {
	c.err = nil
	switch e.Kind {
	case KindPlain:
	case KindWrapper:
		inflated, err := e.Compression.Decompress(c.inflated[:0], e.body, e.Magic, MaxInflated)
		if err != nil {
			return c.fail(damaged("wrapper: %w", err))
		}
		c.inflated = inflated
	default:
		return c.fail(damaged("an entry of %s cannot be read", e.Kind))
	}
	c.rewind(e)
	return nil
}

// rewind points the cursor before the first message of the entry it was Reset to.
func (c *Cursor) rewind(e *Entry) {
	c.body, c.pos, c.left = e.body, 0, e.Count
	c.wrapped, c.gaps, c.tagged, c.started = false, e.gaps, e.Enriched, false
	c.long = c.gaps || c.tagged
	c.typ, c.timestamp, c.deltaMask = e.TimestampType, e.Timestamp, 0
	c.offset, c.first, c.last, c.count = e.First, max(e.First, 0), e.Last, e.Count
	if c.enriched = nil; e.Kind == KindWrapper && e.Enriched {
		c.wrapped, c.left = true, 0
		c.enriched = &enrichedReader{
			rest: c.inflated, next: e.First, first: e.First,
			positional: e.Tags.Positional(), received: e.Timestamp,
		}
	} else if e.Kind == KindWrapper {
		c.wrapped, c.left = true, 0
		c.inner.Reset(c.inflated, InnerContext{
			Magic:     e.Magic,
			Last:      e.Last,
			LogAppend: e.TimestampType == LogAppendTime,
			Timestamp: e.Timestamp,
		})
	} else if e.TimestampType == CreateTime {
		c.deltaMask = -1
	}
}

// Next sets m to the next message and reports whether there was one; Err tells
// the end from damage. The bytes of m alias the entry or, in a wrapper, a buffer
// of the cursor that the next Reset overwrites.
func (c *Cursor) Next(m *Message) bool {
	if c.left <= 0 {
		return c.nextInner(m)
	}
	b, i := c.body, c.pos
	var delta, gap, key, value, tags uint64
	if c.started && !c.long && i+2 < len(b) && b[i]|b[i+1]|b[i+2] < 0x80 {
		// Three single bytes, as of most small messages: 90 instead of 70
		// million messages of 100 bytes a second with their checksum.
		delta, key, value = uint64(b[i]), uint64(b[i+1]), uint64(b[i+2])
		i += 3
	} else if delta, gap, key, value, tags, i = c.readLong(); i < 0 {
		return c.broken()
	}
	if c.started {
		if gap >= uint64(c.last-c.offset) {
			return c.broken()
		}
		c.timestamp += Timestamp(unzigzag(delta) & c.deltaMask)
		c.offset += int64(gap) + 1
	}
	m.Offset, m.Timestamp, m.TimestampType = c.offset, c.timestamp, c.typ
	m.Key, m.Value, m.Tags = nil, nil, nil
	if key > 0 {
		if key-1 > uint64(len(b)-i) {
			return c.broken()
		}
		end := i + int(key-1)
		m.Key = b[i:end:end]
		i = end
	}
	if value > 0 {
		if value-1 > uint64(len(b)-i) {
			return c.broken()
		}
		end := i + int(value-1)
		m.Value = b[i:end:end]
		i = end
	}
	if tags > 0 {
		if tags > uint64(len(b)-i) {
			return c.broken()
		}
		end := i + int(tags)
		m.Tags = Tags(b[i:end:end])
		i = end
	}
	c.started = true
	c.pos = i
	c.left--
	if c.left == 0 && (i != len(b) || c.offset != c.last) {
		return c.broken()
	}
	return true
}

// readLong reads what precedes the bytes of any message; next is -1 when it is
// not there.
func (c *Cursor) readLong() (delta, gap, key, value, tags uint64, next int) {
	next = c.pos
	if c.started {
		delta, next = uvarint(c.body, next)
		if c.gaps {
			gap, next = uvarint(c.body, next)
		}
	}
	key, next = uvarint(c.body, next)
	value, next = uvarint(c.body, next)
	if c.tagged {
		tags, next = uvarint(c.body, next)
	}
	return delta, gap, key, value, tags, next
}

// Err returns why Next or Reset stopped, an ErrDamaged, or nil at the end of an
// undamaged entry.
func (c *Cursor) Err() error { return c.err }

// nextInner yields from a wrapper; of a plain entry there is nothing left.
func (c *Cursor) nextInner(m *Message) bool {
	if !c.wrapped || c.err != nil {
		return false
	}
	ok, err := c.readInner(m)
	switch {
	case err != nil:
		c.fail(damaged("wrapper: %w", err))
	case ok && (m.Offset < c.first || m.Offset > c.last):
		c.fail(damaged("wrapper: message %d outside of %d to %d", m.Offset, c.first, c.last))
	case ok:
		c.pos++
		return true
	case c.count > 0 && c.pos != c.count:
		c.fail(damaged("wrapper: %d messages instead of %d", c.pos, c.count))
	}
	return false
}

func (c *Cursor) readInner(m *Message) (bool, error) {
	if c.enriched != nil {
		return c.enriched.read(m)
	}
	return c.inner.Next(m)
}

// broken ends a plain entry whose messages do not fit its header or its length.
func (c *Cursor) broken() bool {
	c.fail(damaged("plain entry broken near byte %d of %d, message %d", c.pos, len(c.body), c.offset))
	return false
}

func (c *Cursor) fail(err error) error {
	c.left, c.wrapped, c.err = 0, false, err
	return err
}
