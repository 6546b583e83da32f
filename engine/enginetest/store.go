package enginetest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// Witness is told which states a store can be in if it is cut off now.
type Witness interface {
	// Attempt is called before an operation that leads to the state next.
	Attempt(next *Model)
	// Acknowledge is called when the operation that led to state has returned.
	// durable: it promised to be on stable storage, and all before it with it.
	Acknowledge(state *Model, durable bool)
}

// Store runs operations on an engine.DB and on a Model. It is for one goroutine.
type Store struct {
	FS      vfs.FS
	Dir     string
	Options engine.Options // FS and Now are the Store's
	Witness Witness        // may be nil

	DB    *engine.DB
	Model *Model

	clock atomic.Int64
	// opened is when Open returned last; slow is set when the DB was open for long.
	opened time.Time
	slow   bool
	// sequence numbers the values, so that no two are alike.
	sequence int
}

// epoch is the clock of a new store. Small, so that timestamps from 0 on lie on
// both sides of it.
const epoch = 1000

// NewStore returns a store over fs that is not open yet.
func NewStore(fs vfs.FS, dir string, o engine.Options) *Store {
	s := &Store{FS: fs, Dir: dir, Options: o, Model: &Model{Now: epoch}}
	s.clock.Store(epoch)
	return s
}

// Open opens the DB.
func (s *Store) Open() (err error) {
	o := s.Options
	o.FS = s.FS
	o.Now = func() time.Time { return time.UnixMilli(s.clock.Load()) }
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 64 << 10
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 1 << 20
	}
	s.DB, err = engine.Open(s.Dir, o)
	s.opened = time.Now()
	return err
}

// slowAfter is less than the second after which a store maintains itself.
const slowAfter = 900 * time.Millisecond

// Slow reports whether the DB was open for so long that it may have begun to
// maintain itself, with the Model knowing nothing of it: a difference then proves
// nothing.
func (s *Store) Slow() bool { return s.slow || time.Since(s.opened) > slowAfter }

// Close closes the DB.
func (s *Store) Close() error {
	s.slow = s.Slow()
	return s.mutate(true, (*Model).Close, s.DB.Close)
}

// Check compares the DB with the Model.
func (s *Store) Check(ctx context.Context) error { return Check(ctx, s.DB, s.Model) }

// SetClock sets the store's clock.
func (s *Store) SetClock(now codec.Timestamp) {
	s.clock.Store(int64(now))
	s.Model = s.Model.Clone() // a witness may look at the old one
	s.Model.Now = now
}

// mutate changes the model and the DB, with the witness looking on.
func (s *Store) mutate(durable bool, change func(*Model), run func() error) error {
	next := s.Model.Clone()
	change(next)
	s.attempt(next)
	if err := run(); err != nil {
		return err
	}
	s.acknowledge(next, durable)
	return nil
}

func (s *Store) attempt(next *Model) {
	if s.Witness != nil {
		s.Witness.Attempt(next)
	}
	s.Model = next
}

func (s *Store) acknowledge(state *Model, durable bool) {
	if s.Witness != nil {
		s.Witness.Acknowledge(state, durable)
	}
}

// appendsDurable says whether an append is on stable storage when it returns.
func (s *Store) appendsDurable() bool { return s.Options.Durability == engine.SyncAlways }

// CreateTopic makes a topic.
func (s *Store) CreateTopic(name string, config engine.TopicConfig) error {
	return s.mutate(true, func(m *Model) { m.CreateTopic(name, config) }, func() error {
		_, err := s.DB.CreateTopic(name, config)
		return err
	})
}

// adopt takes over from the engine what only it can know: after a truncation, a
// crash or a change of the interval, how much was appended since the last index
// row. The next row's place follows from it; what a row says does not.
func (s *Store) adopt(m *Model) error {
	for _, t := range m.Topics {
		topic, _ := s.DB.Topic(t.Name)
		for _, l := range t.Logs {
			segments, err := topic.Partition(l.Number).Segments()
			if err != nil {
				return err
			}
			l.active().sinceRow = segments[len(segments)-1].SinceIndex
		}
	}
	return nil
}

// settle waits until all that was appended can be read. Retention leaves alone what
// cannot, and an unsynced append is acknowledged a moment before.
func (s *Store) settle(ctx context.Context) error {
	for _, t := range s.Model.Topics {
		topic, _ := s.DB.Topic(t.Name)
		for _, l := range t.Logs {
			if len(l.active().Frames) == 0 {
				continue
			}
			if err := topic.Partition(l.Number).Await(ctx, l.End()-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// place is a partition and its model.
type place struct {
	*engine.Partition
	*Log
	config engine.TopicConfig
	n      int
}

// at returns the n-th of all partitions, counted round and round.
func (s *Store) at(n int) (place, error) {
	var all []place
	for _, t := range s.Model.Topics {
		topic, ok := s.DB.Topic(t.Name)
		if !ok {
			return place{}, fmt.Errorf("topic %s is missing", t.Name)
		}
		for _, l := range t.Logs {
			all = append(all, place{topic.Partition(l.Number), l, t.Config, len(all)})
		}
	}
	return all[n%len(all)], nil
}

// log returns the n-th log of a model.
func (m *Model) log(n int) *Log {
	for _, t := range m.Topics {
		if n < len(t.Logs) {
			return t.Logs[n]
		}
		n -= len(t.Logs)
	}
	panic("enginetest: no such log")
}

// judge compares what an append gave with what it should give. On acceptance want
// is in the model already.
func judge(got engine.Receipt, err error, want Outcome) error {
	code := engine.KafkaCode(err)
	if len(want.Codes) > 0 {
		if slices.Contains(want.Codes, code) {
			return nil
		}
		return fmt.Errorf("append: %w, want a code of %v", orNone(err), want.Codes)
	}
	if err != nil {
		return fmt.Errorf("append refused: %w", err)
	}
	if got != want.Receipt {
		return fmt.Errorf("receipt %+v, want %+v", got, want.Receipt)
	}
	return nil
}
