package engine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cairnlog/cairn/engine/fencefs"
)

// readOnlyFS refuses everything that would change the file system, so that a store
// opened for reading cannot be written to by whatever is above it.
type readOnlyFS struct{ vfs.FS }

var errReadOnlyFS = fmt.Errorf("file system: %w", ErrReadOnly)

func (readOnlyFS) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, errReadOnlyFS }
func (readOnlyFS) Link(string, string) error                              { return errReadOnlyFS }
func (readOnlyFS) Remove(string) error                                    { return errReadOnlyFS }
func (readOnlyFS) RemoveAll(string) error                                 { return errReadOnlyFS }
func (readOnlyFS) Rename(string, string) error                            { return errReadOnlyFS }
func (readOnlyFS) MkdirAll(string, os.FileMode) error                     { return errReadOnlyFS }

func (readOnlyFS) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errReadOnlyFS
}

func (readOnlyFS) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errReadOnlyFS
}

// Lock locks a store against being opened for writing, without a change to its lock
// file. Where there is none, as in a checkpoint, nobody has opened the store yet.
func (f readOnlyFS) Lock(name string) (io.Closer, error) {
	if _, err := f.FS.Stat(name); errors.Is(err, os.ErrNotExist) {
		return io.NopCloser(nil), nil
	} else if err != nil {
		return nil, err
	}
	if f.FS == vfs.Default {
		return lockShared(name)
	}
	return f.FS.Lock(name)
}

// lockReadOnly takes the directory for a store that is opened for reading.
func (db *DB) lockReadOnly() error {
	raw := db.opts.FS
	desc, err := pebble.Peek(db.dir, raw)
	if errors.Is(err, os.ErrNotExist) || err == nil && !desc.Exists {
		return ErrNotExist
	} else if err != nil {
		return err
	}
	if err := db.resolveDir(); err != nil {
		return err
	}
	db.fence = fencefs.New(readOnlyFS{raw}, db.fail)
	db.fence.Dir = db.dir
	if db.held, err = directories.takeShared(raw, db.dir); err == nil {
		db.lock, err = pebble.LockDirectory(db.dir, db.fence)
	}
	if err != nil && (lockIsHeld(err) || errors.Is(err, ErrLocked)) {
		return fmt.Errorf("%w: to read it meanwhile, make a checkpoint where it is open and open that: %w", ErrLocked, err)
	}
	return err
}

// directories are those that this process has open, on the operating system's file
// system. Its locks are between processes only, and go when any descriptor of the
// lock file is closed, whoever took them.
var directories dirSet

type dirSet struct {
	mu   sync.Mutex
	open map[string]int // how many read it; -1: one writes
}

func (s *dirSet) takeShared(raw vfs.FS, dir string) (release func(), err error) {
	return s.take(raw, dir, false)
}

func (s *dirSet) takeExclusive(raw vfs.FS, dir string) (release func(), err error) {
	return s.take(raw, dir, true)
}

func (s *dirSet) take(raw vfs.FS, dir string, exclusive bool) (release func(), err error) {
	if raw != vfs.Default {
		return func() {}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.open[dir]
	if n < 0 || exclusive && n > 0 {
		return nil, fmt.Errorf("%w: by this process", ErrLocked)
	}
	if s.open == nil {
		s.open = make(map[string]int)
	}
	if s.open[dir] = n + 1; exclusive {
		s.open[dir] = -1
	}
	return sync.OnceFunc(func() { s.release(dir) }), nil
}

func (s *dirSet) release(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.open[dir]; n > 1 {
		s.open[dir] = n - 1
	} else {
		delete(s.open, dir)
	}
}
