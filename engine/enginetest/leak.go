package enginetest

import (
	"runtime"
	"slices"
	"strings"
	"time"
)

// Goroutines are those that the engine or Pebble runs, by number. Stores that
// failed leave some parked for ever.
type Goroutines map[string]bool

// Running returns the goroutines there are now.
func Running() Goroutines {
	g := make(Goroutines)
	for _, stack := range storeGoroutines() {
		g[number(stack)] = true
	}
	return g
}

// Leaked returns the stacks of goroutines that are new since before, after giving
// them a moment to end. Tests that run at the same time have stores of their own:
// call it from one that does not.
func Leaked(before Goroutines) (left []string) {
	for wait := time.Millisecond; wait < 2*time.Second; wait *= 2 {
		left = slices.DeleteFunc(storeGoroutines(), func(stack string) bool { return before[number(stack)] })
		if len(left) == 0 {
			return nil
		}
		time.Sleep(wait)
	}
	return left
}

// number returns the head of a stack: "goroutine 17".
func number(stack string) string {
	head, _, _ := strings.Cut(stack, " [")
	return head
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
