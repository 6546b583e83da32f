package fencefs_test

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/engine/fencefs"
)

const (
	category = vfs.WriteCategoryUnspecified
	// soon is how long a test waits for what must happen.
	soon = 10 * time.Second
	// never is how long a test waits for what must not happen.
	never = 20 * time.Millisecond
)

// fenceOver returns a fence over a memory file system with the directory db.
func fenceOver(t *testing.T) (*fencefs.FS, *faultFS) {
	t.Helper()
	inner := &faultFS{FS: vfs.NewMem()}
	require.NoError(t, inner.MkdirAll("db", 0o755))
	return fencefs.New(inner, nil), inner
}

// create creates a file and fails the test if it cannot.
func create(t *testing.T, f vfs.FS, name string) vfs.File {
	t.Helper()
	file, err := f.Create(name, category)
	require.NoError(t, err)
	return file
}

// async runs op and returns a channel that is closed when op has returned.
func async(op func()) <-chan struct{} {
	done := make(chan struct{})
	go func() { op(); close(done) }()
	return done
}

func requireSoon(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(soon):
		require.FailNow(t, what)
	}
}

func requireNever(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
		require.FailNow(t, what)
	case <-time.After(never):
	}
}

// fileOps are the operations on an open file that write.
var fileOps = []struct {
	name  string // as errors name it
	run   func(vfs.File) error
	error bool // whether a failure matters
}{
	{"write", func(f vfs.File) error { _, err := f.Write([]byte("x")); return err }, true},
	{"write", func(f vfs.File) error { _, err := f.WriteAt([]byte("x"), 0); return err }, true},
	{"sync", vfs.File.Sync, true},
	{"sync", vfs.File.SyncData, true},
	{"sync", func(f vfs.File) error { _, err := f.SyncTo(1); return err }, true},
	{"close", vfs.File.Close, true},
	{"preallocate", func(f vfs.File) error { return f.Preallocate(0, 1) }, false},
}

// DESIGN 10: the first critical error is recorded and never reaches the caller.
func TestCriticalErrorTripsAndParks(t *testing.T) {
	for _, name := range []string{"db/000004.log", "db/MANIFEST-000001", "db/marker.manifest.000001.MANIFEST-000001"} {
		for _, op := range fileOps {
			if !op.error {
				continue
			}
			t.Run(op.name+" "+name, func(t *testing.T) {
				f, inner := fenceOver(t)
				file := create(t, f, name)
				inner.set(func(string, string) error { return syscall.EIO })
				requireTrips(t, f, op.name, name, func() { _ = op.run(file) })
			})
		}
		t.Run("create "+name, func(t *testing.T) {
			f, inner := fenceOver(t)
			inner.set(func(op, _ string) error {
				if op == "create" {
					return syscall.EIO
				}
				return nil
			})
			requireTrips(t, f, "create", name, func() { _, _ = f.Create(name, category) })
		})
		t.Run("reuse as "+name, func(t *testing.T) {
			f, inner := fenceOver(t)
			inner.set(func(string, string) error { return syscall.EIO })
			requireTrips(t, f, "reuse db/000001.log as", name, func() { _, _ = f.ReuseForWrite("db/000001.log", name, category) })
		})
		t.Run("open "+name, func(t *testing.T) {
			f, inner := fenceOver(t)
			inner.set(func(string, string) error { return syscall.EIO })
			requireTrips(t, f, "open for writing", name, func() { _, _ = f.OpenReadWrite(name, category) })
		})
		t.Run("rename to "+name, func(t *testing.T) {
			f, inner := fenceOver(t)
			inner.set(func(string, string) error { return syscall.EIO })
			requireTrips(t, f, "rename db/000002.dbtmp to", name, func() { _ = f.Rename("db/000002.dbtmp", name) })
		})
	}
	for _, sync := range []func(vfs.File) error{vfs.File.Sync, vfs.File.SyncData, fileOps[4].run} {
		f, inner := fenceOver(t)
		d, err := f.OpenDir("db")
		require.NoError(t, err)
		inner.set(func(string, string) error { return syscall.EIO })
		requireTrips(t, f, "sync directory", "db", func() { _ = sync(d) })
		require.NoError(t, d.Close(), "a directory can be closed behind the fence")
	}
}

