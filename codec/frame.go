package codec

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
)

// The layout that the package comment draws.
const (
	frameHeader    = 12 // offset and size
	messageMinSize = 14 // a v0 message without key and value; the minimum of every size field
	messageV1Size  = 22 // the same for v1

	messageMagicAt      = 4
	messageAttributesAt = 5
	messageBodyAt       = 6 // the timestamp of v1, the key length of v0

	messageCompressionBits = 0x07
	messageLogAppendBit    = 0x08
)

// Frame is one shallow message of a set: a plain message, or a wrapper whose
// Value is a compressed set. Key and Value alias the bytes the frame was read
// from; nil is null.
type Frame struct {
	// Offset is the last inner message's for a wrapper (SPEC C4). Producers put
	// anything here.
	Offset      int64
	Magic       int8 // 0 or 1
	Compression Compression
	// TimestampType is NoTimestampType, and Timestamp NoTimestamp, for magic 0.
	TimestampType TimestampType
	Timestamp     Timestamp
	Key, Value    []byte
}

// WireSize returns the bytes of f in a set.
func (f *Frame) WireSize() int {
	return frameHeader + messageFixedSize(f.Magic) + len(f.Key) + len(f.Value)
}

func messageFixedSize(magic int8) int {
	if magic == 0 {
		return messageMinSize
	}
	return messageV1Size
}

// FrameSize returns the whole size, header included, of the frame at the head of
// set, by its size field alone. It is 0 when set is empty or holds only part of
// the frame (SPEC 1.1.4); the error is an *Error with CodeCorruptMessage when
// the field is below the smallest message.
func FrameSize(set []byte) (int, error) {
	if len(set) < frameHeader {
		return 0, nil
	}
	size := int32(binary.BigEndian.Uint32(set[8:]))
	if size < messageMinSize {
		return 0, Errorf(CodeCorruptMessage, "message size %d is below %d", size, messageMinSize)
	}
	if int64(size) > int64(len(set)-frameHeader) {
		return 0, nil
	}
	return frameHeader + int(size), nil
}

// ReadFrame reads the frame at the head of set and returns the bytes it takes; 0
// and no error for an empty set or a partial frame. It checks size, CRC, magic,
// codec and lengths, not the inside of a wrapper: that is InspectWrapper's. A
// violation is an *Error with CodeCorruptMessage.
//
// Reserved attribute bits are refused here, where frames enter the log: stored
// entries have no place for them. Messages ignores them (SPEC 1.2).
func ReadFrame(set []byte) (f Frame, n int, err error) {
	n, err = FrameSize(set)
	if n == 0 || err != nil {
		return Frame{}, 0, err
	}
	f.Offset = int64(binary.BigEndian.Uint64(set))
	reserved, err := f.decode(set[frameHeader:n])
	if err == nil && reserved != 0 {
		err = reservedBits(reserved)
	}
	if err != nil {
		return Frame{}, 0, err
	}
	return f, n, nil
}

func reservedBits(b byte) *Error {
	return Errorf(CodeCorruptMessage, "reserved attribute bits %#02x are set", b)
}

// decode fills f, but for its offset, from a message of at least messageMinSize
// bytes, and returns the reserved attribute bits that are set.
func (f *Frame) decode(msg []byte) (reserved byte, err error) {
	if sum, want := crc32.ChecksumIEEE(msg[messageMagicAt:]), binary.BigEndian.Uint32(msg); sum != want {
		return 0, Errorf(CodeCorruptMessage, "message crc is %08x, its bytes give %08x", want, sum)
	}
	attributes := msg[messageAttributesAt]
	known := byte(messageCompressionBits)
	rest := msg[messageBodyAt:]
	switch f.Magic = int8(msg[messageMagicAt]); f.Magic {
	case 0:
		f.TimestampType, f.Timestamp = NoTimestampType, NoTimestamp
	case 1:
		if len(msg) < messageV1Size {
			return 0, Errorf(CodeCorruptMessage, "v1 message of %d bytes", len(msg))
		}
		known |= messageLogAppendBit
		f.TimestampType = CreateTime
		if attributes&messageLogAppendBit != 0 {
			f.TimestampType = LogAppendTime
		}
		f.Timestamp = Timestamp(binary.BigEndian.Uint64(rest))
		rest = rest[8:]
	default:
		return 0, Errorf(CodeCorruptMessage, "unknown magic %d", f.Magic)
	}
	f.Compression = Compression(attributes & messageCompressionBits)
	if f.Compression > LZ4 {
		return 0, unknownCodec(f.Compression)
	}
	var ok bool
	if f.Key, rest, ok = cutBytes(rest); !ok {
		return 0, Errorf(CodeCorruptMessage, "key length does not fit the message")
	}
	if f.Value, rest, ok = cutBytes(rest); !ok || len(rest) > 0 {
		return 0, Errorf(CodeCorruptMessage, "value length does not fit the message")
	}
	return attributes &^ known, nil
}

// cutBytes splits b after the length-prefixed bytes at its head; length -1 is
// nil, 0 is empty and not nil. Other negative lengths are refused, where Kafka
// reads null (SPEC 1.2.5).
func cutBytes(b []byte) (field, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := int64(int32(binary.BigEndian.Uint32(b)))
	b = b[4:]
	if n == -1 {
		return nil, b, true
	}
	if n < 0 || n > int64(len(b)) {
		return nil, nil, false
	}
	return b[:n:n], b[n:], true
}

// AppendFrame appends f with its CRC to dst. Key and Value together must be
// shorter than 2 GiB - 22, as the size field is an int32.
func AppendFrame(dst []byte, f *Frame) []byte {
	attributes := byte(f.Compression)
	if f.TimestampType == LogAppendTime {
		attributes |= messageLogAppendBit
	}
	return appendFrame(dst, f.Offset, f.Magic, attributes, f.Timestamp, f.Key, f.Value)
}

// AppendMessageFrame appends m as one uncompressed frame of magic 0 or 1.
// Magic 0 carries no timestamp; the type bit of magic 1 is set for
// LogAppendTime. The limits of AppendFrame hold.
func AppendMessageFrame(dst []byte, m *Message, magic int8) []byte {
	var attributes byte
	if m.TimestampType == LogAppendTime {
		attributes = messageLogAppendBit
	}
	return appendFrame(dst, m.Offset, magic, attributes, m.Timestamp, m.Key, m.Value)
}

func appendFrame(dst []byte, offset int64, magic int8, attributes byte, ts Timestamp, key, value []byte) []byte {
	size := messageFixedSize(magic) + len(key) + len(value)
	if size > math.MaxInt32 {
		panic("codec: message does not fit an int32 size")
	}
	dst = slices.Grow(dst, frameHeader+size)
	dst = binary.BigEndian.AppendUint64(dst, uint64(offset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(size))
	msg := len(dst)
	if magic == 0 {
		dst = append(dst, 0, 0, 0, 0, 0, attributes&messageCompressionBits)
	} else {
		dst = append(dst, 0, 0, 0, 0, byte(magic), attributes)
		dst = binary.BigEndian.AppendUint64(dst, uint64(ts))
	}
	dst = appendBytes(dst, key)
	dst = appendBytes(dst, value)
	binary.BigEndian.PutUint32(dst[msg:], crc32.ChecksumIEEE(dst[msg+messageMagicAt:]))
	return dst
}

// appendBytes is the inverse of cutBytes.
func appendBytes(dst, field []byte) []byte {
	if field == nil {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(field)))
	return append(dst, field...)
}
