package keys

import (
	"bytes"
	"encoding/binary"
)

// A zero byte inside a group is written escape, escapedZero; its end is written
// escape, terminator. The terminator is the smaller, so that a group sorts before
// every group it is a prefix of.
const (
	escape      = 0x00
	terminator  = 0x01
	escapedZero = 0xff
)

// AppendMeta appends the key of a setting of the whole store.
func AppendMeta(dst []byte, name string) []byte {
	return append(append(dst, spaceMeta), name...)
}

// DecodeMeta takes a key of AppendMeta apart. The error is an ErrMalformed.
func DecodeMeta(key []byte) (name string, err error) {
	if len(key) == 0 || key[0] != spaceMeta {
		return "", malformed("meta", key)
	}
	return string(key[1:]), nil
}

// AppendCatalog appends the key of a topic's row in the catalog.
func AppendCatalog(dst []byte, topic string) []byte {
	return append(append(dst, spaceCatalog), topic...)
}

// DecodeCatalog takes a key of AppendCatalog apart. The error is an ErrMalformed.
func DecodeCatalog(key []byte) (topic string, err error) {
	if len(key) == 0 || key[0] != spaceCatalog {
		return "", malformed("catalog", key)
	}
	return string(key[1:]), nil
}

// AppendOffset appends the key of the offset that a consumer group committed for
// a partition. Groups sort as bytes, whatever bytes they hold.
func AppendOffset(dst []byte, group string, p Partition) []byte {
	dst = appendGroup(dst, group)
	dst = binary.BigEndian.AppendUint32(dst, p.Topic)
	return binary.BigEndian.AppendUint32(dst, uint32(p.Number))
}

// DecodeOffset takes a key of AppendOffset apart. The error is an ErrMalformed.
func DecodeOffset(key []byte) (group string, p Partition, err error) {
	if len(key) == 0 || key[0] != spaceOffsets {
		return "", Partition{}, malformed("offsets", key)
	}
	name, rest, ok := readGroup(key[1:])
	if !ok || len(rest) != partitionSize-1 {
		return "", Partition{}, malformed("offsets", key)
	}
	return string(name), readPartition(rest), nil
}

// appendGroup appends the space of offsets and a whole, terminated group.
func appendGroup(dst []byte, group string) []byte {
	dst = append(dst, spaceOffsets)
	for i := range len(group) {
		dst = append(dst, group[i])
		if group[i] == escape {
			dst = append(dst, escapedZero)
		}
	}
	return append(dst, escape, terminator)
}

// readGroup undoes appendGroup from behind the space byte on.
func readGroup(b []byte) (group, rest []byte, ok bool) {
	for {
		i := bytes.IndexByte(b, escape)
		if i < 0 || i+1 == len(b) {
			return nil, nil, false
		}
		group = append(group, b[:i]...)
		switch b[i+1] {
		case terminator:
			return group, b[i+2:], true
		case escapedZero:
			group = append(group, escape)
		default:
			return nil, nil, false
		}
		b = b[i+2:]
	}
}
