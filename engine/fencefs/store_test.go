package fencefs_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/engine/fencefs"
)

// store is the least an engine does around a fenced Pebble.
type store struct {
	db    *pebble.DB
	fence *fencefs.FS
	dir   string

	fatal  atomic.Int64 // calls of Logger.Fatalf
	trips  atomic.Int64 // calls of onTrip
	errors atomic.Int64 // background errors
}

var errFailed = errors.New("store has failed")

// Infof, Errorf and Fatalf make store a pebble.Logger. Fatalf returns, which
// Pebble does not expect: a test that sees a call has failed.
func (s *store) Infof(string, ...any)  {}
func (s *store) Errorf(string, ...any) {}
func (s *store) Fatalf(string, ...any) { s.fatal.Add(1) }

// openStore opens a fenced Pebble in dir of inner; it returns errFailed when the
// fence trips in Open.
func openStore(t *testing.T, inner vfs.FS, dir string, tune func(*pebble.Options)) (*store, error) {
	t.Helper()
	s := &store{dir: dir}
	s.fence = fencefs.New(inner, func(error) { s.trips.Add(1) })
	s.fence.Dir = dir
	s.fence.Pause = time.Millisecond
	lock, err := pebble.LockDirectory(dir, s.fence)
	require.NoError(t, err)
	options := &pebble.Options{
		FS:                 s.fence,
		Lock:               lock,
		Logger:             s,
		FormatMajorVersion: pebble.FormatTableFormatV6,
		MemTableSize:       256 << 10,
		CacheSize:          1 << 20,
		EventListener:      &pebble.EventListener{BackgroundError: func(error) { s.errors.Add(1) }},
	}
	if tune != nil {
		tune(options)
	}
	return s, s.do(func() (err error) { s.db, err = pebble.Open(dir, options); return err })
}

// do runs a call into Pebble and gives up on it when the fence trips.
func (s *store) do(call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		if s.fence.Err() != nil { // never acknowledge behind the fence
			return errFailed
		}
		return err
	case <-s.fence.Tripped():
		return errFailed
	}
}

