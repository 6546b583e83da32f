package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// CrashOptions say how a store is crashed.
type CrashOptions struct {
	// Dir is the store's directory; "db" if it is empty.
	Dir string
	// Keep lists how many percent of what was not synced the disk has kept.
	Keep []int
	// Seed chooses what it has kept.
	Seed uint64
	// Recovery crashes the recovery of every n-th survivor too; 0 none.
	Recovery int
	// Trusting takes every acknowledgement for a promise of durability, whatever
	// the store's mode: the negative control.
	Trusting bool
	// Workers is how many survivors are examined at a time.
	Workers int
}

// CrashReport counts what was done.
type CrashReport struct {
	// Points counts the crashes in a history, Recoveries those in a recovery.
	Points, Recoveries int64
	// Beyond counts the survivors that had kept more than was acknowledged.
	Beyond int64
	// Inconclusive counts runs that took so long that the store's own maintenance
	// may have stepped in.
	Inconclusive int64
}

// Add adds r.
func (c *CrashReport) Add(r CrashReport) {
	c.Points += r.Points
	c.Recoveries += r.Recoveries
	c.Beyond += r.Beyond
	c.Inconclusive += r.Inconclusive
}

// Crash runs a history on a file system that loses power after each of its
// operations in turn, and examines every survivor: it must open, be in a state
// that the history went through, not before the last acknowledged one and not
// beyond the last attempted one, agree with itself everywhere, and go on.
//
// The error is the first survivor that does not.
func Crash(ctx context.Context, h History, o CrashOptions) (CrashReport, error) {
	c := &crash{ctx: ctx, options: h.Options, CrashOptions: o}
	if c.Dir == "" {
		c.Dir = "db"
	}
	if c.Workers == 0 {
		c.Workers = 2
	}
	survivors, err := c.run(vfs.NewCrashableMem(), []*Model{{Now: epoch}}, func(s *Store) error {
		err := s.Open()
		if err == nil {
			err = h.Run(ctx, s, nil)
		}
		if err == nil {
			err = s.Close()
		}
		return err
	})
	if errors.Is(err, errSlow) {
		return CrashReport{Inconclusive: 1}, nil
	}
	if err != nil {
		return c.report, fmt.Errorf("before any crash: %w", err)
	}
	c.report.Points = int64(len(survivors))
	err = c.each(survivors, func(i int, v *survivor) error {
		if c.Recovery > 0 && i%c.Recovery == 0 {
			return c.crashRecovery(v)
		}
		return c.examine(v)
	})
	c.report.Beyond = c.beyond.Load()
	c.report.Recoveries = c.recoveries.Load()
	c.report.Inconclusive = c.slow.Load()
	return c.report, err
}

type crash struct {
	ctx     context.Context
	options engine.Options
	CrashOptions
	report                   CrashReport
	beyond, recoveries, slow atomic.Int64
}

// survivor is what a crash left.
type survivor struct {
	mem      *vfs.MemFS
	op, keep int
	states   []*Model // the first is acknowledged, the last attempted
}

func (v *survivor) String() string {
	return fmt.Sprintf("crash after operation %d, %d %% of unsynced data kept, %d possible states", v.op, v.keep, len(v.states))
}

// witness knows in which states the store can be. Its lock is held when a clone is
// taken: no acknowledgement comes between the two.
type witness struct {
	mu       sync.Mutex
	states   []*Model
	trusting bool
}

// Attempt implements Witness.
func (w *witness) Attempt(next *Model) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states = append(w.states, next)
}

// Acknowledge implements Witness.
func (w *witness) Acknowledge(state *Model, durable bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !durable && !w.trusting {
		return
	}
	if i := slices.Index(w.states, state); i > 0 {
		w.states = slices.Clone(w.states[i:])
	}
}

// errSlow says that a store was open for so long that it may have begun to
// maintain itself.
var errSlow = errors.New("enginetest: too slow to tell")

// run runs work on a store over mem, crashing it after every operation. states are
// those the store can be in at first.
func (c *crash) run(mem *vfs.MemFS, states []*Model, work func(*Store) error) ([]*survivor, error) {
	w := &witness{states: states, trusting: c.Trusting}
	rng := rand.New(rand.NewPCG(c.Seed, 1))
	var survivors []*survivor
	seen := make(map[int][]*Model) // by keep: the states at the last clone
	fs := NewCrashFS(mem, func(op int, synced bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, keep := range c.Keep {
			same := slices.Equal(seen[keep], w.states)
			if same && (keep == 0 && !synced || keep == 100 && synced) {
				continue // the disk is what it was at the last crash
			}
			seen[keep] = slices.Clone(w.states)
			clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: rng})
			survivors = append(survivors, &survivor{clone, op, keep, seen[keep]})
		}
	})
	began := time.Now()
	s := NewStore(fs, c.Dir, c.options)
	s.Model = states[0]
	s.SetClock(states[0].Now)
	s.Witness = w
	if err := work(s); err != nil {
		err = s.CloseAfter(err)
		if s.Slow() {
			err = errSlow
		}
		return nil, err
	}
	if s.Slow() || time.Since(began) > slowAfter {
		return nil, errSlow
	}
	return survivors, nil
}

