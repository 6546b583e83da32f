package codec

// PlainOptions says how AppendPlain encodes messages.
type PlainOptions struct {
	// Magic is the message format on the wire, 0 or 1. Magic 0 stores no
	// timestamps.
	Magic int8
	// Dense ignores the Offset of the messages: they take consecutive offsets,
	// as in an append. Otherwise their offsets must strictly increase, and the
	// entry keeps the distances, as after compaction.
	Dense bool
	// Enriched stores the messages' tags, with Magic 1; Control, if not 0, makes
	// the one message a control message.
	Enriched bool
	Control  ControlType
}

// plainShape is what must be known of messages before the first one is encoded.
type plainShape struct {
	attributes byte
	size       int    // of the whole entry
	bytes      int    // of all keys and values
	maxDelta   int64  // largest timestamp - first timestamp
	maxOffset  uint64 // offset of the first message with it - first offset
	span       uint64 // last offset - first offset
}

// PlainSize returns the exact length of what AppendPlain appends for the same
// arguments.
func PlainSize(msgs []Message, o PlainOptions) int {
	if len(msgs) == 0 {
		return 0
	}
	return shapeOf(msgs, o).size
}

// AppendPlain appends an unsealed plain entry with msgs, which it copies; of no
// messages it makes no entry. It allocates only to grow dst, and does not look at
// timestamp types.
//
// Timestamps are stored relative to the first message's, which Seal writes. All
// messages with an equal timestamp may therefore be encoded before it is known.
func AppendPlain(dst []byte, msgs []Message, o PlainOptions) []byte {
	if len(msgs) == 0 {
		return dst
	}
	s := shapeOf(msgs, o)
	dst, b := grow(dst, s.size)
	startEntry(b, KindPlain, s.attributes)
	i := putUvarint(b, entryHeader, uint64(len(msgs)))
	i = putUvarint(b, i, uint64(s.bytes))
	if len(msgs) > 1 {
		i = putUvarint(b, i, zigzag(s.maxDelta))
		i = putUvarint(b, i, s.maxOffset)
	}
	if s.attributes&attributeGaps != 0 {
		i = putUvarint(b, i, s.span)
	}
	i = putFields(b, i, &msgs[0], o.Enriched)
	for j := 1; j < len(msgs); j++ {
		m, previous := &msgs[j], &msgs[j-1]
		i = putUvarint(b, i, zigzag(timestampDelta(m, previous, o.Magic)))
		if s.attributes&attributeGaps != 0 {
			i = putUvarint(b, i, uint64(m.Offset-previous.Offset-1))
		}
		i = putFields(b, i, m, o.Enriched)
	}
	finishBody(b)
	return dst
}

// grow appends n bytes of any content to dst and returns them too.
func grow(dst []byte, n int) (grown, tail []byte) {
	if cap(dst)-len(dst) < n {
		dst = append(dst, make([]byte, n)...)
	} else {
		dst = dst[:len(dst)+n]
	}
	return dst, dst[len(dst)-n:]
}

// putFields writes the lengths, key and value of m, and its tags.
func putFields(b []byte, i int, m *Message, tagged bool) int {
	i = putUvarint(b, i, fieldLength(m.Key))
	i = putUvarint(b, i, fieldLength(m.Value))
	if tagged {
		i = putUvarint(b, i, uint64(len(m.Tags)))
	}
	i += copy(b[i:], m.Key)
	i += copy(b[i:], m.Value)
	if tagged {
		i += copy(b[i:], m.Tags)
	}
	return i
}

// fieldLength returns the stored length of a key or value: 0 is null.
func fieldLength(field []byte) uint64 {
	if field == nil {
		return 0
	}
	return uint64(len(field)) + 1
}

// timestampDelta returns the distance between neighbours. It may wrap around,
// and adding it wraps back: every timestamp survives.
func timestampDelta(m, previous *Message, magic int8) int64 {
	if magic == 0 {
		return 0
	}
	return int64(m.Timestamp - previous.Timestamp)
}

