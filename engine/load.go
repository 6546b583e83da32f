package engine

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// load reads what a partition keeps in memory: its state, its segment rows and,
// from the active segment's row onward, the entries appended after that row was
// written. Rows are rewritten every segmentRowInterval bytes, so the work does
// not grow with the data.
func (p *Partition) load() error {
	state, err := p.loadState()
	if err != nil {
		return err
	}
	segments, err := p.loadSegments()
	if err != nil {
		return err
	}
	if len(segments) == 0 {
		segments = []retention.Segment{retention.NewSegment(state.LogStart)}
	}
	active := &segments[len(segments)-1]
	saved := *active
	if err := p.replay(active); err != nil {
		return err
	}
	if err := p.trustIndex(active, &saved); err != nil {
		return err
	}
	end := max(active.End, active.Base)
	var ts *transactions
	if state.Transactional {
		if ts, err = p.loadTransactions(); err != nil {
			return err
		}
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.alarm = retention.Never // there may be one; another does no harm
	if s := p.mu.seldom; s != nil {
		*s = seldom{cutAt: s.cutAt}
	}
	p.setSegmentsLocked(segments)
	p.mu.unsaved = saved.End != active.End
	if state.Cleaned != nil {
		p.seldomLocked().cleaned = state.Cleaned
	}
	if ts != nil {
		p.seldomLocked().transactions = ts
		p.topic.db.transactional.add(p)
	}
	if state.Epochs > 0 {
		p.seldomLocked().epochs = state.Epochs
	}
	if state.Holes {
		p.seldomLocked().holes = true
	}
	p.mu.end = end
	p.logStart.Store(state.LogStart)
	p.readable.Store(end)
	return nil
}

func (p *Partition) loadState() (partitionState, error) {
	value, err := p.topic.db.get(keys.AppendState(nil, p.id()))
	if err != nil {
		return partitionState{}, err
	}
	state, err := decodeState(value)
	if err != nil && !errors.Is(err, ErrNewerFormat) {
		err = p.corrupt(-1, err)
	}
	return state, err
}

func (p *Partition) loadSegments() ([]retention.Segment, error) {
	r := keys.SegmentRange(p.id(), 0, maxOffset)
	it, err := p.topic.db.newIter(r.Start, r.End)
	if err != nil {
		return nil, err
	}
	defer it.close()
	var segments []retention.Segment
	ok, err := it.move(seekGE, r.Start)
	for ; ok && err == nil; ok, err = it.move(next, nil) {
		_, base, err := keys.DecodeSegment(it.key)
		if err != nil {
			return nil, p.corrupt(-1, err)
		}
		seg, err := retention.DecodeSegment(it.value)
		if errors.Is(err, retention.ErrNewerVersion) {
			return nil, fmt.Errorf("%w: %w", ErrNewerFormat, err)
		} else if err != nil {
			return nil, p.corrupt(base, err)
		}
		segments = append(segments, seg)
	}
	return segments, p.readError(-1, err)
}

// replay accounts for the entries at and after the row's end. The index rows
// they made due were written with them. A damaged entry counts as one without
// timestamps: it is reported where it is read, and its neighbours stay usable.
func (p *Partition) replay(active *retention.Segment) error {
	r := keys.LogRange(p.id(), active.End, maxOffset)
	it, err := p.topic.db.newIter(r.Start, r.End)
	if err != nil {
		return err
	}
	defer it.close()
	interval := p.topic.settings().indexIntervalBytes
	ok, err := it.move(seekGE, r.Start)
	for ; ok && err == nil; ok, err = it.move(next, nil) {
		entry, err := codec.ParseEntry(it.key, it.value)
		if err != nil {
			_, offset, keyErr := keys.DecodeLog(it.key)
			if keyErr != nil {
				return p.corrupt(-1, keyErr)
			}
			p.topic.db.log(slog.LevelError, "damaged entry", "partition", p.String(), "offset", offset, "err", err)
			active.Add(damagedAppended(offset, active.LastAppend, len(it.value)), interval)
			continue
		}
		active.Add(retention.AppendedOf(&entry, len(it.value)), interval)
	}
	return p.readError(active.End, err)
}

// damagedAppended is what a segment accounts for an entry that cannot be read.
func damagedAppended(offset int64, clock codec.Timestamp, stored int) retention.Appended {
	return retention.Appended{Last: offset, FirstTimestamp: codec.NoTimestamp, MaxTimestamp: codec.NoTimestamp,
		MaxOffset: -1, Clock: clock, StoredBytes: int64(stored)}
}

// trustIndex makes the active segment's index state say what is stored: the rows
// its own row knew of, and those written since. A replay can differ from the
// appends it repeats where the index interval was changed in between or an entry
// is damaged, and a search relies on the rows it is told of.
func (p *Partition) trustIndex(active, saved *retention.Segment) error {
	r := keys.TimestampRange(p.id(), active.Base, active.Base+1)
	it, err := p.topic.db.newIter(r.Start, r.End)
	if err != nil {
		return err
	}
	defer it.close()
	row, ok, err := p.timestampRow(it, last, nil)
	if err != nil {
		return err
	}
	stored, from := codec.NoTimestamp, active.Base
	if ok {
		stored, from = row.Timestamp, row.Offset
	}
	active.IndexRows = saved.IndexRows
	since := p.afterTimestamp(active.Base, saved.IndexedTimestamp)
	for m, key := seekGE, since; ok; m, key = next, nil {
		if ok, err = it.move(m, key); err != nil {
			return p.readError(active.Base, err)
		} else if ok {
			active.IndexRows++
		}
	}
	if stored != active.IndexedTimestamp {
		active.IndexedTimestamp, active.ScanFrom = stored, from
	}
	if stored > active.MaxTimestamp { // the entry with it is damaged
		active.MaxTimestamp, active.MaxOffset = stored, min(from, active.End-1)
	}
	return nil
}

func (p *Partition) corrupt(offset int64, err error) error {
	return &CorruptionError{Topic: p.Topic(), Partition: p.Number(), Offset: offset, Err: err}
}
