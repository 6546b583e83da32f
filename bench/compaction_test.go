package bench_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/compaction"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/keys"
)

// keyedStore is a store with a compacted log that the store leaves alone, and a
// second log to append to.
type keyedStore struct{ *cairnStore }

// openKeyed fills the log with bytes of messages of a size over random keys, one
// for every perKey messages, in tables.
func openKeyed(b *testing.B, dir string, d engine.Durability, bytes int64, size, perKey int) *keyedStore {
	b.Helper()
	const batch = 500
	open := func(d engine.Durability) *keyedStore {
		return &keyedStore{openWith(b, dir, engine.Options{Durability: d}, 2, engine.TopicConfig{
			CleanupPolicy: engine.CleanupCompact, MinCleanableRatio: 1, SegmentBytes: 64 << 20, SegmentAge: engine.Forever,
		})}
	}
	s := open(engine.SyncNever)
	src, rng := newSource(batch, size-keySize, 0), rand.New(rand.NewPCG(1, 2))
	distinct := max(1, int(bytes)/size/perKey)
	for written := int64(0); written < bytes; written += int64(batch * size) {
		msgs := src.next()
		for i := range msgs {
			msgs[i].Key = benchKey(rng.IntN(distinct))
		}
		_, err := s.logs[0].Append(b.Context(), msgs...)
		require.NoError(b, err)
	}
	require.NoError(b, s.logs[0].Roll(b.Context()))
	require.NoError(b, s.db.Close())
	return open(d)
}

const keySize = 16

func benchKey(n int) []byte { return binary.BigEndian.AppendUint64([]byte("customer"), uint64(n)) }

// pass compacts the log once, and returns how long that took, without the wait for
// Pebble to give the space back.
func (s *keyedStore) pass(b *testing.B, o engine.CompactOptions) (engine.CompactResult, time.Duration) {
	b.Helper()
	start := time.Now()
	last := start
	o.Progress = func(compaction.Progress) { last = time.Now() }
	r, err := s.logs[0].Compact(b.Context(), o)
	require.NoError(b, err)
	require.Positive(b, r.Dropped())
	return r, last.Sub(start)
}

// The bar is 0.5 of ratio/copy: Pebble alone reads as many bytes as are in the log,
// in values of the same size, and writes them again, in batches of the same size.
// A pass reads its log twice and writes only what is left of the entries that lost
// something; ratio/same is to Pebble writing no more than that. MB/s count what is
// in the log.
//
//	go test -run '^$' -bench 'Compaction$' -benchtime=1x ./bench -rounds=3 -volume=268435456
func BenchmarkCompaction(b *testing.B) {
	for _, size := range []int{100, 1024} {
		for _, perKey := range []int{2, 10} {
			b.Run(fmt.Sprintf("bytes=%s/perKey=%d", bytesName(size), perKey), func(b *testing.B) {
				var rates, copies, same, kept []float64
				for b.Loop() {
					for range *rounds {
						dir := freshDir(b, b.TempDir())
						s := openKeyed(b, filepath.Join(dir, "cairn"), engine.SyncAlways, *volume, size, perKey)
						r, took := s.pass(b, engine.CompactOptions{})
						require.NoError(b, s.db.Close())
						rate := func(took time.Duration) float64 { return float64(r.StoredBytesBefore) / took.Seconds() / 1e6 }
						rates = append(rates, rate(took))
						kept = append(kept, float64(r.StoredBytesAfter)/float64(r.StoredBytesBefore))
						copies = append(copies, rate(readAndWrite(b, filepath.Join(dir, "copy"), r.StoredBytesBefore, r.StoredBytesBefore)))
						same = append(same, rate(readAndWrite(b, filepath.Join(dir, "same"), r.StoredBytesBefore, r.BytesWritten)))
					}
				}
				b.ReportMetric(median(rates), "MB/s")
				b.ReportMetric(median(copies), "copy-MB/s")
				b.ReportMetric(median(ratios(rates, copies)), "ratio/copy")
				b.ReportMetric(median(ratios(rates, same)), "ratio/same")
				b.ReportMetric(median(kept), "kept")
			})
		}
	}
}

