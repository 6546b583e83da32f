//go:build race

package enginetest

// Race says that the race detector is on, which makes everything ten times slower.
const Race = true