func shapeOf(msgs []Message, o PlainOptions) plainShape {
	first, last := &msgs[0], &msgs[len(msgs)-1]
	s := plainShape{span: uint64(len(msgs) - 1)}
	if o.Magic == 0 {
		s.attributes |= attributeMagic0
	}
	if o.Enriched {
		s.attributes |= attributeEnriched
		if o.Control != 0 {
			s.attributes |= byte(o.Control - controlBase)
		}
	}
	if span := uint64(last.Offset - first.Offset); !o.Dense && span != s.span {
		s.attributes |= attributeGaps
		s.span = span
	}
	largest, at, size := NoTimestamp, 0, 0
	for j := range msgs {
		m := &msgs[j]
		if m.Timestamp > largest {
			largest, at = m.Timestamp, j
		}
		if j > 0 {
			size += uvarintSize(zigzag(timestampDelta(m, &msgs[j-1], o.Magic)))
			if s.attributes&attributeGaps != 0 {
				size += uvarintSize(uint64(m.Offset - msgs[j-1].Offset - 1))
			}
		}
		size += uvarintSize(fieldLength(m.Key)) + uvarintSize(fieldLength(m.Value))
		s.bytes += len(m.Key) + len(m.Value)
		if o.Enriched {
			size += uvarintSize(uint64(len(m.Tags))) + min(len(m.Tags), tagLengths)
			s.bytes += m.Tags.wireGrowth()
		}
	}
	if largest >= 0 && o.Magic != 0 {
		s.maxDelta, s.maxOffset = int64(largest-first.Timestamp), uint64(at)
		if s.attributes&attributeGaps != 0 {
			s.maxOffset = uint64(msgs[at].Offset - first.Offset)
		}
	}
	s.size = EntryOverhead + size + s.bytes + uvarintSize(uint64(len(msgs))) + uvarintSize(uint64(s.bytes))
	if len(msgs) > 1 {
		s.size += uvarintSize(zigzag(s.maxDelta)) + uvarintSize(s.maxOffset)
	}
	if s.attributes&attributeGaps != 0 {
		s.size += uvarintSize(s.span)
	}
	return s
}

// The least a message can take in a plain body: two lengths, and but for the
// first a timestamp delta.
const (
	minFirstMessage = 2
	minMessage      = 3
	minTags         = 1 // more in an enriched entry
)

// parsePlain reads what precedes the messages of a plain body.
func (e *Entry) parsePlain(body []byte) error {
	count, i := uvarint(body, 0)
	bytes, i := uvarint(body, i)
	var maxDelta, maxOffset uint64
	if count > 1 {
		maxDelta, i = uvarint(body, i)
		maxOffset, i = uvarint(body, i)
	}
	span := count - 1
	if e.gaps {
		span, i = uvarint(body, i)
	}
	if i < 0 || count == 0 {
		return damaged("plain entry with a broken header")
	}
	rest := uint64(len(body) - i)
	least := minFirstMessage + minMessage*(count-1)
	if e.Enriched {
		least += minTags * count
	}
	if e.Control != 0 && count != 1 {
		return damaged("control entry of %d messages", count)
	}
	if count > rest || bytes > rest || least+bytes > rest {
		return damaged("plain entry of %d messages and %d bytes in %d", count, bytes, rest)
	}
	if span < count-1 || span > uint64(e.Last) || maxOffset > span {
		return damaged("plain entry of %d messages over %d offsets, the largest timestamp at %d, ends at %d",
			count, span, maxOffset, e.Last)
	}
	e.First = e.Last - int64(span)
	e.Count = int(count)
	e.KeyValueBytes = int(bytes)
	e.body = body[i:]
	if e.Control != 0 {
		e.setMax(NoTimestamp, -1) // nobody searches for it
	} else if e.TimestampType == CreateTime {
		e.setMax(e.Timestamp+Timestamp(unzigzag(maxDelta)), e.First+int64(maxOffset))
	} else {
		e.setMax(e.Timestamp, e.First)
	}
	return nil
}
