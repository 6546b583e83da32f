package retention

import "github.com/cairnlog/cairn/codec"

// Never is the answer of [DueAt] for a log that time alone will not change.
const Never = codec.NoTimestamp

// DueAt returns the first instant at which [Expire] or [RollIdle] has something
// to do if nothing else happens to the log: zero if there is something already
// whatever the clock says, [Never] if there will be nothing. It lets idle logs
// wait without being looked at.
//
// It must be asked again when an argument changes: after an append, a roll, an
// expiry, a truncation, a compaction, a new high watermark or log start, or new
// settings. p's jitter is that of the last segment.
func DueAt(segments []Segment, l Limits, b Bounds, p RollPolicy) codec.Timestamp {
	if len(segments) == 0 {
		return Never
	}
	e := expiry{segments: segments, limits: l, bounds: b}
	if e.takeBySize() > 0 || e.takeByLogStart() > 0 {
		return 0
	}
	due := Never
	if e.deletable(0) && l.AgeMs >= 0 {
		due = after(l.newest(&segments[0]), l.AgeMs)
	}
	active := segments[len(segments)-1]
	if active.Empty() {
		return due
	}
	due = sooner(due, after(lastActivity(active), p.age()))
	if active.FirstTimestamp < 0 {
		due = sooner(due, after(active.FirstAppend, p.age()))
	}
	return due
}

// sooner returns the earlier of two instants.
func sooner(a, b codec.Timestamp) codec.Timestamp {
	if a == Never || (b != Never && b < a) {
		return b
	}
	return a
}
