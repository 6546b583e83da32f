package codec

import (
	"encoding/binary"
	"iter"
)

// Messages yields what a consumer sees in a v0/v1 message set (SPEC 4):
// absolute offsets, in the order of the set; inner timestamps, or the wrapper's
// for all of its messages when that has LogAppendTime; no timestamp in v0. A
// partial frame at the end is ignored, and a set that is empty yields nothing.
// Messages of a wrapper before the position that was fetched are included.
//
// Outer and inner CRCs are checked. An error, an *Error with CodeCorruptMessage,
// comes at most once, last, with a zero Message. Key and Value alias the set, or
// an inflated buffer that is never reused: they stay valid. The sequence may be
// ranged over again.
func Messages(set []byte) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		rest := set
		for {
			n, err := FrameSize(rest)
			if err != nil {
				yield(Message{}, err)
				return
			}
			if n == 0 || !yieldFrame(rest[:n], yield) {
				return
			}
			rest = rest[n:]
		}
	}
}

// yieldFrame yields the messages of one whole frame and reports whether to go on.
func yieldFrame(frame []byte, yield func(Message, error) bool) bool {
	f := Frame{Offset: int64(binary.BigEndian.Uint64(frame))}
	if _, err := f.decode(frame[frameHeader:]); err != nil {
		yield(Message{}, err)
		return false
	}
	var m Message
	if f.Compression == None {
		f.message(&m)
		return yield(m, nil)
	}
	if f.Value == nil {
		yield(Message{}, Errorf(CodeCorruptMessage, "wrapper has a null value"))
		return false
	}
	inflated, err := f.Compression.Decompress(nil, f.Value, f.Magic, MaxInflated)
	if err != nil {
		yield(Message{}, err)
		return false
	}
	var r InnerReader
	r.Reset(inflated, InnerContext{
		Magic: f.Magic, Last: f.Offset,
		LogAppend: f.TimestampType == LogAppendTime, Timestamp: f.Timestamp,
	})
	for {
		ok, err := r.Next(&m)
		if err != nil {
			yield(Message{}, err)
			return false
		}
		if !ok {
			return true
		}
		if !yield(m, nil) {
			return false
		}
	}
}
