package engine

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/retention"
)

// segmentCheck goes over the entries of one segment.
type segmentCheck struct {
	*logCheck
	row    *segmentRow
	upper  int64
	active bool
	// loose: what the row sums up is not all there any more, or not known.
	loose bool
	// counted is what the entries give that the row is of, all what all of them do.
	counted, all retention.Segment
	control      control // of the entry added last
	// skipped is the largest timestamp below the row's ScanFrom.
	skipped codec.Timestamp
	index   indexCheck
}

func (c *logCheck) segment(i int) *segmentCheck {
	s := &segmentCheck{logCheck: c, row: &c.segments[i], upper: c.upper(i), active: i == len(c.segments)-1}
	s.counted, s.all = retention.NewSegment(s.row.Base), retention.NewSegment(s.row.Base)
	s.loose = c.state.Cleaned != nil || s.row.Base < c.state.LogStart || !c.stateOK
	s.skipped = codec.NoTimestamp
	s.index = indexCheck{segmentCheck: s, previous: codec.NoTimestamp, largest: codec.NoTimestamp}
	return s
}

// add verifies the next entry.
func (s *segmentCheck) add(ctx context.Context, scan *rowScan, last int64) error {
	s.Entries++
	s.advance(len(scan.value))
	s.control = control{}
	e, err := codec.ParseEntry(scan.key, scan.value)
	if err == nil {
		err = s.messages(&e)
	}
	if err != nil {
		s.find(last, DamagedEntry, "%v", err)
		s.loose, s.lossy = true, true
		s.all.End, s.next = last+1, max(s.next, last+1)
		return s.removable(scan)
	}
	counts := s.placed(&e)
	s.next = max(s.next, last+1)
	if !counts {
		return s.removable(scan)
	}
	s.count(retention.AppendedOf(&e, len(scan.value)))
	return s.index.entry(ctx, &e)
}

// count adds an entry to what it counts for. The index is compared by itself.
func (s *segmentCheck) count(a retention.Appended) {
	s.all.Add(a, math.MaxInt64)
	if !s.active || a.Last < s.row.stored.End {
		s.counted.Add(a, math.MaxInt64)
	} else if s.row.readable { // as load does
		s.row.Add(a, math.MaxInt64)
	}
	if a.Last < s.row.stored.ScanFrom {
		s.skipped = max(s.skipped, a.MaxTimestamp)
	}
}

// messages reads the messages of an entry: those of a plain entry are not newer than
// its index row says.
func (s *segmentCheck) messages(e *codec.Entry) error {
	if err := s.cursor.Reset(e); err != nil {
		return err
	}
	m := &s.message
	for previous := int64(-1); s.cursor.Next(m); previous = m.Offset {
		if m.Offset <= previous {
			return fmt.Errorf("message %d follows %d", m.Offset, previous)
		}
		if e.Kind == codec.KindPlain && e.Control == 0 && m.Timestamp > e.MaxTimestamp {
			return fmt.Errorf("message %d has timestamp %d, the largest of the entry is %d", m.Offset, int64(m.Timestamp), int64(e.MaxTimestamp))
		}
		s.Messages++
	}
	err := s.cursor.Err()
	if err == nil && e.Control != 0 {
		s.control, err = controlOf(e.Control, m.Value)
	}
	return err
}

// placed verifies where an entry is. One that is in the place of others does not count.
func (s *segmentCheck) placed(e *codec.Entry) bool {
	first, base, start := e.First, s.row.Base, s.state.LogStart
	if first < 0 { // known by its last offset only
		first = s.next
	}
	switch {
	case e.Last < start:
		s.find(e.Last, MisplacedEntry, "entry %d to %d lies below the log start %d", first, e.Last, start)
	case e.Last < base:
		s.find(e.Last, MisplacedEntry, "entry %d to %d lies below the first segment", first, e.Last)
	case first < base:
		s.find(e.Last, MisplacedEntry, "entry %d to %d begins before its segment", first, e.Last)
	case first < s.next && s.next > start:
		s.find(e.Last, MisplacedEntry, "entry %d to %d, the one before ends at %d", first, e.Last, s.next-1)
	case first > s.next && s.dense():
		s.find(s.next, MissingOffsets, "%d to %d", s.next, first-1)
		s.loose, s.lossy = true, true
		return true
	default:
		return true
	}
	s.loose, s.lossy = true, s.lossy || e.Last >= start
	return false
}

// finish compares the segment's row with its entries.
func (s *segmentCheck) finish(ctx context.Context) error {
	s.tail()
	if err := s.index.finish(ctx); err != nil {
		return err
	}
	s.end = max(s.end, s.all.End)
	if s.row.readable && !s.row.rebuild {
		if diff := s.compare(); diff != "" {
			s.badSegment(s.row, "%s", diff)
		}
	}
	return nil
}

// tail: a log without holes goes to the end of each segment.
func (s *segmentCheck) tail() {
	to := s.upper
	if s.active {
		to = s.row.stored.End
	}
	if !s.dense() || s.next >= to {
		return
	}
	if s.active && !s.loose && sumsOf(&s.counted) == sumsOf(&s.row.stored) {
		s.row.rebuild = true
		s.find(to, BadEnd, "the log ends at %d, its entries at %d", to, s.next)
		return
	}
	s.find(s.next, MissingOffsets, "%d to %d", s.next, to-1)
	s.loose, s.lossy, s.next = true, true, to
}

// sumsOf is what a segment sums up.
func sumsOf(s *retention.Segment) [4]int64 {
	return [...]int64{s.Bytes, s.StoredBytes, s.Messages, s.Entries}
}

// compare says how the row differs from the entries, "" if it does not. A row of which
// not everything is there any more says at least as much as what is left.
func (s *segmentCheck) compare() string {
	got, want := s.row.stored, s.counted
	var diff []string
	differ := func(name string, got, want int64, bad bool) {
		if bad {
			diff = append(diff, fmt.Sprintf("%s %d, its entries give %d", name, got, want))
		}
	}
	atLeast := func(name string, got, want int64) { differ(name, got, want, got < want || !s.loose && got != want) }
	exact := func(name string, got, want int64) { differ(name, got, want, !s.loose && got != want) }
	differ("end", got.End, want.End, got.End < want.End || !s.loose && s.dense() && got.End != want.End)
	atLeast("bytes", got.Bytes, want.Bytes)
	atLeast("stored bytes", got.StoredBytes, want.StoredBytes)
	atLeast("messages", got.Messages, want.Messages)
	atLeast("entries", got.Entries, want.Entries)
	atLeast("largest timestamp", int64(got.MaxTimestamp), int64(want.MaxTimestamp))
	exact("offset of the largest timestamp", got.MaxOffset, want.MaxOffset)
	exact("first timestamp", int64(got.FirstTimestamp), int64(want.FirstTimestamp))
	exact("first append", int64(got.FirstAppend), int64(want.FirstAppend))
	exact("last append", int64(got.LastAppend), int64(want.LastAppend))
	if s.skipped > got.IndexedTimestamp {
		diff = append(diff, fmt.Sprintf("a search beyond the index begins at %d and misses timestamp %d", got.ScanFrom, int64(s.skipped)))
	}
	if !s.loose && got.Sealed && got.IndexedTimestamp != got.MaxTimestamp {
		diff = append(diff, fmt.Sprintf("indexed up to timestamp %d of %d", int64(got.IndexedTimestamp), int64(got.MaxTimestamp)))
	}
	return strings.Join(diff, "; ")
}
