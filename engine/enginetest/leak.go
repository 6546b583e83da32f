package enginetest

import (
	"runtime"
	"strings"
	"time"
)

// Leaked returns the stacks of goroutines that the engine or Pebble runs, after
// giving them a moment to end. With every store closed there are none. Tests that
// run at the same time have stores of their own: call it from one that does not.
func Leaked() []string {
	var left []string
	for wait := time.Millisecond; wait < 2*time.Second; wait *= 2 {
		if left = storeGoroutines(); len(left) == 0 {
			return nil
		}
		time.Sleep(wait)
	}
	return left
}

// storeGoroutines returns the stacks that have a frame of the engine or of Pebble
// in them, but for the caller's.
func storeGoroutines() []string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	var found []string
	for i, stack := range strings.Split(string(buf), "\n\n") {
		if i == 0 { // the caller
			continue
		}
		if strings.Contains(stack, "cairn/engine.") || strings.Contains(stack, "cockroachdb/pebble") {
			found = append(found, stack)
		}
	}
	return found
}
