package engine_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/engine"
)

// waitFor waits for exactly the watches given, in any order.
func waitFor(t testing.TB, w *engine.Watcher, want ...*engine.Watch) []engine.Ready {
	t.Helper()
	var all []engine.Ready
	var got []*engine.Watch
	for len(got) < len(want) {
		ready, err := w.Wait(t.Context())
		require.NoError(t, err)
		for _, r := range ready {
			all, got = append(all, r), append(got, r.Watch)
		}
	}
	require.ElementsMatch(t, want, got)
	return all
}

// requireIdle requires that no watch is ready.
func requireIdle(t testing.TB, w *engine.Watcher) {
	t.Helper()
	canceled, cancel := context.WithCancel(t.Context())
	time.AfterFunc(5*time.Millisecond, cancel)
	ready, err := w.Wait(canceled)
	require.ErrorIs(t, err, context.Canceled, "%v", ready)
}

func addWatch(t testing.TB, w *engine.Watcher, p *engine.Partition, offset int64) *engine.Watch {
	t.Helper()
	watch, err := w.Add(p, offset)
	require.NoError(t, err)
	require.Equal(t, p, watch.Partition())
	return watch
}

func TestWatchIsReadyWhileThereIsSomethingToRead(t *testing.T) {
	s := newStore(t)
	p, q := s.named("p", engine.TopicConfig{}), s.named("q", engine.TopicConfig{})
	leadEach(t, p, t0, t0)
	w := s.NewWatcher()
	defer w.Close()
	behind, tail, other := addWatch(t, w, p, 1), addWatch(t, w, p, 2), addWatch(t, w, q, 0)
	r := waitFor(t, w, behind)
	require.Equal(t, engine.Ready{Watch: behind, Offset: 1, HighWatermark: 2}, r[0])
	requireIdle(t, w)
	behind.Advance(1)
	waitFor(t, w, behind)
	behind.Advance(2)
	requireIdle(t, w)

	lead(t, p, t0)
	waitFor(t, w, behind, tail)
	lead(t, p, t0)
	requireIdle(t, w) // with the caller
	tail.Advance(3)
	behind.Advance(4)
	waitFor(t, w, tail)
	behind.Advance(6)
	lead(t, q, t0)
	lead(t, p, t0, t0)
	waitFor(t, w, other)
	lead(t, p, t0)
	require.EqualValues(t, 7, waitFor(t, w, behind)[0].HighWatermark)

	tail.Advance(7)
	tail.Advance(6) // back, while nobody has it
	other.Advance(0)
	other.Advance(1) // ready, and then not
	waitFor(t, w, tail)
	requireIdle(t, w)

	other.Stop()
	other.Stop()
	other.Advance(0)
	lead(t, q, t0)
	requireIdle(t, w)
}

func TestWatchEndsWithItsLog(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	leadEach(t, p, t0, t0, t0, t0)
	w := s.NewWatcher()
	defer w.Close()
	above, at, ahead := addWatch(t, w, p, 4), addWatch(t, w, p, 2), addWatch(t, w, p, 4)
	waitFor(t, w, at)
	at.Advance(4)
	ahead.Advance(9)
	require.NoError(t, p.TruncateTo(ctx, 3))
	for _, r := range waitFor(t, w, above, at, ahead) {
		require.ErrorIs(t, r.Err, engine.ErrOffsetRange)
		r.Advance(0)
	}
	requireIdle(t, w)

	// A cut above it is none for a watch.
	low := addWatch(t, w, p, 3)
	require.NoError(t, p.TruncateTo(ctx, 3))
	requireIdle(t, w)
	lead(t, p, t0)
	require.NoError(t, waitFor(t, w, low)[0].Err)
	low.Advance(4)
	require.NoError(t, p.ResetTo(ctx, 4))
	requireIdle(t, w)
	lead(t, p, t0)
	require.NoError(t, waitFor(t, w, low)[0].Err)

	low.Advance(5)
	require.NoError(t, s.DeleteTopic(ctx, "t"))
	require.ErrorIs(t, waitFor(t, w, low)[0].Err, engine.ErrUnknownTopic)
	_, err := w.Add(p, 0)
	require.ErrorIs(t, err, engine.ErrUnknownTopic)
}

