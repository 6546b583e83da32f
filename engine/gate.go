package engine

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// gate bounds the bytes of appends between a caller and Pebble, so that a slow
// disk holds writers back instead of growing memory.
type gate struct {
	sem    *semaphore.Weighted
	limit  int64
	failed <-chan struct{}
	closed <-chan struct{}
}

func (g *gate) init(limit int64, failed, closed <-chan struct{}) {
	*g = gate{semaphore.NewWeighted(limit), limit, failed, closed}
}

// acquire admits n bytes and returns how many release must give back: a set
// larger than the whole gate passes alone.
func (g *gate) acquire(ctx context.Context, n int64) (int64, error) {
	n = min(n, g.limit)
	if g.sem.TryAcquire(n) {
		return n, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the acquire: cancel is deferred
		select {
		case <-g.failed:
		case <-g.closed:
		case <-ctx.Done():
		}
		cancel()
	}()
	return n, g.sem.Acquire(ctx, n)
}

func (g *gate) release(n int64) { g.sem.Release(n) }
