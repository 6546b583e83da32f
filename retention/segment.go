package retention

import "github.com/cairnlog/cairn/codec"

// IndexRow is a row of a segment's time index.
type IndexRow = codec.IndexRow

// Segment is the manifest row of a run of offsets: the unit of rolling,
// retention and compaction. It is a plain value: copying it is a snapshot.
//
// Invariant: Base <= ScanFrom <= End.
// Invariant: IndexedTimestamp <= MaxTimestamp, and MaxOffset is -1 exactly when
// MaxTimestamp is.
// Invariant: every message of the segment below ScanFrom has a timestamp of at
// most IndexedTimestamp.
type Segment struct {
	// Base is the first offset the segment may hold.
	Base int64
	// End is the offset after the last message accounted for, Base in a new
	// segment.
	End int64

	// FirstTimestamp is the timestamp of the first frame, a wrapper's own; -1
	// when that frame has none or the segment is empty. Span rolls start from it
	// (SPEC C35).
	FirstTimestamp codec.Timestamp
	// MaxTimestamp is the largest timestamp, -1 when no message has one.
	MaxTimestamp codec.Timestamp
	// MaxOffset is the offset of the first frame that reached MaxTimestamp.
	MaxOffset int64
	// FirstAppend and LastAppend are the leader's clock at the first and the last
	// append, -1 before the first.
	FirstAppend, LastAppend codec.Timestamp

	// Bytes is the size in v1 wire bytes, StoredBytes that of the stored values.
	Bytes, StoredBytes int64
	// Messages counts the messages known of; a wrapper that a follower has not
	// opened counts as none. Entries counts the stored entries.
	Messages, Entries int64

	// IndexedTimestamp is the timestamp of the last time-index row, -1 without
	// one; IndexRows counts the rows.
	IndexedTimestamp codec.Timestamp
	IndexRows        int64
	// SinceIndex is the wire bytes since the last index interval began (SPEC
	// 5.2.5).
	SinceIndex int64
	// ScanFrom is where a search must start that no row bounds from below.
	ScanFrom int64

	// Sealed says that the segment was rolled and takes no more appends.
	Sealed bool
}

// NewSegment returns an empty segment that starts at base.
func NewSegment(base int64) Segment {
	return Segment{
		Base:             base,
		End:              base,
		FirstTimestamp:   codec.NoTimestamp,
		MaxTimestamp:     codec.NoTimestamp,
		MaxOffset:        -1,
		FirstAppend:      codec.NoTimestamp,
		LastAppend:       codec.NoTimestamp,
		IndexedTimestamp: codec.NoTimestamp,
		ScanFrom:         base,
	}
}

// Empty reports whether the segment holds no entry.
func (s *Segment) Empty() bool { return s.Entries == 0 }

// Appended describes one stored entry to [Segment.Add].
type Appended struct {
	// Last is the entry's last offset.
	Last int64
	// FirstTimestamp is the timestamp of its first frame, MaxTimestamp the
	// largest, MaxOffset where that is first reached (SPEC 2.7.26: of a wrapper,
	// its last offset). -1 for none.
	FirstTimestamp codec.Timestamp
	MaxTimestamp   codec.Timestamp
	MaxOffset      int64
	// Clock is the leader's clock at the append.
	Clock codec.Timestamp
	// WireBytes is the size as v1 frames, StoredBytes that of the stored value.
	WireBytes, StoredBytes int64
	// Messages is the number of messages, 0 when unknown.
	Messages int64
}

// Add accounts for one stored entry, in offset order, and returns the time-index
// row that became due with it, if any.
//
// The largest timestamp moves on a strictly greater one only. A row is due when
// more than interval wire bytes went by since the interval began, counted
// without this entry, and also for the first timestamp of the segment (SPEC
// 5.2.4-7). A due row is left out when the largest timestamp has not grown since
// the last one; the interval starts anew either way. The first-timestamp row is
// no interval of its own: it does not reset the count.
//
// The row's ScanFrom bounds a search from below: for a time t, the first message
// of the segment with a timestamp >= t lies in [ScanFrom, Offset] of the first
// row with Timestamp >= t or, if no row reaches t, at or after s.ScanFrom.
func (s *Segment) Add(a Appended, interval int64) (row IndexRow, ok bool) {
	if s.Empty() {
		s.FirstTimestamp, s.FirstAppend = a.FirstTimestamp, a.Clock
	}
	if a.MaxTimestamp > s.MaxTimestamp {
		s.MaxTimestamp, s.MaxOffset = a.MaxTimestamp, a.MaxOffset
	}
	s.End = a.Last + 1
	s.LastAppend = a.Clock

	due := s.SinceIndex > interval
	if due || s.IndexedTimestamp == codec.NoTimestamp {
		row, ok = s.indexMax()
	}
	if due {
		s.SinceIndex = 0
	}
	if s.MaxTimestamp == s.IndexedTimestamp {
		// Nothing up to here is newer than the last row says. From the entry that
		// first is, ScanFrom stays until a row covers it.
		s.ScanFrom = s.End
	}

	s.SinceIndex += a.WireBytes
	s.Bytes += a.WireBytes
	s.StoredBytes += a.StoredBytes
	s.Messages += a.Messages
	s.Entries++
	return row, ok
}

// ClosingRow returns the row that a segment gets when it is rolled or the log is
// closed, so that its last row carries its largest timestamp (SPEC 5.2.6); none
// if it already does. It does not set Sealed.
func (s *Segment) ClosingRow() (row IndexRow, ok bool) {
	row, ok = s.indexMax()
	if ok {
		s.ScanFrom = s.End
	}
	return row, ok
}

// indexMax returns the row for the largest timestamp unless there is one.
func (s *Segment) indexMax() (IndexRow, bool) {
	if s.MaxTimestamp <= s.IndexedTimestamp {
		return IndexRow{}, false
	}
	row := IndexRow{
		Timestamp: s.MaxTimestamp,
		Offset:    s.MaxOffset,
		Base:      s.Base,
		ScanFrom:  s.ScanFrom,
	}
	s.IndexedTimestamp = s.MaxTimestamp
	s.IndexRows++
	return row, true
}

// AppendedOf describes a stored entry to [Segment.Add]; stored is the size of its
// value.
func AppendedOf(e *codec.Entry, stored int) Appended {
	return Appended{
		Last:           e.Last,
		FirstTimestamp: e.Timestamp,
		MaxTimestamp:   e.MaxTimestamp,
		MaxOffset:      e.MaxOffset,
		Clock:          e.Clock,
		WireBytes:      int64(e.WireSize()),
		StoredBytes:    int64(stored),
		Messages:       int64(e.Count),
	}
}
