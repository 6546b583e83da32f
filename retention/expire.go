package retention

import (
	"math"

	"github.com/cairnlog/cairn/codec"
)

// Bounds are the offsets of a log that retention must respect.
type Bounds struct {
	// Start is the log start offset: messages below it are gone for readers.
	Start int64
	// HighWatermark is the first offset that is not replicated, or not yet durable
	// on a log of its own. No segment that reaches beyond it is deleted.
	HighWatermark int64
	// End is the next offset of the log (LEO).
	End int64
}

// Decision is what retention does to a log: nothing when Drop is 0.
type Decision struct {
	// Drop is the number of leading segments to delete: ByTime, then BySize, then
	// ByLogStart of them.
	Drop                       int
	ByTime, BySize, ByLogStart int
	// RollFirst says that every segment goes, so a new empty one at the end of the
	// log must be created in the same step (SPEC 6.8). Offsets never go back.
	RollFirst bool
	// NewStart is the log start offset afterwards, never below the one before.
	NewStart int64
}

// Expire decides which leading segments a log gives up at the time now. segments
// are all segments in offset order, the last one active (SPEC 6.1-6.8).
//
// Time goes first, then size over what time left, then the log start. Each takes
// the oldest segments and stops at the first one that does not qualify. The
// active segment goes too if it qualifies and is not empty.
func Expire(segments []Segment, l Limits, b Bounds, now codec.Timestamp) Decision {
	e := expiry{segments: segments, limits: l, bounds: b}
	d := Decision{NewStart: b.Start}
	d.ByTime = e.take(func(s *Segment) bool {
		return l.AgeMs >= 0 && elapsed(now, l.newest(s)) > l.AgeMs
	})
	d.BySize = e.takeBySize()
	d.ByLogStart = e.takeByLogStart()
	d.Drop = e.next
	if d.Drop == 0 {
		return d
	}
	d.RollFirst = d.Drop == len(segments)
	d.NewStart = max(b.Start, e.upperBound(d.Drop-1))
	return d
}

// expiry walks over the segments of one decision.
type expiry struct {
	segments []Segment
	limits   Limits
	bounds   Bounds
	next     int // the first segment not taken yet
}

// take takes leading segments while they qualify and may go.
func (e *expiry) take(qualifies func(*Segment) bool) int {
	from := e.next
	for e.next < len(e.segments) && e.deletable(e.next) && qualifies(&e.segments[e.next]) {
		e.next++
	}
	return e.next - from
}

// takeBySize takes segments while the log does not drop below its size.
func (e *expiry) takeBySize() int {
	if e.limits.Bytes < 0 {
		return 0
	}
	total := int64(0)
	for i := e.next; i < len(e.segments); i++ {
		total = addClamped(total, e.segments[i].Bytes)
	}
	excess := total - e.limits.Bytes
	return e.take(func(s *Segment) bool {
		if excess < 0 || excess-s.Bytes < 0 {
			return false
		}
		excess -= s.Bytes
		return true
	})
}

// takeByLogStart takes segments that lie wholly below the log start. The last
// segment has no next one and stays.
func (e *expiry) takeByLogStart() int {
	from := e.next
	for e.next < len(e.segments)-1 && e.deletable(e.next) && e.upperBound(e.next) <= e.bounds.Start {
		e.next++
	}
	return e.next - from
}

// deletable reports whether the i-th segment may go at all: it is replicated up
// to its end, and it is not the empty segment that waits for the next append.
func (e *expiry) deletable(i int) bool {
	if i == len(e.segments)-1 && e.segments[i].Empty() {
		return false
	}
	return e.bounds.HighWatermark >= e.upperBound(i)
}

// upperBound is the offset at which the log goes on after the i-th segment.
func (e *expiry) upperBound(i int) int64 {
	if i == len(e.segments)-1 {
		return e.bounds.End
	}
	return e.segments[i+1].Base
}

// addClamped adds two sizes; a sum beyond int64 stays at its end (X12).
func addClamped(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