func key(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// appendKey writes key n; nil means on stable storage.
func (s *store) appendKey(n int) error {
	return s.do(func() error {
		b := s.db.NewBatch()
		if err := b.Set(key(n), make([]byte, 1000), nil); err != nil {
			return err
		}
		if err := s.db.ApplyNoSyncWait(b, pebble.Sync); err != nil {
			return err
		}
		return errors.Join(b.SyncWait(), b.Close())
	})
}

// requireKeys reads keys 0 to n-1.
func (s *store) requireKeys(t *testing.T, n int) {
	t.Helper()
	it, err := s.db.NewIter(nil)
	require.NoError(t, err)
	next := 0
	for ok := it.First(); ok && next < n; ok = it.Next() {
		require.Equal(t, key(next), it.Key())
		next++
	}
	require.NoError(t, it.Error())
	require.NoError(t, it.Close())
	require.Equal(t, n, next)
}

// fill appends keys from n on and flushes now and then until the store fails. It
// returns how many keys have been acknowledged.
func (s *store) fill(t *testing.T, n int) int {
	t.Helper()
	for deadline := time.Now().Add(soon); ; n++ {
		require.True(t, time.Now().Before(deadline), "the store does not fail")
		err := s.appendKey(n)
		if err == nil && n%20 == 19 {
			if s.do(s.db.Flush) != nil {
				return n + 1
			}
		}
		if err != nil {
			require.ErrorIs(t, err, errFailed)
			return n
		}
	}
}

// fault is one way for the disk to fail.
type fault struct {
	op, match string // the operation, and a part of the file's name
	err       error
	skip      int  // so many matching operations succeed first
	young     bool // at the first rotation, before there is a WAL to reuse
	tune      func(*pebble.Options)
}

// rule fails every matching operation after the first f.skip.
func (f fault) rule() func(op, name string) error {
	var seen atomic.Int64
	return func(op, name string) error {
		if op != f.op || !strings.Contains(name, f.match) || seen.Add(1) <= int64(f.skip) {
			return nil
		}
		return f.err
	}
}

// rotateManifest makes almost every flush begin a new MANIFEST.
func rotateManifest(o *pebble.Options) { o.MaxManifestFileSize = 1 }

var faults = []fault{
	{op: "create", match: ".log", err: syscall.ENOSPC, young: true},
	{op: "reuse", match: ".log", err: syscall.ENOSPC},
	{op: "write", match: ".log", err: syscall.EIO},
	{op: "write", match: ".log", err: syscall.ENOSPC, skip: 7},
	{op: "sync", match: ".log", err: syscall.EIO},
	{op: "close", match: ".log", err: syscall.EIO},
	{op: "write", match: "MANIFEST-", err: syscall.ENOSPC},
	{op: "sync", match: "MANIFEST-", err: syscall.EIO},
	{op: "create", match: "MANIFEST-", err: syscall.ENOSPC, tune: rotateManifest},
	{op: "close", match: "MANIFEST-", err: syscall.EIO, tune: rotateManifest},
	{op: "create", match: "marker.manifest", err: syscall.ENOSPC, tune: rotateManifest},
	{op: "close", match: "marker.manifest", err: syscall.EIO, tune: rotateManifest},
	{op: "sync directory", err: syscall.EIO},
	{op: "sync directory", err: syscall.EIO, skip: 1},
	{op: "sync directory", err: syscall.EIO, skip: 1, tune: rotateManifest},
}

// overEach runs test over a memory file system and over the real one.
func overEach(t *testing.T, test func(t *testing.T, inner *faultFS, dir string)) {
	t.Run("memory", func(t *testing.T) {
		mem := vfs.NewMem()
		require.NoError(t, mem.MkdirAll("db", 0o755))
		test(t, &faultFS{FS: mem}, "db")
	})
	t.Run("disk", func(t *testing.T) {
		test(t, &faultFS{FS: vfs.Default}, t.TempDir())
	})
}

// DESIGN 10: a failed write fails the store and nothing else. No Fatalf, no
// panic, no false acknowledgement, reads go on, and the same process opens the
// directory again with all that was acknowledged.
func TestPebbleFailsBehindTheFence(t *testing.T) {
	for _, f := range faults {
		name := fmt.Sprintf("%s %s %s skip=%d rotate=%t", f.op, f.match, f.err, f.skip, f.tune != nil)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			overEach(t, func(t *testing.T, inner *faultFS, dir string) {
				s, err := openStore(t, inner, dir, f.tune)
				require.NoError(t, err)
				before := 60
				if f.young {
					before = 10
				}
				for n := range before {
					require.NoError(t, s.appendKey(n))
					if n%20 == 19 {
						require.NoError(t, s.do(s.db.Flush))
					}
				}
				inner.set(f.rule())
				acked := s.fill(t, before)
				requireFailed(t, s, inner, f, acked)

				inner.set(nil)
				again, err := openStore(t, inner, dir, nil)
				require.NoError(t, err)
				again.requireKeys(t, acked)
				require.NoError(t, again.appendKey(1_000_000))
				require.NoError(t, again.db.Close())
				require.NoError(t, again.fence.Detach(t.Context()))
			})
		})
	}
}

// requireFailed checks a store whose fence has tripped, and detaches it.
func requireFailed(t *testing.T, s *store, inner *faultFS, f fault, acked int) {
	t.Helper()
	require.ErrorIs(t, s.fence.Err(), f.err)
	pe, ok := errors.AsType[*fs.PathError](s.fence.Err())
	require.True(t, ok)
	require.Contains(t, pe.Op, f.op)
	require.Contains(t, pe.Path, f.match)

	s.requireKeys(t, acked)
	require.ErrorIs(t, s.appendKey(acked), errFailed)
	require.NoError(t, s.fence.Detach(t.Context()))
	after := inner.mutations.Load()
	late := make(chan struct{}, 2)
	go func() { _ = s.db.Set(key(acked), nil, pebble.Sync); late <- struct{}{} }()
	go func() { _ = s.db.Flush(); late <- struct{}{} }()
	requireNever(t, late, "a write succeeded behind the fence")
	s.requireKeys(t, acked)
	require.Equal(t, after, inner.mutations.Load(), "something was written behind the fence")
	require.EqualValues(t, 1, s.trips.Load())
	require.Zero(t, s.fatal.Load())
}

// A disk that fails while the store opens fails Open, not the process, and the
// directory opens when the disk is well again.
func TestPebbleFailsInOpen(t *testing.T) {
	for _, f := range []fault{
		{op: "create", match: ".log", err: syscall.ENOSPC},
		{op: "sync directory", err: syscall.EIO},
		{op: "create", match: "MANIFEST-", err: syscall.ENOSPC},
		{op: "sync", match: "MANIFEST-", err: syscall.EIO},
		{op: "create", match: "marker.manifest", err: syscall.ENOSPC},
		{op: "create", match: "marker.format-version", err: syscall.ENOSPC},
	} {
		t.Run(f.op+" "+f.match, func(t *testing.T) {
			t.Parallel()
			overEach(t, func(t *testing.T, inner *faultFS, dir string) {
				inner.set(f.rule())
				s, err := openStore(t, inner, dir, nil)
				require.ErrorIs(t, err, errFailed)
				require.ErrorIs(t, s.fence.Err(), f.err)
				require.NoError(t, s.fence.Detach(t.Context()))
				require.Zero(t, s.fatal.Load())

				inner.set(nil)
				again, err := openStore(t, inner, dir, nil)
				require.NoError(t, err)
				require.NoError(t, again.appendKey(0))
				require.NoError(t, again.db.Close())
			})
		})
	}
}

