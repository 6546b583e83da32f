//go:build !linux

package bench_test

import (
	"os"
	"time"
)

// datasync forces a file's data to disk.
func datasync(f *os.File) error { return f.Sync() }

// processorTime is measured on Linux only.
func processorTime() time.Duration { return 0 }
