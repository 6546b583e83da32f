package enginetest

import (
	"io"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// CrashFS is a file system in memory that calls a function after each operation
// that changes it: create, write, sync, rename, remove and so on, of files and of
// directories. The function may take a clone, as a power cut at that point would
// leave the disk.
//
// Operations that change something, and the function, run one at a time. That also
// keeps vfs.MemFS v2.1.7 from a deadlock of CrashClone with Link, Lock and
// ReuseForWrite.
type CrashFS struct {
	vfs.FS
	mem *vfs.MemFS

	mu    sync.Mutex
	after func(op int, synced bool)
	ops   int
}

// NewCrashFS returns a CrashFS over mem, which is vfs.NewCrashableMem's or a
// clone. after gets the number of the operation and whether it was a sync, and may
// be nil.
func NewCrashFS(mem *vfs.MemFS, after func(op int, synced bool)) *CrashFS {
	return &CrashFS{FS: mem, mem: mem, after: after}
}

// Ops returns how many operations there were.
func (f *CrashFS) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops
}

// do runs an operation and then the function.
func (f *CrashFS) do(op func() error) error { return f.run(false, op) }

func (f *CrashFS) run(synced bool, op func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := op()
	if f.after != nil {
		f.after(f.ops, synced)
	}
	f.ops++
	return err
}

// open runs an operation that opens a file for writing.
func (f *CrashFS) open(op func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	err := f.do(func() (err error) {
		file, err = op()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &crashFile{file, f}, nil
}

// Create implements vfs.FS.
func (f *CrashFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open(func() (vfs.File, error) { return f.mem.Create(name, c) })
}

// OpenReadWrite implements vfs.FS.
func (f *CrashFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.open(func() (vfs.File, error) { return f.mem.OpenReadWrite(name, c, opts...) })
}

// OpenDir implements vfs.FS. Opening changes nothing, syncing does.
func (f *CrashFS) OpenDir(name string) (vfs.File, error) {
	d, err := f.mem.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &crashFile{d, f}, nil
}

// ReuseForWrite implements vfs.FS. The file keeps its old bytes, as a recycled
// WAL does.
func (f *CrashFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open(func() (vfs.File, error) { return f.mem.ReuseForWrite(oldname, newname, c) })
}

// Link implements vfs.FS.
func (f *CrashFS) Link(oldname, newname string) error {
	return f.do(func() error { return f.mem.Link(oldname, newname) })
}

// Remove implements vfs.FS.
func (f *CrashFS) Remove(name string) error {
	return f.do(func() error { return f.mem.Remove(name) })
}

// RemoveAll implements vfs.FS.
func (f *CrashFS) RemoveAll(name string) error {
	return f.do(func() error { return f.mem.RemoveAll(name) })
}

// Rename implements vfs.FS.
func (f *CrashFS) Rename(oldname, newname string) error {
	return f.do(func() error { return f.mem.Rename(oldname, newname) })
}

// MkdirAll implements vfs.FS.
func (f *CrashFS) MkdirAll(dir string, perm os.FileMode) error {
	return f.do(func() error { return f.mem.MkdirAll(dir, perm) })
}

// Lock implements vfs.FS.
func (f *CrashFS) Lock(name string) (c io.Closer, err error) {
	err = f.do(func() (err error) {
		c, err = f.mem.Lock(name)
		return err
	})
	return c, err
}

// Unwrap implements vfs.FS: nobody gets around the function.
func (f *CrashFS) Unwrap() vfs.FS { return nil }

// crashFile is a file or directory of a CrashFS.
type crashFile struct {
	vfs.File
	fs *CrashFS
}

func (f *crashFile) Write(p []byte) (n int, err error) {
	err = f.fs.do(func() (err error) {
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

func (f *crashFile) WriteAt(p []byte, at int64) (n int, err error) {
	err = f.fs.do(func() (err error) {
		n, err = f.File.WriteAt(p, at)
		return err
	})
	return n, err
}

func (f *crashFile) Sync() error     { return f.fs.run(true, f.File.Sync) }
func (f *crashFile) SyncData() error { return f.fs.run(true, f.File.SyncData) }
