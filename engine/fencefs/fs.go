package fencefs

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var _ vfs.FS = (*FS)(nil)

// severity returns what a failed operation on the named file leads to.
func (f *FS) severity(name string) severity {
	if f.Dir != "" && f.inner.PathDir(name) != f.inner.PathDir(f.inner.PathJoin(f.Dir, "x")) {
		return harmless
	}
	base := f.inner.PathBase(name)
	if strings.HasSuffix(base, ".log") || strings.HasPrefix(base, "MANIFEST-") || isMarker(base) {
		return critical
	}
	return retried
}

func isMarker(base string) bool { return strings.HasPrefix(base, "marker.") }

// Create implements vfs.FS. Before it creates a marker it syncs the directory:
// a marker must not outlive the file that it names.
func (f *FS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	s := f.severity(name)
	f.enter()
	if isMarker(f.inner.PathBase(name)) {
		if dir, err := f.syncDirOf(name); err != nil {
			return nil, f.finish(critical, "sync directory", dir, err)
		}
	}
	inner, err := f.inner.Create(name, category)
	return f.wrap(inner, s, "create", name, err)
}

// syncDirOf syncs the directory that holds name and returns its path.
func (f *FS) syncDirOf(name string) (string, error) {
	dir := f.inner.PathDir(name)
	d, err := f.inner.OpenDir(dir)
	if err != nil {
		return dir, err
	}
	if err := d.Sync(); err != nil {
		_ = d.Close() // the sync's error is the one that matters
		return dir, err
	}
	return dir, d.Close()
}

// ReuseForWrite implements vfs.FS.
func (f *FS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	s := max(f.severity(oldname), f.severity(newname))
	f.enter()
	inner, err := f.inner.ReuseForWrite(oldname, newname, category)
	return f.wrap(inner, s, "reuse "+oldname+" as", newname, err)
}

// OpenReadWrite implements vfs.FS.
func (f *FS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	s := f.severity(name)
	f.enter()
	inner, err := f.inner.OpenReadWrite(name, category, opts...)
	return f.wrap(inner, s, "open for writing", name, err)
}

// wrap ends an operation that opened inner for writing.
func (f *FS) wrap(inner vfs.File, s severity, op, name string, err error) (vfs.File, error) {
	if err != nil {
		return nil, f.finish(s, op, name, err)
	}
	w := &file{inner: inner, fs: f, name: name, severity: s, fd: inner.Fd()}
	f.remember(w, inner)
	return w, f.finish(s, op, name, nil)
}

// OpenDir implements vfs.FS.
func (f *FS) OpenDir(name string) (vfs.File, error) {
	inner, err := f.inner.OpenDir(name)
	if err != nil {
		return nil, err
	}
	d := &dir{File: inner, fs: f, name: name}
	f.remember(d, inner)
	return d, nil
}

// Open implements vfs.FS. The file is for reading and is not fenced.
func (f *FS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.inner.Open(name, opts...)
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldname, newname string) error {
	s := max(f.severity(oldname), f.severity(newname))
	if s != critical {
		s = harmless // OPTIONS, once an open: no loop to slow down
	}
	f.enter()
	return f.finish(s, "rename "+oldname+" to", newname, f.inner.Rename(oldname, newname))
}

// Link implements vfs.FS.
func (f *FS) Link(oldname, newname string) error {
	f.enter()
	return f.finish(harmless, "link", newname, f.inner.Link(oldname, newname))
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	f.enter()
	return f.finish(harmless, "remove", name, f.inner.Remove(name))
}

// RemoveAll implements vfs.FS.
func (f *FS) RemoveAll(name string) error {
	f.enter()
	return f.finish(harmless, "remove", name, f.inner.RemoveAll(name))
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(name string, perm os.FileMode) error {
	f.enter()
	return f.finish(harmless, "mkdir", name, f.inner.MkdirAll(name, perm))
}

// Lock implements vfs.FS. The lock is released by its Close or by Detach,
// whichever is first. After the fence has tripped Lock returns an error instead
// of parking: its caller holds nothing of Pebble's yet.
func (f *FS) Lock(name string) (io.Closer, error) {
	if f.down.Load() {
		return nil, fmt.Errorf("fencefs: lock %s: the fence has tripped", name)
	}
	f.enter()
	defer f.inflight.RUnlock()
	inner, err := f.inner.Lock(name)
	if err != nil {
		return nil, err
	}
	l := &lock{fs: f}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.locks[l] = inner
	return l, nil
}

type lock struct{ fs *FS }

func (l *lock) Close() error {
	l.fs.mu.Lock()
	inner, held := l.fs.mu.locks[l]
	delete(l.fs.mu.locks, l)
	l.fs.mu.Unlock()
	if !held {
		return nil
	}
	return inner.Close()
}

// List implements vfs.FS.
func (f *FS) List(dir string) ([]string, error) { return f.inner.List(dir) }

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (vfs.FileInfo, error) { return f.inner.Stat(name) }

// PathBase implements vfs.FS.
func (f *FS) PathBase(path string) string { return f.inner.PathBase(path) }

// PathJoin implements vfs.FS.
func (f *FS) PathJoin(elem ...string) string { return f.inner.PathJoin(elem...) }

// PathDir implements vfs.FS.
func (f *FS) PathDir(path string) string { return f.inner.PathDir(path) }

// GetDiskUsage implements vfs.FS.
func (f *FS) GetDiskUsage(path string) (vfs.DiskUsage, error) { return f.inner.GetDiskUsage(path) }

// Unwrap implements vfs.FS.
func (f *FS) Unwrap() vfs.FS { return f.inner }

// remember has Detach close inner, unless w is forgotten before.
func (f *FS) remember(w any, inner io.Closer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.open[w] = inner
}

// forget reports whether w is still open.
func (f *FS) forget(w any) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, open := f.mu.open[w]
	delete(f.mu.open, w)
	return open
}
