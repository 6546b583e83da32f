package enginetest

import (
	"math"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/retention"
)

// Truncate removes every message at or above offset (SPEC 5.3, C23). changed is
// false where there is nothing to do.
func (l *Log) Truncate(offset int64) (changed bool, code codec.Code) {
	switch {
	case offset < 0:
		return false, codec.CodeOffsetOutOfRange
	case offset <= l.Start || offset < l.Segments[0].Base: // nothing is left
		l.Reset(offset)
		return true, codec.CodeNone
	case offset >= l.End():
		return false, codec.CodeNone
	}
	n := 0
	for n+1 < len(l.Segments) && l.Segments[n+1].Base <= offset {
		n++
	}
	l.Segments = l.Segments[:n+1]
	s := l.active()
	s.Sealed = false
	var frames []Frame
	for _, f := range s.Frames {
		if f.First() < offset {
			frames = append(frames, f.before(offset))
		}
	}
	var rows []Row
	for _, r := range s.Rows {
		if r.Offset < offset {
			rows = append(rows, r)
		}
	}
	s.Frames, s.Rows = frames, rows
	if len(frames) == 0 {
		*s = Segment{Base: offset}
	}
	return true, codec.CodeNone
}

// before returns what a truncation leaves of a frame.
func (f Frame) before(offset int64) Frame {
	if f.Last() < offset {
		return f
	}
	n := int(offset - f.First())
	f.Messages, f.inner = f.Messages[:n:n], f.inner[:n:n]
	kept := make([]codec.Message, n)
	for i := range kept {
		kept[i] = f.Messages[i]
		kept[i].Timestamp = f.inner[i]
	}
	w, _, err := codec.BuildWrapper(nil, f.Compression, f.Magic, kept)
	if err != nil {
		panic(err)
	}
	f.Payload = w.Value
	if !f.LogAppend {
		f.Timestamp = w.Timestamp
	}
	return f
}

// Reset empties the log and begins it again at offset.
func (l *Log) Reset(offset int64) {
	l.Start = offset
	l.Segments = []*Segment{{Base: offset}}
}

// DeleteBefore raises the log start (SPEC 6.7).
func (l *Log) DeleteBefore(c engine.TopicConfig, offset int64) (changed bool, code codec.Code) {
	if offset == engine.HighWatermark {
		offset = l.End()
	}
	switch {
	case c.CleanupPolicy == engine.CleanupCompact:
		return false, codec.CodePolicyViolation
	case offset < 0 || offset > l.End():
		return false, codec.CodeOffsetOutOfRange
	case offset <= l.Start:
		return false, codec.CodeNone
	}
	l.Start = offset
	for len(l.Segments) > 1 && l.Segments[1].Base <= offset {
		l.Segments = l.Segments[1:]
	}
	return true, codec.CodeNone
}

// Retain rolls an idle active segment and removes what has expired (SPEC 6, 7.2).
func (l *Log) Retain(c engine.TopicConfig, now codec.Timestamp) engine.Retained {
	var r engine.Retained
	limits := c.Retention.Limits()
	if c.CleanupPolicy == engine.CleanupCompact {
		limits = retention.NoLimits()
	}
	r.ByTime = l.expiredByTime(limits, now)
	r.BySize = l.expiredBySize(limits, r.ByTime)
	r.Segments = r.ByTime + r.BySize
	for r.Segments < len(l.Segments)-1 && l.Segments[r.Segments+1].Base <= l.Start {
		r.ByLogStart++
		r.Segments++
	}
	r.Rolled = r.Segments == len(l.Segments) || l.idle(settingsOf(c), now)
	if r.Rolled {
		l.Roll()
	}
	for _, s := range l.Segments[:r.Segments] {
		r.Messages += s.messages()
		r.WireBytes += s.Bytes()
	}
	l.Segments = l.Segments[r.Segments:]
	if r.Segments > 0 {
		l.Start = max(l.Start, l.Segments[0].Base)
	}
	r.Start = l.Start
	return r
}

// removable reports whether segment i is not the empty one that waits for the next
// append.
func (l *Log) removable(i int) bool {
	return i < len(l.Segments) && (i < len(l.Segments)-1 || len(l.Segments[i].Frames) > 0)
}

// expiredByTime counts the leading segments whose newest message is too old.
func (l *Log) expiredByTime(limits retention.Limits, now codec.Timestamp) int {
	if limits.AgeMs < 0 {
		return 0
	}
	n := 0
	for l.removable(n) {
		newest, _ := l.Segments[n].Max()
		_, last := l.Segments[n].Clocks()
		if newest < 0 || limits.ClampFuture {
			newest = min(last, cmpOr(newest, last))
		}
		if int64(now-newest) <= limits.AgeMs {
			break
		}
		n++
	}
	return n
}

// cmpOr returns ts unless it is none.
func cmpOr(ts, byDefault codec.Timestamp) codec.Timestamp {
	if ts < 0 {
		return byDefault
	}
	return ts
}

// expiredBySize counts the segments after the first n without which the log is
// still as large as it may be.
func (l *Log) expiredBySize(limits retention.Limits, n int) int {
	if limits.Bytes < 0 {
		return 0
	}
	total := int64(0)
	for _, s := range l.Segments[n:] {
		total += s.Bytes()
	}
	count := 0
	for l.removable(n+count) && total-l.Segments[n+count].Bytes() >= limits.Bytes {
		total -= l.Segments[n+count].Bytes()
		count++
	}
	return count
}

// idle decides whether the active segment ends at the time now without an append.
func (l *Log) idle(s settings, now codec.Timestamp) bool {
	active := l.active()
	if len(active.Frames) == 0 {
		return false
	}
	largest, _ := active.Max()
	created, last := active.Clocks()
	age := l.age(s)
	return int64(now-max(largest, last)) > age || active.FirstTimestamp() < 0 && int64(now-created) > age
}

// age is how long the active segment may wait or span.
func (l *Log) age(s settings) int64 {
	if s.segmentMs == math.MaxInt64 {
		return s.segmentMs
	}
	return s.segmentMs - min(s.segmentMs, retention.Jitter(l.Topic, l.Number, l.active().Base, s.jitterMs, s.segmentMs))
}
