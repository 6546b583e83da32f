package engine_test

import (
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/retention"
)

// What a service watches: each number says what was done.
func TestMetricsCountWhatIsDone(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{IndexIntervalBytes: 200, SegmentBytes: 1000, Partitions: 3})
	made := s.Metrics().Commits // the topic's
	leadEach(t, p, t0, t0+1, t0+2, t0+3, t0+4, t0+5, t0+6, t0+7, t0+8, t0+9, t0+10, t0+11)
	require.Len(t, readAll(t, p, 2), 10)
	fetched := fetchAll(t, p, 0)
	_, err := p.OffsetFor(t0 + 3)
	require.NoError(t, err)

	m := s.Metrics()
	segments, err := p.Segments()
	require.NoError(t, err)
	require.EqualValues(t, 12, m.Sets)
	require.EqualValues(t, 12, m.Messages)
	require.EqualValues(t, 1200, m.WireBytes)
	require.EqualValues(t, 12, m.Commits-made)
	require.EqualValues(t, 1, m.Reads)
	require.EqualValues(t, 10, m.ReadMessages)
	require.EqualValues(t, 1, m.Fetches)
	require.EqualValues(t, len(fetched), m.FetchedBytes)
	require.EqualValues(t, 1, m.Searches)
	require.EqualValues(t, 1, m.Rolls)
	require.Equal(t, 1, m.Topics)
	require.Equal(t, 3, m.Partitions)
	require.Equal(t, 1, m.OpenPartitions)
	require.EqualValues(t, 1, m.PartitionsOpened)
	require.Equal(t, len(segments), m.Segments)
	require.EqualValues(t, 12, m.SegmentMessages)
	require.EqualValues(t, 1200, m.SegmentBytes)
	require.NotZero(t, m.IndexRows)
	require.EqualValues(t, len(indexRows(t, p)), m.IndexRows)
	require.EqualValues(t, m.IndexRows, m.Stats.IndexRows)
	require.GreaterOrEqual(t, m.SyncLatency.Count(), uint64(12))
	require.EqualValues(t, m.Commits, m.GroupSize.Sum)
	require.EqualValues(t, m.Commits, m.GroupSize.Counts[0], "one appender shares its sync with nobody")
	require.False(t, m.Failed)
}

// Retention and compaction: passes, segments, messages and bytes.
func TestMetricsCountRetentionAndCompaction(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{SegmentBytes: 300, Retention: retention.Policy{MaxAge: time.Minute}})
	leadEach(t, p, t0, t0, t0, t0, t0, t0, t0)
	s.clock.add(hour)
	_, err := s.MaintainOnce(t.Context(), s.clock.Now())
	require.NoError(t, err)

	q := s.named("compacted", engine.TopicConfig{SegmentBytes: 300, CleanupPolicy: engine.CleanupCompact})
	now := s.clock.read()
	leadEach(t, q, now, now, now, now)
	r, err := q.Compact(t.Context(), engine.CompactOptions{})
	require.NoError(t, err)
	require.NotZero(t, r.Dropped())

	m := s.Metrics()
	require.EqualValues(t, 1, m.MaintenanceRuns)
	require.EqualValues(t, 3, m.RetainedSegments)
	require.EqualValues(t, 7, m.RetainedMessages)
	require.EqualValues(t, 700, m.RetainedBytes)
	require.EqualValues(t, r.Passes, m.Compactions)
	require.EqualValues(t, r.Dropped(), m.CompactedMessages)
	require.EqualValues(t, 100*r.Dropped(), m.CompactedBytes)
	require.NotZero(t, m.CompactionBytes)
}

// PEBBLE.md 12: Pebble's own health.
func TestMetricsTellPebblesHealth(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	lead(t, p, t0, t0, t0)
	m := s.Metrics().Pebble
	require.NotZero(t, m.WALBytes)
	require.NotZero(t, m.WALWritten)
	require.NotZero(t, m.MemTables)
	require.NotZero(t, m.MemTableBytes)
	require.NotZero(t, m.DiskBytes)

	s.reopen()
	require.Len(t, readAll(t, s.log(engine.TopicConfig{}), 0), 3)
	m = s.Metrics().Pebble
	require.NotZero(t, m.Tables)
	require.NotZero(t, m.TableBytes)
	require.NotZero(t, m.ReadAmp)
	require.NotZero(t, m.CacheHits+m.CacheMisses)
	require.NotZero(t, m.L0Files)
	require.NotZero(t, m.L0Sublevels)
}

