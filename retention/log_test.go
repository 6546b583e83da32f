package retention_test

import (
	"math"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/retention"
)

// t0 is the clock every scenario starts at.
const t0 = 1_500_000_000_000

// recordBytes is the wire size of the standard record of the scenarios.
const recordBytes = 100

// testLog is the least log that can carry out the package's decisions.
type testLog struct {
	segments []retention.Segment
	start    int64
	end      int64
	now      codec.Timestamp
	roll     retention.RollPolicy
	interval int64
}

// newLog returns a log with size, time and index rolls off.
func newLog() *testLog {
	return &testLog{
		segments: []retention.Segment{retention.NewSegment(0)},
		now:      t0,
		roll:     retention.RollPolicy{SegmentBytes: 1 << 20, SegmentMs: math.MaxInt64},
		interval: 4096,
	}
}

func (l *testLog) active() *retention.Segment { return &l.segments[len(l.segments)-1] }

// append adds one set of standard records, each an entry of its own, and returns
// why the segment before it was rolled.
func (l *testLog) append(timestamps ...codec.Timestamp) retention.Reason {
	return l.appendAt(l.end, timestamps...)
}

func (l *testLog) appendAt(first int64, timestamps ...codec.Timestamp) retention.Reason {
	set := retention.Set{LastOffset: first + int64(len(timestamps)) - 1, MaxTimestamp: -1}
	for _, ts := range timestamps {
		set.MaxTimestamp = max(set.MaxTimestamp, ts)
		set.WireBytes += recordBytes
	}
	why := retention.RollBefore(*l.active(), set, l.roll, l.now)
	if why != retention.NoRoll {
		l.rollTo(retention.NewBase(l.end, set.LastOffset))
	}
	for i, ts := range timestamps {
		l.active().Add(record(first+int64(i), ts, l.now), l.interval)
	}
	l.end = set.LastOffset + 1
	return why
}

func (l *testLog) tick() retention.Reason {
	why := retention.RollIdle(*l.active(), l.roll, l.now)
	if why != retention.NoRoll {
		l.rollTo(l.end)
	}
	return why
}

func (l *testLog) rollTo(base int64) {
	l.active().ClosingRow()
	l.active().Sealed = true
	l.segments = append(l.segments, retention.NewSegment(base))
}

func (l *testLog) bounds() retention.Bounds {
	return retention.Bounds{Start: l.start, HighWatermark: l.end, End: l.end}
}

// expire applies a decision.
func (l *testLog) expire(limits retention.Limits) retention.Decision {
	d := retention.Expire(l.segments, limits, l.bounds(), l.now)
	if d.RollFirst {
		l.rollTo(l.end)
	}
	l.segments = l.segments[d.Drop:]
	l.start = d.NewStart
	return d
}

func (l *testLog) bases() []int64 {
	var bases []int64
	for _, s := range l.segments {
		bases = append(bases, s.Base)
	}
	return bases
}

func (l *testLog) sizes() []int64 {
	var sizes []int64
	for _, s := range l.segments {
		sizes = append(sizes, s.Bytes)
	}
	return sizes
}

// record is a standard record as an entry.
func record(offset int64, ts, clock codec.Timestamp) retention.Appended {
	return retention.Appended{
		Last: offset, FirstTimestamp: ts, MaxTimestamp: ts, MaxOffset: offset,
		Clock: clock, WireBytes: recordBytes, StoredBytes: 90, Messages: 1,
	}
}

// age and size are limits of one kind only.
func age(ms int64) retention.Limits {
	return retention.Limits{AgeMs: ms, Bytes: retention.Unlimited}
}

func size(n int64) retention.Limits {
	return retention.Limits{AgeMs: retention.Unlimited, Bytes: n}
}
