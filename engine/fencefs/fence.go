// Package fencefs puts a fence between Pebble and the disk.
//
// Pebble v2.1.7 exits the process, panics with a lock held, hangs or reports a
// commit that never happened when a write to its WAL, its MANIFEST, a marker or
// a directory fails. An [FS] keeps such a failure from Pebble: it records the
// first one, closes [FS.Tripped], tells its owner once, and parks the goroutine
// inside the failed call for ever. From then on every mutating call parks too,
// so nothing is written after the fence, while files opened for reading go on
// working.
//
//	           Create Write Sync ...           Open Read
//	Pebble ---------------+---------------------------+
//	                      |                           |
//	          fence: first critical error?            |
//	             no |         | yes                   |
//	                v         v                       v
//	              disk   park for ever              disk
//
// # What an owner does
//
// Any call into Pebble that writes may park, Open, Close, Flush, Checkpoint and
// Metrics included, so an owner runs them where it can also wait for Tripped,
// looks at Tripped again after each sync and before it acknowledges anything,
// and never closes a tripped Pebble. It abandons it: Detach releases the
// directory, after which the same process may open it again through a new FS.
//
// # What is critical
//
//	file                            operation                    an error
//	*.log MANIFEST-* marker.*       create, reuse, rename,       trips the fence
//	                                write, sync, close
//	a directory                     sync                         trips the fence
//	anything else (tables, OPTIONS) create, reuse, write,        is returned after
//	                                sync, close                  a pause
//	any                             remove, link, mkdir,         is returned
//	                                rename, preallocate
//
// Pebble reports a failed removal and tries it again at the next open, falls
// back to a copy after a failed link, and ignores a failed preallocation, which
// some file systems do not support. A failed flush or compaction is retried at
// once, thousands of times a second, hence the pause.
//
// An FS also makes a new MANIFEST durable before the marker that names it: it
// syncs the directory before it creates a marker. Without that a crash can leave
// a marker that names a file the directory does not hold, and a store that does
// not open (Pebble issue 5825).
package fencefs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// DefaultPause is how long a failed operation on a table waits before it
// returns. With it a full disk costs about five flush attempts a second instead
// of ten thousand, and a flush still resumes at once, to a human, when space is
// back.
const DefaultPause = 200 * time.Millisecond

// ErrDetached is the cause of a fence that Detach tripped.
var ErrDetached = errors.New("fencefs: detached from the directory")

// FS is a [vfs.FS] that stops all writing at the first critical error. It is
// safe for concurrent use. Set its fields before its first use.
type FS struct {
	// Dir is the store's directory, written as it is given to Pebble. Only
	// files in it are critical or pause, so that a checkpoint to another
	// directory can fail without failing the store. Empty means any directory;
	// leave it so when the WAL has a directory of its own.
	Dir string
	// Pause is how long a failed operation on a file that is not critical waits
	// before it returns; it ends early when the fence trips. New sets
	// DefaultPause; zero means none.
	Pause time.Duration

	inner  vfs.FS
	onTrip func(error)

	down    atomic.Bool   // set first when the fence trips: decides who trips it
	cause   error         // set before tripped is closed, never after
	tripped chan struct{} // closed when the fence trips

	// inflight is read-locked by each operation on the inner file system that
	// may change it, and locked by Detach to wait for them.
	// Invariant: no operation begins under it once down is set.
	inflight sync.RWMutex

	mu struct {
		sync.Mutex
		open  map[any]io.Closer // writable files and directories, by their wrapper
		locks map[any]io.Closer // directory locks, by their wrapper
	}
}

// New returns an FS over inner. onTrip, if not nil, is called once, when the
// fence trips, on the goroutine that met the error and before it is parked, with
// the error that Err returns. Pebble may hold locks there: onTrip must neither
// wait nor call into Pebble.
func New(inner vfs.FS, onTrip func(error)) *FS {
	f := &FS{Pause: DefaultPause, inner: inner, onTrip: onTrip, tripped: make(chan struct{})}
	f.mu.open = make(map[any]io.Closer)
	f.mu.locks = make(map[any]io.Closer)
	return f
}

// Tripped returns a channel that is closed when the fence trips.
func (f *FS) Tripped() <-chan struct{} { return f.tripped }

// Err returns why the fence tripped, nil while it has not. For a failed
// operation it is a *[fs.PathError] with the operation, the path and the cause.
func (f *FS) Err() error {
	select {
	case <-f.tripped:
		return f.cause
	default:
		return nil
	}
}

// Trip trips the fence for a reason of the owner's, such as a call of
// Pebble's Logger.Fatalf. Only the first reason is kept. Trip returns; it is for
// the caller to park if it must not return to Pebble.
func (f *FS) Trip(err error) {
	if !f.down.CompareAndSwap(false, true) {
		return
	}
	f.cause = err
	close(f.tripped)
	if f.onTrip != nil {
		f.onTrip(err)
	}
}

// Detach lets go of the directory of an abandoned store, so that it can be
// opened again by this process or another. It trips the fence if nothing has,
// waits for the operations still in flight, closes the files opened for writing
// and releases the directory locks taken through the FS. When ctx ends first,
// which takes a disk that hangs, nothing is closed or released and the context's
// error is returned; Detach may be called again.
//
// Parked goroutines stay parked for ever, and what Pebble holds stays reachable
// from their stacks: memtables, caches, files opened for reading. An owner that
// wants most of it back gives Pebble its own block cache and shrinks it.
func (f *FS) Detach(ctx context.Context) error {
	f.Trip(ErrDetached)
	drained := make(chan struct{})
	go func() {
		f.inflight.Lock()
		f.release()
		f.inflight.Unlock()
		close(drained)
	}()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("fencefs: operations still in flight: %w", ctx.Err())
	}
}

// release closes what is open, the locks last. The fence has tripped and nothing
// is in flight: an error of a close can change nothing any more, so it is dropped.
func (f *FS) release() {
	f.mu.Lock()
	open, locks := f.mu.open, f.mu.locks
	f.mu.open, f.mu.locks = make(map[any]io.Closer), nil
	f.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
	for _, c := range locks {
		_ = c.Close()
	}
}

// severity is what an error of an operation leads to.
type severity uint8

const (
	harmless severity = iota // return it
	retried                  // return it after a pause
	critical                 // trip the fence and park
)

// enter begins an operation that may change the inner file system; finish ends
// it. enter does not return once the fence has tripped.
func (f *FS) enter() {
	f.inflight.RLock()
	if f.down.Load() {
		f.inflight.RUnlock()
		park()
	}
}

// finish ends an operation begun by enter and returns its error. It does not
// return a critical one.
func (f *FS) finish(s severity, op, path string, err error) error {
	f.inflight.RUnlock()
	if err == nil {
		return nil
	}
	switch s {
	case critical:
		f.Trip(pathError(op, path, err))
		park()
	case retried:
		f.pause()
	}
	return err
}

// park ends a goroutine's work without unwinding its stack: Pebble's deferred
// calls would unlock what is not locked. A name of its own makes parked
// goroutines easy to tell in a stack dump.
func park() { select {} }

func (f *FS) pause() {
	if f.Pause <= 0 {
		return
	}
	t := time.NewTimer(f.Pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-f.tripped:
	}
}

// pathError names the operation and the path of err once: the operating system's
// errors already do, with other names.
func pathError(op, path string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	} else if le, ok := errors.AsType[*os.LinkError](err); ok {
		err = le.Err
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}
