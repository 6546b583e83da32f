package compaction

import "github.com/cairnlog/cairn/codec"

// Stats count what a pass did. Sizes are logical: they count the log before and
// after, not what the disk gives back.
type Stats struct {
	// Keys and Mapped count the keys in the map and the messages they were read
	// from.
	Keys, Mapped int64

	// Entries counts the entries read; of these Rewritten lost messages, Stamped
	// got a delete horizon alone, and Emptied are gone. The others kept their
	// bytes. Grown of the rewritten are larger than before (SPEC 9.10).
	Entries, Rewritten, Stamped, Emptied, Grown int64

	// Messages counts the messages read; a wrapper that was not opened and does
	// not know its count counts as none. The others were dropped: for a newer one
	// of their key, as tombstones past their horizon, for having no key, or as
	// what the entry at the log start holds below it, as those of an aborted
	// transaction, or as control messages whose transaction is gone.
	Messages, Superseded, Expired, Invalid, BelowStart, Aborted, Markers int64

	// SegmentsBefore, WireBytesBefore and StoredBytesBefore are of what was read,
	// the others of what is left of it.
	SegmentsBefore, SegmentsAfter       int64
	WireBytesBefore, WireBytesAfter     int64
	StoredBytesBefore, StoredBytesAfter int64

	// Steps counts the steps committed and BytesWritten estimates their batches.
	Steps, BytesWritten int64
}

// Add sums up the statistics of two passes.
func (s *Stats) Add(o *Stats) {
	s.Keys += o.Keys
	s.Mapped += o.Mapped
	s.Entries += o.Entries
	s.Rewritten += o.Rewritten
	s.Stamped += o.Stamped
	s.Emptied += o.Emptied
	s.Grown += o.Grown
	s.Messages += o.Messages
	s.Superseded += o.Superseded
	s.Expired += o.Expired
	s.Invalid += o.Invalid
	s.BelowStart += o.BelowStart
	s.Aborted += o.Aborted
	s.Markers += o.Markers
	s.SegmentsBefore += o.SegmentsBefore
	s.SegmentsAfter += o.SegmentsAfter
	s.WireBytesBefore += o.WireBytesBefore
	s.WireBytesAfter += o.WireBytesAfter
	s.StoredBytesBefore += o.StoredBytesBefore
	s.StoredBytesAfter += o.StoredBytesAfter
	s.Steps += o.Steps
	s.BytesWritten += o.BytesWritten
}

// Dropped returns how many messages were dropped.
func (s *Stats) Dropped() int64 {
	return s.Superseded + s.Expired + s.Invalid + s.BelowStart + s.Aborted + s.Markers
}

// Kept returns how many messages were kept.
func (s *Stats) Kept() int64 { return s.Messages - s.Dropped() }

// Result is what a pass did.
type Result struct {
	// Stats count what was committed; after a dry run, what would have been.
	Stats
	// CleanPoint and TombstoneDue are the log's as of the last step committed.
	CleanPoint   int64
	TombstoneDue codec.Timestamp
	// More says that the map was full before the plan's EndCleanable: plan and
	// run another pass, whatever the ratio.
	More bool
	// Overtaken says that the store ended the pass with ErrOvertaken.
	Overtaken bool
}

// Stage is what a pass is at.
type Stage uint8

// The stages.
const (
	Mapping  Stage = iota // reading the dirty part for its keys
	Cleaning              // rewriting the log
)

// String returns mapping or cleaning.
func (s Stage) String() string {
	if s == Mapping {
		return "mapping"
	}
	return "cleaning"
}

// Progress is where a pass stands. Done and Total are wire bytes of the stage;
// Done may end below Total.
type Progress struct {
	Stage       Stage
	Done, Total int64
	Stats       Stats
}
