package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// Op is one step of a history.
type Op interface {
	// Run runs the step on the DB and the model. The error says that they differ,
	// or that something failed that should not.
	Run(ctx context.Context, s *Store) error
}

// Instant is a timestamp that may depend on the clock of the step.
type Instant struct {
	Kind InstantKind
	N    int64
}

// InstantKind says what an Instant's N means.
type InstantKind uint8

// The kinds.
const (
	Unset InstantKind = iota // the clock of the append is to be taken
	Fixed                    // N
	Near                     // N ms from the clock
)

// Draft is a message to be: small numbers, so that it shrinks and prints well.
type Draft struct {
	Time Instant
	Key  int // -2 null, -1 empty, else the number of a key
	Size int // of the value; -2 null, -1 empty
}

func (d Draft) message(s *Store) codec.Message {
	m := codec.Message{TimestampType: codec.CreateTime}
	switch d.Time.Kind {
	case Unset:
		m.TimestampType = codec.TimestampUnset
	case Fixed:
		m.Timestamp = codec.Timestamp(d.Time.N)
	case Near:
		m.Timestamp = max(0, s.Model.Now+codec.Timestamp(d.Time.N))
	}
	switch {
	case d.Key == -1:
		m.Key = []byte{}
	case d.Key >= 0:
		m.Key = fmt.Appendf(nil, "k%d", d.Key)
	}
	switch {
	case d.Size == -1:
		m.Value = []byte{}
	case d.Size >= 0:
		m.Value = s.value(d.Size)
	}
	return m
}

// value returns n bytes that no other value has, but for very short ones; every
// second one does not compress.
func (s *Store) value(n int) []byte {
	s.sequence++
	v := make([]byte, n)
	rng := rand.New(rand.NewPCG(uint64(s.sequence), 0))
	for i := range v {
		v[i] = byte('a' + s.sequence%26)
		if n%2 == 1 {
			v[i] = byte(rng.Uint32())
		}
	}
	copy(v, fmt.Sprint("v", s.sequence))
	return v
}

func (s *Store) messages(drafts []Draft) []codec.Message {
	msgs := make([]codec.Message, len(drafts))
	for i, d := range drafts {
		msgs[i] = d.message(s)
	}
	return msgs
}

// Append appends one set through the Go API.
type Append struct {
	Log         int
	Drafts      []Draft
	Compression codec.Compression
}

// Run implements Op.
func (o Append) Run(ctx context.Context, s *Store) error {
	p, err := s.at(o.Log)
	if err != nil {
		return err
	}
	msgs := s.messages(o.Drafts)
	next := s.Model.Clone()
	want := next.log(p.n).Append(p.config, next.Now, msgs, o.Compression)
	s.attempt(next)
	got, err := p.AppendSet(ctx, msgs, engine.AppendOptions{Compression: o.Compression})
	if err == nil {
		s.acknowledge(next, s.appendsDurable())
	}
	return judge(got, err, want)
}

// Pipeline submits several sets before it waits for the first.
type Pipeline struct {
	Log         int
	Sets        [][]Draft
	Compression codec.Compression
}

// Run implements Op.
func (o Pipeline) Run(ctx context.Context, s *Store) error {
	type flight struct {
		pending *engine.Pending
		state   *Model
		want    Outcome
	}
	var flights []flight
	for i, drafts := range o.Sets {
		p, err := s.at(o.Log + i)
		if err != nil {
			return err
		}
		msgs := s.messages(drafts)
		next := s.Model.Clone()
		want := next.log(p.n).Append(p.config, next.Now, msgs, o.Compression)
		s.attempt(next)
		pending, err := p.Submit(ctx, msgs, engine.AppendOptions{Compression: o.Compression})
		if err != nil || len(want.Codes) > 0 {
			if err := judge(engine.Receipt{}, err, want); err != nil {
				return err
			}
			continue
		}
		if err := judge(pending.Receipt(), nil, want); err != nil {
			return err
		}
		flights = append(flights, flight{pending, next, want})
	}
	for _, f := range flights {
		got, err := f.pending.Wait(ctx)
		if err == nil {
			s.acknowledge(f.state, s.appendsDurable())
		}
		if err := judge(got, err, f.want); err != nil {
			return err
		}
	}
	return nil
}

// WireDraft is a WireFrame to be.
type WireDraft struct {
	Magic       int8
	Compression codec.Compression
	Drafts      []Draft
	Gaps        bool
	Offset      int64
	Time        Instant
}

// Produce appends one set through the wire API.
type Produce struct {
	Log    int
	Frames []WireDraft
	Defect Defect
}

// Run implements Op.
func (o Produce) Run(ctx context.Context, s *Store) error {
	p, err := s.at(o.Log)
	if err != nil {
		return err
	}
	frames := make([]WireFrame, len(o.Frames))
	for i, d := range o.Frames {
		f := WireFrame{Magic: d.Magic, Compression: d.Compression, Gaps: d.Gaps, Offset: d.Offset}
		f.Timestamp = Draft{Time: d.Time}.message(s).Timestamp
		for _, m := range s.messages(d.Drafts) {
			if m.TimestampType == codec.TimestampUnset { // a client's clock
				m.Timestamp = max(s.Model.Now, 0)
			}
			if c := settingsOf(p.config); c.logAppend || c.magic == 0 { // nothing says whether a timestamp that is not kept may be wrong
				m.Timestamp = max(m.Timestamp, codec.NoTimestamp)
			}
			f.Messages = append(f.Messages, m)
		}
		if f.Compression == codec.None {
			f.Messages = f.Messages[:1]
		}
		frames[i] = f
	}
	next := s.Model.Clone()
	if c := settingsOf(p.config); o.Defect == NegativeTime && (c.logAppend || c.magic == 0) {
		o.Defect = Sound
	}
	if o.Defect != Sound && o.Defect.Fits(&frames[len(frames)-1]) {
		want := next.Clone().log(p.n).Produce(p.config, next.Now, frames) // thrown away: it is refused
		want.Codes = append(want.Codes, o.Defect.Code())
		set := o.Defect.Spoil(frames)
		if size := len(set) - len(EncodeSet(frames[:len(frames)-1])); int64(size) > settingsOf(p.config).maxMessage {
			want.Codes = append(want.Codes, codec.CodeMessageTooLarge)
		}
		got, err := p.Partition.Produce(ctx, set)
		return judge(got, err, want)
	}
	want := next.log(p.n).Produce(p.config, next.Now, frames)
	s.attempt(next)
	set := EncodeSet(frames)
	got, err := p.Partition.Produce(ctx, set)
	if err == nil {
		s.acknowledge(next, s.appendsDurable())
	}
	if string(set) != string(EncodeSet(frames)) {
		return fmt.Errorf("produce changed the caller's buffer")
	}
	return judge(got, err, want)
}