func requireTrips(t *testing.T, f *fencefs.FS, op, name string, run func()) {
	t.Helper()
	require.NoError(t, f.Err())
	returned := async(run)
	requireSoon(t, f.Tripped(), "the fence did not trip")
	requireNever(t, returned, "a critical error reached the caller")
	pe, ok := errors.AsType[*fs.PathError](f.Err())
	require.True(t, ok, "%v", f.Err())
	require.Equal(t, op, pe.Op)
	require.Equal(t, name, pe.Path)
	require.ErrorIs(t, f.Err(), syscall.EIO)
}

// An operating system's error names its operation and path already.
func TestCauseNamesOperationAndPathOnce(t *testing.T) {
	f, inner := fenceOver(t)
	file := create(t, f, "db/000004.log")
	inner.set(func(string, string) error {
		return &fs.PathError{Op: "write", Path: "/abs/db/000004.log", Err: syscall.ENOSPC}
	})
	go func() { _, _ = file.Write([]byte("x")) }()
	requireSoon(t, f.Tripped(), "the fence did not trip")
	require.EqualError(t, f.Err(), "write db/000004.log: no space left on device")
}

// What Pebble survives by itself must not fail the store.
func TestHarmlessErrorIsReturned(t *testing.T) {
	f, inner := fenceOver(t)
	f.Pause = time.Hour // none of these pauses
	wal := create(t, f, "db/000004.log")
	inner.set(func(string, string) error { return syscall.EIO })
	require.ErrorIs(t, wal.Preallocate(0, 1), syscall.EIO)
	require.ErrorIs(t, f.Remove("db/000004.log"), syscall.EIO)
	require.ErrorIs(t, f.RemoveAll("db/000004.log"), syscall.EIO)
	require.ErrorIs(t, f.Link("db/000005.sst", "ck/000005.sst"), syscall.EIO)
	require.ErrorIs(t, f.MkdirAll("db", 0o755), syscall.EIO)
	require.ErrorIs(t, f.Rename("db/000007.dbtmp", "db/OPTIONS-000007"), syscall.EIO)
	_, err := f.Lock("db/LOCK")
	require.ErrorIs(t, err, syscall.EIO)
	require.NoError(t, f.Err())
}

// A checkpoint writes files of every kind into another directory.
func TestOtherDirectoryDoesNotTrip(t *testing.T) {
	f, inner := fenceOver(t)
	f.Dir = "db/"
	f.Pause = time.Hour
	require.NoError(t, f.MkdirAll("ck", 0o755))
	file := create(t, f, "ck/000004.log")
	inner.set(func(string, string) error { return syscall.ENOSPC })
	_, err := file.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	_, err = f.Create("ck/MANIFEST-000001", category)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Err())

	returned := async(func() { _, _ = f.Create("db/000005.log", category) })
	requireSoon(t, f.Tripped(), "the store's own directory does not trip")
	requireNever(t, returned, "a critical error reached the caller")
}

// A table's error is returned, but not at once: Pebble retries without a pause.
func TestTableErrorPauses(t *testing.T) {
	for _, op := range fileOps {
		if !op.error {
			continue
		}
		f, inner := fenceOver(t)
		f.Pause = never
		file := create(t, f, "db/000005.sst")
		inner.set(func(string, string) error { return syscall.ENOSPC })
		start := time.Now()
		require.ErrorIs(t, op.run(file), syscall.ENOSPC)
		require.GreaterOrEqual(t, time.Since(start), never, op.name)
		require.NoError(t, f.Err())
	}
}

func TestZeroPauseReturnsAtOnce(t *testing.T) {
	f, inner := fenceOver(t)
	require.Equal(t, fencefs.DefaultPause, f.Pause)
	f.Pause = 0
	inner.set(func(string, string) error { return syscall.ENOSPC })
	_, err := f.Create("db/000005.sst", category)
	require.ErrorIs(t, err, syscall.ENOSPC)
}

func TestTripEndsPause(t *testing.T) {
	f, inner := fenceOver(t)
	f.Pause = time.Hour
	inner.set(func(string, string) error { return syscall.ENOSPC })
	returned := async(func() { _, _ = f.Create("db/000005.sst", category) })
	requireNever(t, returned, "no pause")
	f.Trip(errors.New("assertion failed"))
	requireSoon(t, returned, "the pause outlasts the fence")
}

