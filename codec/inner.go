package codec

import "encoding/binary"

// InnerContext is what a wrapper says about its inner messages.
type InnerContext struct {
	// Magic is the wrapper's; it decides the offset arithmetic, whatever the
	// inner messages say (SPEC 1.3.21).
	Magic int8
	// Last is the wrapper's offset: that of its last message.
	Last int64
	// LogAppend gives every message Timestamp and LogAppendTime (SPEC 4.3).
	LogAppend bool
	Timestamp Timestamp
}

// InnerReader reads the messages of an inflated wrapper payload as a consumer
// sees them, without allocating. The zero InnerReader holds nothing; Reset
// prepares it. It is not safe for concurrent use.
type InnerReader struct {
	rest    []byte
	wrapper InnerContext
	base    int64 // what inner offsets are relative to; Invariant: >= 0 unless err is set
	err     error
}

// Reset makes r read inflated from its start. The bytes must stay as they are as
// long as messages of r are in use.
func (r *InnerReader) Reset(inflated []byte, wrapper InnerContext) {
	*r = InnerReader{rest: inflated, wrapper: wrapper}
	last, count, err := lastOffset(inflated)
	if err != nil {
		r.err = err
		return
	}
	if count == 0 {
		r.err = Errorf(CodeCorruptMessage, "wrapper holds no message")
		return
	}
	if wrapper.Magic == 0 {
		return
	}
	r.base = wrapper.Last - last
	if wrapper.Last == 0 && last > 0 {
		r.base = 0 // old librdkafka: offsets were never assigned (SPEC 1.3.17)
	}
	if wrapper.Last < 0 || last < 0 || r.base < 0 {
		r.err = Errorf(CodeCorruptMessage, "wrapper offset %d is below its last inner offset %d", wrapper.Last, last)
	}
}

// lastOffset returns the offset field of the last whole frame of set, and how
// many there are.
func lastOffset(set []byte) (last int64, count int, err error) {
	for {
		n, err := FrameSize(set)
		if n == 0 || err != nil {
			return last, count, err
		}
		last = int64(binary.BigEndian.Uint64(set))
		count++
		set = set[n:]
	}
}

// Next fills m with the next message, its Key and Value aliasing the inflated
// bytes, and reports whether there was one. Offsets are absolute. An inner
// message cut short ends the set (SPEC 1.3.22). Inner CRCs are checked; errors
// are an *Error with CodeCorruptMessage, and repeat.
func (r *InnerReader) Next(m *Message) (bool, error) {
	if r.err != nil {
		return false, r.err
	}
	ok, err := r.next(m)
	if err != nil {
		r.err = err
	}
	return ok, err
}

func (r *InnerReader) next(m *Message) (bool, error) {
	n, err := FrameSize(r.rest)
	if n == 0 || err != nil {
		return false, err
	}
	f := Frame{Offset: int64(binary.BigEndian.Uint64(r.rest))}
	if _, err := f.decode(r.rest[frameHeader:n]); err != nil {
		return false, err
	}
	if f.Compression != None {
		return false, nestedCompression(f.Compression)
	}
	if r.wrapper.Magic != 0 {
		relative := f.Offset
		if f.Offset += r.base; relative < 0 || f.Offset < 0 { // the second: overflow
			return false, Errorf(CodeCorruptMessage, "inner offset %d does not fit a base of %d", relative, r.base)
		}
	}
	r.rest = r.rest[n:]
	f.message(m)
	if r.wrapper.LogAppend {
		m.Timestamp, m.TimestampType = r.wrapper.Timestamp, LogAppendTime
	} else if f.Magic != 0 {
		m.TimestampType = CreateTime // the inner type bit means nothing (SPEC 1.2.9)
	}
	return true, nil
}

func nestedCompression(c Compression) *Error {
	return Errorf(CodeCorruptMessage, "%s message inside a wrapper", c)
}

// message fills m with f's fields.
func (f *Frame) message(m *Message) {
	*m = Message{
		Offset: f.Offset, Timestamp: f.Timestamp, TimestampType: f.TimestampType,
		Key: f.Key, Value: f.Value,
	}
}
