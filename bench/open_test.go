package bench_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/engine"
)

// Goal G12: opening a store of -volume bytes and asking a log for its end. A
// crashed store is a copy of the files of an open one: Open replays its WAL.
func BenchmarkOpen(b *testing.B) {
	for _, logs := range []int{1, 100} {
		for _, state := range []string{"clean", "crashed"} {
			b.Run(fmt.Sprintf("state=%s/logs=%d", state, logs), func(b *testing.B) {
				benchOpen(b, logs, state == "crashed")
			})
		}
	}
}

func benchOpen(b *testing.B, logs int, crashed bool) {
	const batch, size = 100, 1024
	dir := b.TempDir()
	shape := unsyncedShape{logs, batch, size}
	cairnDir, rawDir := filepath.Join(dir, "cairn"), filepath.Join(dir, "raw")

	cairn := openCairn(b, cairnDir, nil, logs, engine.SyncNever)
	fillLogs(b, shape, cairn.append(b), func() error { return cairn.db.Sync(b.Context()) })
	raw := openRaw(b, rawDir, vfs.Default, logs)
	fillLogs(b, shape, raw.appendNoSync, func() error { return raw.db.LogData(nil, pebble.Sync) })
	if !crashed {
		require.NoError(b, cairn.db.Close())
		require.NoError(b, raw.db.Close())
	}
	interleave(b, 0,
		opening(b, "cairn", cairnDir, func(dir string) func() error {
			s := openCairn(b, dir, nil, logs, engine.SyncNever)
			_, err := s.logs[0].Offsets()
			require.NoError(b, err)
			return s.db.Close
		}),
		opening(b, "raw", rawDir, func(dir string) func() error {
			s := openRaw(b, dir, vfs.Default, logs)
			it, err := s.db.NewIter(nil)
			require.NoError(b, err)
			it.Last()
			require.NoError(b, it.Close())
			return s.db.Close
		}),
	)
	if crashed {
		require.NoError(b, cairn.db.Close())
		require.NoError(b, raw.db.Close())
	}
}

// opening is a variant whose turn opens a copy of a store once.
func opening(tb testing.TB, name, dir string, open func(dir string) (closeStore func() error)) variant {
	return variant{name, func() (int64, time.Duration) {
		copied := filepath.Join(tb.TempDir(), "copy")
		require.NoError(tb, os.CopyFS(copied, os.DirFS(dir)))
		start := time.Now()
		closeStore := open(copied)
		took := time.Since(start)
		require.NoError(tb, closeStore())
		require.NoError(tb, os.RemoveAll(copied))
		return 1, took
	}}
}
