package codec

import (
	"strconv"
	"time"
)

// Timestamp is a point in time in milliseconds since the Unix epoch, as Kafka
// messages carry it; NoTimestamp (-1) is a message without one. Zero is a real
// timestamp: the epoch. Negative values other than -1 are never valid in a
// message (SPEC 2.2.13).
type Timestamp int64

// NoTimestamp marks a message that carries no timestamp (SPEC 1.2).
const NoTimestamp Timestamp = -1

// TimestampOf returns t in milliseconds, rounded down.
func TimestampOf(t time.Time) Timestamp { return Timestamp(t.UnixMilli()) }

// Time returns t in UTC; NoTimestamp gives the zero time.Time.
func (t Timestamp) Time() time.Time {
	if t == NoTimestamp {
		return time.Time{}
	}
	return time.UnixMilli(int64(t)).UTC()
}

// String returns the decimal milliseconds, "none" for NoTimestamp.
func (t Timestamp) String() string {
	if t == NoTimestamp {
		return "none"
	}
	return strconv.FormatInt(int64(t), 10)
}

// TimestampType says who set a message's timestamp.
type TimestampType uint8

// The timestamp types. The wire knows CreateTime and LogAppendTime (attribute
// bit 3, SPEC 1.2); v0 messages have NoTimestampType (SPEC 4.4).
const (
	// TimestampUnset is the zero value. On a message given to an append, with
	// Timestamp 0, it asks for the clock of the append; on a message read it
	// never occurs.
	TimestampUnset TimestampType = iota
	// CreateTime is a timestamp chosen by the producer.
	CreateTime
	// LogAppendTime is the leader's clock at the append.
	LogAppendTime
	// NoTimestampType is that of a v0 message, which has no timestamp.
	NoTimestampType
)

// String returns the Kafka name of the type.
func (t TimestampType) String() string {
	switch t {
	case CreateTime:
		return "CreateTime"
	case LogAppendTime:
		return "LogAppendTime"
	case NoTimestampType:
		return "NoTimestampType"
	default:
		return "Unset"
	}
}

// Message is one application-level message.
//
// A nil Key or Value is null, which differs from an empty one: a null value
// under a key is a tombstone for compaction.
type Message struct {
	// Offset is the message's position in its partition; ignored on append.
	Offset int64
	// Timestamp in milliseconds. On append, zero with TimestampUnset means the
	// clock of the append; NoTimestamp means none.
	Timestamp Timestamp
	// TimestampType is set on messages read. On append it may be
	// TimestampUnset or CreateTime; anything else is refused (SPEC 2.4.22).
	TimestampType TimestampType
	Key           []byte
	Value         []byte
	// Tags are the message's in the enriched format; nil are none. Other formats
	// have no place for them: an append to one refuses them.
	Tags Tags
}

// MessageOverhead is what one uncompressed v1 message costs on the wire beside
// its key and value: 12 bytes offset and size, 22 bytes header (SPEC 1.2).
const MessageOverhead = 34

// EnrichedWireSize returns the bytes of m as one uncompressed enriched frame with a
// receipt time.
func (m *Message) EnrichedWireSize() int {
	return enrichedOverhead + m.Tags.wireGrowth() + len(m.Key) + len(m.Value)
}

// WireSize returns the bytes of m as one uncompressed v1 frame.
func (m *Message) WireSize() int { return MessageOverhead + len(m.Key) + len(m.Value) }
