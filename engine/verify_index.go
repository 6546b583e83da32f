package engine

import (
	"context"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// indexCheck verifies the time index of one segment. The first thing wrong with it is
// the only one reported: all of the segment's index is made anew.
type indexCheck struct {
	*segmentCheck
	bad bool
	// times are the rows a search uses, row the one that covers the entries gone over
	// now, previous the timestamp of the one before it.
	times    *rowScan
	row      retention.IndexRow
	more     bool // row is one
	previous codec.Timestamp
	largest  codec.Timestamp // of the entries gone over
}

func (x *indexCheck) fail(offset int64, format string, args ...any) {
	if !x.bad {
		x.bad, x.segmentCheck.row.rebuild = true, true
		x.find(offset, BadIndex, format, args...)
	}
}

func (x *indexCheck) begin(ctx context.Context) error {
	if err := x.places(ctx); err != nil {
		return err
	}
	x.times = x.view.scan(keys.TimestampRange(x.id, x.base(), x.base()+1))
	return x.advanceRow(ctx)
}

func (x *indexCheck) base() int64 { return x.segmentCheck.row.Base }

func (x *indexCheck) close() {
	if x.times != nil {
		x.times.close()
	}
}

// nextRow reads the next row that is not damaged.
func (x *indexCheck) nextRow(ctx context.Context, s *rowScan, parse func(key, value []byte) (retention.IndexRow, error)) (row retention.IndexRow, ok bool, err error) {
	for {
		if ok, err = s.next(ctx); err != nil || !ok {
			return row, false, err
		}
		x.IndexRows++
		if row, err = parse(s.key, s.value); err == nil {
			return row, true, nil
		}
		_, offset, keyErr := keys.DecodeLog(s.key)
		if keyErr != nil {
			offset = x.base()
		}
		x.fail(offset, "%v", err)
	}
}

// places compares the companion with the timestamps, and both with what the segment's
// row says of them. In the middle of a compaction pass they differ.
func (x *indexCheck) places(ctx context.Context) error {
	companion := x.view.scan(keys.LogRange(x.id.Companion(), x.base(), x.upper))
	defer companion.close()
	times := x.view.scan(keys.TimestampRange(x.id, x.base(), x.base()+1))
	defer times.close()
	strict := x.state.Cleaned == nil
	var stated rowCount
	for {
		c, okC, errC := x.nextRow(ctx, companion, codec.ParseIndexRow)
		if errC != nil {
			return errC
		}
		t, okT, errT := x.nextRow(ctx, times, codec.ParseTimestampRow)
		if errT != nil {
			return errT
		}
		switch {
		case !okC && !okT:
			if strict && !x.bad && x.segmentCheck.row.readable {
				x.stated(&stated)
			}
			return nil
		case strict && okT && (!okC || c.Offset > t.Offset):
			x.fail(t.Offset, "the row of timestamp %d is not in the companion", int64(t.Timestamp))
		case strict && okC && (!okT || c.Offset < t.Offset):
			x.fail(c.Offset, "the row of timestamp %d is in the companion alone", int64(c.Timestamp))
		case strict && c != t:
			x.fail(c.Offset, "%+v in the companion, %+v by timestamp", c, t)
		case okT:
			stated.add(t.Timestamp, x.segmentCheck.row.stored.IndexedTimestamp)
		}
	}
}

// rowCount counts the rows a segment's row speaks of, and those behind.
type rowCount struct {
	rows, behind int64
	last         codec.Timestamp
}

func (n *rowCount) add(ts, indexed codec.Timestamp) {
	if ts > indexed {
		n.behind++
		return
	}
	n.rows, n.last = n.rows+1, ts
}

func (x *indexCheck) stated(n *rowCount) {
	row := &x.segmentCheck.row.stored
	if n.rows == 0 {
		n.last = codec.NoTimestamp
	}
	if n.rows != row.IndexRows || n.last != row.IndexedTimestamp || row.Sealed && n.behind > 0 {
		x.fail(x.base(), "%d rows up to timestamp %d and %d behind, the segment says %d up to %d",
			n.rows, int64(n.last), n.behind, row.IndexRows, int64(row.IndexedTimestamp))
	}
}

func (x *indexCheck) advanceRow(ctx context.Context) (err error) {
	counted := x.IndexRows // by places
	x.row, x.more, err = x.nextRow(ctx, x.times, codec.ParseTimestampRow)
	x.IndexRows = counted
	return err
}

// entry verifies what the rows say of an entry: none up to a row's offset is newer than
// the row, and none that a search skips for it is newer than the row before.
func (x *indexCheck) entry(ctx context.Context, e *codec.Entry) error {
	first := e.First
	if first < 0 {
		first = e.Last
	}
	for x.more && first > x.row.Offset {
		if err := x.closeRow(ctx); err != nil {
			return err
		}
	}
	if x.more && e.Last < x.row.ScanFrom && e.MaxTimestamp > x.previous {
		x.fail(x.row.Offset, "a search that begins at %d misses timestamp %d at %d", x.row.ScanFrom, int64(e.MaxTimestamp), e.MaxOffset)
	}
	x.largest = max(x.largest, e.MaxTimestamp)
	return nil
}

func (x *indexCheck) closeRow(ctx context.Context) error {
	if x.largest > x.row.Timestamp || !x.loose && x.largest != x.row.Timestamp {
		x.fail(x.row.Offset, "the row says timestamp %d, the largest up to there is %d", int64(x.row.Timestamp), int64(x.largest))
	}
	x.previous = x.row.Timestamp
	return x.advanceRow(ctx)
}

func (x *indexCheck) finish(ctx context.Context) error {
	for x.more {
		if !x.loose && x.row.Offset >= x.all.End {
			x.fail(x.row.Offset, "a row of an offset behind the segment's end %d", x.all.End)
		}
		if err := x.closeRow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// foreignRows finds index rows that are no segment's.
func (c *logCheck) foreignRows(ctx context.Context) error {
	bases := make(map[int64]bool, len(c.segments))
	first := int64(maxOffset)
	for i := range c.segments {
		bases[c.segments[i].Base] = true
		first = min(first, c.segments[i].Base)
	}
	fail := func(offset int64, format string, args ...any) {
		if !c.foreign {
			c.foreign = true
			c.find(offset, BadIndex, format, args...)
		}
	}
	err := c.each(ctx, keys.LogRange(c.id.Companion(), 0, first), func(s *rowScan) error {
		_, offset, err := keys.DecodeLog(s.key)
		if err != nil {
			return c.malformed(s, err)
		}
		fail(offset, "a row below the first segment")
		return nil
	})
	if err != nil {
		return err
	}
	return c.each(ctx, keys.TimestampRange(c.id, 0, maxOffset), func(s *rowScan) error {
		_, base, _, err := keys.DecodeTimestamp(s.key)
		if err != nil {
			return c.malformed(s, err)
		}
		if !bases[base] {
			fail(base, "rows of a segment that does not exist")
		}
		s.skip(keys.TimestampRange(c.id, base+1, base+1).Start)
		return nil
	})
}
