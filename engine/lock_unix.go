//go:build unix && !solaris && !aix

package engine

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// sharedLocks are the lock files that stores opened for reading share in this
// process: the first close of any descriptor would take the lock from all.
var sharedLocks struct {
	sync.Mutex
	files map[string]*sharedLock
}

type sharedLock struct {
	name  string
	file  *os.File
	users int
}

// lockShared locks a file that exists for reading: others may do the same, nobody may
// take it for writing meanwhile.
func lockShared(name string) (io.Closer, error) {
	sharedLocks.Lock()
	defer sharedLocks.Unlock()
	l := sharedLocks.files[name]
	if l == nil {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		flock := syscall.Flock_t{Type: syscall.F_RDLCK, Whence: io.SeekStart}
		if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &flock); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		l = &sharedLock{name: name, file: f}
		if sharedLocks.files == nil {
			sharedLocks.files = make(map[string]*sharedLock)
		}
		sharedLocks.files[name] = l
	}
	l.users++
	return &sharedHold{l: l}, nil
}

// sharedHold is one user's share.
type sharedHold struct {
	l    *sharedLock
	once sync.Once
}

// Close gives the share back.
func (h *sharedHold) Close() (err error) {
	h.once.Do(func() {
		sharedLocks.Lock()
		defer sharedLocks.Unlock()
		if h.l.users--; h.l.users == 0 {
			delete(sharedLocks.files, h.l.name)
			err = h.l.file.Close()
		}
	})
	return err
}
