package compaction

import (
	"math"
	"slices"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// Log is what a plan must know of a log.
type Log struct {
	Partition keys.Partition
	// Segments are all segments in offset order, the last one active.
	Segments []retention.Segment
	Bounds   retention.Bounds
	// CleanPoint and TombstoneDue are those of the last [Step] committed: 0 and
	// [retention.Never] before the first. A truncation must lower CleanPoint to
	// the offset it cuts at (SPEC 9.14, U06).
	CleanPoint   int64
	TombstoneDue codec.Timestamp
}

// Reason says why a log is due for a pass or not.
type Reason uint8

// The reasons. Dirty and Tombstones make a log eligible.
const (
	Clean      Reason = iota // there is nothing to clean
	Lagging                  // what is dirty is too young, or not replicated
	BelowRatio               // too little is dirty
	Dirty                    // the dirty ratio is exceeded
	Tombstones               // a tombstone has reached its delete horizon
)

// String returns the reason in a word or two.
func (r Reason) String() string {
	switch r {
	case Lagging:
		return "lagging"
	case BelowRatio:
		return "below ratio"
	case Dirty:
		return "dirty"
	case Tombstones:
		return "tombstones"
	default:
		return "clean"
	}
}

// Plan says what a pass over a log would do, and whether it is worth it.
type Plan struct {
	// FirstDirty is where the log begins to be dirty: the clean point, raised to
	// the log start. A clean point beyond the end of the log tells nothing about
	// what was appended since; the log counts as dirty from its start.
	FirstDirty int64
	// EndCleanable is the base of the first segment that may not be cleaned.
	EndCleanable int64
	// CleanBytes and CleanableBytes are wire bytes of segments that end at or
	// before FirstDirty, and of those from there up to EndCleanable. The segment
	// around FirstDirty counts as dirty as a whole.
	CleanBytes, CleanableBytes int64
	// Ratio is CleanableBytes in both, 0 of nothing.
	Ratio float64
	// Work says that a pass has something to do, worth it or not: what a pass on
	// demand asks.
	Work bool
	// Eligible says that the pass should run by itself; of several logs, the one
	// with the largest Ratio first.
	Eligible bool
	Reason   Reason
	// Due is the first instant at which Eligible may become true if nothing else
	// happens to the log: zero when it is, [retention.Never] when time alone
	// changes nothing. It may be too early. Ask again after a roll, a truncation,
	// a pass, a new high watermark, log start or policy.
	Due codec.Timestamp

	log      Log // Segments are those below EndCleanable
	policy   Policy
	tailLeft bool // there are dirty sealed segments above EndCleanable

	transactions []Transaction // by End
}

// PlanOf plans a pass over a log at the time now (SPEC 9.2-9.4). The active
// segment is never cleaned, nor a segment that reaches beyond the high watermark:
// a newer message that is not safe yet must not cost the older one. With a lag, the
// first dirty segment whose largest timestamp is greater than now - lag is not
// cleaned, nor any after it. The plan copies what it needs of the segments.
func PlanOf(l Log, policy Policy, now codec.Timestamp) Plan {
	p := Plan{FirstDirty: l.firstDirty(), Due: retention.Never, log: l, policy: policy}
	n, wake := p.cleanable(now)
	if len(l.Segments) > 0 {
		p.EndCleanable = l.Segments[n].Base
	}
	for i := range n {
		if s := &l.Segments[i]; l.upper(i) <= p.FirstDirty {
			p.CleanBytes += s.Bytes
		} else {
			p.CleanableBytes += s.Bytes
		}
	}
	if p.CleanableBytes > 0 {
		p.Ratio = float64(p.CleanableBytes) / (float64(p.CleanBytes) + float64(p.CleanableBytes))
	}
	p.log.Segments = slices.Clone(l.Segments[:n])
	p.judge(now, wake)
	return p
}

// judge decides whether a pass is worth it.
func (p *Plan) judge(now, wake codec.Timestamp) {
	dirty := p.EndCleanable > p.FirstDirty
	tombstones := len(p.log.Segments) > 0 && p.log.TombstoneDue != retention.Never
	due := tombstones && p.log.TombstoneDue <= now
	p.Work = dirty || due
	switch {
	case p.Ratio > p.policy.MinCleanableRatio:
		p.Reason, p.Eligible = Dirty, true
	case due:
		p.Reason, p.Eligible = Tombstones, true
	case p.CleanableBytes > 0:
		p.Reason = BelowRatio
	case p.tailLeft:
		p.Reason = Lagging
	}
	p.Due = wake
	if p.Eligible {
		p.Due = 0
	} else if tombstones {
		p.Due = sooner(wake, p.log.TombstoneDue)
	}
}

// cleanable returns the number of leading segments that may be cleaned, and when
// the lag will let go of the next one: Never if something else holds it.
func (p *Plan) cleanable(now codec.Timestamp) (n int, wake codec.Timestamp) {
	l := &p.log
	for ; n < len(l.Segments)-1; n++ {
		s, upper := &l.Segments[n], l.upper(n)
		if upper > l.Bounds.HighWatermark {
			p.tailLeft = true
			return n, retention.Never
		}
		lag := p.policy.MinLagMs
		if upper <= p.FirstDirty || lag <= 0 {
			continue
		}
		if newest := largest(s); newest > before(now, lag) {
			p.tailLeft = true
			if free := later(newest, lag); free < math.MaxInt64 {
				return n, free
			}
			return n, retention.Never
		}
	}
	return n, retention.Never
}

// before returns t - ms, at least the smallest timestamp. ms is positive.
func before(t codec.Timestamp, ms int64) codec.Timestamp {
	if int64(t) < math.MinInt64+ms {
		return math.MinInt64
	}
	return t - codec.Timestamp(ms)
}

func (l *Log) firstDirty() int64 {
	if l.CleanPoint > l.Bounds.End {
		return l.Bounds.Start
	}
	return max(l.CleanPoint, l.Bounds.Start)
}

// upper is the base of the segment after the i-th, which is not the last.
func (l *Log) upper(i int) int64 { return l.Segments[i+1].Base }
