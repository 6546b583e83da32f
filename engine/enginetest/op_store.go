package enginetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// Tick moves the clock, also backwards.
type Tick struct{ By int64 }

// Run implements Op.
func (o Tick) Run(_ context.Context, s *Store) error {
	s.SetClock(max(0, s.Model.Now+codec.Timestamp(o.By)))
	return nil
}

// Alter replaces a topic's settings.
type Alter struct {
	Topic  int
	Config engine.TopicConfig
}

// String shows what differs from the defaults.
func (o Alter) String() string { return fmt.Sprintf("topic %d to %v", o.Topic, o.Config.Settings()) }

// Run implements Op.
func (o Alter) Run(_ context.Context, s *Store) error {
	t := s.Model.Topics[o.Topic%len(s.Model.Topics)]
	n := o.Topic % len(s.Model.Topics)
	config := o.Config
	config.Partitions = t.Config.Partitions
	return s.mutate(true, func(m *Model) { m.Topics[n].Config = config }, func() error {
		return s.DB.AlterTopic(t.Name, config)
	})
}

// Sync forces everything to disk.
type Sync struct{}

// Run implements Op.
func (Sync) Run(ctx context.Context, s *Store) error {
	return s.mutate(true, func(*Model) {}, func() error { return s.DB.Sync(ctx) })
}

// Maintain runs the maintenance of the whole store once: what is due must be due
// by its alarm too.
type Maintain struct{}

// Run implements Op.
func (Maintain) Run(ctx context.Context, s *Store) error {
	if err := s.settle(ctx); err != nil {
		return err
	}
	next := s.Model.Clone()
	var want engine.Retained
	rolled := 0
	for _, t := range next.Topics {
		for _, l := range t.Logs {
			r := l.Retain(t.Config, next.Now)
			if r.Rolled {
				rolled++
			}
			want.Segments += r.Segments
			want.ByTime += r.ByTime
			want.BySize += r.BySize
			want.ByLogStart += r.ByLogStart
			want.Messages += r.Messages
			want.WireBytes += r.WireBytes
		}
	}
	s.attempt(next)
	got, err := s.DB.MaintainOnce(ctx, time.UnixMilli(int64(next.Now)))
	if err != nil {
		return err
	}
	s.acknowledge(next, rolled > 0 || want.Segments > 0)
	if got.Rolled != rolled {
		return fmt.Errorf("maintenance rolled %d, want %d", got.Rolled, rolled)
	}
	return sameRetained(got.Removed, want)
}

// Recreate deletes a topic and makes another one of the same name.
type Recreate struct {
	Topic  int
	Config engine.TopicConfig
}

// String shows what differs from the defaults.
func (o Recreate) String() string { return fmt.Sprintf("topic %d as %v", o.Topic, o.Config.Settings()) }

// Run implements Op.
func (o Recreate) Run(ctx context.Context, s *Store) error {
	n := o.Topic % len(s.Model.Topics)
	name := s.Model.Topics[n].Name
	err := s.mutate(true, func(m *Model) { m.Topics = slices.Delete(m.Topics, n, n+1) }, func() error {
		return s.DB.DeleteTopic(ctx, name)
	})
	if err != nil {
		return err
	}
	return s.CreateTopic(name, o.Config)
}

// Reopen closes the store and opens it again.
type Reopen struct{}

// Run implements Op.
func (Reopen) Run(_ context.Context, s *Store) error {
	if err := s.Close(); err != nil {
		return err
	}
	return s.Open()
}
