package engine

import (
	"context"
	"iter"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// Segments returns the partition's segments in offset order; the last is the
// active one. Sizes count v1 wire bytes (Bytes) and stored bytes before Pebble's
// own compression (StoredBytes).
func (p *Partition) Segments() ([]retention.Segment, error) {
	if err := p.ready(); err != nil {
		return nil, p.wrap("segments", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]retention.Segment(nil), p.mu.segments...), nil
}

// setSegmentsLocked replaces the segments.
func (p *Partition) setSegmentsLocked(segments []retention.Segment) {
	p.mu.segments = segments
	p.mu.bytes = 0
	for i := range segments {
		p.mu.bytes += segments[i].Bytes
	}
}

// Roll seals the active segment and begins a new one at the log's end. Rolling
// an empty segment does nothing. The roll is on stable storage when Roll returns.
func (p *Partition) Roll(ctx context.Context) error {
	if err := p.appendable(ctx); err != nil {
		return p.wrap("roll", err)
	}
	if err := p.lockChange(ctx); err != nil {
		return p.wrap("roll", err)
	}
	cm, err := p.rollNowLocked()
	p.mu.Unlock()
	switch {
	case err != nil:
	case cm == nil:
		err = p.drained(ctx) // somebody else's roll may still be on its way
	default:
		err = p.topic.db.wait(ctx, cm)
	}
	return p.wrap("roll", err)
}

func (p *Partition) rollNowLocked() (*commit, error) {
	if err := p.writableLocked(); err != nil {
		return nil, err
	}
	if p.activeLocked().Empty() {
		return nil, nil
	}
	batch := p.topic.db.pdb.NewBatch()
	err := p.rollLocked(batch, p.mu.end, "request")
	if err == nil {
		err = p.setSegment(batch, p.activeLocked())
	}
	if err == nil {
		err = p.scheduleLocked(batch)
	}
	if err != nil {
		return nil, p.broken(err)
	}
	return p.queueLocked(batch)
}

// TimeIndex yields the rows of the partition's time index in offset order, as
// its companion partition stores them (SPEC 5.1). The iterator's contract is
// Read's.
func (p *Partition) TimeIndex(ctx context.Context) iter.Seq2[retention.IndexRow, error] {
	return func(yield func(retention.IndexRow, error) bool) {
		stopped, err := p.timeIndex(ctx, yield)
		if err != nil && !stopped {
			yield(retention.IndexRow{}, p.wrap("time index", err))
		}
	}
}

func (p *Partition) timeIndex(ctx context.Context, yield func(retention.IndexRow, error) bool) (stopped bool, err error) {
	if err := p.ready(); err != nil {
		return false, err
	}
	if err := p.settled(ctx); err != nil {
		return false, err
	}
	r := keys.LogRange(p.id().Companion(), 0, maxOffset)
	it, err := p.topic.db.newIter(r.Start, r.End)
	if err != nil {
		return false, err
	}
	defer it.close()
	ok, err := it.move(seekGE, r.Start)
	for ; ok && err == nil; ok, err = it.move(next, nil) {
		row, err := codec.ParseIndexRow(it.key, it.value)
		if err != nil {
			return false, p.corrupt(-1, err)
		}
		if !yield(row, nil) {
			return true, nil
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
	}
	return false, p.readError(-1, err)
}
