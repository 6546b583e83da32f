package bench_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/engine"
)

// Goal G12 and issue 3: many partitions with nothing to do. Each holds a message
// or two that expire in a week.
//
//	open-ms, tables      Open, until the store serves, and the tables it has then
//	tick-us, tick-allocs MaintainOnce that finds nothing due
//	unopened-B/partition heap of a partition that nobody used since Open
//	opened-B/partition   heap of one that was, by Offsets
//	due-us/partition     MaintainOnce with everything due, per partition
//
//	CAIRN_BENCH_FULL=1 go test -run '^$' -bench IdlePartitions -benchtime=1x ./bench
func BenchmarkIdlePartitions(b *testing.B) {
	sizes := []int{100, 1000}
	if full() {
		sizes = []int{1000, 10_000, 100_000}
	}
	for _, n := range sizes {
		b.Run(fmt.Sprintf("partitions=%d", n), func(b *testing.B) {
			dir := freshDir(b, b.TempDir())
			fillIdle(b, dir, n)
			for b.Loop() {
				idle(b, dir, n)
			}
		})
	}
}

var week = engine.TopicConfig{SegmentBytes: 64 << 20}

func fillIdle(b *testing.B, dir string, n int) {
	s := openExpiring(b, dir, n, week)
	src := newSource(1, 100, 0)
	start := time.Now()
	for _, p := range s.logs {
		_, err := p.Append(b.Context(), src.next()...)
		require.NoError(b, err)
	}
	require.NoError(b, s.db.Sync(b.Context()))
	b.ReportMetric(float64(time.Since(start).Microseconds())/float64(n), "create-us/partition")
	start = time.Now()
	require.NoError(b, s.db.Close())
	b.ReportMetric(float64(time.Since(start).Milliseconds()), "close-ms")
}

func idle(b *testing.B, dir string, n int) {
	empty := heap()
	start := time.Now()
	now := firstTimestamp.Time()
	db, err := engine.Open(dir, engine.Options{Durability: engine.SyncNever, Now: func() time.Time { return now }})
	require.NoError(b, err)
	b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "open-ms")
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	require.NoError(b, err)
	b.ReportMetric(float64(len(tables)), "tables")
	opened := heap()

	const ticks = 200
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start = time.Now()
	for range ticks {
		done, err := db.MaintainOnce(b.Context(), now)
		require.NoError(b, err)
		require.Zero(b, done)
	}
	b.ReportMetric(float64(time.Since(start).Microseconds())/ticks, "tick-us")
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/ticks, "tick-allocs")

	unused := heap()
	topic, ok := db.Topic("bench")
	require.True(b, ok)
	start = time.Now()
	for i := range n {
		_, err := topic.Partition(int32(i)).Offsets()
		require.NoError(b, err)
	}
	b.ReportMetric(float64(time.Since(start).Microseconds())/float64(n), "load-us/partition")
	used := heap()
	b.ReportMetric(float64(opened-empty)/1024, "store-KiB")
	b.ReportMetric(float64(unused-opened)/float64(n), "unopened-B/partition")
	b.ReportMetric(float64(used-unused)/float64(n), "opened-B/partition")

	start = time.Now()
	for range ticks {
		_, err := db.MaintainOnce(b.Context(), now)
		require.NoError(b, err)
	}
	b.ReportMetric(float64(time.Since(start).Microseconds())/ticks, "opened-tick-us")

	start = time.Now()
	done, err := db.MaintainOnce(b.Context(), now.Add(8*24*time.Hour))
	require.NoError(b, err)
	require.Equal(b, n, done.Removed.Segments)
	b.ReportMetric(float64(time.Since(start).Microseconds())/float64(n), "due-us/partition")
	require.NoError(b, db.Close())
	runtime.KeepAlive(topic)
}

// heap returns what is reachable on the Go heap.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
