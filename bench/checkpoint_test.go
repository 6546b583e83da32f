package bench_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/engine"
)

// A checkpoint of a store of 2 GiB while there are durable appends: how long it
// takes (less than 2 s wanted) and the latency of the appends meanwhile, beside that
// of the same appends without one (the 99th percentile at most 50 ms).
//
//	CAIRN_BENCH_FULL=1 go test -run '^$' -bench Checkpoint -benchtime=1x ./bench -rounds=5
func BenchmarkCheckpoint(b *testing.B) {
	volume := int64(16 << 20)
	if full() {
		volume = 2 << 30
	}
	b.Run(fmt.Sprintf("bytes=%dMiB", volume>>20), func(b *testing.B) {
		dir := b.TempDir()
		s := openCairn(b, filepath.Join(dir, "store"), nil, 16, engine.SyncNever)
		for log := range s.logs {
			s.fill(b, log, int(volume/1024/int64(len(s.logs))), 100, 1024)
		}
		require.NoError(b, s.db.Close())
		s = openCairn(b, filepath.Join(dir, "store"), nil, 16, engine.SyncAlways)
		var took, during, idle []time.Duration
		for b.Loop() {
			for round := range *rounds {
				idle = append(idle, latencies(b, s, nil)...)
				during = append(during, latencies(b, s, func() {
					started := time.Now()
					require.NoError(b, s.db.Checkpoint(b.Context(), filepath.Join(dir, fmt.Sprint("copy", b.N, ".", round))))
					took = append(took, time.Since(started))
				})...)
			}
		}
		b.ReportMetric(float64(median(took).Milliseconds()), "checkpoint-ms")
		b.ReportMetric(float64(slices.Max(took).Milliseconds()), "checkpoint-max-ms")
		b.ReportMetric(percentile(during, 0.99), "append-p99-ms")
		b.ReportMetric(percentile(during, 1), "append-max-ms")
		b.ReportMetric(percentile(idle, 0.99), "idle-append-p99-ms")
		require.NoError(b, s.db.Close())
	})
}

// latencies appends one message of 1 KiB after the other while f runs, or for a
// slice of time.
func latencies(b *testing.B, s *cairnStore, f func()) (list []time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if f == nil {
			time.Sleep(*slice)
		} else {
			f()
		}
	}()
	src := newSource(1, 1024, 0)
	for i := 0; ; i++ {
		started := time.Now()
		_, err := s.logs[i%len(s.logs)].Append(b.Context(), src.next()...)
		require.NoError(b, err)
		list = append(list, time.Since(started))
		select {
		case <-done:
			return list
		default:
		}
	}
}

// percentile returns a percentile of durations in milliseconds.
func percentile(list []time.Duration, p float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return float64(sorted[min(int(p*float64(len(sorted))), len(sorted)-1)].Microseconds()) / 1000
}
