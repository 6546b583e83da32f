package engine

import (
	"context"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

// ReplicaFetch is what a follower gets of one partition.
type ReplicaFetch struct {
	FetchResult
	// Rows are rows of the time index with offsets relative to their segments, in the
	// order of the log: those of the segment that the follower is in and of what Set
	// adds, below Next. A follower takes them over whether it has them or not.
	Rows []codec.FetchedRow
}

// FetchReplica is Fetch for a follower: it never spans two segments, so that the
// follower can roll where the log did, and brings the time-index rows along (SPEC
// 5.9.29-30). The rows of the segment that holds offset from - 1 are among them: one
// may have been written late, when the segment was sealed.
func (p *Partition) FetchReplica(ctx context.Context, from int64, o FetchOptions) (ReplicaFetch, error) {
	r, err := p.fetchReplica(ctx, from, o)
	return r, p.wrap("fetch", err)
}

func (p *Partition) fetchReplica(ctx context.Context, from int64, o FetchOptions) (ReplicaFetch, error) {
	var r ReplicaFetch
	if err := p.ready(); err != nil {
		return r, err
	}
	base, end := p.segmentAround(from)
	o.before = end
	var err error
	if r.FetchResult, err = p.fetch(ctx, nil, from, o); err != nil {
		return r, err
	}
	r.Rows, err = p.rowsBetween(base, r.Next)
	return r, err
}

// segmentAround returns the base of the segment that holds from - 1, and where the one
// that holds from ends if it is sealed, else 0.
func (p *Partition) segmentAround(from int64) (base, end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	base = p.mu.segments[0].Base
	for i := range p.mu.segments {
		s := &p.mu.segments[i]
		if s.Base < from {
			base = s.Base
		}
		if s.Base <= from && i+1 < len(p.mu.segments) {
			end = p.mu.segments[i+1].Base
		} else if s.Base <= from {
			end = 0
		}
	}
	return base, end
}

// rowsBetween returns the rows of the time index of offsets in [from, to).
func (p *Partition) rowsBetween(from, to int64) (rows []codec.FetchedRow, err error) {
	r := keys.LogRange(p.id().Companion(), from, to)
	it, err := p.topic.db.newIter(r.Start, r.End)
	if err != nil {
		return nil, err
	}
	defer it.close()
	ok, err := it.move(seekGE, r.Start)
	for ; ok && err == nil; ok, err = it.move(next, nil) {
		row, err := codec.ParseIndexRow(it.key, it.value)
		if err != nil {
			return nil, p.corrupt(from, err)
		}
		rows = append(rows, codec.FetchedRow{Timestamp: row.Timestamp, Relative: int32(row.Offset - row.Base)})
	}
	return rows, p.readError(from, err)
}