func TestWatchMisuse(t *testing.T) {
	ctx := t.Context()
	s, other := newStore(t), newStore(t)
	p := s.log(engine.TopicConfig{})
	w := s.NewWatcher()
	for _, offset := range []int64{-1, 1} {
		_, err := w.Add(p, offset)
		require.ErrorIs(t, err, engine.ErrOffsetRange)
	}
	for _, bad := range []*engine.Partition{nil, {}, other.log(engine.TopicConfig{})} {
		_, err := w.Add(bad, 0)
		require.Error(t, err)
	}
	var none *engine.Watcher
	var db *engine.DB
	for _, w := range []*engine.Watcher{none, {}} {
		_, err := w.Add(p, 0)
		require.ErrorIs(t, err, engine.ErrWatcherClosed)
		_, err = w.Wait(ctx)
		require.ErrorIs(t, err, engine.ErrWatcherClosed)
		w.Close()
	}
	_, err := db.NewWatcher().Wait(ctx)
	require.Error(t, err)
	_, err = new(engine.DB).NewWatcher().Wait(ctx)
	require.ErrorIs(t, err, engine.ErrClosed)
	for _, x := range []*engine.Watch{nil, {}} {
		x.Advance(1)
		x.Stop()
		require.Nil(t, x.Partition())
	}
	watch := addWatch(t, w, p, 0)
	w.Close()
	w.Close()
	watch.Advance(0)
	watch.Stop()
	lead(t, p, t0)
	_, err = w.Wait(ctx)
	require.ErrorIs(t, err, engine.ErrWatcherClosed)
	_, err = w.Add(p, 0)
	require.ErrorIs(t, err, engine.ErrWatcherClosed)
}

// Close of the Watcher, Close of the store, a canceled context and a failed store
// release everybody who waits, and leave no goroutine.
func TestWaitersAreReleased(t *testing.T) {
	for name, c := range map[string]struct {
		release func(db *engine.DB, w *engine.Watcher, cancel func())
		want    error
	}{
		"watcher": {func(_ *engine.DB, w *engine.Watcher, _ func()) { w.Close() }, engine.ErrWatcherClosed},
		"store":   {func(db *engine.DB, _ *engine.Watcher, _ func()) { _ = db.Close() }, engine.ErrClosed},
		"context": {func(_ *engine.DB, _ *engine.Watcher, cancel func()) { cancel() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			db, err := engine.Open("db", engine.Options{FS: vfs.NewMem()}.SmallMemory())
			require.NoError(t, err)
			topic, err := db.CreateTopic("t", engine.TopicConfig{Partitions: 1000})
			require.NoError(t, err)
			w := db.NewWatcher()
			for i := range int32(10_000) {
				addWatch(t, w, topic.Partition(i%1000), 0)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var waiting atomic.Int64
			errs := make(chan error, 100)
			for range cap(errs) {
				go func() {
					waiting.Add(1)
					_, err := w.Wait(ctx)
					errs <- err
				}()
			}
			for waiting.Load() < int64(cap(errs)) {
				time.Sleep(time.Millisecond)
			}
			c.release(db, w, cancel)
			for range cap(errs) {
				require.ErrorIs(t, <-errs, c.want)
			}
			require.NoError(t, db.Close())
			require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 10*time.Second, time.Millisecond) // one runs this
		})
	}
}

