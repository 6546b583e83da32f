package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// logCheck verifies one partition. It goes once over the entries, beside the index rows
// of their segment and the rows of transactions, so what it needs does not grow with
// the log but for the segment rows.
type logCheck struct {
	*verifier
	id       keys.Partition
	settings *topicSettings
	state    partitionState
	segments []segmentRow
	// foreign: there are index rows that belong to no segment.
	foreign bool
	// next is the offset after the entry gone over, at first where the log begins.
	next int64
	end  int64 // the log's, LEO
	// lossy: not every message could be read.
	lossy bool
	// transactional: there are transactions. stateOK: the state row could be read.
	// badState, badEnd: that is found to be wrong.
	transactional, stateOK, badState, badEnd bool
	newestEpoch                              int32 // -1 for none
	first                                    int64 // offset that there is, -1 for none
}

// segmentRow is a segment as the manifest has it, and what is wrong with it.
type segmentRow struct {
	// Segment is what load makes of it: the active one with the entries behind its row.
	// Base alone where the row is damaged.
	retention.Segment
	stored   retention.Segment // the row itself
	readable bool              // the row
	rebuild  bool              // row and index are to be made anew
}

// dense reports whether each offset must be there.
func (c *logCheck) dense() bool { return c.state.Cleaned == nil && !c.state.Holes }

// find notes a finding.
func (c *logCheck) find(offset int64, kind FindingKind, format string, args ...any) {
	c.badState = c.badState || kind == BadState
	c.badEnd = c.badEnd || kind == BadEnd
	c.verifier.find(c.id, offset, kind, format, args...)
}

func (c *logCheck) malformed(s *rowScan, err error) error {
	if c.broken == nil {
		c.broken = make(map[keys.Partition]bool)
	}
	c.broken[c.id] = true
	return c.verifier.malformed(s, err)
}

func (c *logCheck) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		c.readState, c.readSegments, c.entries, c.foreignRows, c.epochs, c.producers,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	c.alarm()
	return nil
}

func (c *logCheck) readState(context.Context) error {
	value, err := c.view.get(keys.AppendState(nil, c.id))
	if err != nil {
		return err
	}
	c.state, err = decodeState(value)
	if errors.Is(err, ErrNewerFormat) {
		return err
	} else if err != nil {
		c.find(-1, BadState, "%v", err)
		c.state = partitionState{Version: stateVersion, Holes: true} // what was known of holes is lost
		if c.settings.cleanupCompact {
			c.state.Cleaned = &cleaned{TombstoneDue: retention.Never}
		}
	}
	c.stateOK = err == nil
	return nil
}

// sum adds up the segments for the progress.
func (v *verifier) sum(ctx context.Context) error {
	return v.each(ctx, keys.SegmentsRange(), func(s *rowScan) error {
		if seg, err := retention.DecodeSegment(s.value); err == nil {
			v.at.Total += seg.StoredBytes
		}
		return nil
	})
}

// readSegments reads the manifest. A key tells where a segment begins whatever its row
// says.
func (c *logCheck) readSegments(ctx context.Context) error {
	err := c.each(ctx, keys.SegmentRange(c.id, 0, maxOffset), func(s *rowScan) error {
		_, base, err := keys.DecodeSegment(s.key)
		if err != nil {
			return c.malformed(s, err)
		}
		row := segmentRow{Segment: retention.NewSegment(base)}
		seg, err := retention.DecodeSegment(s.value)
		switch {
		case errors.Is(err, retention.ErrNewerVersion):
			return fmt.Errorf("%w: %w", ErrNewerFormat, err)
		case err != nil:
			c.find(base, BadSegment, "%v", err)
		case seg.Base != base:
			c.find(base, BadSegment, "row of a segment that begins at %d", seg.Base)
		default:
			row.Segment, row.stored, row.readable = seg, seg, true
		}
		row.rebuild = !row.readable
		c.segments = append(c.segments, row)
		return nil
	})
	if err == nil {
		err = c.impliedSegments(ctx)
	}
	c.Segments += int64(len(c.segments))
	c.next = c.state.LogStart
	if len(c.segments) > 0 {
		c.next = max(c.next, c.segments[0].Base)
	}
	c.end = c.next
	c.order()
	return err
}

