package bench_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// maxUnsyncedWriters bounds the goroutines that append to many logs.
const maxUnsyncedWriters = 16

// Goals G4 and G5: nobody waits for the disk. Every turn fills a new store with
// -volume bytes; its clock stops when all can be read. What flush, compaction
// and Close still do is counted in the bytes written, not in the time:
//
//	wal/payload, tables/payload   bytes the store wrote to its files
//	disk/payload                  bytes the kernel counts, pages written twice among them
func BenchmarkUnsyncedAppend(b *testing.B) {
	for _, size := range []int{100, 1024} {
		for _, logs := range []int{1, 64, 1000} {
			for _, batch := range []int{1, 100, 1000} {
				b.Run(fmt.Sprintf("logs=%d/batch=%d/bytes=%s", logs, batch, bytesName(size)), func(b *testing.B) {
					benchUnsynced(b, unsyncedShape{logs, batch, size})
				})
			}
		}
	}
}

type unsyncedShape struct{ logs, batch, size int }

func benchUnsynced(b *testing.B, shape unsyncedShape) {
	root := b.TempDir()
	var cairnBytes, rawBytes written
	interleave(b, shape.size,
		variant{"cairn", func() (int64, time.Duration) { return unsyncedCairn(b, freshDir(b, root), shape, &cairnBytes) }},
		variant{"raw", func() (int64, time.Duration) { return unsyncedRaw(b, freshDir(b, root), shape, &rawBytes) }},
		variant{"plain", func() (int64, time.Duration) {
			plain := openPlain(b, freshDir(b, root), false)
			defer plain.close(b)
			return fillLogs(b, shape, plain.append, plain.drain)
		}},
	)
	cairnBytes.report(b, "cairn-")
	rawBytes.report(b, "raw-")
}

func unsyncedCairn(b *testing.B, dir string, shape unsyncedShape, total *written) (int64, time.Duration) {
	fs := &countingFS{FS: vfs.Default}
	before := kernelWritten(b)
	cairn := openCairn(b, dir, fs, shape.logs, engine.SyncNever)
	units, took := fillLogs(b, shape, cairn.append(b), func() error { cairn.settle(b); return nil })
	require.NoError(b, cairn.db.Close())
	total.add(fs, units*int64(shape.size), kernelWritten(b)-before)
	return units, took
}

func unsyncedRaw(b *testing.B, dir string, shape unsyncedShape, total *written) (int64, time.Duration) {
	fs := &countingFS{FS: vfs.Default}
	before := kernelWritten(b)
	raw := openRaw(b, dir, fs, shape.logs)
	units, took := fillLogs(b, shape, raw.appendNoSync, func() error { return nil })
	require.NoError(b, raw.db.LogData(nil, pebble.Sync))
	require.NoError(b, raw.db.Close())
	total.add(fs, units*int64(shape.size), kernelWritten(b)-before)
	return units, took
}

// freshDir empties root: only one filled store exists at a time.
func freshDir(tb testing.TB, root string) string {
	tb.Helper()
	dir := filepath.Join(root, "store")
	require.NoError(tb, os.RemoveAll(dir))
	return dir
}

// fillLogs appends the volume to the logs, each writer to its own in turn.
func fillLogs(tb testing.TB, shape unsyncedShape, appendSet func(log int, msgs []codec.Message) error, settle func() error) (int64, time.Duration) {
	writers := min(shape.logs, maxUnsyncedWriters)
	sets := max(*volume/int64(shape.batch*shape.size)/int64(writers), 1)
	var wg sync.WaitGroup
	start := time.Now()
	for w := range writers {
		wg.Go(func() {
			src := newSource(shape.batch, shape.size, w)
			log := w
			for range sets {
				if err := appendSet(log, src.next()); err != nil {
					tb.Error(err)
					return
				}
				if log += writers; log >= shape.logs {
					log = w
				}
			}
		})
	}
	wg.Wait()
	require.NoError(tb, settle())
	return sets * int64(writers*shape.batch), time.Since(start)
}
