package bench_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// Ten thousand follows of a thousand partitions by way of some Watchers, a
// goroutine each. Every append goes to one partition and must wake all ten
// followers of it before the next. Reported are the time from before the append to
// the last follower's return from Wait, and the memory a watch takes, with its
// share of the partition's handle.
//
// Unsynced appends show the engine's own delay. Under SyncAlways a follower sees a
// message when it is on the disk: ack-p99-us is from the append's acknowledgement
// to the last wake-up, and negative where followers were first.
func BenchmarkFollow(b *testing.B) {
	for _, mode := range []engine.Durability{engine.SyncNever, engine.SyncAlways} {
		for _, watchers := range []int{1, 10} {
			name := map[engine.Durability]string{engine.SyncNever: "never", engine.SyncAlways: "always"}[mode]
			b.Run(fmt.Sprintf("sync=%s/follows=10000/partitions=1000/watchers=%d", name, watchers), func(b *testing.B) {
				benchFollow(b, mode, watchers)
			})
		}
	}
}

const (
	followLogs = 1000
	followers  = 10_000
)

func benchFollow(b *testing.B, mode engine.Durability, watchers int) {
	db, err := engine.Open(filepath.Join(b.TempDir(), "db"), engine.Options{Durability: mode})
	require.NoError(b, err)
	defer func() { require.NoError(b, db.Close()) }()
	topic, err := db.CreateTopic("follow", engine.TopicConfig{Partitions: followLogs})
	require.NoError(b, err)

	before := liveBytes()
	woken := make(chan time.Time, followers)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var list []*engine.Watcher
	for range watchers {
		list = append(list, db.NewWatcher())
	}
	for i := range followers { // those of a partition are spread over the watchers
		_, err := list[i/followLogs%watchers].Add(topic.Partition(int32(i%followLogs)), 0)
		require.NoError(b, err)
	}
	each := float64(liveBytes()-before) / followers
	for _, w := range list {
		go followAll(ctx, w, woken)
	}

	const perLog = followers / followLogs
	msg := codec.Message{Value: make([]byte, 100)}
	var wake, ack []time.Duration
	for b.Loop() {
		p := topic.Partition(rand.Int32N(followLogs))
		start := time.Now()
		_, err := p.Append(ctx, msg)
		acked := time.Now()
		require.NoError(b, err)
		var last time.Time
		for range perLog {
			if at := <-woken; at.After(last) {
				last = at
			}
		}
		wake, ack = append(wake, last.Sub(start)), append(ack, last.Sub(acked))
	}
	report := func(times []time.Duration, q float64, unit string) {
		slices.Sort(times)
		b.ReportMetric(float64(times[int(q*float64(len(times)-1))].Nanoseconds())/1e3, unit)
	}
	report(wake, 0.5, "wake-p50-us")
	report(wake, 0.99, "wake-p99-us")
	report(ack, 0.99, "ack-p99-us")
	b.ReportMetric(each, "B/follow")
}

func followAll(ctx context.Context, w *engine.Watcher, woken chan<- time.Time) {
	for {
		ready, err := w.Wait(ctx)
		if err != nil {
			return
		}
		now := time.Now()
		for _, r := range ready {
			r.Advance(r.HighWatermark)
			woken <- now
		}
	}
}

// liveBytes is the heap in use, and what the stacks of goroutines take.
func liveBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
