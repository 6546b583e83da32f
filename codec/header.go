package codec

import "github.com/cairnlog/cairn/keys"

// HeaderSize returns how many leading bytes of a stored entry ParseHeader needs: of a
// wrapper all but its payload, of any other entry all. A value that is no entry needs
// all too: ParseHeader will say so.
func HeaderSize(value []byte) int {
	if len(value) < EntryOverhead || Kind(value[kindAt]) != KindWrapper {
		return len(value)
	}
	i := headerSize(value[attributesAt])
	if i > len(value) {
		return len(value)
	}
	_, i = uvarint(value, i)
	_, i = uvarint(value, i)
	if i >= 0 && value[attributesAt]&attributeEnriched != 0 {
		var tags uint64
		if tags, i = uvarint(value, i); i >= 0 && tags <= uint64(len(value)-i) {
			return i + int(tags)
		}
	}
	if i < 0 {
		return len(value)
	}
	return i
}

// ParseHeader is ParseEntry for who wants to know what an entry is and what tags it
// has, not what it holds: it looks at no byte of a key, a value or a payload, and so
// cannot check the checksum. value are the first HeaderSize bytes of one of size
// bytes; a wrapper's entry made of them cannot be opened. A Cursor over another yields
// messages whose Key and Value nobody has checked.
func ParseHeader(key, value []byte, size int) (Entry, error) {
	_, last, err := keys.DecodeLog(key)
	if err != nil {
		return Entry{}, damaged("%w", err)
	}
	if size < EntryOverhead || len(value) < entryHeader {
		return Entry{}, damaged("entry of %d bytes", size)
	}
	e := Entry{Kind: Kind(value[kindAt]), Last: last}
	header := headerSize(value[attributesAt])
	end := min(len(value), size-checksumSize)
	if header > end {
		return Entry{}, damaged("entry of %d bytes", size)
	}
	if err := e.parseFields(value, value[header:end:end]); err != nil {
		return Entry{}, err
	}
	if e.Kind == KindWrapper {
		e.KeyValueBytes += size - checksumSize - end
		e.body = nil
	}
	return e, nil
}
