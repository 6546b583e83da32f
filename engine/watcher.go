package engine

import (
	"context"
	"errors"
	"sync"
)

// ErrWatcherClosed is returned by every use of a Watcher after Close.
var ErrWatcherClosed = errors.New("watcher is closed")

// watchBatch is how many watches one Wait returns at most, so that several
// goroutines share what is ready.
const watchBatch = 256

// Watcher follows any number of partitions for a few goroutines: Wait returns the
// watches with something to read, woken by appends. Where Follow needs a goroutine
// for each log, a Watcher needs none of its own, and a watch about 100 bytes.
//
// A watch that Wait has returned is with the caller until Watch.Advance says where
// to go on, and is returned again whenever a message at or after that offset can be
// read: at once if there is one already. So nothing is missed, however slow the
// caller, and a slow one costs appends nothing.
//
// A Watcher is safe for concurrent use; each ready watch goes to one Wait. Close
// it, or close the DB, to release those who wait. Its zero value is closed.
type Watcher struct {
	db     *DB
	signal chan struct{} // 1: something is ready
	closed chan struct{}

	mu struct {
		sync.Mutex
		ready  []*Watch
		all    map[*Watch]struct{}
		closed bool
	}
}

// Ready is a watch with something to read.
type Ready struct {
	*Watch
	// Offset is where the watch waited, HighWatermark the offset after the last
	// message that can be read.
	Offset, HighWatermark int64
	// Err says why the watch has ended, and then there is nothing more to come
	// from it: ErrUnknownTopic when the topic is deleted, an *OffsetRangeError when
	// the log was cut below Offset.
	Err error
}

// NewWatcher returns a Watcher of the store's partitions.
func (db *DB) NewWatcher() *Watcher {
	w := &Watcher{db: db, signal: make(chan struct{}, 1), closed: make(chan struct{})}
	w.mu.all = make(map[*Watch]struct{})
	return w
}

// Add begins to watch p for messages from offset on. A partition may be watched
// any number of times. An offset outside the log is an *OffsetRangeError; the log's
// end is inside.
func (w *Watcher) Add(p *Partition, offset int64) (*Watch, error) {
	watch, err := w.add(p, offset)
	return watch, p.wrap("watch", err)
}

func (w *Watcher) add(p *Partition, offset int64) (*Watch, error) {
	if w == nil || w.db == nil {
		return nil, ErrWatcherClosed
	}
	if err := p.ready(); err != nil {
		return nil, err
	}
	if p.topic.db != w.db {
		return nil, errForeign
	}
	watch := &Watch{w: w, p: p, cuts: p.cuts.Load()}
	p.mu.Lock()
	end := p.mu.end
	p.mu.Unlock()
	if offset < p.logStart.Load() || offset > end {
		return nil, p.outOfRange(offset)
	}
	w.mu.Lock()
	if w.mu.closed {
		w.mu.Unlock()
		return nil, ErrWatcherClosed
	}
	w.mu.all[watch] = struct{}{}
	w.mu.Unlock()
	watch.Advance(offset)
	return watch, nil
}

// Wait returns watches that are ready, at most a few hundred at a time, and waits
// for one if there is none. The error is ctx.Err(), ErrWatcherClosed, ErrClosed, or
// ErrFailed once everything acknowledged has been returned.
func (w *Watcher) Wait(ctx context.Context) ([]Ready, error) {
	if w == nil || w.db == nil {
		return nil, ErrWatcherClosed
	}
	for {
		if err := w.open(ctx); err != nil {
			return nil, err
		}
		if ready := w.take(); len(ready) > 0 {
			return ready, nil
		}
		select {
		case <-w.signal:
		case <-ctx.Done():
		case <-w.closed:
		case <-w.db.closed:
		case <-w.db.failed:
			if ready := w.take(); len(ready) > 0 {
				return ready, nil
			}
			return nil, w.db.failedErr()
		}
	}
}

// open returns why nothing can be waited for, or nil.
func (w *Watcher) open(ctx context.Context) error {
	switch {
	case w.db.isClosed():
		return ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	select {
	case <-w.closed:
		return ErrWatcherClosed
	default:
		return nil
	}
}

// take returns ready watches and leaves the rest, and the signal, to others.
func (w *Watcher) take() []Ready {
	w.mu.Lock()
	n := min(len(w.mu.ready), watchBatch)
	taken := make([]*Watch, n)
	copy(taken, w.mu.ready)
	rest := copy(w.mu.ready, w.mu.ready[n:])
	clear(w.mu.ready[rest:])
	w.mu.ready = w.mu.ready[:rest]
	if rest > 0 {
		w.wakeOne()
	}
	w.mu.Unlock()

	ready := make([]Ready, 0, n)
	for _, watch := range taken {
		r, ok := watch.deliver()
		if ok {
			ready = append(ready, r)
		}
		if r.Err != nil {
			watch.Stop()
		}
	}
	return ready
}

// push makes a watch ready.
func (w *Watcher) push(watch *Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed {
		return
	}
	w.mu.ready = append(w.mu.ready, watch)
	w.wakeOne()
}

func (w *Watcher) wakeOne() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// Close ends all watches and releases those who wait, with ErrWatcherClosed. A
// second Close does nothing.
func (w *Watcher) Close() {
	if w == nil || w.db == nil {
		return
	}
	w.mu.Lock()
	if w.mu.closed {
		w.mu.Unlock()
		return
	}
	w.mu.closed = true
	close(w.closed)
	all := w.mu.all
	w.mu.all, w.mu.ready = nil, nil
	w.mu.Unlock()
	for watch := range all {
		watch.Stop()
	}
}