// readAndWrite has Pebble alone read and write so many bytes of a store's, and
// returns how long that takes, with the sync at the end.
func readAndWrite(b *testing.B, dir string, read, write int64) time.Duration {
	b.Helper()
	const entry, step = 16 << 10, 256 << 10
	db := openRaw(b, dir, vfs.Default, 1).db
	data := pool()
	batch := db.NewBatch()
	commit := func() {
		require.NoError(b, batch.Commit(pebble.NoSync))
		batch = db.NewBatch()
	}
	n := int64(0)
	for ; n*entry < read; n++ {
		at := n * entry % int64(len(data)-entry)
		require.NoError(b, batch.Set(keys.AppendLog(nil, logID(0), n), data[at:at+entry], nil))
		if batch.Len() >= 1<<20 {
			commit()
		}
	}
	commit()
	require.NoError(b, db.Flush())
	start := time.Now()
	n = 0
	scanLog(b, db, func(value []byte) {
		touch(value)
		if (n+1)*entry <= write {
			require.NoError(b, batch.Set(keys.AppendLog(nil, logID(0), n), value, nil))
			if batch.Len() >= step {
				commit()
			}
		}
		n++
	})
	require.NoError(b, batch.LogData(nil, nil))
	require.NoError(b, batch.Commit(pebble.Sync))
	took := time.Since(start)
	require.NoError(b, db.Close())
	return took
}

// The bar is 3: the 99th percentile of an append to another log, acknowledged from
// stable storage, while a pass runs, against the same on the idle store before.
//
//	go test -run '^$' -bench CompactionAppends -benchtime=1x ./bench -rounds=3 -volume=268435456
func BenchmarkCompactionAppends(b *testing.B) {
	var idle, busy, share []float64
	for b.Loop() {
		for range *rounds {
			s := openKeyed(b, freshDir(b, b.TempDir()), engine.SyncAlways, *volume, 1024, 2)
			quiet, _ := s.appends(b, func() { time.Sleep(min(2*time.Second, time.Duration(*volume))) })
			loud, count := s.appends(b, func() { s.pass(b, engine.CompactOptions{}) })
			require.NoError(b, s.db.Close())
			idle, busy = append(idle, quiet), append(busy, loud)
			share = append(share, float64(count))
		}
	}
	b.ReportMetric(median(idle), "idle-p99-ms")
	b.ReportMetric(median(busy), "pass-p99-ms")
	b.ReportMetric(median(ratios(busy, idle)), "ratio/idle")
	b.ReportMetric(median(share), "appends/pass")
}

// appends appends to the second log while f runs, from four goroutines, and
// returns the 99th percentile in milliseconds.
func (s *keyedStore) appends(b *testing.B, f func()) (p99 float64, n int) {
	b.Helper()
	const writers = 4
	var over atomic.Bool
	took := make(chan []float64, writers)
	for w := range writers {
		go func() {
			var list []float64
			value := pool()[:200]
			for !over.Load() {
				start := time.Now()
				_, err := s.logs[1].Append(b.Context(), codec.Message{Key: benchKey(w), Value: value})
				if err != nil {
					b.Error(err)
					break
				}
				list = append(list, time.Since(start).Seconds()*1000)
			}
			took <- list
		}()
	}
	f()
	over.Store(true)
	var all []float64
	for range writers {
		all = append(all, <-took...)
	}
	slices.Sort(all)
	return all[len(all)*99/100], len(all)
}

// The memory of a pass: its map and a constant, however many keys there are.
// peak-MiB is the largest heap while passes run, over what it was before.
//
//	go test -run '^$' -bench CompactionMemory -benchtime=1x ./bench -volume=268435456
func BenchmarkCompactionMemory(b *testing.B) {
	for _, size := range []int64{1 << 20, 4 << 20, 16 << 20} {
		b.Run(fmt.Sprintf("map=%dMiB", size>>20), func(b *testing.B) {
			var peak, passes float64
			for b.Loop() {
				s := openKeyed(b, freshDir(b, b.TempDir()), engine.SyncNever, *volume, 128, 4)
				before := heap()
				var top atomic.Int64
				stop, stopped := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(stopped)
					for {
						select {
						case <-stop:
							return
						case <-time.After(10 * time.Millisecond):
							top.Store(max(top.Load(), heap()))
						}
					}
				}()
				r, _ := s.pass(b, engine.CompactOptions{MapBytes: size})
				close(stop)
				<-stopped
				peak = max(peak, float64(top.Load()-before)/(1<<20))
				passes = float64(r.Passes)
				b.ReportMetric(float64(r.Keys), "keys")
				require.NoError(b, s.db.Close())
			}
			b.ReportMetric(peak, "peak-MiB")
			b.ReportMetric(passes, "passes")
		})
	}
}
