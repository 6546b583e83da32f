package enginetest

import (
	"slices"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// Model is what a store should hold.
type Model struct {
	Now    codec.Timestamp
	Topics []*Topic
}

// Topic is a topic of a Model.
type Topic struct {
	Name   string
	Config engine.TopicConfig
	Logs   []*Log
}

// Log is a partition of a Model.
type Log struct {
	Topic    string
	Number   int32
	Start    int64      // the first offset that may be read
	Segments []*Segment // never empty; the last is the active one
}

// Segment is a run of a log's frames, those below the log start included: they
// count in what a segment says of itself until it goes as a whole.
type Segment struct {
	Base   int64
	Frames []Frame
	Rows   []Row
	Sealed bool
	// sinceRow is the wire bytes since the last index interval began.
	sinceRow int64
}

// Row is a row of the time index: T at O.
type Row struct {
	Timestamp codec.Timestamp
	Offset    int64
}

// Frame is one shallow message of a log: a plain message or a wrapper.
type Frame struct {
	// Messages are what a consumer sees, one of a plain frame.
	Messages []codec.Message
	Magic    int8
	// Compression and Payload are a wrapper's; None and nil of a plain frame.
	Compression codec.Compression
	Payload     []byte
	// Timestamp is the frame's own, a wrapper's being that of the wrapper.
	Timestamp codec.Timestamp
	LogAppend bool
	// Clock is the leader's at the append.
	Clock codec.Timestamp
	// inner are the timestamps inside a wrapper, which LogAppendTime hides.
	inner []codec.Timestamp
	// entry tells frames apart that the store keeps under different keys.
	entry int
}

// Clone returns a copy that shares nothing that changes.
func (m *Model) Clone() *Model {
	c := &Model{Now: m.Now, Topics: make([]*Topic, len(m.Topics))}
	for i, t := range m.Topics {
		c.Topics[i] = t.clone()
	}
	return c
}

func (t *Topic) clone() *Topic {
	c := &Topic{Name: t.Name, Config: t.Config, Logs: make([]*Log, len(t.Logs))}
	for i, l := range t.Logs {
		c.Logs[i] = &Log{l.Topic, l.Number, l.Start, make([]*Segment, len(l.Segments))}
		for j, s := range l.Segments {
			copied := *s
			copied.Frames = slices.Clone(s.Frames)
			copied.Rows = slices.Clone(s.Rows)
			c.Logs[i].Segments[j] = &copied
		}
	}
	return c
}

// CreateTopic adds a topic with empty logs.
func (m *Model) CreateTopic(name string, config engine.TopicConfig) {
	t := &Topic{Name: name, Config: config}
	for n := range max(1, config.Partitions) {
		t.Logs = append(t.Logs, &Log{Topic: name, Number: n, Segments: []*Segment{{}}})
	}
	m.Topics = append(m.Topics, t)
}

// Close gives every active segment its closing index row (SPEC 5.2.6, S31).
func (m *Model) Close() {
	for _, t := range m.Topics {
		for _, l := range t.Logs {
			l.active().addRow()
		}
	}
}

// End returns the next offset to assign.
func (l *Log) End() int64 { return l.active().End() }

func (l *Log) active() *Segment { return l.Segments[len(l.Segments)-1] }

// Messages returns every message that may be read.
func (l *Log) Messages() []codec.Message {
	var all []codec.Message
	for _, f := range l.frames() {
		for _, m := range f.Messages {
			if m.Offset >= l.Start {
				all = append(all, m)
			}
		}
	}
	return all
}

// frames returns every frame of which something may be read.
func (l *Log) frames() []Frame {
	var all []Frame
	for _, s := range l.Segments {
		for _, f := range s.Frames {
			if f.Last() >= l.Start {
				all = append(all, f)
			}
		}
	}
	return all
}

// First and Last are the offsets of the frame's messages.
func (f *Frame) First() int64 { return f.Messages[0].Offset }

// Last is the offset of the frame: a wrapper's is that of its last message.
func (f *Frame) Last() int64 { return f.Messages[len(f.Messages)-1].Offset }

// Wire returns the frame's bytes in its own format.
func (f *Frame) Wire() []byte {
	if f.Compression == codec.None {
		return codec.AppendMessageFrame(nil, &f.Messages[0], f.Magic)
	}
	c := codec.Frame{
		Offset: f.Last(), Magic: f.Magic, Compression: f.Compression,
		TimestampType: codec.CreateTime, Timestamp: f.Timestamp, Value: f.Payload,
	}
	switch {
	case f.Magic == 0:
		c.TimestampType = codec.NoTimestampType
	case f.LogAppend:
		c.TimestampType = codec.LogAppendTime
	}
	return codec.AppendFrame(nil, &c)
}

// WireSize returns the length of Wire by the sums of SPEC 1.2.
func (f *Frame) WireSize() int64 {
	size := int64(26)
	if f.Magic != 0 {
		size += 8
	}
	if f.Compression != codec.None {
		return size + int64(len(f.Payload))
	}
	return size + int64(len(f.Messages[0].Key)+len(f.Messages[0].Value))
}
