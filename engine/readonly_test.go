package engine_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/engine/enginetest"
)

// diskStore is a store on the operating system's file system.
func diskStore(t *testing.T) *store {
	s := &store{t: t, dir: filepath.Join(t.TempDir(), "store"), clock: newWallClock(t0)}
	s.opts = engine.Options{FS: vfs.Default, Now: s.clock.Now}.SmallMemory()
	s.open()
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

type diskFile struct {
	content string
	mtime   time.Time
	mode    fs.FileMode
}

func diskFiles(t *testing.T, dir string) map[string]diskFile {
	t.Helper()
	files := map[string]diskFile{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		f := diskFile{mtime: info.ModTime(), mode: info.Mode()}
		if !d.IsDir() {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			f.content = string(b)
		}
		files[path] = f
		return nil
	}))
	return files
}

// A store opened for reading shows everything, refuses every write, and leaves not a
// byte, a name or a time of its directory changed; also where a process died and left
// a log to be read.
func TestReadOnlyOpenChangesNothing(t *testing.T) {
	s := diskStore(t)
	populate(t, s)
	s.reopen()
	want := contentsOf(t, s.DB)
	require.NoError(t, s.Close())
	readOnly := s.opts
	readOnly.ReadOnly = true
	for _, chmod := range []fs.FileMode{0o755, 0o555} {
		require.NoError(t, os.Chmod(s.dir, chmod))
		before := diskFiles(t, s.dir)
		db, err := engine.Open(s.dir, readOnly)
		require.NoError(t, err)
		require.Equal(t, want, contentsOf(t, db))
		requireReadOnly(t, db)
		require.NoError(t, db.Close())
		require.Equal(t, before, diskFiles(t, s.dir))
	}
	require.NoError(t, os.Chmod(s.dir, 0o755))
	s.open()
	require.Equal(t, want, contentsOf(t, s.DB))
}

// requireReadOnly tries everything that writes.
func requireReadOnly(t *testing.T, db *engine.DB) {
	t.Helper()
	ctx := t.Context()
	topic, ok := db.Topic("plain")
	require.True(t, ok)
	p := topic.Partition(0)
	refused := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, engine.ErrReadOnly)
	}
	_, err := p.Append(ctx, text("x"))
	refused(err)
	_, err = p.Submit(ctx, []codec.Message{text("x")}, engine.AppendOptions{})
	refused(err)
	_, err = p.Produce(ctx, produceSet(t, text("x")))
	refused(err)
	_, err = p.ProduceEnriched(ctx, nil)
	refused(err)
	b := db.NewBatch()
	b.Append(p, text("x"))
	_, err = b.Commit(ctx)
	refused(err)
	refused(db.Group("g").Commit(ctx, p, 1, ""))
	refused(db.Group("group").Delete(ctx))
	_, err = db.Begin(ctx, 1)
	refused(err)
	_, err = p.DeleteBefore(ctx, 3)
	refused(err)
	refused(p.TruncateTo(ctx, 3))
	refused(p.ResetTo(ctx, 3))
	refused(p.Drop(ctx))
	refused(p.Roll(ctx))
	_, err = p.Retain(ctx, engine.RetainOptions{})
	refused(err)
	_, err = p.Compact(ctx, engine.CompactOptions{})
	refused(err)
	_, err = db.EnsureTopic("new", engine.TopicConfig{})
	refused(err)
	refused(db.AlterTopic("plain", engine.TopicConfig{}))
	refused(db.DeleteTopic(ctx, "plain"))
	refused(db.Sync(ctx))
	refused(db.Checkpoint(ctx, filepath.Join(t.TempDir(), "copy")))
	_, err = db.Maintenance()
	require.NoError(t, err)
	_ = db.Metrics()
}

// What a crash left in the log is read into memory, and stays where it is.
func TestReadOnlyOpenAfterACrash(t *testing.T) {
	mem := vfs.NewCrashableMem()
	s := newStoreWith(t, engine.Options{FS: mem})
	populate(t, s)
	want := contentsOf(t, s.DB)
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	before, err := crashed.List(s.dir)
	require.NoError(t, err)
	for range 2 {
		db, err := engine.Open(s.dir, engine.Options{FS: crashed, Now: s.opts.Now, ReadOnly: true}.SmallMemory())
		require.NoError(t, err)
		require.Equal(t, want, contentsOf(t, db))
		require.NoError(t, db.Close())
		after, err := crashed.List(s.dir)
		require.NoError(t, err)
		require.ElementsMatch(t, before, after)
	}
}

func TestReadOnlyOpenOfNothingMakesNothing(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"", "missing"} {
		_, err := engine.Open(filepath.Join(dir, name), engine.Options{ReadOnly: true})
		require.ErrorIs(t, err, engine.ErrNotExist)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// A store that somebody writes to is refused, with a way out; several may read.
func TestReadOnlyAndWritingExcludeEachOther(t *testing.T) {
	s := diskStore(t)
	populate(t, s)
	readOnly := s.opts
	readOnly.ReadOnly = true
	_, err := engine.Open(s.dir, readOnly)
	require.ErrorIs(t, err, engine.ErrLocked)
	require.ErrorContains(t, err, "checkpoint")
	lead(t, s.named("plain", engine.TopicConfig{}), t0+50)
	require.ErrorIs(t, tryOpen(s.dir), engine.ErrLocked, "the failed open took no lock away")
	require.NoError(t, s.Close())

	one, err := engine.Open(s.dir, readOnly)
	require.NoError(t, err)
	two, err := engine.Open(s.dir, readOnly)
	require.NoError(t, err)
	require.ErrorIs(t, tryOpen(s.dir), engine.ErrLocked)
	require.NoError(t, one.Close())
	require.ErrorIs(t, tryOpen(s.dir), engine.ErrLocked)
	if !enginetest.Race {
		require.ErrorContains(t, openElsewhere(t, s.dir, ""), "exit status 3", "another process may not write")
		require.NoError(t, openElsewhere(t, s.dir, "readonly"), "but read")
	}
	require.NoError(t, two.Close())
	s.open()
	require.ErrorContains(t, openElsewhere(t, s.dir, "readonly"), "exit status 3")
	lead(t, s.named("plain", engine.TopicConfig{}), t0+51)
}

func tryOpen(dir string) error {
	db, err := engine.Open(dir, engine.Options{}.SmallMemory())
	if err == nil {
		return db.Close()
	}
	return err
}

// openElsewhere opens a store in another process: this test's binary.
func openElsewhere(t *testing.T, dir, how string) error {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestOpenInAnotherProcess$")
	cmd.Env = append(os.Environ(), "CAIRN_OPEN="+dir, "CAIRN_OPEN_HOW="+how)
	return cmd.Run()
}

// TestOpenInAnotherProcess is that process.
func TestOpenInAnotherProcess(t *testing.T) {
	dir := os.Getenv("CAIRN_OPEN")
	if dir == "" {
		t.Skip("for openElsewhere")
	}
	db, err := engine.Open(dir, engine.Options{ReadOnly: os.Getenv("CAIRN_OPEN_HOW") == "readonly"}.SmallMemory())
	if err != nil {
		os.Exit(3)
	}
	require.NoError(t, db.Close())
}
