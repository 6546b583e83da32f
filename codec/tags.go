package codec

import (
	"encoding/binary"
	"iter"
	"math"
	"unicode/utf8"
	"unsafe"
)

// TagID names a Kafka tag of the enriched format. The id fixes the width of the
// value, so a reader can go past the ids it knows, and no further (SPEC C28).
type TagID int8

// The Kafka tags (SPEC 10.3). Ids up to 31 are for all messages, 32 to 63 for
// compressed ones, 64 to 95 for control messages.
const (
	// TagReceiptTime is kafka_timestamp, i64: the clock of the log that took the
	// message in, in milliseconds. Every log sets its own.
	TagReceiptTime TagID = 0
	// TagSentTime, i64: the producer's clock in milliseconds.
	TagSentTime TagID = 1
	// TagTransaction, i64: the transaction a message belongs to.
	TagTransaction TagID = 2
	// TagNumMessages, i32: how many messages a wrapper holds.
	TagNumMessages TagID = 32
	// TagPositional, i8: 1 if the offsets inside a wrapper are to be ignored and
	// its i-th message has the i-th offset from its start on.
	TagPositional TagID = 33
)

// width returns the bytes of a tag's value, false for an id that is not known.
func (id TagID) width() (int, bool) {
	switch id {
	case TagReceiptTime, TagSentTime, TagTransaction:
		return 8, true
	case TagNumMessages:
		return 4, true
	case TagPositional:
		return 1, true
	default:
		return 0, false
	}
}

// receiptTagSize is the tag of the receipt time: id and value.
const receiptTagSize = 1 + 8

// tagLengths are the two length fields of a message's tags.
const tagLengths = 4 + 4

// Tags are the Kafka tags and the app tags of a message in the enriched format,
// as the wire carries them: the length and the bytes of the one block, then of the
// other. Nil are no tags. Bytes from outside are checked before they become Tags,
// and the methods take their form for granted; NewTags makes them.
//
// The receipt time of a message in a log is the message's Timestamp and not among
// its Tags; that of a message inside a wrapper, its producer's, may be.
type Tags []byte

// AppTag is a pair that an application gives a message. The log never looks at it
// (SPEC 10.5). Keys may repeat.
type AppTag struct {
	Key string
	// Value is empty where Null.
	Value string
	Null  bool
}

// wireGrowth returns what the tags add to a frame beside the two lengths that
// every frame has.
func (t Tags) wireGrowth() int { return max(len(t)-tagLengths, 0) }

// blocks returns the bytes of the Kafka tags and of the app tags.
func (t Tags) blocks() (kafka, app []byte) {
	if len(t) < tagLengths {
		return nil, nil
	}
	n := max(int(int32(binary.BigEndian.Uint32(t))), 0)
	if n > len(t)-tagLengths { // not checked
		return nil, nil
	}
	return t[4 : 4+n : 4+n], t[tagLengths+n : len(t) : len(t)]
}

// get returns the value of a Kafka tag.
func (t Tags) get(id TagID) (value int64, ok bool) {
	kafka, _ := t.blocks()
	for len(kafka) > 0 {
		found := TagID(kafka[0])
		width, known := found.width()
		if !known || width >= len(kafka) {
			return 0, false
		}
		if found == id {
			return tagValue(kafka[1 : 1+width]), true
		}
		kafka = kafka[1+width:]
	}
	return 0, false
}

func tagValue(b []byte) int64 {
	switch len(b) {
	case 8:
		return int64(binary.BigEndian.Uint64(b))
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b)))
	default:
		return int64(int8(b[0]))
	}
}

// SentTime returns the producer's clock, NoTimestamp if it is not there.
func (t Tags) SentTime() Timestamp { return t.timestamp(TagSentTime) }

// ReceiptTime returns kafka_timestamp where the tags hold one, else NoTimestamp: in
// frames on the wire, not in messages read from a log, whose Timestamp it is.
func (t Tags) ReceiptTime() Timestamp { return t.timestamp(TagReceiptTime) }

func (t Tags) timestamp(id TagID) Timestamp {
	if ms, ok := t.get(id); ok {
		return Timestamp(ms)
	}
	return NoTimestamp
}

// Transaction returns the transaction the message belongs to; false if to none.
func (t Tags) Transaction() (id int64, ok bool) { return t.get(TagTransaction) }

// NumMessages returns what a wrapper says it holds; false if it does not.
func (t Tags) NumMessages() (n int, ok bool) {
	v, ok := t.get(TagNumMessages)
	return int(v), ok
}

// Positional reports whether the offsets inside the wrapper are to be ignored
// (SPEC 10.6, C22).
func (t Tags) Positional() bool {
	v, _ := t.get(TagPositional)
	return v == 1
}