// each examines survivors, a few at a time.
func (c *crash) each(survivors []*survivor, f func(int, *survivor) error) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, c.Workers)
	for n := range c.Workers {
		wg.Go(func() {
			for errs[n] == nil && c.ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(survivors) {
					return
				}
				if err := f(i, survivors[i]); err != nil {
					errs[n] = fmt.Errorf("%v: %w", survivors[i], err)
				}
				survivors[i].mem = nil
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// examine opens a survivor, finds out its state and goes on with it.
func (c *crash) examine(v *survivor) error {
	began := time.Now()
	err := c.examineOnce(v.mem, v.states, v.op%5 == 0)
	if err != nil && time.Since(began) > slowAfter {
		c.slow.Add(1)
		return nil
	}
	return err
}

func (c *crash) examineOnce(mem *vfs.MemFS, states []*Model, again bool) error {
	fs := NewCrashFS(mem, nil)
	s := NewStore(fs, c.Dir, c.options)
	if err := s.Open(); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	err := c.recognize(s, states)
	if err == nil {
		err = goOn(c.ctx, s)
	}
	if err = s.CloseAfter(err); err != nil {
		return err
	}
	s.Model = s.Model.Clone()
	s.Model.Close()
	if err := Audit(fs, c.Dir); err != nil {
		return err
	}
	if !again {
		return nil
	}
	if err := s.Open(); err != nil {
		return fmt.Errorf("open again: %w", err)
	}
	return s.CloseAfter(s.Check(c.ctx))
}

// ErrUnknownState says that a survivor is in none of the states it may be in: it
// lost something acknowledged, holds something nobody appended, or part of a set.
var ErrUnknownState = errors.New("the store is in no state it may be in")

// recognize finds out in which of the states the store is.
func (c *crash) recognize(s *Store, states []*Model) error {
	errs := []error{ErrUnknownState}
	for i := len(states) - 1; i >= 0; i-- {
		s.Model = states[i]
		s.clock.Store(int64(states[i].Now))
		err := s.Check(c.ctx)
		if err == nil {
			if i > 0 {
				c.beyond.Add(1)
			}
			s.Model = s.Model.Clone()
			return s.adopt(s.Model)
		}
		errs = append(errs, fmt.Errorf("not state %d: %w", i, err))
	}
	return errors.Join(errs...)
}

// goOn maintains the store and appends to every log: alarms must have survived, and
// logs continue where the crash cut them off.
func goOn(ctx context.Context, s *Store) error {
	if len(s.Model.Topics) == 0 {
		if err := s.CreateTopic("new", engine.TopicConfig{}); err != nil {
			return fmt.Errorf("after the crash: %w", err)
		}
	}
	if err := (Maintain{}).Run(ctx, s); err != nil {
		return fmt.Errorf("after the crash: %w", err)
	}
	logs := 0
	for _, t := range s.Model.Topics {
		logs += len(t.Logs)
	}
	s.sequence = 1 << 20
	for n := range logs {
		op := Append{n, []Draft{{Instant{Near, 1}, 1, 10}, {Instant{Near, -5}, 2, 3}}, codec.None}
		if err := op.Run(ctx, s); err != nil {
			return fmt.Errorf("after the crash: %w", err)
		}
	}
	if err := s.Check(ctx); err != nil {
		return fmt.Errorf("after the crash: %w", err)
	}
	return nil
}

// crashRecovery crashes while a survivor recovers and goes on. A copy tells first
// which state it recovers to: from there nothing may be lost any more.
func (c *crash) crashRecovery(v *survivor) error {
	rng := rand.New(rand.NewPCG(c.Seed, uint64(v.op)))
	look := NewStore(NewCrashFS(v.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng}), nil), c.Dir, c.options)
	if err := look.Open(); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if err := look.CloseAfter(c.recognize(look, v.states)); err != nil {
		return err
	}
	inner, err := c.run(v.mem, []*Model{look.Model}, func(s *Store) error {
		err := s.Open()
		if err == nil {
			err = s.Check(c.ctx)
		}
		if err == nil {
			err = goOn(c.ctx, s)
		}
		if err == nil {
			err = s.Close()
		}
		return err
	})
	if errors.Is(err, errSlow) {
		c.slow.Add(1)
		return nil
	}
	if err != nil {
		return fmt.Errorf("recovery: %w", err)
	}
	c.recoveries.Add(int64(len(inner)))
	for _, v := range inner {
		if err := c.examine(v); err != nil {
			return fmt.Errorf("recovery: %v: %w", v, err)
		}
		v.mem = nil
	}
	return nil
}
