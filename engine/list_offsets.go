package engine

import (
	"context"
	"slices"

	"github.com/cairnlog/cairn/codec"
)

// The sentinels of Kafka's ListOffsets.
const (
	// Latest asks for the high watermark, of a replica for the log end.
	Latest codec.Timestamp = -1
	// Earliest asks for the log start.
	Earliest codec.Timestamp = -2
)

// ListOptions say who asks.
type ListOptions struct {
	// Replica: a follower or a debugging client, who sees beyond the high
	// watermark.
	Replica bool
}

// ListOffset answers ListOffsets v1 (SPEC 8): ts is Earliest, Latest or a
// timestamp to search for. Earliest and Latest carry no timestamp; a search that
// finds nothing gives Found false and, as on the wire, Offset -1.
//
// Errors: 42 for ts below Earliest; 43 for a search on a v0-format topic; as
// Read's.
func (p *Partition) ListOffset(ctx context.Context, ts codec.Timestamp, o ListOptions) (Position, error) {
	pos, err := p.listOffset(ctx, ts, o)
	return pos, p.wrap("list offsets", err)
}

func (p *Partition) listOffset(ctx context.Context, ts codec.Timestamp, o ListOptions) (Position, error) {
	if ts < Earliest {
		return Position{}, codec.Errorf(codec.CodeInvalidRequest, "timestamp %d is no sentinel", int64(ts))
	}
	bounds, err := p.searchBounds(ctx)
	if err != nil {
		return Position{}, err
	}
	switch {
	case ts == Earliest:
		return Position{p.logStart.Load(), codec.NoTimestamp, true}, nil
	case ts == Latest && o.Replica:
		offsets, err := p.Offsets()
		return Position{offsets.End, codec.NoTimestamp, true}, err
	case ts == Latest:
		return Position{bounds.end, codec.NoTimestamp, true}, nil
	case p.topic.settings().magic == 0:
		return Position{}, ErrFormat
	}
	pos, err := p.offsetFor(ctx, ts)
	if err == nil && !pos.Found {
		pos.Offset = -1
	}
	return pos, err
}

// ListOffsetsV0 answers ListOffsets v0 (SPEC 8.1-6): up to limit segment bases,
// newest first, of the segments whose last append was at or before ts on the
// store's clock; it ignores message timestamps. Latest begins at the log's end,
// Earliest gives the first base.
func (p *Partition) ListOffsetsV0(ctx context.Context, ts codec.Timestamp, limit int, o ListOptions) ([]int64, error) {
	offsets, err := p.listOffsetsV0(ctx, ts, limit, o)
	return offsets, p.wrap("list offsets", err)
}

func (p *Partition) listOffsetsV0(ctx context.Context, ts codec.Timestamp, limit int, o ListOptions) ([]int64, error) {
	if ts < Earliest || limit < 0 {
		return nil, codec.Errorf(codec.CodeInvalidRequest, "timestamp %d, limit %d", int64(ts), limit)
	}
	at, err := p.searchBounds(ctx)
	if err != nil {
		return nil, err
	}
	high := at.end
	bases := p.basesUpTo(ts)
	bases = bases[max(len(bases)-limit, 0):]
	if len(bases) == 0 {
		return nil, nil
	}
	slices.Reverse(bases)
	if o.Replica {
		return bases, nil
	}
	above := 0 // those beyond the high watermark become it, once
	for above < len(bases) && bases[above] > high {
		above++
	}
	if above == 0 {
		return bases, nil
	}
	return append([]int64{high}, bases[above:]...), nil
}

// basesUpTo returns the segment bases to answer from, oldest first, with the log
// end as the last one of a non-empty log.
func (p *Partition) basesUpTo(ts codec.Timestamp) []int64 {
	now := p.topic.db.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	start := p.logStart.Load()
	if ts == Earliest {
		return []int64{max(p.mu.segments[0].Base, start)}
	}
	upTo, time := -1, codec.NoTimestamp
	for i := range p.mu.segments {
		if s := &p.mu.segments[i]; !s.Empty() { // an empty one is as old as the one before it
			time = s.LastAppend
		}
		if ts == Latest || time <= ts {
			upTo = i
		}
	}
	if !p.activeLocked().Empty() && (ts == Latest || now <= ts) {
		return append(p.basesLocked(len(p.mu.segments)-1, start), p.mu.end)
	}
	return p.basesLocked(upTo, start)
}

// basesLocked returns the bases of the segments up to index last.
func (p *Partition) basesLocked(last int, start int64) []int64 {
	bases := make([]int64, last+1)
	for i := range bases {
		bases[i] = max(p.mu.segments[i].Base, start)
	}
	return bases
}
