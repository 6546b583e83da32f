package engine

import (
	"context"
	"errors"
	"log/slog"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// Position is the answer of a search.
type Position struct {
	// Offset is that of the message found; without one, the high watermark, so
	// that reading from it yields what comes later.
	Offset int64
	// Timestamp is the found message's; NoTimestamp without one.
	Timestamp codec.Timestamp
	Found     bool
}

// OffsetFor returns the first message in offset order whose timestamp is at or
// after ts (SPEC 5.4). Every message with such a timestamp lies at or after it;
// older ones may follow it. Messages without a timestamp are never the answer;
// a negative ts finds the first that has one.
//
// The answer is exact. Its cost does not grow with the log: one index row, then
// at most one index interval.
func (p *Partition) OffsetFor(ts codec.Timestamp) (Position, error) {
	pos, err := p.offsetFor(context.Background(), max(ts, 0))
	return pos, p.wrap("search", err)
}

// offsetFor searches again when the log start passed the place it looked at.
func (p *Partition) offsetFor(ctx context.Context, ts codec.Timestamp) (Position, error) {
	for {
		pos, err := p.searchOnce(ctx, ts)
		if !errors.Is(err, ErrOffsetRange) {
			return pos, err
		}
		if err := ctx.Err(); err != nil {
			return Position{}, err
		}
	}
}

func (p *Partition) searchOnce(ctx context.Context, ts codec.Timestamp) (Position, error) {
	bounds, err := p.searchBounds(ctx)
	if err != nil {
		return Position{}, err
	}
	p.topic.db.stats.searches.Add(1)
	// Compaction may join segments meanwhile: what is searched is known by offset.
	// It may also drop what would be found, for something appended meanwhile: a
	// search that found nothing goes on to where the log ends by then.
	searched := int64(0)
	for {
		seg, ok := p.segmentBeyond(searched, func(s *retention.Segment) bool { return s.MaxTimestamp >= ts })
		if searched >= bounds.end {
			bounds.end = p.grown(bounds)
		}
		if !ok || searched >= bounds.end {
			return Position{Offset: bounds.end, Timestamp: codec.NoTimestamp}, nil
		}
		from, err := p.searchStart(&seg, ts)
		if err != nil {
			return Position{}, err
		}
		pos, err := p.firstAtOrAfter(&seg, max(from, searched), bounds, ts)
		if err != nil || pos.Found {
			return pos, err
		}
		searched = min(seg.End, bounds.end)
	}
}

// searchBounds returns the end of what a search may find.
func (p *Partition) searchBounds(ctx context.Context) (readBounds, error) {
	return p.readBounds(ctx, p.logStartOrZero(), ReadOptions{})
}

func (p *Partition) logStartOrZero() int64 {
	if p == nil {
		return 0
	}
	if p.ready() != nil {
		return 0 // readBounds reports why
	}
	return p.logStart.Load()
}

// grown returns where a log that was not cut meanwhile ends by now.
func (p *Partition) grown(b readBounds) int64 {
	end := p.readable.Load()
	if p.cuts.Load() != b.cuts {
		return b.end
	}
	return max(b.end, end)
}

// segmentBeyond returns a copy of the first segment that reaches beyond an offset,
// may hold readable messages and matches.
func (p *Partition) segmentBeyond(offset int64, match func(*retention.Segment) bool) (retention.Segment, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	offset = max(offset, p.logStart.Load())
	for i := range p.mu.segments {
		if s := &p.mu.segments[i]; s.End > offset && match(s) {
			return *s, true
		}
	}
	return retention.Segment{}, false
}

// searchStart returns where in the segment the scan for the first timestamp at
// or after ts begins. The row with the smallest T >= ts says it: everything of
// the segment below that row's ScanFrom is older than the row before it. An
// index without that row (lost, damaged or not applied yet) only makes the scan
// longer.
func (p *Partition) searchStart(seg *retention.Segment, ts codec.Timestamp) (int64, error) {
	if seg.IndexedTimestamp < ts {
		return seg.ScanFrom, nil
	}
	r := keys.TimestampRange(p.id(), seg.Base, seg.Base+1)
	it, err := p.topic.db.newIter(r.Start, r.End)
	if err != nil {
		return 0, err
	}
	defer it.close()
	key := keys.AppendTimestamp(nil, p.id(), seg.Base, int64(ts))
	row, ok, err := p.timestampRow(it, seekGE, key)
	if err != nil || ok {
		return row.ScanFrom, err
	}
	row, ok, err = p.timestampRow(it, seekLT, key)
	if err != nil || ok {
		return row.Offset, err
	}
	return seg.Base, nil
}

// afterTimestamp returns the key after the row of a timestamp in a segment.
func (p *Partition) afterTimestamp(base int64, ts codec.Timestamp) []byte {
	return append(keys.AppendTimestamp(nil, p.id(), base, int64(ts)), 0)
}

// timestampRow moves the iterator and returns the row it stands on, false if
// there is none or it is damaged. A damaged row is logged: it can be rebuilt.
func (p *Partition) timestampRow(it *iterator, m move, key []byte) (retention.IndexRow, bool, error) {
	ok, err := it.move(m, key)
	if err != nil || !ok {
		return retention.IndexRow{}, false, p.readError(-1, err)
	}
	row, err := codec.ParseTimestampRow(it.key, it.value)
	if err != nil {
		p.topic.db.log(slog.LevelError, "damaged time index", "partition", p.String(), "err", err)
		return retention.IndexRow{}, false, nil
	}
	return row, true, nil
}

// firstAtOrAfter scans the segment from an offset for the first timestamp at or
// after ts.
func (p *Partition) firstAtOrAfter(seg *retention.Segment, from int64, bounds readBounds, ts codec.Timestamp) (Position, error) {
	end := bounds.end
	if seg.Sealed {
		end = min(end, seg.End)
	}
	scan := p.scanFrom(max(from, p.logStart.Load()), bounds.cuts)
	defer scan.close()
	from = scan.from
	var m codec.Message
	for scan.from < end {
		ok, err := scan.next()
		if err != nil || !ok {
			return Position{}, err
		}
		if scan.entry.MaxTimestamp < ts || scan.entry.Control != 0 {
			continue
		}
		if err := scan.open(); err != nil {
			return Position{}, err
		}
		for scan.cursor.Next(&m) {
			if m.Timestamp >= ts && m.Offset >= from && m.Offset < end {
				return Position{m.Offset, m.Timestamp, true}, nil
			}
		}
		if err := scan.damage(); err != nil {
			return Position{}, err
		}
	}
	return Position{}, nil
}

// MaxTimestamp returns the message with the largest timestamp, the first of
// equals (KIP-734).
func (p *Partition) MaxTimestamp(ctx context.Context) (Position, error) {
	pos, err := p.maxTimestamp(ctx)
	return pos, p.wrap("max timestamp", err)
}

func (p *Partition) maxTimestamp(ctx context.Context) (Position, error) {
	for {
		pos, err := p.newestOnce(ctx)
		if !errors.Is(err, ErrOffsetRange) || ctx.Err() != nil {
			return pos, err
		}
	}
}

func (p *Partition) newestOnce(ctx context.Context) (Position, error) {
	if err := p.ready(); err != nil {
		return Position{}, err
	}
	if err := p.drained(ctx); err != nil && !errors.Is(err, ErrFailed) { // the pair must be of one readable message
		return Position{}, err
	}
	bounds, err := p.searchBounds(ctx)
	if err != nil {
		return Position{}, err
	}
	seg, ok := p.newestSegment()
	if !ok {
		return Position{Offset: bounds.end, Timestamp: codec.NoTimestamp}, nil
	}
	from, err := p.searchStart(&seg, seg.MaxTimestamp)
	if err != nil {
		return Position{}, err
	}
	pos, err := p.firstAtOrAfter(&seg, from, bounds, seg.MaxTimestamp)
	if err != nil || pos.Found {
		return pos, err
	}
	return p.newestOfAll(ctx, bounds)
}

// newestSegment returns the first segment with the largest timestamp.
func (p *Partition) newestSegment() (newest retention.Segment, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	newest.MaxTimestamp = codec.NoTimestamp
	for i := range p.mu.segments {
		if s := &p.mu.segments[i]; s.MaxTimestamp > newest.MaxTimestamp {
			newest, ok = *s, true
		}
	}
	return newest, ok
}

// newestOfAll finds the largest timestamp by looking at every entry: only where
// the log start or compaction took the newest message off its segment, or the store
// failed before it became durable. What was appended meanwhile counts, for that is
// what compaction may have dropped something for.
func (p *Partition) newestOfAll(ctx context.Context, bounds readBounds) (Position, error) {
	best := Position{Offset: bounds.end, Timestamp: codec.NoTimestamp}
	scan := p.scanFrom(p.logStart.Load(), bounds.cuts)
	defer scan.close()
	start := scan.from
	var m codec.Message
	for {
		if scan.from >= bounds.end {
			bounds.end = p.grown(bounds)
		}
		if scan.from >= bounds.end {
			return best, nil
		}
		ok, err := scan.next()
		if err != nil || !ok {
			return best, err
		}
		if scan.entry.MaxTimestamp <= best.Timestamp {
			continue
		}
		if err := errors.Join(ctx.Err(), scan.open()); err != nil {
			return best, err
		}
		for scan.cursor.Next(&m) {
			if m.Timestamp > best.Timestamp && m.Offset >= start && m.Offset < bounds.end {
				best = Position{m.Offset, m.Timestamp, true}
			}
		}
		if err := scan.damage(); err != nil {
			return best, err
		}
	}
}
