package compaction

import (
	"context"
	"errors"
	"hash/maphash"
	"math"
	"slices"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// group is the segments that become one, as far as the pass has come.
type group struct {
	first, last int // indexes of its segments
	// segment is that of the survivors so far.
	segment retention.Segment
	// changed: something of the group is written. Until then the stored index rows
	// are those that segment would have, and are left alone.
	changed bool
	// again: the group is gone over for the second time, to write all of its rows.
	again bool
	// rows is the index rows that segment has so far, while nothing is changed.
	rows rowChain
	// cleared is up to where the index was replaced or is as it should be.
	cleared place
	// What to go back to when the group is gone over again.
	stats   Stats
	horizon codec.Timestamp
	done    int64
}

// errReindex says that the stored index or segment row of an unchanged group is
// not what its entries say: a pass ended within it, index.interval.bytes was
// changed, or the log start moved. The group is gone over again, and all of its
// rows are written.
var errReindex = errors.New("index differs")

// rowChain stands for a sequence of index rows.
type rowChain struct {
	rows int64
	sum  uint64
}

func (c *rowChain) add(seed maphash.Seed, row retention.IndexRow) {
	c.rows++
	c.sum = c.sum*31 + maphash.Comparable(seed, row)
}

// open begins the group of segment i.
func (p *pass) open(i int) {
	base := p.segments[i].Base
	p.group = group{
		first: i, last: i,
		segment: retention.NewSegment(base),
		cleared: place{codec.NoTimestamp, base - 1},
		stats:   p.stats, horizon: p.horizon, done: p.done,
	}
	p.step.reset()
	p.stats.SegmentsBefore++
}

// again begins the current group anew, with all index rows to write.
func (p *pass) again() {
	g := p.group
	p.stats, p.horizon, p.done = g.stats, g.horizon, g.done
	p.open(g.first)
	p.group.changed, p.group.again = true, true
}

// clean goes over the segments from the log start on.
func (p *pass) clean(ctx context.Context) error {
	if len(p.segments) == 0 {
		return nil
	}
	var total int64
	for i := range p.segments {
		total += p.segments[i].Bytes
	}
	p.begin(Cleaning, total)
	p.open(0)
	each := func(key, value []byte) error { return p.entry(ctx, key, value) }
	to := p.upper(len(p.segments) - 1)
	for {
		from := max(p.segments[p.group.first].Base, p.plan.log.Bounds.Start)
		err := p.store.Scan(ctx, p.logRange(from, to), each)
		for err == nil && p.group.first < len(p.segments) {
			err = p.endSegment(ctx)
		}
		if !errors.Is(err, errReindex) {
			return err
		}
		p.again()
	}
}

// endSegment ends the last segment of the group, and the group if the next
// segment does not fit into it. After the last segment there is no group.
func (p *pass) endSegment(ctx context.Context) error {
	g := &p.group
	next := g.last + 1
	if next < len(p.segments) && p.upper(next) <= p.mapped && p.policy.fits(&g.segment, &p.segments[next]) {
		if err := p.change(ctx); err != nil {
			return err
		}
		p.stats.SegmentsBefore++
		g.last = next
		return nil
	}
	if err := p.endGroup(ctx); err != nil {
		return err
	}
	if next == len(p.segments) {
		p.group.first = next
		return nil
	}
	p.open(next)
	return nil
}

// change is called before the first thing of a group is written. The index rows
// so far stay if they are those of the survivors so far. One more may be there
// that reaches the same timestamp, due a little later or the closing one: the next
// rows replace it.
func (p *pass) change(ctx context.Context) error {
	g := &p.group
	if g.changed || p.o.DryRun {
		return nil
	}
	more, err := p.rowsAfter(ctx, g.segment.MaxTimestamp)
	if err != nil {
		return err
	}
	if len(more) > 1 || len(more) == 1 && more[0].Timestamp != g.segment.MaxTimestamp {
		return errReindex
	}
	g.changed = true
	return nil
}

// unchanged returns errReindex if the group's stored rows are not what a log with
// these entries has.
func (p *pass) unchanged(ctx context.Context) error {
	g := &p.group
	more, err := p.rowsAfter(ctx, math.MaxInt64)
	if err != nil {
		return err
	}
	var closing []retention.IndexRow
	if row, due := g.segment.ClosingRow(); due {
		closing = append(closing, row)
	}
	if !slices.Equal(more, closing) || !sameEntries(&g.segment, &p.segments[g.first]) {
		return errReindex
	}
	return nil
}

// rowsAfter checks that the stored index of the group begins with the rows its
// entries made due, and returns what follows up to a timestamp: at most two rows.
// The companion and the timestamps must agree.
func (p *pass) rowsAfter(ctx context.Context, upTo codec.Timestamp) (more []retention.IndexRow, err error) {
	g, seed := &p.group, p.newest.seed
	var same, companion, timestamps rowChain
	r := keys.LogRange(p.plan.log.Partition.Companion(), g.segment.Base, p.upper(g.last))
	err = p.scanRows(ctx, r, func(key, value []byte) bool {
		row, err := codec.ParseIndexRow(key, value)
		if err != nil || row.Timestamp > upTo {
			return false // damaged is as good as missing
		}
		companion.add(seed, retention.IndexRow{Timestamp: row.Timestamp})
		if same.rows < g.rows.rows {
			same.add(seed, row)
		} else if len(more) < 2 {
			more = append(more, row)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	r = keys.TimestampRange(p.plan.log.Partition, g.segment.Base, g.segment.Base+1)
	err = p.scanRows(ctx, r, func(key, _ []byte) bool {
		_, _, ts, err := keys.DecodeTimestamp(key)
		if err != nil || codec.Timestamp(ts) > upTo {
			return false
		}
		timestamps.add(seed, retention.IndexRow{Timestamp: codec.Timestamp(ts)})
		return true
	})
	if err == nil && (same != g.rows || companion != timestamps) {
		err = errReindex
	}
	return more, err
}

// scanRows scans until each is false.
func (p *pass) scanRows(ctx context.Context, r keys.Range, each func(key, value []byte) bool) error {
	err := p.store.Scan(ctx, r, func(key, value []byte) error {
		if !each(key, value) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

var errEnough = errors.New("enough")

// endGroup makes one segment of the group in a last step.
func (p *pass) endGroup(ctx context.Context) error {
	g := &p.group
	p.stats.SegmentsAfter++
	if p.o.DryRun {
		p.committed = p.stats
		return nil
	}
	if !g.changed {
		return p.unchanged(ctx)
	}
	if row, due := g.segment.ClosingRow(); due {
		p.step.row(row)
	}
	s := g.segment
	p.inherit(&s)
	p.step.Segment = &s
	p.step.joined = g.last > g.first
	return p.flush(ctx)
}

// inherit gives the new segment what its entries do not say (SPEC 9.11).
func (p *pass) inherit(s *retention.Segment) {
	olds := p.segments[p.group.first : p.group.last+1]
	s.End, s.Sealed = olds[len(olds)-1].End, true
	s.FirstAppend, s.LastAppend = codec.NoTimestamp, codec.NoTimestamp
	for i := range olds {
		if s.FirstAppend == codec.NoTimestamp {
			s.FirstAppend = olds[i].FirstAppend
		}
		if olds[i].LastAppend != codec.NoTimestamp {
			s.LastAppend = olds[i].LastAppend
		}
	}
}

// sameEntries reports whether two rows count the same entries.
func sameEntries(a, b *retention.Segment) bool {
	return a.Bytes == b.Bytes && a.StoredBytes == b.StoredBytes && a.Messages == b.Messages && a.Entries == b.Entries &&
		a.FirstTimestamp == b.FirstTimestamp && a.MaxTimestamp == b.MaxTimestamp && a.MaxOffset == b.MaxOffset
}

// flush commits what the group has in the step.
func (p *pass) flush(ctx context.Context) error {
	g, s := &p.group, &p.step
	last := s.Segment != nil
	if s.empty() && !last {
		return nil
	}
	s.Base, s.End = g.segment.Base, p.upper(g.last)
	s.CleanPoint, s.TombstoneDue = p.reached(g.first)
	if last {
		s.CleanPoint, s.TombstoneDue = p.reached(g.last + 1)
	}
	s.index.after, s.index.to = g.cleared, g.cleared
	if n := len(s.Rows); n > 0 {
		s.index.to = place{s.Rows[n-1].Timestamp, s.Rows[n-1].Offset}
	}
	s.index.whole = last && p.rowsBehind(s.index.to)
	s.index.clear = s.index.whole || len(s.Rows) > 0
	g.cleared = s.index.to
	return p.commit(ctx)
}

// rowsBehind reports whether the stored index of the group may have rows above
// the last new one. The offset of a row shrinks with the wrapper it is of.
func (p *pass) rowsBehind(last place) bool {
	g := &p.group
	old := &p.segments[g.first]
	return g.again || g.last > g.first || old.IndexedTimestamp > last.timestamp || old.MaxOffset > last.offset
}
