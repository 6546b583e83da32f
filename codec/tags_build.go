package codec

import (
	"encoding/binary"
	"unicode/utf8"
)

// maxTagBytes bounds the tags that NewTags makes: a message's size is an int32.
const maxTagBytes = 1 << 30

// NewTags returns the tags of a message to append: the producer's clock, which
// NoTimestamp leaves out, and app tags in their order. An error is an *Error, for a
// negative time (32) or a key that is not UTF-8 (2). No tags give nil.
func NewTags(sent Timestamp, app ...AppTag) (Tags, error) {
	if sent < NoTimestamp {
		return nil, Errorf(CodeInvalidTimestamp, "negative timestamp %d", int64(sent))
	}
	size := 0
	for i := range app {
		if !utf8.ValidString(app[i].Key) {
			return nil, Errorf(CodeCorruptMessage, "key of app tag %d is not UTF-8", i)
		}
		if app[i].Null && app[i].Value != "" {
			return nil, Errorf(CodeInvalidRequest, "app tag %d is null and has a value", i)
		}
		if size += tagLengths + len(app[i].Key) + len(app[i].Value); size > maxTagBytes {
			return nil, Errorf(CodeMessageTooLarge, "app tags exceed %d bytes", maxTagBytes)
		}
	}
	var kafka []byte
	if sent != NoTimestamp {
		kafka = appendTag(nil, TagSentTime, int64(sent))
	}
	if size == 0 && kafka == nil {
		return nil, nil
	}
	block := make([]byte, 0, size)
	for i := range app {
		block = appendBytes(block, []byte(app[i].Key))
		value := []byte(app[i].Value)
		if app[i].Null {
			value = nil
		}
		block = appendBytes(block, value)
	}
	return appendBlock(appendBlock(nil, kafka), block), nil
}

// appendTag appends one Kafka tag. The id must be known.
func appendTag(dst []byte, id TagID, v int64) []byte {
	dst = append(dst, byte(id))
	switch width, _ := id.width(); width {
	case 8:
		return binary.BigEndian.AppendUint64(dst, uint64(v))
	case 4:
		return binary.BigEndian.AppendUint32(dst, uint32(v))
	default:
		return append(dst, byte(v))
	}
}

// appendBlock appends a tag block; an empty one has the length -1 (SPEC 10.2).
func appendBlock(dst, block []byte) []byte {
	if len(block) == 0 {
		block = nil
	}
	return appendBytes(dst, block)
}

// WithTag returns a copy of t in which a Kafka tag has a value. It keeps its place
// if it is there, and is the first if not: the opaque tail stays the last.
func (t Tags) WithTag(id TagID, v int64) Tags {
	return t.rewrite(id, appendTag(nil, id, v))
}

// Without returns t without a Kafka tag: t itself where that has none.
func (t Tags) Without(id TagID) Tags {
	if _, ok := t.get(id); !ok {
		return t
	}
	return t.rewrite(id, nil)
}

// rewrite copies t with other bytes for one Kafka tag.
func (t Tags) rewrite(id TagID, tag []byte) Tags {
	kafka, app := t.blocks()
	before, after := kafka[:0], kafka
	for rest := kafka; len(rest) > 0; {
		width, known := TagID(rest[0]).width()
		if !known || width >= len(rest) {
			break
		}
		if TagID(rest[0]) == id {
			at := len(kafka) - len(rest)
			before, after = kafka[:at], rest[1+width:]
			break
		}
		rest = rest[1+width:]
	}
	n := len(before) + len(tag) + len(after)
	if n == 0 && len(app) == 0 {
		return nil
	}
	out := make(Tags, 0, tagLengths+n+len(app))
	if n == 0 {
		return appendBlock(appendBlock(out, nil), app)
	}
	out = binary.BigEndian.AppendUint32(out, uint32(n))
	out = append(append(append(out, before...), tag...), after...)
	return appendBlock(out, app)
}

// appendReceived appends the tag blocks of a frame with a receipt time, which
// comes first; NoTimestamp leaves it out. t must not have one.
func appendReceived(dst []byte, t Tags, received Timestamp) []byte {
	kafka, app := t.blocks()
	if received == NoTimestamp {
		return appendBlock(appendBlock(dst, kafka), app)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(receiptTagSize+len(kafka)))
	dst = appendTag(dst, TagReceiptTime, int64(received))
	return appendBlock(append(dst, kafka...), app)
}

// AppendSentTime appends tags that hold nothing but a sent time.
func AppendSentTime(dst []byte, sent Timestamp) []byte {
	dst = binary.BigEndian.AppendUint32(dst, 1+8)
	dst = appendTag(dst, TagSentTime, int64(sent))
	return appendBlock(dst, nil)
}
