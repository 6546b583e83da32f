package bench_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/engine"
)

// Pebble writes the options it runs with into its directory: those of the
// baseline are the engine's.
func TestRawOptionsAreTheEngines(t *testing.T) {
	dir := t.TempDir()
	cairn := openCairn(t, filepath.Join(dir, "cairn"), nil, 1, engine.SyncAlways)
	raw := openRaw(t, filepath.Join(dir, "raw"), vfs.Default, 1)
	require.Equal(t, pebbleOptionsIn(t, filepath.Join(dir, "cairn")), pebbleOptionsIn(t, filepath.Join(dir, "raw")))
	require.NoError(t, cairn.db.Close())
	require.NoError(t, raw.db.Close())
}

// pebbleOptionsIn returns the newest options file of a store.
func pebbleOptionsIn(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "OPTIONS-*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	options, err := os.ReadFile(slices.Max(files))
	require.NoError(t, err)
	return string(options)
}
