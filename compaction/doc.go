// Package compaction decides and carries out the compaction of a log by key: it
// keeps at least the newest message of every key, in place. Offsets, order, the
// log start and the end of the log never change (SPEC 9).
//
// The package is pure. It has no clock, no goroutine and does no I/O of its own: a
// [Plan] is a function of segment rows, and [Pass] runs over a [Store], which the
// engine implements.
//
//	PlanOf   what is dirty, what may be cleaned, is it worth it, when to ask again
//	Pass     reads the dirty part into a map of newest offsets, then rewrites the
//	         log from its start, in bounded atomic steps
//
// # Memory
//
// The map is Options.MapBytes at most, and no larger than the dirty part can
// need. Beside it a pass holds one step, about Options.StepBytes, and one entry
// with its messages, inflated if it is a wrapper. When the map is full the pass
// covers a prefix: everything at or above the first message that did not fit is
// kept as it is and stays dirty for the next pass, which starts there. A map of
// one key is enough to make progress.
//
// # Keys
//
// Keys of up to 27 bytes are compared exactly: a slot of the map holds them whole,
// with their length. A longer key is represented by the first 27 bytes of its
// SHA-256, marked as such, so that it equals no short one. Two messages whose long
// keys agree there would be taken for one key and the older would be lost. That
// needs a collision in 216 bits of SHA-256: by chance 10^-52 for the 3.3 million
// keys of a 128 MiB map, and on purpose 2^108 hash computations. Nobody has found
// a collision in SHA-256, so no per-pass secret is needed and passes are
// deterministic. (Reading the key at the newest offset again would be exact
// at the price of a random read for each message dropped.) The slot is found
// with a seeded [hash/maphash], which decides about speed only.
//
// # Steps and crashes
//
// A pass goes through the log in offset order. Segments that fit together become
// a group, and a group's segments one (SPEC 9.11). Each [Step] is atomic. Those
// in the middle of a group remove and rewrite entries; the last one of the group
// also replaces its segment rows by one, with the statistics of the survivors, and
// moves the clean point. After any step, thus after any crash:
//
//   - No newest message is missing: an entry is changed only where the map knows a
//     newer message of the same key, which was in the log before, and which the
//     same pass does not touch. Steps are in the order of the log, so what is
//     gone is a prefix of what the pass removes.
//   - The clean point covers completed groups. Below it, no message has a newer one
//     below it: the map knew everything from the old clean point up to its end.
//   - A tombstone is stamped only after everything below it is clean, and dropped
//     only in a later pass, below which nothing has come back since: older values
//     of its key are gone before it (SPEC 9.7).
//   - Segment rows in the middle of a group still have the sums and the largest
//     timestamp from before. They are upper bounds: entries only go. A search in
//     such a segment that finds nothing goes on with the next (SPEC C34), retention
//     keeps it at most too long. A query for the largest timestamp itself must be
//     ready to find that its message is gone, and scan. The next pass notices that
//     row and index do not agree with the entries, and makes both anew.
//   - Every index row still bounds its search from below. A row (T, from) says
//     that below from nothing exceeds the T of the row before it, which stays true
//     when messages go. Rows are replaced from small T to large, with the entries:
//     a step replaces the rows of its T interval as a whole, so the row before a
//     surviving old row only grows. A pass that finds other rows than the entries
//     make due does not build on them: it replaces all of the group. A row whose message is gone is as good a bound
//     as any, and goes when its interval is replaced.
//
// A truncation or a moved log start wins: the store refuses the step with
// [ErrOvertaken] and the pass ends. What it committed stands.
//
// # What stays
//
// Entries nothing is dropped from keep their bytes, and a group where nothing is
// dropped, stamped or joined is not written at all: a pass over a clean log writes
// nothing. (A change of index.interval.bytes makes the next pass write the index
// rows of every segment once.) Of an entry that spans the log start, what lies
// below it goes: no entry is ever written below the log start. A tombstone's horizon is part of its stored entry (codec): stamping
// changes that entry only, and nothing a reader sees.
package compaction
