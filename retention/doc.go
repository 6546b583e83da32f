// Package retention decides when a log rolls to a new segment and which old
// segments it gives up.
//
// A [Segment] is the manifest row of a run of offsets: everything the decisions
// need, kept up to date by [Segment.Add] for each stored entry and persisted, so
// that reopening the log later, or on another machine, changes no decision
// (KAFKA-881, KAFKA-1379). The decisions are functions of their arguments alone:
//
//	RollBefore  does the active segment end before this set is appended?
//	RollIdle    does it end now, without an append?
//	Expire      which leading segments go?
//	DueAt       when can RollIdle or Expire next have something to do?
//
// The package has no clock, does no I/O and knows nothing of the store. Times are
// milliseconds; sizes are v1 wire bytes.
//
// # The row
//
// A segment row is a msgpack map with a version and one short field name per
// number, always all of them and always in this order, so equal segments have
// equal bytes:
//
//	"v"   1             version of the row
//	"b"   Base          "e"   End
//	"ft"  FirstTimestamp
//	"mt"  MaxTimestamp  "mo"  MaxOffset
//	"fa"  FirstAppend   "la"  LastAppend
//	"by"  Bytes         "sb"  StoredBytes
//	"m"   Messages      "n"   Entries
//	"it"  IndexedTimestamp
//	"ir"  IndexRows     "si"  SinceIndex
//	"sf"  ScanFrom      "s"   Sealed (a bool)
//
// This layout is on disk; golden files in testdata pin it.
package retention
