package engine

import (
	"context"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// TruncateTo removes every message at or above offset, exactly: a compressed
// frame that contains it is rewritten without its tail (SPEC C23). Index rows
// and segments are cut in the same atomic batch; the next append gets offset,
// now and after a reopen. Truncating to the log's end or above does nothing
// (SPEC 5.3.11); below the log start it empties the log and restarts it at
// offset. It is on stable storage when TruncateTo returns.
//
// A read or follow that runs meanwhile yields what was there or ends with an
// *OffsetRangeError. A negative offset is refused with one.
func (p *Partition) TruncateTo(ctx context.Context, offset int64) error {
	return p.wrap("truncate", p.truncateTo(ctx, offset))
}

func (p *Partition) truncateTo(ctx context.Context, offset int64) error {
	return p.exclusively(ctx, func() (*commit, error) {
		switch {
		case offset < 0:
			return nil, p.outOfRange(offset)
		case offset <= p.logStart.Load() || offset < p.mu.segments[0].Base: // nothing is left
			return p.resetNow(min(offset, p.logStart.Load()), offset, false)
		case offset >= p.mu.end:
			return nil, nil
		}
		return p.truncateNow(offset)
	})
}

// ResetTo empties the log and restarts it at offset: the next append gets it.
// Like a truncation it is atomic and on stable storage when it returns.
func (p *Partition) ResetTo(ctx context.Context, offset int64) error {
	err := p.exclusively(ctx, func() (*commit, error) {
		if offset < 0 {
			return nil, p.outOfRange(offset)
		}
		return p.resetNow(offset, offset, true)
	})
	return p.wrap("reset", err)
}

// exclusively runs a change that reads the log first. No append is stamped
// meanwhile and all those before are in Pebble, so neither Pebble nor, but for
// the change itself, the state in memory moves. The change locks mu where it
// writes memory.
func (p *Partition) exclusively(ctx context.Context, change func() (*commit, error)) error {
	if err := p.appendable(ctx); err != nil {
		return err
	}
	if err := p.loadProducers(); err != nil {
		return err
	}
	if err := p.lockChange(ctx); err != nil {
		return err
	}
	cutting := make(chan struct{})
	p.mu.cutting = cutting
	p.mu.Unlock()
	cm, err := p.changeDrained(ctx, change)
	p.mu.Lock()
	p.mu.cutting = nil
	p.mu.Unlock()
	close(cutting)
	if err != nil || cm == nil {
		return err
	}
	return p.topic.db.wait(ctx, cm)
}

func (p *Partition) changeDrained(ctx context.Context, change func() (*commit, error)) (*commit, error) {
	if err := p.drained(ctx); err != nil {
		return nil, err
	}
	return change()
}

// resetNow deletes everything and begins again at offset; anew with no memory of
// producers either. The log start is below offset where compaction emptied what is
// between.
func (p *Partition) resetNow(start, offset int64, anew bool) (*commit, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.writableLocked(); err != nil {
		return nil, err
	}
	batch := p.topic.db.pdb.NewBatch()
	if err := p.resetInto(batch, start, offset, anew); err != nil {
		return nil, p.broken(err)
	}
	return p.queueLocked(batch)
}

func (p *Partition) resetInto(batch *pebble.Batch, start, offset int64, anew bool) error {
	ranges := p.tailRanges(p.mu.segments[0].Base)
	p.topic.db.reclaimer.add(ranges[0])
	if err := deleteRanges(batch, ranges); err != nil {
		return err
	}
	if err := p.cutProducersLocked(batch, offset, anew); err != nil {
		return err
	}
	if err := p.cutTransactionsLocked(batch, nil, 0); err != nil {
		return err
	}
	p.cutLocked(offset)
	p.mu.seldom.cleaned, p.mu.seldom.holes = nil, false
	if p.mu.seldom.epochs > 0 {
		p.mu.seldom.epochs = 0
		if err := deleteRanges(batch, []keys.Range{keys.EpochRange(p.id(), 0, maxEpoch)}); err != nil {
			return err
		}
	}
	p.logStart.Store(start)
	p.setSegmentsLocked([]retention.Segment{retention.NewSegment(offset)})
	if err := p.setSegment(batch, p.activeLocked()); err != nil {
		return err
	}
	return p.setState(batch)
}

// cutLocked moves the end back. Scans that began before notice by the cut.
func (p *Partition) cutLocked(end int64) {
	p.seldomLocked().cutAt = end
	p.cuts.Add(1)
	p.mu.end = end
	p.readable.Store(min(p.readable.Load(), end)) // drained: nothing queued before raises it again
}

// cutBelow reports whether a cut since the cuts counted before reached below an
// offset. Of several cuts only the last is known: they count as one that did.
func (p *Partition) cutBelow(offset int64, before uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cutBelowLocked(offset, before)
}

func (p *Partition) cutBelowLocked(offset int64, before uint64) bool {
	cuts := p.cuts.Load()
	return cuts > before+1 || cuts > before && p.mu.seldom.cutAt < offset
}

// tailRanges is all rows from a segment base on.
func (p *Partition) tailRanges(base int64) []keys.Range {
	return []keys.Range{
		keys.LogRange(p.id(), base, maxOffset),
		keys.LogRange(p.id().Companion(), base, maxOffset),
		keys.TimestampRange(p.id(), base, maxOffset),
		keys.SegmentRange(p.id(), base, maxOffset),
	}
}

// truncateNow cuts inside the log: it reads what the cut needs and then writes.
func (p *Partition) truncateNow(offset int64) (*commit, error) {
	n := 0 // the segment that becomes the active one
	for n+1 < len(p.mu.segments) && p.mu.segments[n+1].Base <= offset {
		n++
	}
	cut := truncation{p: p, offset: offset, segment: p.mu.segments[n]}
	if err := cut.read(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.writableLocked(); err != nil {
		return nil, err
	}
	batch := p.topic.db.pdb.NewBatch()
	if err := cut.write(batch, n); err != nil {
		return nil, p.broken(err)
	}
	return p.queueLocked(batch)
}

// truncation is one cut: what stays of the segment it falls into, and of the
// entry.
type truncation struct {
	p       *Partition
	offset  int64
	segment retention.Segment // becomes what is left of it
	oldBase int64
	tail    *codec.Filtered // what is left of the entry that spans the cut
	// subtract: sums are the segment's less what goes.
	subtract bool
	// reopened are the transactions whose end markers go, epochs those of leaders.
	reopened map[int64]int64
	epochs   []Epoch
}

// read finds out what is left. Sums are counted over what stays or over what
// goes, whichever spans fewer offsets: cutting a few messages off a large segment
// is cheap. The largest timestamp comes from the index rows that stay, raised
// over the entries after the last of them.
func (t *truncation) read() error {
	if err := t.readControl(); err != nil {
		return err
	}
	old := t.segment
	kept := retention.NewSegment(old.Base)
	kept.FirstTimestamp, kept.FirstAppend = old.FirstTimestamp, old.FirstAppend
	from, err := t.keepRows(&kept)
	if err != nil {
		return err
	}
	// Where a compaction pass ended, a segment's sums may be too large.
	exact := old.Sealed && t.p.mu.seldom != nil && t.p.mu.seldom.cleaned != nil
	t.subtract = t.offset-old.Base > old.End-t.offset && !exact
	if t.subtract {
		kept.Bytes, kept.StoredBytes, kept.Messages, kept.Entries = old.Bytes, old.StoredBytes, old.Messages, old.Entries
	} else {
		from = old.Base
	}
	if err := t.count(&kept, from, old.End); err != nil {
		return err
	}
	if t.tail != nil && kept.Entries == 1 {
		kept.FirstTimestamp = t.tail.Stamp.Timestamp
	}
	if kept.Entries == 0 {
		kept = retention.NewSegment(t.offset) // starts fresh (SPEC 5.3.10)
	}
	kept.End = t.offset
	t.oldBase, t.segment = old.Base, kept
	return nil
}

// readControl finds out what the control messages that go undo.
func (t *truncation) readControl() (err error) {
	p := t.p
	if p.mu.seldom == nil { // nobody changes it: see exclusively
		return nil
	}
	if p.mu.seldom.epochs > 0 {
		if t.epochs, err = p.storedEpochs(); err != nil {
			return err
		}
	}
	t.reopened, err = p.reopened(t.offset)
	return err
}

// keepRows takes over what the index rows below the cut say, and returns the
// offset of the last.
func (t *truncation) keepRows(kept *retention.Segment) (from int64, err error) {
	p := t.p
	r := keys.LogRange(p.id().Companion(), t.segment.Base, t.offset)
	it, err := p.topic.db.newIter(r.Start, r.End)
	if err != nil {
		return 0, err
	}
	defer it.close()
	from = kept.Base
	ok, err := it.move(seekGE, r.Start)
	for ; ok && err == nil; ok, err = it.move(next, nil) {
		row, err := codec.ParseIndexRow(it.key, it.value)
		if err != nil {
			return 0, p.corrupt(t.offset, err)
		}
		kept.IndexedTimestamp, kept.MaxTimestamp, kept.MaxOffset = row.Timestamp, row.Timestamp, row.Offset
		kept.ScanFrom = row.Offset + 1
		kept.IndexRows++
		from = row.Offset
	}
	return from, p.readError(t.offset, err)
}

// count goes over the entries of the segment from an offset on.
func (t *truncation) count(kept *retention.Segment, from, end int64) error {
	scan := t.p.scanFrom(max(from, t.p.logStart.Load()), t.p.cuts.Load())
	defer scan.close()
	for scan.from < end {
		ok, err := scan.next()
		if !ok && err == nil {
			return nil
		}
		var a retention.Appended
		switch {
		case scan.damaged: // counts as when it was loaded; above the cut it just goes
			a = damagedAppended(scan.from-1, kept.LastAppend, len(scan.it.value))
		case err != nil:
			return err
		default:
			a = retention.AppendedOf(&scan.entry, len(scan.it.value))
		}
		if a.Last < t.offset {
			t.keep(kept, a, !t.subtract)
			continue
		}
		if t.subtract {
			kept.Bytes -= a.WireBytes
			kept.StoredBytes -= a.StoredBytes
			kept.Messages -= a.Messages
			kept.Entries--
		}
		if err == nil {
			if err := t.split(scan, kept); err != nil {
				return err
			}
		}
		if !t.subtract {
			return nil
		}
	}
	return nil
}

// keep accounts for an entry that stays. It makes no index rows: those that were
// due are there.
func (t *truncation) keep(kept *retention.Segment, a retention.Appended, sum bool) {
	if a.MaxTimestamp > kept.MaxTimestamp {
		kept.MaxTimestamp, kept.MaxOffset = a.MaxTimestamp, a.MaxOffset
	}
	kept.LastAppend = a.Clock
	if a.Last >= kept.ScanFrom {
		kept.SinceIndex += a.WireBytes
	}
	if sum {
		if kept.Entries == 0 { // which compaction may have changed
			kept.FirstTimestamp = a.FirstTimestamp
		}
		kept.Bytes += a.WireBytes
		kept.StoredBytes += a.StoredBytes
		kept.Messages += a.Messages
		kept.Entries++
	}
}

// split keeps the messages below the cut of the entry that reaches past it.
func (t *truncation) split(scan *entryScan, kept *retention.Segment) error {
	p := t.p
	if scan.entry.First >= t.offset {
		return nil
	}
	if scan.entry.Kind == codec.KindWrapper {
		p.topic.db.stats.inflations.Add(1)
	}
	f, err := scan.entry.Filter(&scan.cursor, func(m *codec.Message) bool { return m.Offset < t.offset })
	if err != nil {
		return p.corrupt(scan.entry.Last, err)
	}
	if f.Kept == 0 || f.Last < p.logStart.Load() { // where compaction left a gap
		return nil
	}
	key := keys.AppendLog(nil, p.id(), f.Last)
	codec.Seal(key, f.Value, f.Stamp)
	left, err := codec.ParseEntry(key, f.Value)
	if err != nil {
		return p.corrupt(f.Last, err)
	}
	if left.Kind == codec.KindWrapper {
		p.topic.db.stats.recompressions.Add(1)
	}
	t.keep(kept, retention.AppendedOf(&left, len(f.Value)), true)
	t.tail = &f
	return nil
}

// write carries the cut out: segment n becomes the active one.
func (t *truncation) write(batch *pebble.Batch, n int) error {
	p := t.p
	rowsFrom := t.offset
	times := keys.TimestampRange(p.id(), t.oldBase, maxOffset)
	if t.segment.Empty() { // no row of it may stay
		rowsFrom = t.oldBase
	} else {
		times.Start = p.afterTimestamp(t.oldBase, t.segment.IndexedTimestamp)
	}
	ranges := []keys.Range{
		keys.LogRange(p.id(), t.offset, maxOffset),
		keys.LogRange(p.id().Companion(), rowsFrom, maxOffset),
		keys.SegmentRange(p.id(), t.oldBase, maxOffset),
		times,
	}
	p.topic.db.reclaimer.add(ranges[0])
	if err := deleteRanges(batch, ranges); err != nil {
		return err
	}
	if t.tail != nil {
		if err := batch.Set(keys.AppendLog(nil, p.id(), t.tail.Last), t.tail.Value, nil); err != nil {
			return err
		}
	}
	if err := p.cutProducersLocked(batch, t.offset, false); err != nil {
		return err
	}
	if err := p.cutTransactionsLocked(batch, t.reopened, t.offset); err != nil {
		return err
	}
	if err := p.cutEpochsLocked(batch, t.epochs, t.offset); err != nil {
		return err
	}
	p.cutLocked(t.offset)
	p.setSegmentsLocked(append(slices.Clone(p.mu.segments[:n]), t.segment))
	if err := p.setSegment(batch, p.activeLocked()); err != nil {
		return err
	}
	if p.mu.seldom.cleaned != nil {
		p.mu.seldom.soil(t.segment.Base)
	}
	if p.mu.seldom.cleaned != nil || len(t.epochs) > 0 {
		if err := p.setState(batch); err != nil {
			return err
		}
	}
	return p.scheduleLocked(batch) // an older segment is active again
}
