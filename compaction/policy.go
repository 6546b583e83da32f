package compaction

import (
	"math"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/retention"
)

// Policy is the settings of a compacted log in Kafka's terms. Mind the zero
// Policy: it lets tombstones go in the pass after the one that first keeps them
// and joins only empty segments.
type Policy struct {
	// MinLagMs keeps newer messages, and all after them, out of compaction
	// (min.compaction.lag.ms). Zero or less is off.
	MinLagMs int64
	// MinCleanableRatio is the share of cleanable bytes that must be strictly
	// exceeded (min.cleanable.dirty.ratio).
	MinCleanableRatio float64
	// DeleteRetentionMs is how long a tombstone stays after the first pass that
	// kept it (delete.retention.ms).
	DeleteRetentionMs int64
	// SegmentBytes and IndexBytes bound the segments that compaction makes of
	// several (segment.bytes, segment.index.bytes). An IndexBytes of zero or less
	// is unbounded.
	SegmentBytes, IndexBytes int64
	// IndexInterval is the wire bytes between two rows of the time index
	// (index.interval.bytes).
	IndexInterval int64
}

// maxRelative is the largest offset relative to its base that a segment may hold
// (SPEC 7.1.3).
const maxRelative = math.MaxInt32

// fits reports whether a segment may join a group of the sums so far.
func (p *Policy) fits(group, s *retention.Segment) bool {
	switch {
	case group.Bytes > p.SegmentBytes-s.Bytes:
		return false
	case s.End-1-group.Base > maxRelative:
		return false
	default:
		rows := group.IndexRows + s.IndexRows + 1 // the closing one
		return p.IndexBytes <= 0 || rows <= p.IndexBytes/retention.IndexRowBytes
	}
}

// horizon returns the delete horizon of a tombstone that is kept at now.
func (p *Policy) horizon(now codec.Timestamp) codec.Timestamp {
	return later(max(now, 0), p.DeleteRetentionMs)
}

// largest is what the lag of a segment counts from: its largest timestamp or, if
// no message has one, its last append (SPEC 5.5.18).
func largest(s *retention.Segment) codec.Timestamp {
	if s.MaxTimestamp < 0 {
		return s.LastAppend
	}
	return s.MaxTimestamp
}

// later returns t + ms, at most the largest timestamp. ms is not negative.
func later(t codec.Timestamp, ms int64) codec.Timestamp {
	if int64(t) > math.MaxInt64-ms {
		return math.MaxInt64
	}
	return t + codec.Timestamp(ms)
}

// sooner returns the earlier of two instants of which either may be
// [retention.Never].
func sooner(a, b codec.Timestamp) codec.Timestamp {
	if a == retention.Never || b != retention.Never && b < a {
		return b
	}
	return a
}
