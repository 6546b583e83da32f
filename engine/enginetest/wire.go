package enginetest

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/cairnlog/cairn/codec"
)

// WireFrame is a frame of a produced set, as a client makes it.
type WireFrame struct {
	Magic       int8
	Compression codec.Compression
	Messages    []codec.Message // one without Compression
	// Gaps numbers the inner messages 0, 2, 4: a mirrored compacted topic.
	Gaps bool
	// Offset and Timestamp are what the client writes into a wrapper, Offset also
	// into a plain message. The log must not believe them (SPEC 1.2.8, C21, 2.2.15).
	Offset    int64
	Timestamp codec.Timestamp
}

// messages returns what is in the frame for a topic of a format: messages of
// format 0 have no timestamps, and lose them on the way there.
func (f *WireFrame) messages(magic int8) []codec.Message {
	msgs := append([]codec.Message(nil), f.Messages...)
	if f.Magic == 0 || magic == 0 {
		for i := range msgs {
			msgs[i].Timestamp = codec.NoTimestamp
		}
	}
	return msgs
}

// frame returns the frame as a client sends it.
func (f *WireFrame) frame() codec.Frame {
	c := codec.Frame{Offset: f.Offset, Magic: f.Magic, Compression: f.Compression, TimestampType: codec.CreateTime, Timestamp: f.Timestamp}
	if f.Compression == codec.None {
		m := f.Messages[0]
		c.Timestamp, c.Key, c.Value = m.Timestamp, m.Key, m.Value
	} else {
		c.Value = f.payload()
	}
	if f.Magic == 0 {
		c.TimestampType, c.Timestamp = codec.NoTimestampType, codec.NoTimestamp
	}
	return c
}

// payload returns the compressed inner set.
func (f *WireFrame) payload() []byte {
	inner := append([]codec.Message(nil), f.Messages...)
	for i := range inner {
		inner[i].Offset = int64(i)
		if f.Gaps {
			inner[i].Offset *= 2
		}
	}
	w, _, err := codec.BuildWrapper(nil, f.Compression, f.Magic, inner)
	if err != nil {
		panic(err)
	}
	return w.Value
}

// Encode returns the frame's bytes.
func (f *WireFrame) Encode() []byte {
	c := f.frame()
	return codec.AppendFrame(nil, &c)
}

// EncodeSet returns the bytes of a message set.
func EncodeSet(frames []WireFrame) []byte {
	var set []byte
	for i := range frames {
		set = append(set, frames[i].Encode()...)
	}
	return set
}

// Defect is something wrong with the last frame of a produced set.
type Defect uint8

// The defects.
const (
	Sound            Defect = iota
	TypeBit                 // the producer set the LogAppendTime bit
	BadCRC                  // a bit of the message flipped
	BadSize                 // a size field below the minimum
	PartialTail             // the last byte is missing
	NegativeTime            // a timestamp of -2
	UnknownCodec            // codec bits 5
	UnknownMagic            // magic 2
	ReservedBit             // attribute bit 6
	NullWrapperValue        // a wrapper without a payload
	EmptyWrapper            // a wrapper of no messages
	WrapperKey              // a wrapper with a key
	GarbagePayload          // a payload that is not the codec's
	InnerCRC                // a bit of an inner message flipped
	InnerPartial            // an inner message cut short
	Nested                  // a wrapper inside a wrapper
	InnerMagic              // an inner message of the other magic
	numDefects
)

// Code returns what a log refuses the defect with.
func (d Defect) Code() codec.Code {
	if d == TypeBit || d == NegativeTime {
		return codec.CodeInvalidTimestamp
	}
	return codec.CodeCorruptMessage
}

// Spoil returns the set of frames with a defect in its last frame.
func (d Defect) Spoil(frames []WireFrame) []byte {
	last := frames[len(frames)-1]
	head := EncodeSet(frames[:len(frames)-1])
	if d >= NullWrapperValue {
		return append(head, d.wrapper(&last)...)
	}
	b := last.Encode()
	switch d {
	case TypeBit:
		b[17] |= 8
	case BadCRC:
		b[len(b)-1] ^= 4
		return append(head, b...)
	case BadSize:
		binary.BigEndian.PutUint32(b[8:], 13)
	case PartialTail:
		return append(head, b[:len(b)-1]...)
	case NegativeTime:
		binary.BigEndian.PutUint64(b[18:], ^uint64(1))
	case UnknownCodec:
		b[17] = b[17]&^7 | 5
	case UnknownMagic:
		b[16] = 2
	case ReservedBit:
		b[17] |= 0x40
	}
	binary.BigEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:]))
	return append(head, b...)
}

// Fits reports whether a frame can have the defect.
func (d Defect) Fits(f *WireFrame) bool {
	switch {
	case d >= NullWrapperValue:
		return f.Compression != codec.None
	case d == TypeBit:
		return f.Magic != 0
	case d == NegativeTime:
		return f.Magic != 0 && f.Compression == codec.None
	default:
		return true
	}
}

// wrapper returns f's bytes with a defect inside the wrapper.
func (d Defect) wrapper(f *WireFrame) []byte {
	c := f.frame()
	inner, err := c.Compression.Decompress(nil, c.Value, c.Magic, codec.MaxInflated)
	if err != nil {
		panic(err)
	}
	switch d {
	case NullWrapperValue:
		c.Value = nil
		return codec.AppendFrame(nil, &c)
	case WrapperKey:
		c.Key = []byte("k")
		return codec.AppendFrame(nil, &c)
	case GarbagePayload:
		c.Value = []byte("this is no compressed set of messages")
		return codec.AppendFrame(nil, &c)
	case EmptyWrapper:
		inner = nil
	case InnerCRC:
		inner[len(inner)-1] ^= 1
	case InnerPartial:
		inner = inner[:len(inner)-1]
	case Nested:
		inner = codec.AppendFrame(nil, &c)
	case InnerMagic:
		inner = codec.AppendMessageFrame(nil, &f.Messages[0], 1-f.Magic)
	}
	if c.Value, err = c.Compression.Compress(nil, inner, c.Magic); err != nil {
		panic(err)
	}
	return codec.AppendFrame(nil, &c)
}
