package enginetest

import (
	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// Outcome is what an append or produce should give.
type Outcome struct {
	// Codes are the rules the set violates, as Kafka's error codes; the log may
	// name any of them. Empty: the set is accepted.
	Codes   []codec.Code
	Receipt engine.Receipt
}

// set is a message set on its way into a log.
type set struct {
	settings
	now     codec.Timestamp
	base    int64
	frames  []Frame
	entries int
	codes   []codec.Code
}

func (l *Log) newSet(c engine.TopicConfig, now codec.Timestamp) *set {
	return &set{settings: settingsOf(c), now: now, base: l.End()}
}

func (s *set) refuseIf(violated bool, c codec.Code) {
	if violated {
		s.codes = append(s.codes, c)
	}
}

// Append appends messages as the Go API does (SPEC 2).
func (l *Log) Append(c engine.TopicConfig, now codec.Timestamp, msgs []codec.Message, compression codec.Compression) Outcome {
	s := l.newSet(c, now)
	resolved := make([]codec.Message, len(msgs))
	for i, m := range msgs {
		s.refuseIf(m.TimestampType > codec.CreateTime, codec.CodeInvalidTimestamp)
		if m.Timestamp == 0 && m.TimestampType == codec.TimestampUnset {
			m.Timestamp = max(now, 0)
		}
		s.check(&m)
		resolved[i] = m
	}
	if target := s.target(compression); target == codec.None {
		s.addPlain(resolved)
	} else {
		s.addWrappers(target, resolved)
	}
	return l.finish(s)
}

// Produce appends frames as the wire API does (SPEC 2). They are well formed;
// what is wrong with a set in the wire format is for the caller to know.
func (l *Log) Produce(c engine.TopicConfig, now codec.Timestamp, frames []WireFrame) Outcome {
	s := l.newSet(c, now)
	var run []codec.Message
	flush := func() {
		if target := s.target(codec.None); target == codec.None {
			s.addPlain(run)
		} else {
			s.addWrappers(target, run)
		}
		run = nil
	}
	for i := range frames {
		f := &frames[i]
		s.refuseIf(int64(len(f.Encode())) > s.maxMessage, codec.CodeMessageTooLarge)
		msgs := f.messages(s.magic)
		if f.Compression == codec.None {
			s.check(&msgs[0])
			run = append(run, msgs...)
			continue
		}
		flush()
		s.addWireWrapper(f, msgs)
	}
	flush()
	return l.finish(s)
}

// check applies the rules for one message (SPEC 2.1.1, 2.2.13, 2.4.23).
func (s *set) check(m *codec.Message) {
	s.refuseIf(m.Timestamp < codec.NoTimestamp, codec.CodeInvalidTimestamp)
	s.refuseIf(m.Key == nil && s.compacted, codec.CodeCorruptMessage)
	s.refuseIf(s.plainSize(m) > s.maxMessage, codec.CodeMessageTooLarge)
}

// plainSize returns the bytes of m as a frame of the topic's format.
func (s *set) plainSize(m *codec.Message) int64 {
	f := Frame{Messages: []codec.Message{*m}, Magic: s.magic}
	return f.WireSize()
}

// addWireWrapper stores a produced wrapper as it came or, where a rule asks for
// another form, in that (SPEC 2.5).
func (s *set) addWireWrapper(f *WireFrame, msgs []codec.Message) {
	for i := range msgs {
		s.refuseIf(msgs[i].Timestamp < codec.NoTimestamp, codec.CodeInvalidTimestamp)
		s.refuseIf(msgs[i].Key == nil && s.compacted, codec.CodeCorruptMessage)
	}
	target := s.target(f.Compression)
	switch {
	case target == codec.None:
		for i := range msgs {
			s.check(&msgs[i])
		}
		s.addPlain(msgs)
	case target != f.Compression || f.Magic != s.magic || s.magic == 0 || f.Gaps && len(msgs) > 1:
		s.addWrappers(target, msgs)
	default:
		s.addWrapper(target, f.payload(), msgs)
	}
}

// entryBytes and messageCost are the engine's: where it cuts a run of plain
// messages into entries decides where index rows can be.
const (
	entryBytes  = 16 << 10
	messageCost = 4
)

func (s *set) addPlain(msgs []codec.Message) {
	sum := 0
	for i := range msgs {
		cost := len(msgs[i].Key) + len(msgs[i].Value) + messageCost
		if sum += cost; i == 0 || sum > entryBytes {
			s.entries++
			sum = cost
		}
		m := s.stored(msgs[i])
		s.frames = append(s.frames, Frame{
			Messages: []codec.Message{m}, Magic: s.magic, Timestamp: m.Timestamp,
			LogAppend: m.TimestampType == codec.LogAppendTime, Clock: s.now, entry: s.entries,
		})
	}
}

// addWrappers compresses msgs into wrappers that stay below max.message.bytes. How
// many messages go into one is the engine's affair, and copied here: as many as
// would fit uncompressed, half of them where the codec added to them.
func (s *set) addWrappers(c codec.Compression, msgs []codec.Message) {
	most := len(msgs)
	for len(msgs) > 0 {
		n := s.fitting(msgs[:min(most, len(msgs))])
		w := s.compress(c, msgs[:n])
		if int64(w.WireSize()) > s.maxMessage {
			if n > 1 {
				most = n / 2
				continue
			}
			s.refuseIf(true, codec.CodeMessageTooLarge)
		}
		s.addWrapper(c, w.Value, msgs[:n])
		msgs = msgs[n:]
	}
}

// fitting returns how many of msgs would fit into one frame uncompressed.
func (s *set) fitting(msgs []codec.Message) int {
	sum := int64(34)
	for i := range msgs {
		if sum += s.plainSize(&msgs[i]); sum > s.maxMessage && i > 0 {
			return i
		}
	}
	return len(msgs)
}

// compress makes a wrapper of msgs: relative offsets in format 1, absolute ones in
// format 0 (SPEC 1.3.11-13).
func (s *set) compress(c codec.Compression, msgs []codec.Message) codec.Frame {
	inner := make([]codec.Message, len(msgs))
	for i := range inner {
		inner[i] = codec.Message{Offset: int64(i), Timestamp: msgs[i].Timestamp, Key: msgs[i].Key, Value: msgs[i].Value}
		if s.magic == 0 {
			inner[i].Offset += s.next()
		}
	}
	f, _, err := codec.BuildWrapper(nil, c, s.magic, inner)
	if err != nil {
		panic(err)
	}
	return f
}

func (s *set) addWrapper(c codec.Compression, payload []byte, msgs []codec.Message) {
	s.entries++
	f := Frame{Magic: s.magic, Compression: c, Payload: payload, Timestamp: codec.NoTimestamp, Clock: s.now, entry: s.entries}
	base := s.next()
	for i := range msgs {
		m := s.stored(msgs[i])
		m.Offset = base + int64(i)
		f.Messages = append(f.Messages, m)
		f.inner = append(f.inner, msgs[i].Timestamp)
		f.Timestamp = max(f.Timestamp, m.Timestamp)
		f.LogAppend = m.TimestampType == codec.LogAppendTime
	}
	s.frames = append(s.frames, f)
}

// next returns the offset of the next message of the set.
func (s *set) next() int64 {
	if len(s.frames) == 0 {
		return s.base
	}
	return s.frames[len(s.frames)-1].Last() + 1
}

// stored returns m as the log keeps it at the next offset (SPEC 2.2, 2.3, 4).
func (s *set) stored(m codec.Message) codec.Message {
	m.Offset = s.next()
	switch {
	case s.magic == 0:
		m.Timestamp, m.TimestampType = codec.NoTimestamp, codec.NoTimestampType
	case s.logAppend:
		m.Timestamp, m.TimestampType = max(s.now, 0), codec.LogAppendTime
	default:
		m.TimestampType = codec.CreateTime
	}
	return m
}

// finish applies the rules for the whole set and appends it.
func (l *Log) finish(s *set) Outcome {
	out := Outcome{Receipt: engine.Receipt{Offset: -1, Timestamp: codec.NoTimestamp, LogAppendTime: codec.NoTimestamp}}
	whole := Segment{Base: s.base, Frames: s.frames}
	for _, f := range s.frames {
		for _, m := range f.Messages {
			if m.TimestampType != codec.CreateTime || m.Timestamp < 0 {
				continue
			}
			d := int64(m.Timestamp - max(s.now, 0))
			s.refuseIf(d > s.maxDiffMs || -d > s.maxDiffMs, codec.CodeInvalidTimestamp)
		}
	}
	s.refuseIf(whole.Bytes() > s.segmentBytes, codec.CodeRecordListTooLarge)
	out.Codes = s.codes
	if len(s.codes) > 0 || len(s.frames) == 0 {
		return out
	}
	if l.rollsBefore(s.frames, s.settings, s.now) {
		l.Roll()
	}
	for i := 0; i < len(s.frames); {
		n := i
		for n < len(s.frames) && s.frames[n].entry == s.frames[i].entry {
			n++
		}
		l.active().addEntry(s.frames[i:n], s.interval)
		i = n
	}
	out.Receipt.Offset, out.Receipt.Count = s.base, int(whole.messages())
	out.Receipt.Timestamp, _ = whole.Max()
	if s.logAppend && s.magic != 0 {
		out.Receipt.LogAppendTime = max(s.now, 0)
	}
	return out
}
