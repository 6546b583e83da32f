package fencefs_test

import (
	"io"
	"os"
	"path"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// faultFS lets a test fail, count or hook each mutating operation on the file
// system under the fence. Unlike errorfs it covers ReuseForWrite's files and
// Close. Operations are named as the fence names them.
type faultFS struct {
	vfs.FS
	mutations atomic.Int64

	mu   sync.Mutex
	rule func(op, name string) error // nil: nothing fails
}

// set replaces the rule.
func (f *faultFS) set(rule func(op, name string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rule = rule
}

// do runs op unless the rule fails it.
func (f *faultFS) do(op, name string, run func() error) error {
	f.mu.Lock()
	rule := f.rule
	f.mu.Unlock()
	if rule != nil {
		if err := rule(op, path.Base(name)); err != nil {
			return err
		}
	}
	f.mutations.Add(1)
	return run()
}

func (f *faultFS) open(op, name string, open func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	err := f.do(op, name, func() (err error) { file, err = open(); return err })
	if err != nil {
		return nil, err
	}
	return &faultFile{File: file, fs: f, name: name}, nil
}

func (f *faultFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open("create", name, func() (vfs.File, error) { return f.FS.Create(name, c) })
}

func (f *faultFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open("reuse", newname, func() (vfs.File, error) { return f.FS.ReuseForWrite(oldname, newname, c) })
}

func (f *faultFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.open("open", name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, opts...) })
}

func (f *faultFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &faultFile{File: file, fs: f, name: name, dir: true}, nil
}

func (f *faultFS) Remove(name string) error {
	return f.do("remove", name, func() error { return f.FS.Remove(name) })
}

func (f *faultFS) RemoveAll(name string) error {
	return f.do("remove", name, func() error { return f.FS.RemoveAll(name) })
}

func (f *faultFS) Rename(oldname, newname string) error {
	return f.do("rename", newname, func() error { return f.FS.Rename(oldname, newname) })
}

func (f *faultFS) Link(oldname, newname string) error {
	return f.do("link", newname, func() error { return f.FS.Link(oldname, newname) })
}

func (f *faultFS) MkdirAll(name string, perm os.FileMode) error {
	return f.do("mkdir", name, func() error { return f.FS.MkdirAll(name, perm) })
}

func (f *faultFS) Lock(name string) (l io.Closer, err error) {
	err = f.do("lock", name, func() (err error) { l, err = f.FS.Lock(name); return err })
	return l, err
}

type faultFile struct {
	vfs.File
	fs   *faultFS
	name string
	dir  bool
}

func (f *faultFile) Write(p []byte) (n int, err error) {
	err = f.fs.do("write", f.name, func() (err error) { n, err = f.File.Write(p); return err })
	return n, err
}

func (f *faultFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.fs.do("write", f.name, func() (err error) { n, err = f.File.WriteAt(p, off); return err })
	return n, err
}

func (f *faultFile) Preallocate(off, length int64) error {
	return f.fs.do("preallocate", f.name, func() error { return f.File.Preallocate(off, length) })
}

func (f *faultFile) sync(run func() error) error {
	op := "sync"
	if f.dir {
		op = "sync directory"
	}
	return f.fs.do(op, f.name, run)
}

func (f *faultFile) Sync() error     { return f.sync(f.File.Sync) }
func (f *faultFile) SyncData() error { return f.sync(f.File.SyncData) }
func (f *faultFile) SyncTo(length int64) (full bool, err error) {
	err = f.sync(func() (err error) { full, err = f.File.SyncTo(length); return err })
	return full, err
}

// Close fails as a failed close does: the file is closed all the same.
func (f *faultFile) Close() error {
	if f.dir {
		return f.File.Close()
	}
	var closed error
	err := f.fs.do("close", f.name, func() error { closed = f.File.Close(); return closed })
	if err != nil && closed == nil {
		_ = f.File.Close()
	}
	return err
}
