package bench_test

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// written sums up what stores wrote for their payload.
type written struct {
	wal, tables, disk, payload int64
}

func (w *written) add(fs *countingFS, payload, disk int64) {
	w.wal += fs.wal.Load()
	w.tables += fs.tables.Load()
	w.disk += disk
	w.payload += payload
}

func (w *written) report(b *testing.B, prefix string) {
	if w.payload == 0 {
		return // the variant was not run
	}
	b.ReportMetric(float64(w.wal)/float64(w.payload), prefix+"wal/payload")
	b.ReportMetric(float64(w.tables)/float64(w.payload), prefix+"tables/payload")
	b.ReportMetric(float64(w.disk)/float64(w.payload), prefix+"disk/payload")
}

// kernelWritten returns the bytes the process has sent towards the disk, as the
// kernel counts them; 0 where it does not.
func kernelWritten(tb testing.TB) int64 {
	tb.Helper()
	status, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "write_bytes:"); ok {
			var n int64
			_, err := fmt.Sscan(rest, &n)
			require.NoError(tb, err)
			return n
		}
	}
	return 0
}

// countingFS counts what is written to the WAL and to tables.
type countingFS struct {
	vfs.FS
	wal, tables atomic.Int64
}

func (f *countingFS) count(name string, file vfs.File, err error) (vfs.File, error) {
	switch {
	case err != nil:
		return nil, err
	case strings.HasSuffix(name, ".log"):
		return &countingFile{file, &f.wal}, nil
	case strings.HasSuffix(name, ".sst"):
		return &countingFile{file, &f.tables}, nil
	default:
		return file, nil
	}
}

func (f *countingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	return f.count(name, file, err)
}

func (f *countingFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(oldname, newname, c)
	return f.count(newname, file, err)
}

func (f *countingFS) Unwrap() vfs.FS { return f.FS }

type countingFile struct {
	vfs.File
	bytes *atomic.Int64
}

func (f *countingFile) Write(p []byte) (int, error) {
	f.bytes.Add(int64(len(p)))
	return f.File.Write(p)
}