// The counters outlive Close and a failed store; Pebble, which must not be asked
// any more, does not. DESIGN 10: no panic, and nobody hangs behind the fence.
func TestMetricsAnswerAtAnyTime(t *testing.T) {
	require.Zero(t, (*engine.DB)(nil).Metrics())
	require.Zero(t, new(engine.DB).Metrics())

	s := newStore(t)
	lead(t, s.log(engine.TopicConfig{}), t0)
	require.NoError(t, s.Close())
	m := s.Metrics()
	require.EqualValues(t, 1, m.Messages)
	require.Equal(t, 1, m.Segments)
	require.Zero(t, m.Pebble)

	s.open()
	s.Fail(errors.New("broken"))
	m = s.Metrics()
	require.True(t, m.Failed)
	require.Zero(t, m.Pebble)
	require.NoError(t, s.Close())
	s.open()
}

// Metrics run beside appends and Close; the race detector looks.
func TestMetricsRaceWithEverything(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{SegmentBytes: 1000})
	var done sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		done.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					s.Metrics()
				}
			}
		})
	}
	for range 200 {
		lead(t, p, t0)
	}
	require.NoError(t, s.Close())
	close(stop)
	done.Wait()
	require.EqualValues(t, 200, s.Metrics().Messages)
}

// A group that shares a sync is one observation of its size.
func TestGroupSizeSumsToCommits(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	made := s.Metrics().Commits // the topic's
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			for range 20 {
				if _, err := p.Append(t.Context(), at(t0)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	m := s.Metrics()
	require.EqualValues(t, 160, m.Commits-made)
	require.EqualValues(t, m.Commits, m.GroupSize.Sum)
	require.LessOrEqual(t, m.GroupSize.Count(), m.Commits)
	require.LessOrEqual(t, m.GroupSize.Quantile(1), int64(8))
}

func TestHistogramQuantile(t *testing.T) {
	h := engine.Histogram{Bounds: []int64{1, 2, 4}, Counts: []uint64{5, 3, 0, 2}}
	require.EqualValues(t, 10, h.Count())
	for _, c := range []struct {
		q    float64
		want int64
	}{{-1, 1}, {0, 1}, {0.5, 1}, {0.51, 2}, {0.8, 2}, {0.81, math.MaxInt64}, {1, math.MaxInt64}, {2, math.MaxInt64}} {
		require.Equal(t, c.want, h.Quantile(c.q), c.q)
	}
	require.Zero(t, engine.Histogram{}.Quantile(0.5))
	h.Sum = 25
	require.Equal(t, 2.5, h.Mean())
	require.Zero(t, engine.Histogram{}.Mean())
}

func TestHistogramBoundsAreInclusive(t *testing.T) {
	h := engine.NewTestHistogram(10, 20)
	for _, v := range []int64{0, 10, 11, 20, 21} {
		h.Observe(v)
	}
	require.Equal(t, engine.Histogram{Bounds: []int64{10, 20}, Counts: []uint64{2, 2, 1}, Sum: 62}, h.Snapshot())
}

// No metric in the hot path costs an allocation, nor does the question whether the
// disk is full. The bench folder has the same for whole appends, reads and fetches.
func TestMetricsDoNotAllocateOnHotPaths(t *testing.T) {
	s := newStoreWith(t, engine.Options{FS: newSpaceFS(1 << 40)})
	s.CheckSpace(t)
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if err := s.TouchMetrics(ctx, 100); err != nil {
			t.Fatal(err)
		}
	}))
}

// A clock that was set back is no latency.
func TestSyncLatencyIsNeverNegative(t *testing.T) {
	var now codec.Timestamp = t0
	var mu sync.Mutex
	s := newStoreWith(t, engine.Options{Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now--
		return now.Time()
	}})
	p := s.log(engine.TopicConfig{TimestampType: codec.LogAppendTime})
	_, err := p.Append(t.Context(), codec.Message{Value: []byte("v")})
	require.NoError(t, err)
	m := s.Metrics()
	require.NotZero(t, m.SyncLatency.Count())
	require.Zero(t, m.SyncLatency.Sum)
}
