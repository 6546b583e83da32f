package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// Partition is a handle on one partition: a log of its own, ordered by offset.
// It is safe for concurrent use. The first use reads the partition's segments;
// until then it costs nothing.
type Partition struct {
	topic  *Topic // nil in the zero Partition
	number int32
	// loaded and the size of this struct: a store has many partitions, and each
	// opened one costs this and its segments. DESIGN.md says how much.
	loaded  atomic.Bool
	loading sync.Mutex

	// mu is the append lock. It is held for work in memory only, and until the
	// commit it leads to is queued: the queue is in the order of the lock.
	mu struct {
		sync.Mutex
		// end is the next offset to assign (LEO).
		end int64
		// seq counts the commits queued.
		seq uint64
		// segments in offset order; the last is the active one.
		// Invariant: never empty once loaded, and segments[last].Base <= end.
		segments []retention.Segment
		// bytes is the size of all segments, in v1 wire bytes.
		bytes int64
		// seldom is what few partitions have, nil until they do.
		seldom *seldom
		// alarm is the earliest alarm known to be set, -1 for none.
		alarm codec.Timestamp
		// cutting, if not nil, is closed when the truncation under way has
		// queued its change. It reads the log first and must find it still: see
		// lockChange and exclusively.
		cutting chan struct{}
		unsaved bool // the active segment's stored row is behind
		active  bool // appended to since Open
		dropped bool // deleted with its topic
		absent  bool // the topic had no such partition; never changes
	}

	// logStart is the first offset that may be read. It moves before what lies
	// below it is deleted.
	logStart atomic.Int64
	// readable is the offset below which messages may be read: the durable end
	// under SyncAlways, what Pebble has otherwise.
	readable atomic.Int64
	// done is the seq of the last commit published.
	done atomic.Uint64
	// cuts counts truncations: offsets below the end may mean other messages
	// than before.
	cuts atomic.Uint64

	waiters atomic.Pointer[waiters] // nil until somebody waits

	// producers are those who number their sets; nil until that matters. p.mu
	// guards what is in it.
	producers atomic.Pointer[producers]
}

// partitionState is the value of a state key.
type partitionState struct {
	Version  uint8 `msgpack:"v"`
	LogStart int64 `msgpack:"ls"`
	// Cleaned is nil, and takes no space, in a log that was never compacted.
	Cleaned *cleaned `msgpack:"cl,omitempty"`
	// Transactional: there have been transactions.
	Transactional bool `msgpack:"tx,omitempty"`
	// Epochs is the newest leader epoch plus one; 0 without one.
	Epochs int32 `msgpack:"ep,omitempty"`
	// Holes: a repair took entries out, or found some missing.
	Holes bool `msgpack:"ho,omitempty"`
}

const stateVersion = 1

// Topic returns the name of the partition's topic.
func (p *Partition) Topic() string {
	if p == nil || p.topic == nil {
		return ""
	}
	return p.topic.name
}

// Number returns the partition's number.
func (p *Partition) Number() int32 {
	if p == nil {
		return -1
	}
	return p.number
}

// String returns topic/number.
func (p *Partition) String() string { return fmt.Sprintf("%s/%d", p.Topic(), p.Number()) }

// Offsets are the borders of a partition.
type Offsets struct {
	// Start is the first offset that may be read.
	Start int64
	// HighWatermark is the offset after the last message that may be read.
	HighWatermark int64
	// End is the next offset to assign; it runs ahead of HighWatermark while
	// appends wait for the disk.
	End int64
}

