package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cairnlog/cairn/engine/fencefs"
)

// lockDir makes the directory if it may and takes its lock.
func (db *DB) lockDir() error {
	if db.opts.ReadOnly {
		return db.lockReadOnly()
	}
	raw := db.opts.FS
	if db.opts.MustExist {
		desc, err := pebble.Peek(db.dir, raw)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !desc.Exists {
			return ErrNotExist
		} else if err != nil {
			return err
		}
	} else if err := makeDir(raw, db.dir); err != nil {
		return err
	}
	if err := db.resolveDir(); err != nil {
		return err
	}
	db.fence = fencefs.New(raw, db.fail)
	db.fence.Dir = db.dir
	held, err := directories.takeExclusive(raw, db.dir)
	if err != nil {
		return err
	}
	db.held = held
	lock, err := pebble.LockDirectory(db.dir, db.fence)
	if err != nil && lockIsHeld(err) {
		return fmt.Errorf("%w: %w", ErrLocked, err)
	}
	db.lock = lock
	return err
}

// resolveDir gives the directory its one name: the lock is by name.
func (db *DB) resolveDir() error {
	if db.opts.FS != vfs.Default {
		return nil
	}
	dir, err := filepath.EvalSymlinks(db.dir)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return err
	}
	db.dir = dir
	return nil
}

// makeDir makes a directory and what is missing above it, and syncs each parent:
// a store must not vanish with a directory entry.
func makeDir(raw vfs.FS, dir string) error {
	if _, err := raw.Stat(dir); err == nil {
		return raw.MkdirAll(dir, 0o755) // which knows a file from a directory
	}
	parent := raw.PathDir(dir)
	if parent != dir {
		if err := makeDir(raw, parent); err != nil {
			return err
		}
	}
	if err := raw.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	d, err := raw.OpenDir(parent)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// sharingViolation is what Windows answers for a file that somebody has open.
const sharingViolation = syscall.Errno(32)

// lockIsHeld tells a lock somebody has from one that cannot be taken. Within one
// process Pebble has no other sign than its text.
func lockIsHeld(err error) bool {
	_, isPath := errors.AsType[*fs.PathError](err)
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return true
	case runtime.GOOS == "windows":
		return errors.Is(err, sharingViolation)
	default:
		return !isPath && strings.Contains(err.Error(), "lock held by current process")
	}
}

// detachTimeout bounds how long Close waits for operations of a failed store that
// the disk still has in hand. Past it the directory stays locked: it cannot be
// given to another store while this one may still write.
const detachTimeout = 10 * time.Second

// releaseLock gives the directory back. A failed store's Pebble instance is
// abandoned, so its files are closed and its share of the lock is taken from it.
func (db *DB) releaseLock() error {
	if db.held != nil {
		defer db.held()
	}
	if db.lock == nil {
		return nil
	}
	err := db.lock.Close()
	if !db.hasFailed() {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), detachTimeout)
	defer cancel()
	return errors.Join(err, db.fence.Detach(ctx))
}
