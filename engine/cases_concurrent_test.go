package engine_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// numbered is a message that says who wrote it and where in whose set it is.
func numbered(writer, set, i, n int) codec.Message {
	return codec.Message{Timestamp: t0, Value: fmt.Appendf(nil, "%d/%d/%d/%d", writer, set, i, n)}
}

// Case P01: concurrent sets get every offset once, each set contiguous and in
// order, at the offset that was returned.
func TestP01ConcurrentAppendsAreContiguous(t *testing.T) {
	const writers, sets = 16, 40
	s := newStore(t)
	p := s.log(engine.TopicConfig{SegmentBytes: 1 << 14})
	type landed struct{ writer, set, n int }
	var mu sync.Mutex
	at := make(map[int64]landed)
	var wg sync.WaitGroup
	for w := range writers {
		random := rand.New(rand.NewPCG(1, uint64(w)))
		wg.Go(func() {
			last := int64(-1)
			for set := range sets {
				n := 1 + random.IntN(5)
				msgs := make([]codec.Message, n)
				for i := range msgs {
					msgs[i] = numbered(w, set, i, n)
				}
				var o engine.AppendOptions
				if random.IntN(3) == 0 {
					o.Compression = codec.Snappy
				}
				r, err := p.AppendSet(t.Context(), msgs, o)
				if err != nil || r.Offset <= last || r.Count != n {
					t.Errorf("writer %d, set %d: %+v after %d, %v", w, set, r, last, err)
					return
				}
				last = r.Offset
				mu.Lock()
				at[r.Offset] = landed{w, set, n}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, at, writers*sets)
	msgs := readAll(t, p, 0)
	require.Len(t, msgs, int(end(t, p)))
	for next := int64(0); next < int64(len(msgs)); {
		l, ok := at[next]
		require.True(t, ok, "no set was returned at offset %d", next)
		for i := range l.n {
			require.Equal(t, next, msgs[next].Offset)
			require.Equal(t, numbered(l.writer, l.set, i, l.n).Value, msgs[next].Value)
			next++
		}
	}
}

// Case P02: what a writer was told is readable at once, and never half a set.
func TestP02AcknowledgedIsReadable(t *testing.T) {
	for name, durability := range map[string]engine.Durability{"SyncAlways": engine.SyncAlways, "SyncNever": engine.SyncNever} {
		t.Run(name, func(t *testing.T) {
			const sets, size = 200, 3
			s := newStoreWith(t, engine.Options{Durability: durability})
			p := s.log(engine.TopicConfig{SegmentBytes: 3000})
			var acked atomic.Int64
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					for acked.Load() < sets*size {
						to := acked.Load()
						var n int64
						for m, err := range p.Read(t.Context(), max(to-size, 0), engine.ReadOptions{}) {
							if err != nil {
								t.Errorf("read %d: %v", to, err)
								return
							}
							n = m.Offset + 1
						}
						if n < to || n%size != 0 {
							t.Errorf("acknowledged %d, read to %d", to, n)
							return
						}
					}
				})
			}
			for i := range sets {
				r, err := p.Append(t.Context(), records(t0, t0, t0)...)
				require.NoError(t, err)
				require.EqualValues(t, i*size, r.Offset)
				acked.Store(r.Offset + size)
			}
			wg.Wait()
		})
	}
}

// Case P06: the pair of largest timestamp and offset is of one message.
func TestP06MaxTimestampIsOfOneMessage(t *testing.T) {
	const appends = 300
	s := newStore(t)
	p := s.log(engine.TopicConfig{SegmentBytes: 2000})
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for last := int64(-1); !done.Load(); {
				pos, err := p.MaxTimestamp(t.Context())
				if err != nil || pos.Found && pos.Timestamp != t0+codec.Timestamp(pos.Offset) || pos.Found && pos.Offset < last {
					t.Errorf("%+v after %d, %v", pos, last, err)
					return
				}
				if pos.Found {
					last = pos.Offset
				}
			}
		})
	}
	for i := range codec.Timestamp(appends) {
		lead(t, p, t0+i)
	}
	done.Store(true)
	wg.Wait()
}

// patience bounds waits for what must happen; nothing sleeps for it.
const patience = 30 * time.Second

// join waits for the goroutines of a group, whose hanging is a failure.
func join(t *testing.T, wg *sync.WaitGroup, what string) {
	t.Helper()
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		buf := make([]byte, 1<<20)
		t.Fatalf("%s hangs\n%s", what, buf[:runtime.Stack(buf, true)])
	}
}

