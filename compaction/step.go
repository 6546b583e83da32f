package compaction

import (
	"math"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// Step is one atomic change of a log. To carry it out, in this order: delete
// Ranges and Deletes, set Sets, set Rows, forget Ended, set Segment's row, and write
// CleanPoint and TombstoneDue to the log's state.
type Step struct {
	// Base and End bound the group of segments the step belongs to: their bases
	// and their offsets are in [Base, End). Both are the plan's EndCleanable in a
	// step that changes only the state.
	Base, End int64
	// Runs are runs of entries that are removed, as the offsets of their keys.
	Runs []OffsetRange
	// Deletes are the last offsets of single entries that are removed or get
	// another key.
	Deletes []int64
	// Sets are rewritten entries, sealed.
	Sets []Entry
	// Rows are new time-index rows.
	Rows []retention.IndexRow
	// Ended are transactions whose end markers are removed: they are to be forgotten.
	Ended []Transaction
	// Segment replaces all segments whose base is in [Base, End); nil in a step
	// that is not the last of its group.
	Segment *retention.Segment
	// CleanPoint and TombstoneDue are for the log's state, and for the next Log.
	CleanPoint   int64
	TombstoneDue codec.Timestamp

	bytes int // estimate of the batch
	index interval
	// joined: there are other rows than Base's to remove.
	joined bool
	// runFrom is where the run of single deletes begins; inRun says that it has
	// become the last of Runs.
	runFrom int
	inRun   bool
}

// OffsetRange is the offsets in [From, To).
type OffsetRange struct{ From, To int64 }

// Entry is a stored entry.
type Entry struct {
	Offset int64 // of the last message
	Value  []byte
}

// interval is a stretch of the time index to clear before Rows are set: what is
// above after and, unless whole, up to to.
type interval struct {
	clear     bool
	whole     bool
	after, to place
}

// place is where a row stands, in both of its keyspaces.
type place struct {
	timestamp codec.Timestamp
	offset    int64
}

// Estimates of what a row costs in a batch, key, value and headers.
const (
	deleteBytes = keys.LogSize + 4
	setBytes    = keys.LogSize + 8
	rowBytes    = 120 // in both keyspaces
)

// minRun is from how many neighbours on a range deletion is cheaper for those who
// later read across it than single ones: 0.36 us each against 1 us.
const minRun = 64

// Ranges returns the keys of partition p to delete before anything else is done.
// Ranges of successive steps do not overlap.
func (s *Step) Ranges(p keys.Partition) []keys.Range {
	var ranges []keys.Range
	for _, run := range s.Runs {
		ranges = append(ranges, keys.LogRange(p, run.From, run.To))
	}
	if s.index.clear {
		ranges = append(ranges, s.timestamps(p), s.companion(p))
	}
	if s.Segment != nil && s.joined {
		ranges = append(ranges, keys.SegmentRange(p, s.Base+1, s.End))
	}
	return ranges
}

func (s *Step) timestamps(p keys.Partition) keys.Range {
	r := keys.TimestampRange(p, s.Base, s.Base+1)
	if s.index.whole {
		r = keys.TimestampRange(p, s.Base, s.End)
	} else if s.index.to.timestamp < math.MaxInt64 {
		r.End = keys.AppendTimestamp(nil, p, s.Base, int64(s.index.to.timestamp)+1)
	}
	if after := s.index.after.timestamp; after < math.MaxInt64 {
		r.Start = keys.AppendTimestamp(nil, p, s.Base, int64(after)+1)
	} else {
		r.Start = keys.TimestampRange(p, s.Base+1, s.Base+1).Start
	}
	return r
}

func (s *Step) companion(p keys.Partition) keys.Range {
	to := s.End
	if !s.index.whole {
		to = s.index.to.offset + 1
	}
	return keys.LogRange(p.Companion(), s.index.after.offset+1, to)
}

// Bytes estimates the size of the step's batch.
func (s *Step) Bytes() int { return s.bytes }

func (s *Step) empty() bool {
	return len(s.Runs) == 0 && len(s.Deletes) == 0 && len(s.Sets) == 0 && len(s.Rows) == 0
}

// reset empties the step for the next one, and keeps its memory.
func (s *Step) reset() {
	clear(s.Sets) // the values may go
	*s = Step{Runs: s.Runs[:0], Deletes: s.Deletes[:0], Sets: s.Sets[:0], Rows: s.Rows[:0], Ended: s.Ended[:0]}
}

// delete removes the next entry of the log. Neighbours become a run.
func (s *Step) delete(offset int64) {
	if s.inRun {
		s.Runs[len(s.Runs)-1].To = offset + 1
		return
	}
	s.Deletes = append(s.Deletes, offset)
	s.bytes += deleteBytes
	if n := len(s.Deletes) - s.runFrom; n >= minRun {
		s.Runs = append(s.Runs, OffsetRange{s.Deletes[s.runFrom], offset + 1})
		s.Deletes = s.Deletes[:s.runFrom]
		s.bytes -= (n - 2) * deleteBytes
		s.inRun = true
	}
}

// kept says that an entry stays where it is: a run ends before it.
func (s *Step) kept() { s.runFrom, s.inRun = len(s.Deletes), false }

// set writes an entry in place of the one at offset old.
func (s *Step) set(old int64, e Entry) {
	s.kept()
	if e.Offset != old {
		s.delete(old)
		s.kept()
	}
	s.Sets = append(s.Sets, e)
	s.bytes += setBytes + len(e.Value)
}

func (s *Step) row(r retention.IndexRow) {
	s.Rows = append(s.Rows, r)
	s.bytes += rowBytes
}
