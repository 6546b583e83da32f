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
}

// Size returns the exact length of what AppendStoredWrapper appends for w.
func (w StoredWrapper) Size() int {
	return EntryOverhead + uvarintSize(uint64(w.Count)) + uvarintSize(w.span()) + len(w.Payload)
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
	dst, b := grow(dst, w.Size())
	startEntry(b, KindWrapper, attributes)
	i := putUvarint(b, entryHeader, uint64(w.Count))
	i = putUvarint(b, i, w.span())
	copy(b[i:], w.Payload)
	finishBody(b)
	return dst
}

// parseWrapper reads what precedes the payload of a wrapper body.
func (e *Entry) parseWrapper(body []byte) error {
	count, i := uvarint(body, 0)
	span, i := uvarint(body, i)
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
	e.Count = int(count)
	e.KeyValueBytes = len(body) - i
	e.body = body[i:]
	e.setMax(e.Timestamp, e.Last)
	return nil
}
