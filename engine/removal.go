package engine

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/keys"
)

// removal is leading segments of a partition that are gone from memory and whose
// rows are to be deleted: segments with a base in [low, high), the log from logLow.
type removal struct {
	p         *Partition
	low, high int64
	logLow    int64
	emptied   bool // nothing of the partition is left above high
}

// deleteRemoved deletes what removals leave: three range deletes each, whatever
// they hold. Neighbours that are empty afterwards share theirs, since Pebble's
// iterators pay for every tombstone: 100,000 idle partitions that expire together
// would otherwise leave 300,000. The ranges of successive calls are disjoint, for
// overlapping ones would slow Pebble down. The locks of all partitions are held.
func (db *DB) deleteRemoved(batch *pebble.Batch, removed []removal) error {
	for len(removed) > 0 {
		n := 1
		for n < len(removed) && neighbours(&removed[n-1], &removed[n]) {
			n++
		}
		ranges := joined(&removed[0], &removed[n-1])
		if err := deleteRanges(batch, ranges); err != nil {
			return err
		}
		db.tombstones.Add(int64(len(ranges)))
		db.reclaimer.add(ranges[0])
		removed = removed[n:]
	}
	return nil
}

// neighbours reports whether b's partition follows a's and nothing stays of
// either that one range over both could hit.
func neighbours(a, b *removal) bool {
	return a.emptied && b.emptied && a.p.id().Topic == b.p.id().Topic && a.p.id().Number+1 == b.p.id().Number
}

// joined returns the ranges of first to last; companions count the other way.
func joined(first, last *removal) []keys.Range {
	log := keys.Range{
		Start: keys.LogRange(first.p.id(), first.logLow, maxOffset).Start,
		End:   keys.LogRange(last.p.id(), 0, last.high).End,
	}
	companion := keys.Range{
		Start: keys.LogRange(last.p.id().Companion(), last.low, maxOffset).Start,
		End:   keys.LogRange(first.p.id().Companion(), 0, first.high).End,
	}
	times := keys.Range{
		Start: keys.TimestampRange(first.p.id(), first.low, maxOffset).Start,
		End:   keys.TimestampRange(last.p.id(), 0, last.high).End,
	}
	return []keys.Range{log, companion, times}
}