// App yields the app tags in their order. The strings alias the tags' bytes and
// are valid as long as those of the message are; strings.Clone keeps one.
func (t Tags) App() iter.Seq[AppTag] {
	return func(yield func(AppTag) bool) {
		_, app := t.blocks()
		for len(app) > 0 {
			var tag AppTag
			tag, app = nextAppTag(app)
			if !yield(tag) {
				return
			}
		}
	}
}

// AppValue returns the value of the first app tag with a key.
func (t Tags) AppValue(key string) (value string, ok bool) {
	for tag := range t.App() {
		if tag.Key == key {
			return tag.Value, true
		}
	}
	return "", false
}

// nextAppTag takes the first app tag off a checked block.
func nextAppTag(app []byte) (tag AppTag, rest []byte) {
	key, rest, _ := cutBytes(app)
	value, rest, _ := cutBytes(rest)
	return AppTag{aliased(key), aliased(value), value == nil}, rest
}

// aliased returns a string of b's memory. Bytes of messages never change.
func aliased(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// cutTags splits b after the two tag blocks at its head and checks both. A length
// of 0 is as empty as -1 (SPEC 10.2). The error is an *Error with
// CodeCorruptMessage.
func cutTags(b []byte) (tags Tags, rest []byte, err error) {
	kafka, rest, ok := cutBytes(b)
	if !ok {
		return nil, nil, Errorf(CodeCorruptMessage, "length of the kafka tags does not fit the message")
	}
	app, rest, ok := cutBytes(rest)
	if !ok {
		return nil, nil, Errorf(CodeCorruptMessage, "length of the app tags does not fit the message")
	}
	if err := checkKafkaTags(kafka); err != nil {
		return nil, nil, err
	}
	if err := checkAppTags(app); err != nil {
		return nil, nil, err
	}
	if n := len(b) - len(rest); n > tagLengths {
		tags = Tags(b[:n:n])
	}
	return tags, rest, nil
}

// checkKafkaTags checks everything up to the first unknown id; what follows is an
// opaque tail (SPEC C28). A duplicate, a negative id and a value cut short are
// refused (SPEC 10.3).
func checkKafkaTags(kafka []byte) error {
	var seen [2]uint64
	for len(kafka) > 0 {
		id := TagID(kafka[0])
		if id < 0 {
			return Errorf(CodeCorruptMessage, "kafka tag id %d", id)
		}
		width, known := id.width()
		if !known {
			return nil
		}
		if len(kafka) < 1+width {
			return Errorf(CodeCorruptMessage, "kafka tag %d is cut short", id)
		}
		bit := uint64(1) << (id % 64)
		if seen[id/64]&bit != 0 {
			return Errorf(CodeCorruptMessage, "kafka tag %d occurs twice", id)
		}
		seen[id/64] |= bit
		if err := checkTagValue(id, tagValue(kafka[1:1+width])); err != nil {
			return err
		}
		kafka = kafka[1+width:]
	}
	return nil
}

func checkTagValue(id TagID, v int64) error {
	switch {
	case (id == TagReceiptTime || id == TagSentTime) && v < int64(NoTimestamp):
		return Errorf(CodeInvalidTimestamp, "negative timestamp %d in kafka tag %d", v, id)
	case id == TagNumMessages && v < 0, id == TagPositional && v != 0 && v != 1:
		return Errorf(CodeCorruptMessage, "kafka tag %d is %d", id, v)
	}
	return nil
}

// checkAppTags checks lengths, and that keys are UTF-8 (SPEC 10.2.1).
func checkAppTags(app []byte) error {
	for len(app) > 0 {
		key, rest, ok := cutBytes(app)
		if !ok || key == nil || !utf8.Valid(key) {
			return Errorf(CodeCorruptMessage, "key of an app tag is malformed")
		}
		if _, rest, ok = cutBytes(rest); !ok {
			return Errorf(CodeCorruptMessage, "value of an app tag is malformed")
		}
		app = rest
	}
	return nil
}

// Seconds returns the 32-bit view of KIP drafts that count in seconds: rounded
// down, -1 for NoTimestamp. The error is an *Error with CodeInvalidTimestamp from
// 2038-01-19 on (SPEC C5).
func (t Timestamp) Seconds() (int32, error) {
	if t == NoTimestamp {
		return -1, nil
	}
	if t < 0 || t/1000 > math.MaxInt32 {
		return 0, Errorf(CodeInvalidTimestamp, "timestamp %d has no 32-bit seconds", int64(t))
	}
	return int32(t / 1000), nil
}

// Check returns what is wrong with tags whose bytes come from outside, an *Error
// with CodeCorruptMessage or CodeInvalidTimestamp.
func (t Tags) Check() error {
	if t == nil {
		return nil
	}
	_, rest, err := cutTags(t)
	if err == nil && len(rest) > 0 {
		err = Errorf(CodeCorruptMessage, "%d bytes behind the tags", len(rest))
	}
	return err
}
