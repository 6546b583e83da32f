package keys

import "encoding/binary"

// dueSize is the length of a due key.
const dueSize = 1 + 8 + 4 + 4

// AppendDue appends the key that says partition p wants maintenance at a time in
// milliseconds, which must not be negative. The space is in order of time: what
// is due is a prefix of it.
func AppendDue(dst []byte, at int64, p Partition) []byte {
	dst = append(dst, spaceDue)
	dst = binary.BigEndian.AppendUint64(dst, uint64(at))
	dst = binary.BigEndian.AppendUint32(dst, p.Topic)
	return binary.BigEndian.AppendUint32(dst, uint32(p.Number))
}

// DecodeDue takes a key of AppendDue apart. The error is an ErrMalformed.
func DecodeDue(key []byte) (at int64, p Partition, err error) {
	if len(key) != dueSize || key[0] != spaceDue {
		return 0, Partition{}, malformed("due", key)
	}
	at = int64(binary.BigEndian.Uint64(key[1:]))
	if at < 0 {
		return 0, Partition{}, malformed("due", key)
	}
	return at, readPartition(key[9:]), nil
}

// DueRange returns what is due at or before a time in milliseconds.
func DueRange(now int64) Range {
	if now < 0 {
		return Range{Start: []byte{spaceDue}, End: []byte{spaceDue}}
	}
	end := binary.BigEndian.AppendUint64([]byte{spaceDue}, uint64(now)+1)
	return Range{Start: []byte{spaceDue}, End: end}
}
