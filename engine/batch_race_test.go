package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/engine"
)

// Writers that decide by the end of a log and append with Expect never overwrite
// each other's decision: of those who saw the same end one succeeds.
func TestExpectSerializesDecisions(t *testing.T) {
	s := newStore(t)
	counter, audit := s.named("counter", engine.TopicConfig{}), s.named("audit", engine.TopicConfig{})
	const writers, each = 6, 30
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			b := s.NewBatch()
			for done := 0; done < each; {
				offsets, err := counter.Offsets()
				if err != nil {
					t.Error(err)
					return
				}
				b.Append(audit, text("audit"))
				b.Append(counter, text(fmt.Sprint(offsets.End)))
				b.Expect(counter, offsets.End)
				receipts, err := b.Commit(t.Context())
				if conflict, ok := errors.AsType[*engine.ConflictError](err); ok {
					if conflict.Expected != offsets.End || conflict.Next <= offsets.End {
						t.Errorf("%+v after seeing %d", conflict, offsets.End)
					}
					continue
				}
				if err != nil || receipts[1].Offset != offsets.End {
					t.Error(err, receipts)
					return
				}
				done++
			}
		})
	}
	wg.Wait()
	for i, v := range values(t, counter) {
		require.Equal(t, fmt.Sprint(i), v)
	}
	require.EqualValues(t, writers*each, end(t, counter))
	require.EqualValues(t, writers*each, end(t, audit))
}

// Batches over overlapping partitions, filled in any order, beside appends,
// truncations of another partition, retention and maintenance: nothing blocks, the
// sets of a batch on a partition stay together, and everything acknowledged is
// there.
func TestConcurrentBatchesStayWhole(t *testing.T) {
	for name, mode := range map[string]engine.Durability{"always": engine.SyncAlways, "never": engine.SyncNever} {
		t.Run(name, func(t *testing.T) {
			s := newStoreWith(t, engine.Options{Durability: mode, GroupExpiry: time.Hour})
			topic, err := s.CreateTopic("t", casesConfig(engine.TopicConfig{Partitions: 6, SegmentBytes: 4000}))
			require.NoError(t, err)
			const writers, batches = 4, 60
			var work, noise sync.WaitGroup
			stop := make(chan struct{})
			loud := func(f func() error) {
				noise.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if err := f(); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			cut := topic.Partition(5)
			loud(func() error { return cut.TruncateTo(t.Context(), 0) })
			loud(func() error { _, err := s.MaintainOnce(t.Context(), s.clock.Now()); return err })
			loud(func() error { _, err := s.Group("g").Offsets(t.Context()); return err })
			loud(func() error { _, err := topic.Partition(0).Append(t.Context(), text("alone")); return err })
			for w := range writers {
				work.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(w), 7))
					b := s.NewBatch()
					for i := range batches {
						for _, n := range rng.Perm(6)[:1+rng.IntN(6)] {
							for part := range 2 {
								b.Append(topic.Partition(int32(n)), text(fmt.Sprintf("%d/%d/%d", w, i, part)), text("end"))
							}
							b.CommitOffset("g", topic.Partition(int32(n)), int64(i), "")
						}
						if _, err := b.Commit(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			work.Wait()
			close(stop)
			noise.Wait()
			for n := range int32(5) {
				requireTogether(t, values(t, topic.Partition(n)))
			}
		})
	}
}

// requireTogether requires that the two sets of each batch follow each other.
func requireTogether(t *testing.T, list []string) {
	t.Helper()
	var rest []string
	for _, v := range list {
		if v != "alone" && v != "end" {
			rest = append(rest, v)
		}
	}
	require.NotEmpty(t, rest)
	require.Zero(t, len(rest)%2)
	for i := 0; i < len(rest); i += 2 {
		batch, found := strings.CutSuffix(rest[i], "/0")
		require.True(t, found)
		require.Equal(t, batch+"/1", rest[i+1])
	}
	for i, v := range list {
		if batch, found := strings.CutSuffix(v, "/0"); found {
			require.Equal(t, []string{"end", batch + "/1", "end"}, list[i+1:i+4])
		}
	}
}

// Batches and Close meet: each batch is there as a whole after a reopen, or was
// refused.
func TestBatchesMeetClose(t *testing.T) {
	for range 20 {
		s := newStore(t)
		a, b := s.named("a", engine.TopicConfig{}), s.named("b", engine.TopicConfig{})
		var wg sync.WaitGroup
		var acked [3]int64
		for w := range acked {
			wg.Go(func() {
				batch := s.NewBatch()
				for {
					batch.Append(a, text("a"))
					batch.Append(b, text("b"))
					batch.CommitOffset("g", a, 1, "")
					if _, err := batch.Commit(t.Context()); err != nil {
						if !errors.Is(err, engine.ErrClosed) {
							t.Error(err)
						}
						return
					}
					acked[w]++
				}
			})
		}
		wg.Go(func() {
			for {
				if err := s.Group("h").Delete(t.Context()); err != nil {
					if !errors.Is(err, engine.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
		require.NoError(t, s.Close())
		wg.Wait()
		s.open()
		n := end(t, s.named("a", engine.TopicConfig{}))
		require.Equal(t, n, end(t, s.named("b", engine.TopicConfig{})))
		require.GreaterOrEqual(t, n, acked[0]+acked[1]+acked[2])
	}
}
