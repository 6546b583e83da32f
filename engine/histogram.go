package engine

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// Histogram counts observations in buckets. Its unit is that of the field it is
// the value of. It is a copy: it does not change any more.
type Histogram struct {
	// Bounds are the upper bounds of the buckets, each inclusive and larger than
	// the one before. They never change while a store is open, and are not to be
	// written to.
	Bounds []int64
	// Counts are the observations in each bucket and, one more, above the last
	// bound.
	Counts []uint64
	// Sum adds up what was observed.
	Sum int64
}

// Count returns the number of observations.
func (h Histogram) Count() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Mean returns the average of what was observed, 0 if there was nothing.
func (h Histogram) Mean() float64 {
	n := h.Count()
	if n == 0 {
		return 0
	}
	return float64(h.Sum) / float64(n)
}

// Quantile returns the bound that a share q of the observations, 0 to 1, does not
// exceed: math.MaxInt64 above the last bound, 0 if there are none.
func (h Histogram) Quantile(q float64) int64 {
	n := h.Count()
	if n == 0 {
		return 0
	}
	rank := max(1, uint64(math.Ceil(min(max(q, 0), 1)*float64(n))))
	for i, bound := range h.Bounds {
		if h.Counts[i] >= rank {
			return bound
		}
		rank -= h.Counts[i]
	}
	return math.MaxInt64
}

// maxBuckets is room for the counts of any histogram here.
const maxBuckets = 20

// histogram is a Histogram being filled, by any number of goroutines and without
// an allocation.
type histogram struct {
	bounds []int64
	counts [maxBuckets + 1]atomic.Uint64
	sum    atomic.Int64
}

func (h *histogram) observe(v int64) {
	i, _ := slices.BinarySearch(h.bounds, v)
	h.counts[i].Add(1)
	h.sum.Add(v)
}

func (h *histogram) snapshot() Histogram {
	s := Histogram{Bounds: h.bounds, Counts: make([]uint64, len(h.bounds)+1), Sum: h.sum.Load()}
	for i := range s.Counts {
		s.Counts[i] = h.counts[i].Load()
	}
	return s
}

// syncBounds reach from a memory file system to a disk that hangs, in nanoseconds.
var syncBounds = durations(50*time.Microsecond, 100*time.Microsecond, 250*time.Microsecond, 500*time.Microsecond,
	time.Millisecond, 2500*time.Microsecond, 5*time.Millisecond, 10*time.Millisecond, 25*time.Millisecond,
	50*time.Millisecond, 100*time.Millisecond, 250*time.Millisecond, 500*time.Millisecond,
	time.Second, 2500*time.Millisecond, 5*time.Second, 10*time.Second)

// groupBounds are in commits.
var groupBounds = []int64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096}

func durations(list ...time.Duration) []int64 {
	bounds := make([]int64, len(list))
	for i, d := range list {
		bounds[i] = int64(d)
	}
	return bounds
}