// Nothing is written after the fence, whatever the file.
func TestNoMutationAfterTrip(t *testing.T) {
	f, inner := fenceOver(t)
	names := []string{"db/000004.log", "db/MANIFEST-000001", "db/000005.sst"}
	var files []vfs.File
	for _, name := range names {
		files = append(files, create(t, f, name))
	}
	d, err := f.OpenDir("db")
	require.NoError(t, err)
	f.Trip(syscall.EIO)

	before := inner.mutations.Load()
	parked := []func(){
		func() { _ = d.Sync() },
		func() { _ = f.Rename("db/000005.sst", "db/000006.sst") },
		func() { _ = f.Link("db/000005.sst", "db/000006.sst") },
		func() { _ = f.Remove("db/000005.sst") },
		func() { _ = f.RemoveAll("db") },
		func() { _ = f.MkdirAll("db/x", 0o755) },
		func() { _, _ = f.Create("db/000006.sst", category) },
		func() { _, _ = f.OpenReadWrite("db/000006.sst", category) },
		func() { _, _ = f.ReuseForWrite("db/000004.log", "db/000006.log", category) },
		func() { _, _ = files[0].Read(nil) },
		func() { _, _ = files[0].ReadAt(nil, 0) },
		func() { _, _ = files[0].Stat() },
		func() { _ = files[0].Prefetch(0, 1) },
	}
	for _, file := range files {
		for _, op := range fileOps {
			parked = append(parked, func() { _ = op.run(file) })
		}
	}
	returned := make(chan struct{}, len(parked))
	for _, op := range parked {
		go func() { op(); returned <- struct{}{} }()
	}
	requireNever(t, returned, "an operation returned after the fence had tripped")
	_, err = f.Lock("db/LOCK")
	require.ErrorContains(t, err, "tripped")
	require.Equal(t, before, inner.mutations.Load())
}

// Reads go on: of files, of directories, of the disk's usage.
func TestReadsWorkAfterTrip(t *testing.T) {
	f, _ := fenceOver(t)
	file := create(t, f, "db/000005.sst")
	_, err := file.Write([]byte("table"))
	require.NoError(t, err)
	f.Trip(syscall.EIO)

	r, err := f.Open("db/000005.sst", vfs.RandomReadsOption)
	require.NoError(t, err)
	p := make([]byte, 5)
	_, err = r.ReadAt(p, 0)
	require.NoError(t, err)
	require.Equal(t, "table", string(p))
	require.NoError(t, r.Close())

	names, err := f.List("db")
	require.NoError(t, err)
	require.Equal(t, []string{"000005.sst"}, names)
	info, err := f.Stat("db/000005.sst")
	require.NoError(t, err)
	require.EqualValues(t, 5, info.Size())
	_, err = f.GetDiskUsage("db")
	require.ErrorIs(t, err, vfs.ErrUnsupported)
	d, err := f.OpenDir("db")
	require.NoError(t, err)
	require.NoError(t, d.Close())
	require.Equal(t, "db/x", f.PathJoin("db", "x"))
	require.Equal(t, "db", f.PathDir("db/x"))
	require.Equal(t, "x", f.PathBase("db/x"))
	require.NotNil(t, f.Unwrap())
}

// Only the first cause counts, and the owner hears of it once.
func TestTripIsOnce(t *testing.T) {
	calls := make(chan error, 10)
	inner := &faultFS{FS: vfs.NewMem()}
	f := fencefs.New(inner, func(err error) { calls <- err })
	inner.set(func(string, string) error { return syscall.EIO })
	for range 4 {
		go func() { _, _ = f.Create("000004.log", category) }()
	}
	requireSoon(t, f.Tripped(), "the fence did not trip")
	f.Trip(errors.New("a second reason"))
	require.ErrorIs(t, f.Err(), syscall.EIO)
	require.ErrorIs(t, <-calls, syscall.EIO)
	require.Never(t, func() bool { return len(calls) > 0 }, never, never/4)
}

// Pebble issue 5825: the directory entry of a MANIFEST must be durable before a
// marker names it.
func TestMarkerIsCreatedAfterDirectorySync(t *testing.T) {
	f, inner := fenceOver(t)
	var ops []string
	inner.set(func(op, name string) error { ops = append(ops, op+" "+name); return nil })
	create(t, f, "db/MANIFEST-000001")
	create(t, f, "db/marker.manifest.000001.MANIFEST-000001")
	require.Equal(t, []string{
		"create MANIFEST-000001",
		"sync directory db",
		"create marker.manifest.000001.MANIFEST-000001",
	}, ops)
}