// impliedSegments finds segments that have lost their row: there are index rows of them,
// or entries, where no other segment is.
func (c *logCheck) impliedSegments(ctx context.Context) error {
	err := c.each(ctx, keys.TimestampRange(c.id, 0, maxOffset), func(s *rowScan) error {
		_, base, _, err := keys.DecodeTimestamp(s.key)
		if err != nil {
			return nil // found with the foreign rows
		}
		s.skip(keys.TimestampRange(c.id, base+1, base+1).Start)
		c.imply(base)
		return nil
	})
	if err != nil {
		return err
	}
	scan := c.view.scan(keys.LogRange(c.id, c.state.LogStart, maxOffset))
	defer scan.close()
	c.first = -1
	if ok, err := scan.next(ctx); err != nil || !ok {
		return err
	}
	c.first = c.state.LogStart
	if e, err := codec.ParseEntry(scan.key, scan.value); err == nil && e.First >= 0 {
		c.first = e.First
	}
	if len(c.segments) == 0 || c.first < c.segments[0].Base {
		c.imply(c.first)
	}
	return nil
}

// imply adds a segment that begins at base if that is in no other.
func (c *logCheck) imply(base int64) {
	i, found := slices.BinarySearchFunc(c.segments, base, func(s segmentRow, base int64) int { return cmp.Compare(s.Base, base) })
	if found || i > 0 && !(c.segments[i-1].readable && c.segments[i-1].End <= base) {
		return
	}
	c.find(base, BadSegment, "there is no row of it")
	c.segments = slices.Insert(c.segments, i, segmentRow{Segment: retention.NewSegment(base), rebuild: true})
}

// order: all segments but the last are sealed and end where the next begins, or before.
func (c *logCheck) order() {
	for i := range c.segments {
		s, last := &c.segments[i], i == len(c.segments)-1
		switch {
		case !s.readable:
			continue
		case s.Sealed == last:
			c.badSegment(s, "sealed is %t of segment %d of %d", s.Sealed, i+1, len(c.segments))
		case s.End > c.upper(i):
			c.badSegment(s, "ends at %d, the next begins at %d", s.End, c.upper(i))
		}
		c.end = max(c.end, s.End)
	}
}

func (c *logCheck) badSegment(s *segmentRow, format string, args ...any) {
	s.rebuild = true
	c.find(s.Base, BadSegment, format, args...)
}

// upper is where a segment ends at the latest.
func (c *logCheck) upper(i int) int64 {
	if i+1 < len(c.segments) {
		return c.segments[i+1].Base
	}
	return math.MaxInt64
}

// entries goes over the log, segment by segment.
func (c *logCheck) entries(ctx context.Context) error {
	scan := c.view.scan(keys.LogRange(c.id, 0, maxOffset))
	defer scan.close()
	marks := c.transactionCheck()
	defer marks.close()
	more, err := scan.next(ctx)
	for i := range c.segments {
		s := c.segment(i)
		err = errors.Join(err, s.index.begin(ctx))
		for ; more && err == nil; more, err = scan.next(ctx) {
			_, last, keyErr := keys.DecodeLog(scan.key)
			if keyErr != nil {
				if err = c.malformed(scan, keyErr); err != nil {
					break
				}
				continue
			}
			if last >= c.upper(i) {
				break
			}
			if err = s.add(ctx, scan, last); err == nil && s.control.typ != 0 {
				err = marks.add(ctx, s.control, last)
			}
			if err != nil {
				break
			}
		}
		if err == nil {
			err = s.finish(ctx)
		}
		s.index.close()
		if err != nil {
			return err
		}
	}
	return marks.finish(ctx)
}