// Offsets returns the partition's borders.
func (p *Partition) Offsets() (Offsets, error) {
	if err := p.ready(); err != nil {
		return Offsets{}, p.wrap("offsets", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return Offsets{p.logStart.Load(), p.readable.Load(), p.mu.end}, nil
}

// id returns the partition's name in keys.
func (p *Partition) id() keys.Partition { return keys.Partition{Topic: p.topic.id, Number: p.number} }

// wrap names the operation and the partition in an error.
func (p *Partition) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("engine: %s %s: %w", op, p, err)
}

// ready loads the partition on first use; reads need no more.
func (p *Partition) ready() error {
	switch {
	case p == nil || p.topic == nil || p.mu.absent || p.topic.dropped.Load():
		return ErrUnknownTopic
	case p.topic.db.isClosed():
		return ErrClosed
	case p.loaded.Load():
		return nil
	}
	p.loading.Lock()
	defer p.loading.Unlock()
	if p.loaded.Load() {
		return nil
	}
	if err := p.load(); err != nil {
		return p.readError(-1, err)
	}
	p.topic.db.stats.partitionsOpened.Add(1)
	p.loaded.Store(true)
	return nil
}

// activeLocked returns the active segment. p.mu is held.
func (p *Partition) activeLocked() *retention.Segment {
	return &p.mu.segments[len(p.mu.segments)-1]
}

// publish moves what may be read and wakes who waits for it.
func (p *Partition) publish(e partitionEnd) {
	p.readable.Store(e.end)
	p.done.Store(e.seq)
	p.wake()
}

// wake wakes who waits for the partition.
func (p *Partition) wake() {
	if w := p.waiters.Load(); w != nil {
		w.wake()
		w.watches.wake(p)
	}
}

// lockChange takes the append lock for a change that is decided in memory, while
// no truncation reads the log. Unlock mu after it.
func (p *Partition) lockChange(ctx context.Context) error {
	for {
		p.mu.Lock()
		cutting := p.mu.cutting
		if cutting == nil {
			return nil
		}
		p.mu.Unlock()
		select {
		case <-cutting:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.topic.db.failed:
			return p.topic.db.failedErr()
		}
	}
}

// writableLocked returns why the partition takes no write, or nil. p.mu is held.
func (p *Partition) writableLocked() error {
	if p.mu.dropped {
		return ErrUnknownTopic
	}
	return p.topic.db.writable()
}

// settled waits until every message appended before the call can be read.
// Under SyncAlways an append is acknowledged only then, so there is nothing to
// wait for.
func (p *Partition) settled(ctx context.Context) error {
	if p.topic.db.opts.Durability == SyncAlways {
		return nil
	}
	return p.drained(ctx)
}

// drained waits until every commit queued before the call is published.
func (p *Partition) drained(ctx context.Context) error {
	p.mu.Lock()
	seq := p.mu.seq
	p.mu.Unlock()
	return p.awaitUntil(ctx, func() bool { return p.done.Load() >= seq })
}

// await waits until offsets below end are readable.
func (p *Partition) await(ctx context.Context, end int64) error {
	return p.awaitUntil(ctx, func() bool { return p.readable.Load() >= end })
}

func (p *Partition) awaitUntil(ctx context.Context, reached func() bool) error {
	for !reached() {
		woken := p.waitersOrNew().wait()
		if reached() {
			return nil
		}
		if p.topic.dropped.Load() { // set before the wake that tells of it
			return ErrUnknownTopic
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.topic.db.closed:
			return ErrClosed
		case <-p.topic.db.failed:
			return p.topic.db.failedErr()
		}
	}
	return nil
}

// waitersOrNew returns the partition's waiters, made at the first use.
func (p *Partition) waitersOrNew() *waiters {
	if w := p.waiters.Load(); w != nil {
		return w
	}
	p.waiters.CompareAndSwap(nil, new(waiters))
	return p.waiters.Load()
}

// waiters wakes readers at the end of a log. Nobody waiting costs one atomic
// load.
type waiters struct {
	waiting atomic.Bool
	mu      sync.Mutex
	ch      chan struct{}

	watches watches
}

// wait returns a channel closed by the next wake. Check the condition again
// after calling it.
func (w *waiters) wait() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch == nil {
		w.ch = make(chan struct{})
	}
	w.waiting.Store(true)
	return w.ch
}

func (w *waiters) wake() {
	if !w.waiting.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch != nil {
		close(w.ch)
		w.ch = nil
	}
	w.waiting.Store(false)
}

func decodeState(value []byte) (partitionState, error) {
	if value == nil {
		return partitionState{Version: stateVersion}, nil
	}
	var s partitionState
	if err := msgpack.Unmarshal(value, &s); err != nil {
		return s, err
	}
	if s.Version > stateVersion {
		return s, fmt.Errorf("%w: partition state version %d", ErrNewerFormat, s.Version)
	}
	if s.LogStart < 0 || s.Epochs < 0 {
		return s, fmt.Errorf("log start %d, epochs %d", s.LogStart, s.Epochs)
	}
	return s, s.Cleaned.check()
}