func TestFailedDirectorySyncBeforeMarkerTrips(t *testing.T) {
	f, inner := fenceOver(t)
	inner.set(func(op, name string) error {
		if op == "sync directory" {
			return syscall.EIO
		}
		return nil
	})
	requireTrips(t, f, "sync directory", "db", func() {
		_, _ = f.Create("db/marker.manifest.000001.MANIFEST-000001", category)
	})
	names, err := f.List("db")
	require.NoError(t, err)
	require.Empty(t, names)
}

// A lock taken through the fence is released once, by whoever is first.
func TestDetachReleasesLock(t *testing.T) {
	f, inner := fenceOver(t)
	closed, err := f.Lock("db/LOCK-A")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	require.NoError(t, closed.Close(), "closing twice is harmless")

	held, err := f.Lock("db/LOCK")
	require.NoError(t, err)
	_, err = inner.Lock("db/LOCK")
	require.Error(t, err)

	require.NoError(t, f.Detach(t.Context()))
	require.ErrorIs(t, f.Err(), fencefs.ErrDetached)
	again, err := inner.Lock("db/LOCK")
	require.NoError(t, err)
	require.NoError(t, held.Close(), "the abandoned owner releases nothing of the next one's")
	_, err = inner.Lock("db/LOCK")
	require.Error(t, err)
	require.NoError(t, again.Close())
	require.NoError(t, f.Detach(t.Context()), "a second Detach is nil")
}

// The descriptors of an abandoned store do not pile up.
func TestDetachClosesWritableFiles(t *testing.T) {
	f, inner := fenceOver(t)
	var closed []string
	for _, name := range []string{"db/000004.log", "db/MANIFEST-000001", "db/000005.sst"} {
		create(t, f, name)
	}
	require.NoError(t, create(t, f, "db/000006.sst").Close())
	inner.set(func(op, name string) error { closed = append(closed, op+" "+name); return nil })
	require.NoError(t, f.Detach(t.Context()))
	require.ElementsMatch(t, []string{"close 000004.log", "close MANIFEST-000001", "close 000005.sst"}, closed)
}

// An operation that the disk holds up could still change the directory: the lock
// stays until it has ended.
func TestDetachWaitsForOperationsInFlight(t *testing.T) {
	f, inner := fenceOver(t)
	_, err := f.Lock("db/LOCK")
	require.NoError(t, err)
	file := create(t, f, "db/000004.log")
	started, hang := make(chan struct{}), make(chan struct{})
	inner.set(func(op, _ string) error {
		if op == "sync" {
			close(started)
			<-hang
		}
		return nil
	})
	synced := async(func() { _ = file.Sync() })
	<-started
	f.Trip(syscall.EIO)

	ctx, cancel := context.WithTimeout(t.Context(), never)
	defer cancel()
	require.ErrorIs(t, f.Detach(ctx), context.DeadlineExceeded)
	_, err = inner.Lock("db/LOCK")
	require.Error(t, err)
	_, err = f.Lock("db/LOCK")
	require.Error(t, err, "and does not wait")

	close(hang)
	requireSoon(t, synced, "an operation in flight ends as usual")
	require.NoError(t, f.Detach(t.Context()))
	l, err := inner.Lock("db/LOCK")
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

// nopFile takes every write.
type nopFile struct{ vfs.File }

func (nopFile) Write(p []byte) (int, error) { return len(p), nil }
func (nopFile) SyncData() error             { return nil }
func (nopFile) Fd() uintptr                 { return vfs.InvalidFd }

type nopFS struct{ *vfs.MemFS }

func (nopFS) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nopFile{}, nil }

func TestWriteAllocatesNothing(t *testing.T) {
	file := create(t, fencefs.New(nopFS{vfs.NewMem()}, nil), "db/000004.log")
	p := make([]byte, 100)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = file.Write(p)
		_ = file.SyncData()
	}))
}

func BenchmarkFencedWrite(b *testing.B) {
	file, err := fencefs.New(nopFS{vfs.NewMem()}, nil).Create("db/000004.log", category)
	require.NoError(b, err)
	p := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = file.Write(p)
	}
}
