package codec

// EnrichedInner is what InspectEnriched finds in an enriched wrapper's payload.
type EnrichedInner struct {
	Count   int // at least 1
	NullKey bool
	// Contiguous says that the inner offsets are exactly 0 to Count-1; else the
	// frame is positional in the log that takes it in (SPEC C22).
	Contiguous bool
	Messages   []byte // the inflated set, whole frames only
}

// InspectEnriched inflates and checks an enriched wrapper that a producer sent,
// by the rules of InspectWrapper as far as they apply: type 0 inside, no
// transaction inside, which is the wrapper's to name, and as many messages as
// num_messages says (SPEC S88). buf is scratch as in InspectWrapper.
func InspectEnriched(f *EnrichedFrame, buf []byte) (EnrichedInner, error) {
	c := f.Compression()
	switch {
	case c == None:
		return EnrichedInner{}, Errorf(CodeCorruptMessage, "message is not a wrapper")
	case f.Key != nil:
		return EnrichedInner{}, Errorf(CodeCorruptMessage, "wrapper has a key")
	case f.Value == nil:
		return EnrichedInner{}, Errorf(CodeCorruptMessage, "wrapper has a null value")
	}
	set, err := c.Decompress(buf[:0], f.Value, enrichedMagic, MaxInflated)
	if err != nil {
		return EnrichedInner{}, err
	}
	in := EnrichedInner{Contiguous: true, Messages: set}
	for len(set) > 0 {
		inner, n, err := readInnerEnriched(set)
		if err != nil {
			return EnrichedInner{}, err
		}
		in.Contiguous = in.Contiguous && inner.Offset == int64(in.Count)
		in.NullKey = in.NullKey || inner.Key == nil
		in.Count++
		set = set[n:]
	}
	if in.Count == 0 {
		return EnrichedInner{}, Errorf(CodeCorruptMessage, "wrapper holds no message")
	}
	if n, ok := f.Tags.NumMessages(); ok && n != in.Count {
		return EnrichedInner{}, Errorf(CodeCorruptMessage, "wrapper of %d messages says it has %d", in.Count, n)
	}
	return in, nil
}

// readInnerEnriched reads the frame at the head of a wrapper's inflated set, which
// is not empty.
func readInnerEnriched(set []byte) (EnrichedFrame, int, error) {
	f, n, err := ReadEnrichedFrame(set)
	switch {
	case err != nil:
	case n == 0:
		err = Errorf(CodeCorruptMessage, "wrapper ends in %d bytes of a partial message", len(set))
	case f.Type != 0:
		err = Errorf(CodeCorruptMessage, "message of type %d inside a wrapper", f.Type)
	default:
		if _, ok := f.Tags.Transaction(); ok {
			err = Errorf(CodeCorruptMessage, "message of a transaction inside a wrapper")
		}
	}
	return f, n, err
}

// AppendMessages appends the messages to dst, numbered by their position from
// first on. Key, Value and Tags alias in.Messages.
func (in *EnrichedInner) AppendMessages(dst []Message, first int64) []Message {
	for set := in.Messages; len(set) > 0; first++ {
		f, n, err := readInnerEnriched(set)
		if err != nil {
			panic("codec: EnrichedInner.Messages changed after InspectEnriched checked it")
		}
		dst = append(dst, Message{Offset: first, Timestamp: NoTimestamp, TimestampType: CreateTime, Key: f.Key, Value: f.Value, Tags: f.Tags})
		set = set[n:]
	}
	return dst
}

// enrichedReader reads the messages of an inflated enriched wrapper.
type enrichedReader struct {
	rest       []byte
	next       int64 // offset of the next one of a positional frame
	first      int64
	positional bool
	received   Timestamp
}

// read fills m with the next message and reports whether there was one.
func (r *enrichedReader) read(m *Message) (bool, error) {
	if len(r.rest) == 0 {
		return false, nil
	}
	f, n, err := readInnerEnriched(r.rest)
	if err != nil {
		return false, err
	}
	r.rest = r.rest[n:]
	offset := r.next
	if r.next++; !r.positional {
		offset = r.first + f.Offset
		if f.Offset < 0 || offset < r.first {
			return false, Errorf(CodeCorruptMessage, "inner offset %d does not fit a start of %d", f.Offset, r.first)
		}
	}
	*m = Message{Offset: offset, Timestamp: r.received, TimestampType: LogAppendTime, Key: f.Key, Value: f.Value, Tags: f.Tags}
	return true, nil
}

// BuildEnrichedWrapper compresses msgs, in order of their offsets, into the payload
// of one enriched wrapper, which is appended to dst; the grown dst is returned too.
// Inner offsets are relative to the first message, gaps kept; inner tags are the
// messages', timestamps are not in it. Limits and errors are BuildWrapper's.
func BuildEnrichedWrapper(dst []byte, c Compression, msgs []Message) (payload, grown []byte, err error) {
	if len(msgs) == 0 || c == None || c > LZ4 {
		return nil, dst, Errorf(CodeInvalidRequest, "wrapper of %d messages, compression %s", len(msgs), c)
	}
	start, previous := len(dst), int64(-1)
	set := dst
	for i := range msgs {
		m := &msgs[i]
		f := EnrichedFrame{Offset: m.Offset - msgs[0].Offset, Tags: m.Tags, Key: m.Key, Value: m.Value}
		if f.Offset <= previous {
			return nil, dst, Errorf(CodeInvalidRequest, "offset %d does not follow the one before it", m.Offset)
		}
		previous = f.Offset
		if f.WireSize() > MaxInflated-(len(set)-start) {
			return nil, dst, Errorf(CodeMessageTooLarge, "messages of a wrapper exceed %d bytes", MaxInflated)
		}
		set = AppendEnrichedFrame(set, &f)
	}
	return compressTail(set, start, c, enrichedMagic)
}
