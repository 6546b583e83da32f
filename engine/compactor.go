package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/compaction"
	"github.com/cairnlog/cairn/keys"
)

// compactor compacts the logs that maintenance finds worth it, the dirtiest first,
// in a goroutine of its own: a pass is long, and rolls and retention must not wait
// for it. One pass runs at a time in a store, those on demand included, so that
// there is one map of offsets.
//
// A log in the queue has an alarm compactRetry ahead. What a crash, an overtaken
// pass or an error leaves undone is found by it.
type compactor struct {
	db     *DB
	cancel context.CancelFunc
	ended  chan struct{}
	wake   chan struct{}
	busy   chan struct{} // holds a token while a pass runs

	mu struct {
		sync.Mutex
		waiting  map[*Partition]candidate
		failing  map[keys.Partition]failing
		current  *Partition // of the pass under way
		progress compaction.Progress
		passes   int
		total    compaction.Stats
	}
}

// candidate is a log that waits for a pass.
type candidate struct {
	ratio float64
	now   codec.Timestamp // of the maintenance run that found it
}

// failing is why a log was not compacted, and when it is tried again.
type failing struct {
	err   error
	after time.Duration
	until codec.Timestamp
}

const (
	// compactRetry is when a log that waits for a pass is looked at again.
	compactRetry = maintainRetry
	// maxCompactRetry bounds the doubling delay of a log that fails: a pass that
	// ends at a damaged entry has read everything before it.
	maxCompactRetry = time.Hour
)

// CompactionStatus is the state of compaction, that on demand included.
type CompactionStatus struct {
	// Waiting counts the logs that wait for a pass.
	Waiting int
	// Running is the partition of the pass under way, empty if there is none, and
	// Progress where it stands.
	Running  string
	Progress compaction.Progress
	// Passes and Total sum what was done since Open.
	Passes int
	Total  compaction.Stats
}

func startCompactor(db *DB) *compactor {
	ctx, cancel := context.WithCancel(context.Background())
	c := &compactor{db: db, cancel: cancel, ended: make(chan struct{}), wake: make(chan struct{}, 1), busy: make(chan struct{}, 1)}
	c.mu.waiting = make(map[*Partition]candidate)
	c.mu.failing = make(map[keys.Partition]failing)
	go c.run(ctx)
	return c
}

// stop aborts a pass and ends the compactor.
func (c *compactor) stop() {
	c.cancel()
	select {
	case <-c.ended:
	case <-c.db.failed:
	}
}

// offer puts a log in the queue unless it is being compacted, and returns when to offer it again.
func (c *compactor) offer(p *Partition, ratio float64, now codec.Timestamp) codec.Timestamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.mu.failing[p.id()]; ok && now < f.until {
		return f.until
	}
	if c.mu.current != p {
		c.mu.waiting[p] = candidate{ratio, now}
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	return now + codec.Timestamp(compactRetry.Milliseconds())
}

// dirtiest takes the log with the largest ratio out of the queue.
func (c *compactor) dirtiest() (p *Partition, at codec.Timestamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	best := candidate{ratio: -1}
	for q, found := range c.mu.waiting {
		if found.ratio > best.ratio {
			p, best = q, found
		}
	}
	delete(c.mu.waiting, p)
	return p, best.now
}

func (c *compactor) run(ctx context.Context) {
	defer close(c.ended)
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.db.failed:
			return
		case <-c.wake:
		}
		for c.serve(ctx) {
		}
	}
}

// serve waits for its turn, compacts the dirtiest log and keeps the error. It is
// false when there is none.
func (c *compactor) serve(ctx context.Context) bool {
	if c.begin(ctx) != nil {
		return false
	}
	defer c.end()
	p, at := c.dirtiest()
	if p == nil {
		return false
	}
	var r CompactResult
	worth := func(plan *compaction.Plan) bool { return plan.Eligible }
	_, err := p.compactAll(ctx, max(at, c.db.now()), compaction.Options{}, &r, worth)
	if ctx.Err() != nil || errors.Is(err, ErrClosed) || errors.Is(err, ErrFailed) || errors.Is(err, ErrUnknownTopic) {
		return true
	}
	if err != nil {
		c.db.log(slog.LevelError, "compaction", "partition", p.String(), "err", err)
	}
	c.note(p.id(), err)
	return true
}

// note keeps the error of a log until it is compacted, nil forgets it.
func (c *compactor) note(id keys.Partition, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, again := c.mu.failing[id]
	delete(c.mu.failing, id)
	if err == nil || !again && len(c.mu.failing) >= maxFailing {
		return
	}
	f.err = err
	f.after = min(max(2*f.after, compactRetry), maxCompactRetry)
	f.until = c.db.now() + codec.Timestamp(f.after.Milliseconds())
	c.mu.failing[id] = f
}

// begin waits until no pass is under way and keeps others from beginning until
// end.
func (c *compactor) begin(ctx context.Context) error {
	select {
	case c.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.db.closed:
		return ErrClosed
	case <-c.db.failed:
		return c.db.failedErr()
	}
}

func (c *compactor) end() { <-c.busy }

// running says which log is compacted, nil for none.
func (c *compactor) running(p *Partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.current, c.mu.progress = p, compaction.Progress{}
}

func (c *compactor) progress(at compaction.Progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.progress = at
}

// passed counts and logs a pass.
func (c *compactor) passed(p *Partition, r *compaction.Result) {
	if r.Steps > 0 {
		c.db.log(slog.LevelInfo, "compaction", "partition", p.String(), "dropped", r.Dropped(),
			"bytes", r.WireBytesBefore-r.WireBytesAfter, "clean", r.CleanPoint, "overtaken", r.Overtaken)
	}
	stats := &c.db.stats
	stats.compactions.Add(1)
	stats.compactedMsgs.Add(uint64(r.Dropped()))
	stats.compactedBytes.Add(uint64(max(0, r.WireBytesBefore-r.WireBytesAfter)))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.passes++
	c.mu.total.Add(&r.Stats)
}

func (c *compactor) status() CompactionStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := CompactionStatus{Waiting: len(c.mu.waiting), Passes: c.mu.passes, Total: c.mu.total}
	if c.mu.current != nil {
		s.Running, s.Progress = c.mu.current.String(), c.mu.progress
	}
	return s
}

// errors joins why logs were not compacted. Those of deleted topics are
// forgotten.
func (c *compactor) errors() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for id, f := range c.mu.failing {
		if c.db.topicByID(id.Topic) == nil {
			delete(c.mu.failing, id)
			continue
		}
		errs = append(errs, f.err)
	}
	return errors.Join(errs...)
}
