package codec

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/cairnlog/cairn/keys"
)

// Kind is the first byte of a stored entry and says how its body is laid out.
type Kind uint8

// The kinds of entries. Kind byte 3 is an IndexRow, which is not an entry.
const (
	// KindPlain is one or more messages of one append, packed.
	KindPlain Kind = 1
	// KindWrapper is one compressed message set, its bytes as they came.
	KindWrapper Kind = 2
)

// String returns plain or wrapper.
func (k Kind) String() string {
	switch k {
	case KindPlain:
		return "plain"
	case KindWrapper:
		return "wrapper"
	default:
		return fmt.Sprintf("kind %d", uint8(k))
	}
}

// Where the fields of an entry are; the package comment draws them.
const (
	kindAt       = 0
	attributesAt = 1
	timestampAt  = 2
	clockAt      = 10
	entryHeader  = 18
	horizonSize  = 8 // behind the header of an entry that has a delete horizon
	checksumSize = 4
)

// EntryOverhead is what an entry without a delete horizon costs beside its body.
const EntryOverhead = entryHeader + checksumSize

// The attribute bits of an entry. An entry that sets one without meaning for its
// kind was written by a newer version and is refused.
const (
	attributeCompression = 0x07
	attributeLogAppend   = 0x08
	attributeMagic0      = 0x10
	attributeGaps        = 0x20
	attributeHorizon     = 0x40
	attributeEnriched    = 0x80
	// attributeControl, of a plain enriched entry, is 0 or the type of its one
	// control message less controlBase.
	attributeControl = 0x07
	controlBase      = 7
)

