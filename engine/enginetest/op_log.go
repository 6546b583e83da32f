package enginetest

import (
	"context"
	"fmt"

	"github.com/cairnlog/cairn/engine"
)

// Roll begins a new segment.
type Roll struct{ Log int }

// Run implements Op.
func (o Roll) Run(ctx context.Context, s *Store) error {
	p, err := s.at(o.Log)
	if err != nil {
		return err
	}
	durable := len(p.active().Frames) > 0 // rolling an empty segment does nothing, not even a sync
	return s.mutate(durable, func(m *Model) { m.log(p.n).Roll() }, func() error { return p.Partition.Roll(ctx) })
}

// Truncate removes the tail of a log.
type Truncate struct {
	Log int
	To  int // counted round and round from one below the log start to one above the end
}

// Run implements Op.
func (o Truncate) Run(ctx context.Context, s *Store) error {
	p, err := s.at(o.Log)
	if err != nil {
		return err
	}
	to := p.Start - 1 + int64(o.To)%(p.End()-p.Start+3)
	if p.beheaded(to) {
		return nil
	}
	next := s.Model.Clone()
	changed, code := next.log(p.n).Truncate(to)
	s.attempt(next)
	err = p.TruncateTo(ctx, to)
	if err == nil {
		s.acknowledge(next, changed)
	}
	if got := engine.KafkaCode(err); got != code {
		return fmt.Errorf("truncate to %d: %w, want code %d", to, orNone(err), code)
	}
	return s.adopt(next)
}

// beheaded reports whether the segment that holds an offset has lost messages to
// the log start: what it says of itself after a truncation depends on which of its
// two ways the engine counts.
func (l *Log) beheaded(offset int64) bool {
	for _, s := range l.Segments {
		if s.Base <= offset && offset < s.End() && s.Base < l.Start && offset > l.Start {
			return true
		}
	}
	return false
}

// DeleteBefore raises the log start.
type DeleteBefore struct {
	Log int
	At  int // counted round and round from one below the log start to one above the end
}

// Run implements Op.
func (o DeleteBefore) Run(ctx context.Context, s *Store) error {
	p, err := s.at(o.Log)
	if err != nil {
		return err
	}
	at := p.Start - 1 + int64(o.At)%(p.End()-p.Start+3)
	next := s.Model.Clone()
	changed, code := next.log(p.n).DeleteBefore(p.config, at)
	s.attempt(next)
	start, err := p.Partition.DeleteBefore(ctx, at)
	if err == nil {
		s.acknowledge(next, changed)
	}
	if got := engine.KafkaCode(err); got != code {
		return fmt.Errorf("delete before %d: %w, want code %d", at, orNone(err), code)
	}
	if want := next.log(p.n).Start; err == nil && start != want {
		return fmt.Errorf("delete before %d: log start %d, want %d", at, start, want)
	}
	return nil
}

// Reset empties a log and begins it again at an offset.
type Reset struct {
	Log int
	To  int64
}

// Run implements Op.
func (o Reset) Run(ctx context.Context, s *Store) error {
	p, err := s.at(o.Log)
	if err != nil {
		return err
	}
	return s.mutate(true, func(m *Model) { m.log(p.n).Reset(o.To) }, func() error { return p.ResetTo(ctx, o.To) })
}

// Drop deletes a partition.
type Drop struct{ Log int }

// Run implements Op.
func (o Drop) Run(ctx context.Context, s *Store) error {
	p, err := s.at(o.Log)
	if err != nil {
		return err
	}
	return s.mutate(true, func(m *Model) { m.log(p.n).Reset(0) }, func() error { return p.Partition.Drop(ctx) })
}

// Retain applies retention and the idle roll to one log.
type Retain struct{ Log int }

// Run implements Op.
func (o Retain) Run(ctx context.Context, s *Store) error {
	p, err := s.at(o.Log)
	if err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	next := s.Model.Clone()
	want := next.log(p.n).Retain(p.config, next.Now)
	dry, err := p.Partition.Retain(ctx, engine.RetainOptions{DryRun: true})
	if err == nil {
		err = sameRetained(dry, want)
	}
	if err != nil {
		return fmt.Errorf("dry run: %w", err)
	}
	s.attempt(next)
	got, err := p.Partition.Retain(ctx, engine.RetainOptions{})
	if err != nil {
		return err
	}
	s.acknowledge(next, want.Rolled || want.Segments > 0)
	return sameRetained(got, want)
}

// sameRetained compares what can be known without Pebble.
func sameRetained(got, want engine.Retained) error {
	got.StoredBytes, got.DiskBytes = 0, 0
	if got != want {
		return fmt.Errorf("retained %+v, want %+v", got, want)
	}
	return nil
}
