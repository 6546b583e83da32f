package engine

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cairnlog/cairn/keys"
)

// A range delete frees nothing by itself. Append-only tables never overlap one
// another, so Pebble sees no reason to compact them and the tombstone stays
// beside them in its top level. The reclaimer therefore compacts what was
// removed: tables of one partition are dropped, others rewritten without it.
type reclaimer struct {
	db     *DB
	cancel context.CancelFunc
	ended  chan struct{}

	mu struct {
		sync.Mutex
		ranges []keys.Range
		// waiters are closed when the ranges are reclaimed.
		waiters []chan struct{}
		running bool
	}
	wake chan struct{}
}

const (
	// reclaimDelay gathers removals before they are compacted.
	reclaimDelay = time.Second
	// reclaimMin is the least table space worth a compaction of its own: less
	// comes back when its neighbours are compacted.
	reclaimMin = 256 << 10
	// maxReclaimRanges bounds what waits; beyond it the closest are joined.
	maxReclaimRanges = 1024
)

func startReclaimer(db *DB) *reclaimer {
	ctx, cancel := context.WithCancel(context.Background())
	r := &reclaimer{db: db, cancel: cancel, ended: make(chan struct{}), wake: make(chan struct{}, 1)}
	go r.run(ctx)
	return r
}

// stop ends the reclaimer; a failed store's is parked for good.
func (r *reclaimer) stop() {
	r.cancel()
	select {
	case <-r.ended:
	case <-r.db.failed:
	}
}

// add asks for the space of a removed range.
func (r *reclaimer) add(removed keys.Range) {
	r.mu.Lock()
	if len(r.mu.ranges) < maxReclaimRanges {
		r.mu.ranges = append(r.mu.ranges, removed)
	} else { // whole topics at once: one wide range
		last := &r.mu.ranges[len(r.mu.ranges)-1]
		if bytes.Compare(removed.Start, last.Start) < 0 {
			last.Start = removed.Start
		}
		if bytes.Compare(removed.End, last.End) > 0 {
			last.End = removed.End
		}
	}
	r.mu.Unlock()
	r.signal()
}

func (r *reclaimer) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// wait returns when everything added so far is reclaimed, at once if there is
// nothing.
func (r *reclaimer) wait(ctx context.Context) error {
	r.mu.Lock()
	if len(r.mu.ranges) == 0 && !r.mu.running {
		r.mu.Unlock()
		return nil
	}
	reclaimed := make(chan struct{})
	r.mu.waiters = append(r.mu.waiters, reclaimed)
	r.mu.Unlock()
	r.signal()
	select {
	case <-reclaimed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.db.closed:
		return ErrClosed
	case <-r.db.failed:
		return r.db.failedErr()
	}
}

func (r *reclaimer) run(ctx context.Context) {
	defer close(r.ended)
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(reclaimDelay):
		}
		r.mu.Lock()
		ranges, waiters := r.mu.ranges, r.mu.waiters
		r.mu.ranges, r.mu.waiters, r.mu.running = nil, nil, true
		r.mu.Unlock()
		slices.SortFunc(ranges, func(a, b keys.Range) int { return bytes.Compare(a.Start, b.Start) })
		for _, removed := range ranges {
			if ctx.Err() != nil {
				return
			}
			r.reclaim(ctx, removed)
		}
		for _, reclaimed := range waiters {
			close(reclaimed)
		}
		r.mu.Lock()
		r.mu.running = false
		r.mu.Unlock()
	}
}

func (r *reclaimer) reclaim(ctx context.Context, removed keys.Range) {
	db := r.db
	size, err := db.pdb.EstimateDiskUsage(removed.Start, removed.End)
	if err == nil && size >= reclaimMin {
		err = db.pdb.Compact(ctx, removed.Start, removed.End, false)
		db.stats.reclaims.Add(1)
	}
	if err != nil && ctx.Err() == nil {
		db.log(slog.LevelError, "reclaim space", "err", err)
	}
}
