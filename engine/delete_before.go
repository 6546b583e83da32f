package engine

import (
	"context"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

// HighWatermark, as an offset to DeleteBefore, is all that can be read.
const HighWatermark = -1

// DeleteBefore raises the log start to offset and returns it (Kafka's
// DeleteRecords, SPEC 6.7): messages below can no longer be read, segments
// wholly below are removed, and space comes back also from within a segment. An
// offset inside a compressed frame is exact: the frame stays, what is below is
// skipped. An offset below the log start changes nothing. It is on stable
// storage when DeleteBefore returns.
//
// Errors: codec.CodePolicyViolation (44) if the topic's cleanup.policy does not
// include delete, an *OffsetRangeError above the high watermark or below -1; both
// change nothing (SPEC C36).
func (p *Partition) DeleteBefore(ctx context.Context, offset int64) (start int64, err error) {
	start, err = p.deleteBefore(ctx, offset)
	return start, p.wrap("delete before", err)
}

func (p *Partition) deleteBefore(ctx context.Context, offset int64) (int64, error) {
	if err := p.appendable(ctx); err != nil {
		return 0, err
	}
	if !p.topic.settings().cleanupDelete {
		return 0, codec.Errorf(codec.CodePolicyViolation, "cleanup.policy does not include delete")
	}
	if err := p.settled(ctx); err != nil {
		return 0, err
	}
	high := p.readable.Load()
	if offset == HighWatermark {
		offset = high
	}
	if offset < 0 || offset > high {
		return 0, p.outOfRange(offset)
	}
	if err := p.lockChange(ctx); err != nil {
		return 0, err
	}
	cm, err := p.deleteBeforeLocked(offset)
	p.mu.Unlock()
	switch {
	case err != nil:
	case cm == nil:
		err = p.drained(ctx) // somebody else's raise may still be on its way
	default:
		err = p.topic.db.wait(ctx, cm)
	}
	return p.logStart.Load(), err
}

func (p *Partition) deleteBeforeLocked(offset int64) (*commit, error) {
	if err := p.writableLocked(); err != nil {
		return nil, err
	}
	old := p.logStart.Load()
	if offset > p.mu.end { // cut meanwhile
		return nil, p.outOfRangeLocked(offset)
	}
	if offset <= old {
		return nil, nil
	}
	below := 0 // segments wholly below; the active one stays
	for below < len(p.mu.segments)-1 && p.mu.segments[below+1].Base <= offset {
		below++
	}
	batch := p.topic.db.pdb.NewBatch()
	if below > 0 {
		removed, err := p.dropSegmentsLocked(batch, below, offset)
		if err == nil {
			err = p.topic.db.deleteRemoved(batch, []removal{removed})
		}
		if err != nil {
			return nil, p.broken(err)
		}
		old = max(old, p.mu.segments[0].Base)
	}
	p.logStart.Store(offset)
	err := p.setState(batch)
	if err == nil {
		err = p.setSegment(batch, p.activeLocked()) // load cannot count again what is deleted
	}
	if err == nil && old < offset {
		// Index rows stay until their segment goes: a search needs them to know
		// where not to look.
		removed := keys.LogRange(p.id(), old, offset)
		p.topic.db.reclaimer.add(removed)
		err = deleteRanges(batch, []keys.Range{removed})
	}
	if err != nil {
		return nil, p.broken(err)
	}
	return p.queueLocked(batch)
}
