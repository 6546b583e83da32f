//go:build race

package bench_test

// raceDetector: sync.Pool drops what it is given now and then, so allocations
// cannot be counted.
const raceDetector = true
