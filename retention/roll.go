package retention

import (
	"encoding/binary"
	"math"

	"github.com/cairnlog/cairn/codec"
)

const (
	// maxRelative is the largest offset relative to its base that a segment may
	// hold: Kafka's indexes keep relative offsets in 32 bits (SPEC 7.1.3).
	maxRelative = math.MaxInt32
	// IndexRowBytes is what one time-index row counts against IndexBytes, its size
	// in Kafka's index files (SPEC 5.1.1).
	IndexRowBytes = 12
)

// RollPolicy says when a segment ends, in Kafka's terms.
type RollPolicy struct {
	// SegmentBytes is the size a segment may reach (segment.bytes).
	SegmentBytes int64
	// SegmentMs is the time it may span or wait (segment.ms). MaxInt64 is never.
	SegmentMs int64
	// JitterMs is taken off SegmentMs: the segment's own share of
	// segment.jitter.ms, as [Jitter] computes it.
	JitterMs int64
	// IndexBytes bounds the time index (segment.index.bytes) at [IndexRowBytes] a
	// row; zero or less is unbounded.
	IndexBytes int64
}

// age is the time limit of a segment. A jitter beyond it leaves zero (R08), and
// never stays never.
func (p RollPolicy) age() int64 {
	if p.SegmentMs == math.MaxInt64 {
		return p.SegmentMs
	}
	return p.SegmentMs - min(max(p.JitterMs, 0), p.SegmentMs)
}

// Reason says why a segment is rolled.
type Reason uint8

// The reasons, in the order they are tried.
const (
	NoRoll        Reason = iota
	ByOffsetRange        // an offset would not fit in 31 bits above the base
	BySize               // the set would not fit in segment.bytes
	ByIndex              // the time index is full
	BySpan               // the set is more than segment.ms newer than the first frame
	ByIdle               // nothing was appended for segment.ms
	ByAge                // the first frame has no timestamp and is older than segment.ms
)

// String returns the reason in a word or two.
func (r Reason) String() string {
	switch r {
	case ByOffsetRange:
		return "offset range"
	case BySize:
		return "size"
	case ByIndex:
		return "index full"
	case BySpan:
		return "span"
	case ByIdle:
		return "idle"
	case ByAge:
		return "age"
	default:
		return "none"
	}
}

// Set describes the set of frames about to be appended: on a leader one append,
// which is never split; on a follower in local mode one frame (SPEC C37).
type Set struct {
	LastOffset   int64
	MaxTimestamp codec.Timestamp // -1 when no frame has a timestamp
	WireBytes    int64
}

// RollBefore decides whether the active segment ends before set is appended at
// the time now, and why (SPEC 7.1, 7.2.8-12).
//
// An empty set rolls nothing, and an empty segment is rolled only when the offset
// does not fit: that keeps two segments from having one base.
func RollBefore(active Segment, set Set, p RollPolicy, now codec.Timestamp) Reason {
	switch {
	case set.WireBytes == 0:
		return NoRoll
	case set.LastOffset-active.Base > maxRelative:
		return ByOffsetRange
	case active.Empty():
		return NoRoll
	case active.Bytes > p.SegmentBytes-set.WireBytes:
		return BySize
	case indexFull(active, p):
		return ByIndex
	case set.MaxTimestamp >= 0 && active.FirstTimestamp >= 0 &&
		elapsed(set.MaxTimestamp, active.FirstTimestamp) > p.age():
		return BySpan
	default:
		return RollIdle(active, p, now)
	}
}

// RollIdle decides whether the active segment ends at the time now without an
// append (SPEC 7.2.8): nothing was appended to it for segment.ms, by the clock
// and by its own timestamps; or its first frame has no timestamp to measure a
// span from, and was appended more than segment.ms ago.
func RollIdle(active Segment, p RollPolicy, now codec.Timestamp) Reason {
	switch {
	case active.Empty():
		return NoRoll
	case elapsed(now, lastActivity(active)) > p.age():
		return ByIdle
	case active.FirstTimestamp < 0 && elapsed(now, active.FirstAppend) > p.age():
		return ByAge
	default:
		return NoRoll
	}
}

// lastActivity is the time the idle rule counts from. The clock's share keeps a
// replay of old messages from rolling at every append (SPEC C11, KAFKA-4099).
func lastActivity(s Segment) codec.Timestamp { return max(s.MaxTimestamp, s.LastAppend) }

// indexFull reports whether only the slot reserved for the closing row is left
// (SPEC 5.2.8).
func indexFull(s Segment, p RollPolicy) bool {
	return p.IndexBytes > 0 && s.IndexRows >= p.IndexBytes/IndexRowBytes-1
}

// NewBase returns the base of the segment that is opened for a set ending at
// lastOffset when end is the next offset of the log: end, unless a follower of a
// heavily compacted log skips further than a segment reaches (SPEC 7.1.3-4).
func NewBase(end, lastOffset int64) int64 { return max(end, lastOffset-maxRelative) }

// Jitter returns the share of segment.jitter.ms of one segment, in [0,
// min(jitterMs, segmentMs)). It depends on its arguments alone, so it is the same
// at every append, after a reopen and on every replica (SPEC 7.2.10, R08).
func Jitter(topic string, partition int32, base, jitterMs, segmentMs int64) int64 {
	bound := min(jitterMs, segmentMs)
	if bound <= 0 {
		return 0
	}
	var tail [12]byte
	binary.BigEndian.PutUint32(tail[:4], uint32(partition))
	binary.BigEndian.PutUint64(tail[4:], uint64(base))
	h := uint64(14695981039346656037) // FNV-1a, 64 bits
	for i := range len(topic) {
		h = (h ^ uint64(topic[i])) * 1099511628211
	}
	for _, b := range tail {
		h = (h ^ uint64(b)) * 1099511628211
	}
	// FNV spreads the last bytes badly over the high bits: finish as MurmurHash3.
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return int64((h ^ h>>33) % uint64(bound))
}
