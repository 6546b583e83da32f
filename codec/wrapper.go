package codec

// Inner is what InspectWrapper finds in a wrapper's payload.
type Inner struct {
	Count int // at least 1
	// MinTimestamp and MaxTimestamp are over the timestamps other than -1;
	// NoTimestamp when there is none. MaxTimestamp is what the wrapper's own
	// timestamp becomes under CreateTime (SPEC 2.2.16).
	MinTimestamp, MaxTimestamp Timestamp
	NegativeTimestamp          bool // some timestamp is below -1 (SPEC C18)
	NullKey                    bool // some key is null
	// Contiguous says that the inner offsets are exactly 0 to Count-1; else
	// offsets can only be assigned by compressing anew (SPEC 2.5).
	Contiguous   bool
	LastRelative int64  // the offset field of the last message
	Messages     []byte // the inflated set, whole frames only
}

// InspectWrapper inflates and checks a wrapper that a producer sent: every rule
// of a leader append that needs the inside, but those on timestamps and keys
// that depend on the topic, for which Inner has the facts. The wrapper's own
// offset and timestamp are not looked at (SPEC C21, 2.2.15). buf is scratch: the
// inflated bytes replace its content and Inner.Messages aliases it when its
// capacity is enough, a larger array otherwise. It must not overlap f.Value.
//
// Refused, with CodeCorruptMessage: a frame without compression, a key or a null
// value on the wrapper; a payload its codec does not accept or that inflates
// beyond MaxInflated; linked lz4 blocks, which Java consumers cannot read; no
// inner message; a partial one at the end; an inner size, CRC, magic other than
// the wrapper's, codec, reserved attribute bit or length.
func InspectWrapper(f *Frame, buf []byte) (Inner, error) {
	if f.Compression == None {
		return Inner{}, Errorf(CodeCorruptMessage, "message is not a wrapper")
	}
	if f.Key != nil {
		return Inner{}, Errorf(CodeCorruptMessage, "wrapper has a key")
	}
	if f.Value == nil {
		return Inner{}, Errorf(CodeCorruptMessage, "wrapper has a null value")
	}
	if f.Compression == LZ4 && lz4Linked(f.Value) {
		return Inner{}, Errorf(CodeCorruptMessage, "lz4 blocks are linked")
	}
	set, err := f.Compression.Decompress(buf[:0], f.Value, f.Magic, MaxInflated)
	if err != nil {
		return Inner{}, err
	}
	return inspectSet(set, f.Magic)
}

func inspectSet(set []byte, magic int8) (Inner, error) {
	in := Inner{MinTimestamp: NoTimestamp, MaxTimestamp: NoTimestamp, Contiguous: true, Messages: set}
	for len(set) > 0 {
		f, n, err := ReadFrame(set)
		switch {
		case err != nil:
			return Inner{}, err
		case n == 0:
			return Inner{}, Errorf(CodeCorruptMessage, "wrapper ends in %d bytes of a partial message", len(set))
		case f.Compression != None:
			return Inner{}, nestedCompression(f.Compression)
		case f.Magic != magic:
			return Inner{}, Errorf(CodeCorruptMessage, "message of magic %d inside a wrapper of magic %d", f.Magic, magic)
		}
		in.add(&f)
		set = set[n:]
	}
	if in.Count == 0 {
		return Inner{}, Errorf(CodeCorruptMessage, "wrapper holds no message")
	}
	return in, nil
}

func (in *Inner) add(f *Frame) {
	if f.Offset != int64(in.Count) {
		in.Contiguous = false
	}
	in.Count++
	in.LastRelative = f.Offset
	in.NullKey = in.NullKey || f.Key == nil
	in.NegativeTimestamp = in.NegativeTimestamp || f.Timestamp < NoTimestamp
	if f.Timestamp == NoTimestamp {
		return
	}
	if in.MinTimestamp == NoTimestamp || f.Timestamp < in.MinTimestamp {
		in.MinTimestamp = f.Timestamp
	}
	if in.MaxTimestamp == NoTimestamp || f.Timestamp > in.MaxTimestamp {
		in.MaxTimestamp = f.Timestamp
	}
}

