//go:build !unix || solaris || aix

package engine

import (
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockShared locks a file that exists. Here one store may be opened for reading at a
// time.
func lockShared(name string) (io.Closer, error) { return vfs.Default.Lock(name) }