// Ten thousand watches on a thousand partitions under several appenders: each
// follower, by way of a few goroutines, reads every message of its partition once
// and in order, though some are slow and some are moved about.
func TestManyFollowersMissNothing(t *testing.T) {
	s := newStoreWith(t, engine.Options{Durability: engine.SyncNever})
	const logs, followers, appends, workers = 100, 1000, 3000, 4
	topic, err := s.CreateTopic("many", engine.TopicConfig{Partitions: logs})
	require.NoError(t, err)
	w := s.NewWatcher()
	defer w.Close()
	at := make(map[*engine.Watch]*atomic.Int64)
	for i := range int32(followers) {
		at[addWatch(t, w, topic.Partition(i%logs), 0)] = new(atomic.Int64)
	}
	var want [logs]atomic.Int64
	var sum, total atomic.Int64
	done, cancel := context.WithCancel(t.Context())
	var appenders, readers sync.WaitGroup
	for range 2 {
		appenders.Go(func() {
			for range appends / 2 {
				n := rand.IntN(logs)
				if _, err := topic.Partition(int32(n)).Append(t.Context(), at0); err != nil {
					t.Error(err)
				}
				want[n].Add(1)
				total.Add(followers / logs)
			}
		})
	}
	for id := range workers {
		readers.Go(func() {
			for {
				ready, err := w.Wait(done)
				if err != nil {
					return
				}
				for _, r := range ready {
					next := at[r.Watch]
					if r.Err != nil || r.Offset != next.Load() || r.HighWatermark <= r.Offset {
						t.Errorf("%+v, expected offset %d", r, next.Load())
					}
					if id == 0 {
						time.Sleep(10 * time.Microsecond) // slow
					}
					read := min(r.HighWatermark, r.Offset+3)
					next.Store(read)
					sum.Add(read - r.Offset)
					r.Advance(read)
				}
			}
		})
	}
	appenders.Wait()
	require.Eventually(t, func() bool { return sum.Load() == total.Load() }, 30*time.Second, time.Millisecond)
	requireIdle(t, w)
	cancel()
	readers.Wait()
	for watch, next := range at {
		require.Equal(t, want[watch.Partition().Number()].Load(), next.Load())
	}
}

var at0 = at(t0)

// A Watcher nobody waits on does not hold back appends or grow with them.
func TestNobodyWaitingCostsNothing(t *testing.T) {
	s := newStoreWith(t, engine.Options{Durability: engine.SyncNever})
	p := s.log(engine.TopicConfig{})
	w := s.NewWatcher()
	defer w.Close()
	for range 1000 {
		addWatch(t, w, p, 0)
	}
	for range 5000 {
		lead(t, p, t0)
	}
	got := 0
	for got < 1000 {
		ready, err := w.Wait(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, len(ready), 256)
		got += len(ready)
		for _, r := range ready {
			r.Advance(5000)
		}
	}
	require.Len(t, readAll(t, p, 0), 5000)
	requireIdle(t, w)
}

// A failed store delivers what was acknowledged and then its failure.
func TestWaitEndsWhenTheStoreFails(t *testing.T) {
	var gate logGate
	db := newStoreWith(t, engine.Options{FS: errorfs.Wrap(vfs.NewMem(), &gate)})
	p := db.log(engine.TopicConfig{})
	w := db.NewWatcher()
	watch := addWatch(t, w, p, 0)
	lead(t, p, t0)
	gate.broken.Store(true)
	_, err := p.Append(t.Context(), at(t0))
	require.ErrorIs(t, err, engine.ErrFailed)
	gate.broken.Store(false)
	waitFor(t, w, watch)
	watch.Advance(1)
	_, err = w.Wait(t.Context())
	require.ErrorIs(t, err, engine.ErrFailed)
	require.ErrorIs(t, err, errInjected)
	_, err = db.Group("g").Committed(t.Context(), p)
	require.NoError(t, err, "reads go on")
	require.ErrorIs(t, db.Group("g").Commit(t.Context(), p, 1, ""), engine.ErrFailed)
	b := db.NewBatch()
	b.Append(p, at(t0))
	_, err = b.Commit(t.Context())
	require.ErrorIs(t, err, engine.ErrFailed)
}