// Case P07: Close while everything runs: each call completes or says ErrClosed,
// and what was acknowledged is there after a reopen.
func TestP07CloseWhileEverythingRuns(t *testing.T) {
	for round := range 15 {
		s := newStoreWith(t, engine.Options{FS: vfs.NewMem()})
		config := engine.TopicConfig{SegmentBytes: 1000}
		p := s.log(config)
		lead(t, p, t0)
		var acked atomic.Int64
		acked.Store(1)
		var created sync.Map
		ctx := context.Background()
		calls := map[string]func(i int) error{
			"append": func(int) error {
				r, err := p.Append(ctx, at(t0))
				if err == nil {
					for old := acked.Load(); r.Offset >= old && !acked.CompareAndSwap(old, r.Offset+1); old = acked.Load() {
					}
				}
				return err
			},
			"submit": func(int) error {
				w, err := p.Submit(ctx, records(t0), engine.AppendOptions{})
				if err == nil {
					_, err = w.Wait(ctx)
				}
				return err
			},
			"produce": func(int) error { _, err := p.Produce(ctx, plainFrame(t0)); return err },
			"read": func(int) error {
				for _, err := range p.Read(ctx, 0, engine.ReadOptions{}) {
					if err != nil {
						return err
					}
				}
				return nil
			},
			"follow": func(int) error {
				for _, err := range p.Follow(ctx, 0, engine.ReadOptions{}) {
					if err != nil {
						return err
					}
				}
				return nil
			},
			"fetch":   func(int) error { _, err := p.Fetch(ctx, 0, engine.FetchOptions{}); return err },
			"await":   func(i int) error { return p.Await(ctx, int64(i)) },
			"search":  func(int) error { _, err := p.OffsetFor(t0); return err },
			"list":    func(int) error { _, err := p.ListOffset(ctx, engine.Latest, engine.ListOptions{}); return err },
			"largest": func(int) error { _, err := p.MaxTimestamp(ctx); return err },
			"roll":    func(int) error { return p.Roll(ctx) },
			"sync":    func(int) error { return s.Sync(ctx) },
			"index": func(int) error {
				for _, err := range p.TimeIndex(ctx) {
					if err != nil {
						return err
					}
				}
				return nil
			},
			"create": func(i int) error {
				name := fmt.Sprintf("t-%d", i)
				topic, err := s.CreateTopic(name, engine.TopicConfig{})
				if err == nil {
					created.Store(name, true)
					_, err = topic.Partition(0).Offsets()
				}
				return err
			},
			"alter": func(int) error { return s.AlterTopic("t", casesConfig(config)) },
		}
		var running, ended sync.WaitGroup
		running.Add(len(calls))
		for name, call := range calls {
			ended.Go(func() {
				for i := 0; ; i++ {
					if i == 1 || i == 0 && name == "follow" {
						running.Done()
					}
					if err := call(i); err != nil {
						if !errors.Is(err, engine.ErrClosed) {
							t.Errorf("%s: %v", name, err)
						}
						return
					}
				}
			})
		}
		join(t, &running, "starting")
		require.NoError(t, s.Close())
		join(t, &ended, fmt.Sprintf("round %d: a call after Close", round))
		require.NoError(t, s.Close())
		require.Zero(t, s.OpenIterators())

		s.open()
		p = s.log(config)
		require.GreaterOrEqual(t, end(t, p), acked.Load())
		require.Len(t, readAll(t, p, 0), int(end(t, p)))
		for name := range created.Range {
			_, ok := s.Topic(name.(string))
			require.True(t, ok, "topic %s was created and is gone", name)
		}
	}
}

// Case P07: Close called by many at once closes once.
func TestP07ConcurrentCloses(t *testing.T) {
	s := newStore(t)
	lead(t, s.log(engine.TopicConfig{}), t0)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	join(t, &wg, "Close")
	s.open()
	require.EqualValues(t, 1, end(t, s.log(engine.TopicConfig{})))
}

// Partitions are independent: concurrent appends to several of them keep their
// own order.
func TestConcurrentAppendsToManyPartitions(t *testing.T) {
	const partitions, appends = 8, 50
	s := newStore(t)
	topic, err := s.CreateTopic("many", engine.TopicConfig{Partitions: partitions})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for n := range int32(partitions) {
		wg.Go(func() {
			for i := range uint64(appends) {
				r, err := topic.Partition(n).Append(t.Context(), codec.Message{Value: binary.BigEndian.AppendUint64(nil, i)})
				if err != nil || r.Offset != int64(i) {
					t.Errorf("partition %d: %+v, %v", n, r, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for n := range int32(partitions) {
		for i, m := range readAll(t, topic.Partition(n), 0) {
			require.EqualValues(t, i, binary.BigEndian.Uint64(m.Value))
		}
	}
}