// OPTIONS is written in Open only, where Pebble returns the error.
func TestFailedOptionsFileFailsOpenOnly(t *testing.T) {
	inner := &faultFS{FS: vfs.NewMem()}
	require.NoError(t, inner.MkdirAll("db", 0o755))
	for _, f := range []fault{
		{op: "write", match: "dbtmp", err: syscall.ENOSPC},
		{op: "rename", match: "OPTIONS", err: syscall.EIO},
	} {
		inner.set(f.rule())
		s, err := openStore(t, inner, "db", nil)
		require.ErrorIs(t, err, f.err)
		require.NoError(t, s.fence.Err())
		require.NoError(t, s.fence.Detach(t.Context()))
		inner.set(nil)
	}
	s, err := openStore(t, inner, "db", nil)
	require.NoError(t, err)
	require.NoError(t, s.db.Close())
}

// A full disk under a flush slows the flush's retries down and fails nothing;
// the flush succeeds when there is space again.
func TestPebbleRecoversFromFullDisk(t *testing.T) {
	overEach(t, func(t *testing.T, inner *faultFS, dir string) {
		s, err := openStore(t, inner, dir, nil)
		require.NoError(t, err)
		s.fence.Pause = never
		require.NoError(t, s.appendKey(0))

		const attempts = 4
		var failed atomic.Int64
		enough := make(chan struct{})
		inner.set(func(op, name string) error {
			if op != "write" || !strings.HasSuffix(name, ".sst") {
				return nil
			}
			if failed.Add(1) == attempts {
				close(enough)
			}
			return syscall.ENOSPC
		})
		start := time.Now()
		flushed := async(func() { _ = s.db.Flush() })
		requireSoon(t, enough, "the flush is not retried")
		require.GreaterOrEqual(t, time.Since(start), (attempts-1)*never, "the retries do not pause")
		require.NotZero(t, s.errors.Load())
		s.requireKeys(t, 1)
		require.NoError(t, s.appendKey(1))

		inner.set(nil)
		requireSoon(t, flushed, "the flush does not recover")
		require.NoError(t, s.fence.Err())
		require.NoError(t, s.db.Close())
		require.NoError(t, s.fence.Detach(t.Context()))
		require.Zero(t, s.fatal.Load())
	})
}

// Close of a healthy Pebble does not wait for more than the pauses under way.
func TestPauseDoesNotBlockClose(t *testing.T) {
	inner := &faultFS{FS: vfs.NewMem()}
	require.NoError(t, inner.MkdirAll("db", 0o755))
	s, err := openStore(t, inner, "db", nil)
	require.NoError(t, err)
	s.fence.Pause = fencefs.DefaultPause
	require.NoError(t, s.appendKey(0))
	inner.set(fault{op: "write", match: ".sst", err: syscall.ENOSPC}.rule())
	_, err = s.db.AsyncFlush()
	require.NoError(t, err)
	requireSoon(t, async(func() { _ = s.db.Close() }), "Close waits for the disk")
	require.NoError(t, s.fence.Err())
}

// A checkpoint that fails leaves the store as it was.
func TestFailedCheckpointDoesNotTrip(t *testing.T) {
	overEach(t, func(t *testing.T, inner *faultFS, dir string) {
		s, err := openStore(t, inner, dir, nil)
		require.NoError(t, err)
		require.NoError(t, s.appendKey(0))
		ck := dir + "-checkpoint"
		for _, match := range []string{".log", "MANIFEST-", "marker.format", "OPTIONS"} {
			inner.set(fault{op: "create", match: match, err: syscall.ENOSPC}.rule())
			require.ErrorIs(t, s.do(func() error { return s.db.Checkpoint(ck) }), syscall.ENOSPC, match)
			require.NoError(t, s.fence.Err())
		}
		inner.set(nil)
		require.NoError(t, s.do(func() error { return s.db.Checkpoint(ck) }))
		require.NoError(t, s.appendKey(1))
		require.NoError(t, s.db.Close())
	})
}
