package fencefs

import "github.com/cockroachdb/pebble/v2/vfs"

// file is a file opened for writing. All its methods park after the fence has
// tripped, even those that read: Detach closes the inner file.
type file struct {
	inner    vfs.File
	fs       *FS
	name     string
	severity severity
	fd       uintptr
}

var _ vfs.File = (*file)(nil)

func (f *file) Write(p []byte) (int, error) {
	f.fs.enter()
	n, err := f.inner.Write(p)
	return n, f.fs.finish(f.severity, "write", f.name, err)
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	f.fs.enter()
	n, err := f.inner.WriteAt(p, off)
	return n, f.fs.finish(f.severity, "write", f.name, err)
}

func (f *file) Sync() error {
	f.fs.enter()
	return f.fs.finish(f.severity, "sync", f.name, f.inner.Sync())
}

func (f *file) SyncData() error {
	f.fs.enter()
	return f.fs.finish(f.severity, "sync", f.name, f.inner.SyncData())
}

func (f *file) SyncTo(length int64) (fullSync bool, err error) {
	f.fs.enter()
	fullSync, err = f.inner.SyncTo(length)
	return fullSync, f.fs.finish(f.severity, "sync", f.name, err)
}

func (f *file) Close() error {
	f.fs.enter()
	f.fs.forget(f)
	return f.fs.finish(f.severity, "close", f.name, f.inner.Close())
}

// Preallocate's errors are harmless: Pebble ignores them, and file systems
// without the feature return one each time.
func (f *file) Preallocate(offset, length int64) error {
	f.fs.enter()
	return f.fs.finish(harmless, "preallocate", f.name, f.inner.Preallocate(offset, length))
}

func (f *file) Read(p []byte) (int, error) {
	f.fs.enter()
	n, err := f.inner.Read(p)
	return n, f.fs.finish(harmless, "read", f.name, err)
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.fs.enter()
	n, err := f.inner.ReadAt(p, off)
	return n, f.fs.finish(harmless, "read", f.name, err)
}

func (f *file) Prefetch(offset, length int64) error {
	f.fs.enter()
	return f.fs.finish(harmless, "prefetch", f.name, f.inner.Prefetch(offset, length))
}

func (f *file) Stat() (vfs.FileInfo, error) {
	f.fs.enter()
	info, err := f.inner.Stat()
	return info, f.fs.finish(harmless, "stat", f.name, err)
}

func (f *file) Fd() uintptr { return f.fd }

// dir is an open directory. Pebble panics when a sync of one fails while it
// moves a marker, so that is critical in every directory.
type dir struct {
	vfs.File // what a directory does not do, it answers itself
	fs       *FS
	name     string
}

func (d *dir) Sync() error {
	d.fs.enter()
	return d.fs.finish(critical, "sync directory", d.name, d.File.Sync())
}

func (d *dir) SyncData() error {
	d.fs.enter()
	return d.fs.finish(critical, "sync directory", d.name, d.File.SyncData())
}

func (d *dir) SyncTo(length int64) (fullSync bool, err error) {
	d.fs.enter()
	fullSync, err = d.File.SyncTo(length)
	return fullSync, d.fs.finish(critical, "sync directory", d.name, err)
}

// Close does not park: a directory opened to look something up is closed after
// the fence has tripped, too.
func (d *dir) Close() error {
	if !d.fs.forget(d) {
		return nil
	}
	return d.File.Close()
}
