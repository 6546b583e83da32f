package bench_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// Goals G1 to G3: an append is acknowledged when it is on stable storage. Every
// writer waits for its set before it appends the next.
func BenchmarkDurableAppend(b *testing.B) {
	for _, size := range []int{100, 1024} {
		for _, batch := range []int{1, 100} {
			for _, writers := range []int{1, 16, 64} {
				b.Run(fmt.Sprintf("writers=%d/batch=%d/bytes=%s", writers, batch, bytesName(size)), func(b *testing.B) {
					benchDurable(b, writers, 1, batch, size)
				})
			}
		}
	}
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprintf("writers=16/logs=16/batch=%d/bytes=1KiB", batch), func(b *testing.B) {
			benchDurable(b, 16, 16, batch, 1024)
		})
	}
}

func benchDurable(b *testing.B, writers, logs, batch, size int) {
	dir := b.TempDir()
	cairn := openCairn(b, filepath.Join(dir, "cairn"), nil, logs, engine.SyncAlways)
	raw := openRaw(b, filepath.Join(dir, "raw"), vfs.Default, logs)
	plain := openPlain(b, filepath.Join(dir, "plain"), true)
	turn := func(f func(log int, msgs []codec.Message) error) func() (int64, time.Duration) {
		sources := make([]*source, writers)
		for w := range sources {
			sources[w] = newSource(batch, size, w)
		}
		return func() (int64, time.Duration) {
			return drive(b, sources, func(w int, msgs []codec.Message) error { return f(w%logs, msgs) })
		}
	}
	interleave(b, size,
		variant{"cairn", turn(cairn.append(b))},
		variant{"raw", turn(raw.appendSync)},
		variant{"plain", turn(plain.append)},
	)
	require.NoError(b, cairn.db.Close())
	require.NoError(b, raw.db.Close())
	plain.close(b)
}

// drive has every source's writer append sets for a slice of time.
func drive(tb testing.TB, sources []*source, appendSet func(writer int, msgs []codec.Message) error) (int64, time.Duration) {
	var wg sync.WaitGroup
	var total atomic.Int64
	start := time.Now()
	for w, src := range sources {
		wg.Go(func() {
			n := int64(0)
			for time.Since(start) < *slice {
				msgs := src.next()
				if err := appendSet(w, msgs); err != nil {
					tb.Error(err)
					return
				}
				n += int64(len(msgs))
			}
			total.Add(n)
		})
	}
	wg.Wait()
	return total.Load(), time.Since(start)
}

// inFlight is how many appends a pipelining writer has waiting for the disk.
const inFlight = 256

// Goal G3: one writer that does not wait for each append. serial is the same
// writer waiting.
func BenchmarkDurableSubmit(b *testing.B) {
	for _, size := range []int{100, 1024} {
		b.Run(fmt.Sprintf("inflight=%d/bytes=%s", inFlight, bytesName(size)), func(b *testing.B) {
			benchSubmit(b, size)
		})
	}
}

func benchSubmit(b *testing.B, size int) {
	dir := b.TempDir()
	cairn := openCairn(b, filepath.Join(dir, "cairn"), nil, 1, engine.SyncAlways)
	raw := openRaw(b, filepath.Join(dir, "raw"), vfs.Default, 1)
	plain := openPlain(b, filepath.Join(dir, "plain"), true)
	ctx, src := b.Context(), newSource(1, size, 0)
	interleave(b, size,
		variant{"cairn", pipeline(b, src, func(msgs []codec.Message) (*engine.Pending, error) {
			return cairn.logs[0].Submit(ctx, msgs, noOptions)
		}, func(p *engine.Pending) error {
			_, err := p.Wait(ctx)
			return err
		})},
		variant{"raw", pipeline(b, src, func(msgs []codec.Message) (*pebble.Batch, error) {
			return raw.begin(0, msgs)
		}, func(batch *pebble.Batch) error {
			if err := batch.SyncWait(); err != nil {
				return err
			}
			return batch.Close()
		})},
		variant{"plain", pipeline(b, src, func(msgs []codec.Message) (*plainGroup, error) {
			return plain.begin(msgs), nil
		}, func(g *plainGroup) error {
			<-g.done
			return g.err
		})},
		variant{"serial", func() (int64, time.Duration) {
			return drive(b, []*source{src}, func(_ int, msgs []codec.Message) error { return cairn.append(b)(0, msgs) })
		}},
	)
	require.NoError(b, cairn.db.Close())
	require.NoError(b, raw.db.Close())
	plain.close(b)
}

// pipeline appends for a slice of time with up to inFlight appends waiting.
func pipeline[T any](tb testing.TB, src *source, begin func([]codec.Message) (T, error), wait func(T) error) func() (int64, time.Duration) {
	return func() (int64, time.Duration) {
		var window [inFlight]T
		begun, waited := 0, 0
		await := func() {
			require.NoError(tb, wait(window[waited%inFlight]))
			waited++
		}
		start := time.Now()
		for time.Since(start) < *slice {
			if begun-waited == inFlight {
				await()
			}
			p, err := begin(src.next())
			require.NoError(tb, err)
			window[begun%inFlight] = p
			begun++
		}
		for waited < begun {
			await()
		}
		return int64(begun), time.Since(start)
	}
}
