package main

import (
	"context"
	"time"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// query is what to count.
type query struct {
	window, late time.Duration
	from, until  time.Time // zero: no bound
}

// window is one of the answer.
type window struct {
	start  time.Time
	events int
}

// count counts the events of [from, until) in windows of event time, in order, and
// says how many it had to read.
//
// Events are at most late out of order. So nothing before the first event of
// from - late belongs to the range, and nothing after the first event of until + late:
// both are found by time, without reading what is between.
func (q query) count(ctx context.Context, p *engine.Partition) (windows []window, read int, err error) {
	offsets, err := p.Offsets()
	if err != nil {
		return nil, 0, err
	}
	start, end := offsets.Start, int64(0) // no end: that of the log
	if !q.from.IsZero() {
		if start, err = offsetAt(p, q.from.Add(-q.late)); err != nil {
			return nil, 0, err
		}
	}
	if !q.until.IsZero() {
		if end, err = offsetAt(p, q.until.Add(q.late)); err != nil || end <= start {
			return nil, 0, err
		}
	}
	counts := make(map[int64]int)
	first, last := int64(-1), int64(-1)
	for m, err := range p.Read(ctx, start, engine.ReadOptions{Before: end}) {
		if err != nil {
			return nil, read, err
		}
		read++
		at := m.Timestamp.Time()
		if at.Before(q.from) || !q.until.IsZero() && !at.Before(q.until) {
			continue
		}
		n := at.UnixNano() / int64(q.window)
		counts[n]++
		if first < 0 || n < first {
			first = n
		}
		last = max(last, n)
	}
	for n := first; n >= 0 && n <= last; n++ { // windows without events too
		windows = append(windows, window{time.Unix(0, n*int64(q.window)).UTC(), counts[n]})
	}
	return windows, read, nil
}

// offsetAt returns the offset of the first event at or after a time, the end if there
// is none.
func offsetAt(p *engine.Partition, at time.Time) (int64, error) {
	pos, err := p.OffsetFor(codec.TimestampOf(at))
	return pos.Offset, err
}
