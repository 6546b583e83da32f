package codec

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
)

// ControlType is the type of a control message (SPEC 10.7, C6).
type ControlType uint8

// The control messages.
const (
	ControlLeaderEpoch ControlType = 8
	ControlBegin       ControlType = 9  // a transaction starts
	ControlCommit      ControlType = 10 // it is committed
	ControlAbort       ControlType = 11 // it is aborted

	lastControl = ControlAbort
)

// String returns what the message says.
func (c ControlType) String() string {
	switch c {
	case 0:
		return "none"
	case ControlLeaderEpoch:
		return "leader epoch"
	case ControlBegin:
		return "transaction start"
	case ControlCommit:
		return "transaction commit"
	case ControlAbort:
		return "transaction abort"
	default:
		return "reserved"
	}
}

// The layout of an enriched message (SPEC 10.1). In a set its size stands before
// its offset (SPEC C3).
const (
	enrichedMinSize = 22 // without tags, key and value
	enrichedTagsAt  = 6
	enrichedMagic   = 1
	enrichedType    = 0x0f
)

// EnrichedFrame is one shallow message of an enriched set: a plain message, a
// wrapper whose Value is a compressed enriched set, or a control message. Tags, Key
// and Value alias the bytes it was read from.
type EnrichedFrame struct {
	// Offset is that of the first message of a wrapper (SPEC C4).
	Offset int64
	// Type is 0, a Compression, or a ControlType; others are reserved.
	Type uint8
	// Tags hold every tag, the receipt time among them.
	Tags       Tags
	Key, Value []byte
}

// Compression returns that of a wrapper, None for other frames.
func (f *EnrichedFrame) Compression() Compression {
	if f.Type <= uint8(LZ4) {
		return Compression(f.Type)
	}
	return None
}

// Control returns the type of a control message, 0 for other frames.
func (f *EnrichedFrame) Control() ControlType {
	if c := ControlType(f.Type); c >= ControlLeaderEpoch && c <= lastControl {
		return c
	}
	return 0
}

// WireSize returns the bytes of f in a set.
func (f *EnrichedFrame) WireSize() int {
	return frameHeader + enrichedMinSize + f.Tags.wireGrowth() + len(f.Key) + len(f.Value)
}

// EnrichedFrameSize returns the whole size of the enriched frame at the head of
// set, as FrameSize does for v0 and v1.
func EnrichedFrameSize(set []byte) (int, error) {
	if len(set) < frameHeader {
		return 0, nil
	}
	size := int32(binary.BigEndian.Uint32(set))
	if size < enrichedMinSize {
		return 0, Errorf(CodeCorruptMessage, "enriched message size %d is below %d", size, enrichedMinSize)
	}
	if int64(size) > int64(len(set)-frameHeader) {
		return 0, nil
	}
	return frameHeader + int(size), nil
}

// ReadEnrichedFrame reads the enriched frame at the head of set and returns the
// bytes it takes; 0 and no error for an empty set or a partial frame. It checks
// size, CRC, magic, tags and lengths, not the type nor the inside of a wrapper. A
// violation is an *Error.
//
// Nothing in the bytes tells an enriched set from one of v1 (SPEC C2): the caller
// must know.
func ReadEnrichedFrame(set []byte) (f EnrichedFrame, n int, err error) {
	n, err = EnrichedFrameSize(set)
	if n == 0 || err != nil {
		return EnrichedFrame{}, 0, err
	}
	msg := set[frameHeader:n]
	want := binary.BigEndian.Uint32(msg)
	if sum := crc32.ChecksumIEEE(msg[messageMagicAt:]); sum != want {
		return EnrichedFrame{}, 0, Errorf(CodeCorruptMessage, "message crc is %08x, its bytes give %08x", want, sum)
	}
	f.Offset = int64(binary.BigEndian.Uint64(set[4:]))
	if err := f.decode(msg); err != nil {
		return EnrichedFrame{}, 0, err
	}
	return f, n, nil
}

func (f *EnrichedFrame) decode(msg []byte) error {
	if magic := int8(msg[messageMagicAt]); magic != enrichedMagic {
		return Errorf(CodeCorruptMessage, "unknown magic %d of an enriched message", magic)
	}
	attributes := msg[messageAttributesAt]
	if reserved := attributes &^ enrichedType; reserved != 0 {
		return reservedBits(reserved)
	}
	f.Type = attributes & enrichedType
	tags, rest, err := cutTags(msg[enrichedTagsAt:])
	if err != nil {
		return err
	}
	f.Tags = tags
	var ok bool
	if f.Key, rest, ok = cutBytes(rest); !ok {
		return Errorf(CodeCorruptMessage, "key length does not fit the message")
	}
	if f.Value, rest, ok = cutBytes(rest); !ok || len(rest) > 0 {
		return Errorf(CodeCorruptMessage, "value length does not fit the message")
	}
	return nil
}

// AppendEnrichedFrame appends f with its CRC to dst, its tags as they are.
func AppendEnrichedFrame(dst []byte, f *EnrichedFrame) []byte {
	return appendEnriched(dst, f, NoTimestamp)
}

// appendEnriched appends f with a receipt time in front of its tags, unless that is
// NoTimestamp.
func appendEnriched(dst []byte, f *EnrichedFrame, received Timestamp) []byte {
	size := f.WireSize() - frameHeader
	if received != NoTimestamp {
		size += receiptTagSize
	}
	if size > math.MaxInt32 {
		panic("codec: message does not fit an int32 size")
	}
	dst = slices.Grow(dst, frameHeader+size)
	dst = binary.BigEndian.AppendUint32(dst, uint32(size))
	dst = binary.BigEndian.AppendUint64(dst, uint64(f.Offset))
	msg := len(dst)
	dst = append(dst, 0, 0, 0, 0, enrichedMagic, f.Type&enrichedType)
	dst = appendReceived(dst, f.Tags, received)
	dst = appendBytes(dst, f.Key)
	dst = appendBytes(dst, f.Value)
	binary.BigEndian.PutUint32(dst[msg:], crc32.ChecksumIEEE(dst[msg+messageMagicAt:]))
	return dst
}
