package codec

import "math"

// StoredWrapper is a compressed frame on its way into the log. Its payload is
// stored as it came: neither offsets nor timestamps ever recompress it (SPEC
// 2.5).
type StoredWrapper struct {
	Compression Compression // not None
	Magic       int8        // 0 or 1
	// Count is the number of messages inside; 0 where nobody inflated the
	// payload to count them, as on a follower.
	Count int
	// Span is the last offset minus the first; ignored when Count is 0.
	Span    int64
	Payload []byte
	// Enriched says that the payload is of the enriched format, and Tags are the
	// wrapper's own but for the receipt time.
	Enriched bool
	Tags     Tags
}

// EnrichedWireSize returns the bytes of w as an enriched frame with a receipt time.
func (w StoredWrapper) EnrichedWireSize() int {
	return enrichedOverhead + w.Tags.wireGrowth() + len(w.Payload)
}

// Size returns the exact length of what AppendStoredWrapper appends for w.
func (w StoredWrapper) Size() int {
	n := EntryOverhead + uvarintSize(uint64(w.Count)) + uvarintSize(w.span()) + len(w.Payload)
	if w.Enriched {
		n += uvarintSize(uint64(len(w.Tags))) + len(w.Tags)
	}
	return n
}

func (w StoredWrapper) span() uint64 {
	if w.Count == 0 {
		return 0
	}
	return uint64(w.Span)
}

// AppendStoredWrapper appends an unsealed wrapper entry, which holds a copy of
// the payload. It allocates only to grow dst.
func AppendStoredWrapper(dst []byte, w StoredWrapper) []byte {
	attributes := byte(w.Compression) & attributeCompression
	if w.Magic == 0 {
		attributes |= attributeMagic0
	}
	if w.Enriched {
		attributes |= attributeEnriched
	}
	dst, b := grow(dst, w.Size())
	startEntry(b, KindWrapper, attributes)
	i := putUvarint(b, entryHeader, uint64(w.Count))
	i = putUvarint(b, i, w.span())
	if w.Enriched {
		i = putUvarint(b, i, uint64(len(w.Tags)))
		i += copy(b[i:], w.Tags)
	}
	copy(b[i:], w.Payload)
	finishBody(b)
	return dst
}

// parseWrapper reads what precedes the payload of a wrapper body.
func (e *Entry) parseWrapper(body []byte) error {
	count, i := uvarint(body, 0)
	span, i := uvarint(body, i)
	if e.Enriched {
		var tags uint64
		if tags, i = uvarint(body, i); i >= 0 {
			if tags > uint64(len(body)-i) {
				return damaged("wrapper entry with %d bytes of tags", tags)
			}
			if tags > 0 {
				e.Tags = Tags(body[i : i+int(tags) : i+int(tags)])
			}
			i += int(tags)
		}
	}
	if i < 0 {
		return damaged("wrapper entry with a broken header")
	}
	e.First = -1
	if count > 0 {
		if count > math.MaxInt32 || span < count-1 || span > uint64(e.Last) {
			return damaged("wrapper entry of %d messages over %d offsets ends at %d", count, span, e.Last)
		}
		e.First = e.Last - int64(span)
	} else if span > 0 {
		return damaged("wrapper entry of unknown messages over %d offsets", span)
	}
	if e.Enriched && count == 0 {
		return damaged("enriched wrapper entry of unknown messages")
	}
	e.Count = int(count)
	e.KeyValueBytes = len(body) - i + e.Tags.wireGrowth()
	e.body = body[i:]
	e.setMax(e.Timestamp, e.Last)
	return nil
}