// headerSize returns where the body of an entry begins.
func headerSize(attributes byte) int {
	if attributes&attributeHorizon != 0 {
		return entryHeader + horizonSize
	}
	return entryHeader
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Entry is what one key of the log stores: the description of one or more
// messages with consecutive places in the log. A Cursor yields the messages.
//
// ParseEntry makes entries; the zero Entry holds nothing and cannot be read. It
// aliases the value it was parsed from and is valid as long as that is.
type Entry struct {
	Kind        Kind
	Compression Compression // None unless a wrapper
	Magic       int8        // the message format on the wire, 0 or 1
	// Enriched says that the messages are of the enriched format, which is not
	// magic 1 though it says so (SPEC C2).
	Enriched bool
	// Control is the type of the entry's one message if that is a control message,
	// which no consumer sees (SPEC 10.7); 0 otherwise.
	Control ControlType
	// TimestampType is that of every message: NoTimestampType for magic 0.
	TimestampType TimestampType
	// Timestamp is the first message's in a plain entry and the wrapper's own
	// in a wrapper; with LogAppendTime it is every message's.
	Timestamp Timestamp
	// Clock is the leader's clock at the append, whatever the messages say.
	Clock Timestamp
	// Horizon is the delete horizon of the entry's tombstones: when compaction may
	// drop them (SPEC 9.7). NoTimestamp until compaction has set it.
	Horizon Timestamp
	// First is the offset of the first message, -1 where a wrapper's is unknown.
	First int64
	// Last is the offset of the last message, which the entry's key holds.
	Last int64
	// Count is the number of messages, 0 where a wrapper's is unknown.
	Count int
	// MaxTimestamp is what the entry adds to the time index, at MaxOffset. In a
	// plain entry that is the first message with the largest timestamp, with
	// LogAppendTime simply the first message; in a wrapper it is the wrapper's
	// timestamp at the last offset (SPEC 2.7). NoTimestamp and -1 when no
	// message has a timestamp.
	MaxTimestamp Timestamp
	MaxOffset    int64
	// KeyValueBytes is the length of all keys and values together, in a wrapper
	// that of the compressed payload. What the tags of the enriched format take
	// beside the two lengths that every frame has is in it.
	KeyValueBytes int
	// Tags are a wrapper's own, in the enriched format.
	Tags Tags

	gaps bool
	body []byte // plain: the packed messages; wrapper: the payload
}

// WireSize returns the bytes of the entry's frames as the wire carries them: v1
// frames, v0 frames for magic 0, enriched ones with their receipt time.
func (e *Entry) WireSize() int {
	frames := 1
	if e.Kind == KindPlain {
		frames = e.Count
	}
	return frames*e.frameOverhead() + e.KeyValueBytes
}

// FrameSize returns the bytes of one message of a plain entry as a frame.
func (e *Entry) FrameSize(m *Message) int {
	return e.frameOverhead() + len(m.Key) + len(m.Value) + m.Tags.wireGrowth()
}

// PayloadBytes returns the length of a wrapper's payload.
func (e *Entry) PayloadBytes() int { return e.KeyValueBytes - e.Tags.wireGrowth() }

func (e *Entry) frameOverhead() int {
	if e.Enriched && e.Control == 0 {
		return enrichedOverhead
	}
	return frameOverhead(e.Magic)
}

// frameOverhead returns what one frame costs beside its key and value.
func frameOverhead(magic int8) int { return frameHeader + messageFixedSize(magic) }

// enrichedOverhead is frameOverhead of the enriched format with the one tag that
// every message in the log has, the receipt time. Without it a frame is as large
// as that of v1 (SPEC 10.2).
const enrichedOverhead = MessageOverhead + receiptTagSize

// Stamp is what the leader decides about an entry after its body is encoded.
type Stamp struct {
	// Timestamp is the first message's in a plain entry, the wrapper's in a
	// wrapper; the append's clock where LogAppend is set. Ignored for magic 0.
	Timestamp Timestamp
	// Clock is the leader's clock at the append.
	Clock Timestamp
	// LogAppend gives every message Timestamp, with LogAppendTime. Ignored for
	// magic 0, which has no timestamps.
	LogAppend bool
}

// Seal finishes an entry of AppendPlain or AppendStoredWrapper in place: it
// writes the stamp and the checksum over body, header and key, without touching
// the body. key is the entry's log key with the offset of its last message. An
// entry is sealed once: sealing a sealed one makes it unreadable.
func Seal(key, value []byte, s Stamp) {
	if value[attributesAt]&attributeMagic0 != 0 {
		s.Timestamp = NoTimestamp
	} else if s.LogAppend {
		value[attributesAt] |= attributeLogAppend
	}
	binary.BigEndian.PutUint64(value[timestampAt:], uint64(s.Timestamp))
	binary.BigEndian.PutUint64(value[clockAt:], uint64(s.Clock))
	body := binary.BigEndian.Uint32(value[len(value)-checksumSize:])
	finishChecksum(key, value, body)
}

// startEntry writes the header of an unsealed entry, and finishBody the checksum
// of the body alone, for Seal to go on from.
func startEntry(value []byte, kind Kind, attributes byte) {
	clear(value[:entryHeader])
	value[kindAt] = byte(kind)
	value[attributesAt] = attributes
}

func finishBody(value []byte) {
	end := len(value) - checksumSize
	binary.BigEndian.PutUint32(value[end:], crc32.Checksum(value[entryHeader:end], castagnoli))
}

func finishChecksum(key, value []byte, body uint32) {
	binary.BigEndian.PutUint32(value[len(value)-checksumSize:], sealChecksum(key, value, body))
}

// sealChecksum extends the checksum of an entry's body over its header and key.
func sealChecksum(key, value []byte, body uint32) uint32 {
	sum := crc32.Update(body, castagnoli, value[:headerSize(value[attributesAt])])
	return crc32.Update(sum, castagnoli, key)
}

// ParseEntry reads the entry stored under a log key. It checks the checksum over
// value and key, and everything but the messages themselves, which a Cursor
// checks as it comes to them. The entry aliases value. The error is an
// ErrDamaged.
func ParseEntry(key, value []byte) (Entry, error) {
	_, last, err := keys.DecodeLog(key)
	if err != nil {
		return Entry{}, damaged("%w", err)
	}
	if len(value) < EntryOverhead {
		return Entry{}, damaged("entry of %d bytes", len(value))
	}
	end := len(value) - checksumSize
	header := headerSize(value[attributesAt])
	if header > end {
		return Entry{}, damaged("entry of %d bytes", len(value))
	}
	body := value[header:end:end]
	want := binary.BigEndian.Uint32(value[end:])
	if sum := sealChecksum(key, value, crc32.Checksum(body, castagnoli)); sum != want {
		return Entry{}, damaged("entry checksum is %08x, stored %08x", sum, want)
	}
	e := Entry{Kind: Kind(value[kindAt]), Last: last}
	if err := e.parseFields(value, body); err != nil {
		return Entry{}, err
	}
	return e, nil
}

// parseFields reads everything but the checksum of an entry of a known kind and last
// offset.
func (e *Entry) parseFields(value, body []byte) error {
	e.Clock = Timestamp(binary.BigEndian.Uint64(value[clockAt:]))
	e.Horizon = NoTimestamp
	timestamp := Timestamp(binary.BigEndian.Uint64(value[timestampAt:]))
	if err := e.setAttributes(value[attributesAt], timestamp); err != nil {
		return err
	}
	if value[attributesAt]&attributeHorizon != 0 {
		if e.Horizon = horizonOf(value); e.Horizon < 0 {
			return damaged("delete horizon %d", int64(e.Horizon))
		}
	}
	if e.Kind == KindPlain {
		return e.parsePlain(body)
	}
	return e.parseWrapper(body)
}

// setAttributes takes the attribute byte apart and refuses bits this version
// does not know or that contradict each other or the kind.
func (e *Entry) setAttributes(attributes byte, timestamp Timestamp) error {
	var allowed byte
	e.Compression = Compression(attributes & attributeCompression)
	switch e.Kind {
	case KindPlain:
		allowed = attributeLogAppend | attributeMagic0 | attributeGaps | attributeHorizon | attributeEnriched
		if e.Enriched = attributes&attributeEnriched != 0; e.Enriched {
			allowed |= attributeControl
			if control := attributes & attributeControl; control != 0 {
				e.Control = ControlType(control + controlBase)
			}
		}
		e.Compression = None
	case KindWrapper:
		allowed = attributeCompression | attributeLogAppend | attributeMagic0 | attributeHorizon | attributeEnriched
		e.Enriched = attributes&attributeEnriched != 0
		if e.Compression == None || e.Compression > LZ4 {
			return damaged("unknown compression %d of a wrapper", e.Compression)
		}
	default:
		return damaged("unknown entry kind %d", uint8(e.Kind))
	}
	if attributes&^allowed != 0 {
		return damaged("unknown attribute bits %#02x of a %s entry", attributes&^allowed, e.Kind)
	}
	if e.Control > lastControl {
		return damaged("unknown control type %d", e.Control)
	}
	if e.Enriched && attributes&(attributeMagic0|attributeLogAppend) != attributeLogAppend {
		return damaged("an enriched entry without a receipt time")
	}
	e.gaps = attributes&attributeGaps != 0
	switch attributes & (attributeLogAppend | attributeMagic0) {
	case 0:
		e.Magic, e.Timestamp, e.TimestampType = 1, timestamp, CreateTime
	case attributeLogAppend:
		e.Magic, e.Timestamp, e.TimestampType = 1, timestamp, LogAppendTime
	case attributeMagic0:
		e.Magic, e.Timestamp, e.TimestampType = 0, NoTimestamp, NoTimestampType
	default:
		return damaged("unknown attribute: a timestamp type on magic 0")
	}
	return nil
}

// setMax sets the entry's time-index candidate; a negative timestamp is none.
func (e *Entry) setMax(ts Timestamp, offset int64) {
	if ts < 0 {
		ts, offset = NoTimestamp, -1
	}
	e.MaxTimestamp, e.MaxOffset = ts, offset
}

// damaged returns an ErrDamaged with detail.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}