// AppendMessages appends the messages to dst, numbered by their position from
// first on, whatever their own offsets: how a leader renumbers a wrapper that is
// not Contiguous or changes its compression (SPEC C22). Timestamps are the
// messages' own. Key and Value alias in.Messages.
func (in *Inner) AppendMessages(dst []Message, first int64) []Message {
	for set := in.Messages; len(set) > 0; first++ {
		f, n, err := ReadFrame(set)
		if n == 0 || err != nil {
			panic("codec: Inner.Messages changed after InspectWrapper checked it")
		}
		f.Offset = first
		if f.Magic != 0 {
			f.TimestampType = CreateTime // the inner type bit means nothing (SPEC 1.2.9)
		}
		dst = append(dst, Message{})
		f.message(&dst[len(dst)-1])
		set = set[n:]
	}
	return dst
}

// BuildWrapper compresses msgs, in order of their offsets, into one wrapper and
// returns its frame. The frame's offset is the last message's, its timestamp
// the largest (SPEC 2.2.16) with CreateTime, which the caller may change. Inner
// offsets are relative to the first message in magic 1, gaps kept, and absolute
// in magic 0; inner type bits are 0 (SPEC 1.2.9).
//
// The payload is appended to dst, and the grown dst is returned with it: the
// frame's Value aliases that. dst needs room for the uncompressed set as well
// if nothing is to be allocated.
//
// It is an *Error to give no messages, offsets that do not grow, or None; with
// CodeMessageTooLarge, messages that exceed MaxInflated.
func BuildWrapper(dst []byte, c Compression, magic int8, msgs []Message) (Frame, []byte, error) {
	if len(msgs) == 0 || c == None || c > LZ4 {
		return Frame{}, dst, Errorf(CodeInvalidRequest, "wrapper of %d messages, compression %s", len(msgs), c)
	}
	start := len(dst)
	set, maxTimestamp, err := appendInner(dst, magic, msgs)
	if err != nil {
		return Frame{}, dst, err
	}
	payload, set, err := compressTail(set, start, c, magic)
	if err != nil {
		return Frame{}, dst, err
	}
	f := Frame{
		Offset: msgs[len(msgs)-1].Offset, Magic: magic, Compression: c,
		TimestampType: CreateTime, Timestamp: maxTimestamp, Value: payload,
	}
	if magic == 0 {
		f.TimestampType, f.Timestamp = NoTimestampType, NoTimestamp
	}
	return f, set, nil
}

// compressTail compresses what is in set from start on, in place.
func compressTail(set []byte, start int, c Compression, magic int8) (payload, grown []byte, err error) {
	end := len(set)
	set, err = c.Compress(set, set[start:end], magic)
	if err != nil {
		return nil, set, err
	}
	size := copy(set[start:], set[end:]) // over the uncompressed set
	set = set[:start+size]
	return set[start:len(set):len(set)], set, nil
}

// appendInner appends the uncompressed inner set of a wrapper and returns the
// largest timestamp.
func appendInner(dst []byte, magic int8, msgs []Message) ([]byte, Timestamp, error) {
	start, base, previous := len(dst), msgs[0].Offset, int64(-1)
	if magic == 0 {
		base = 0
	}
	maxTimestamp := NoTimestamp
	for i := range msgs {
		m := &msgs[i]
		offset := m.Offset - base
		if offset <= previous {
			return dst, 0, Errorf(CodeInvalidRequest, "offset %d does not follow the one before it", m.Offset)
		}
		previous = offset
		if room := MaxInflated - (len(dst) - start); frameHeader+messageFixedSize(magic)+len(m.Key)+len(m.Value) > room {
			return dst, 0, Errorf(CodeMessageTooLarge, "messages of a wrapper exceed %d bytes", MaxInflated)
		}
		dst = appendFrame(dst, offset, magic, 0, m.Timestamp, m.Key, m.Value)
		maxTimestamp = max(maxTimestamp, m.Timestamp)
	}
	return dst, maxTimestamp, nil
}
