package bench_test

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// datasync forces a file's data to disk as Pebble does it for its log.
func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// processorTime returns what the process has used of all processors.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
