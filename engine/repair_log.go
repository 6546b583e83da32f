package engine

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// log mends one partition of which nothing changes meanwhile.
func (r *repair) log(ctx context.Context, p *Partition) error {
	if r.o.Quarantine {
		if err := r.quarantineLog(ctx, p); err != nil {
			return err
		}
	}
	c, err := r.check(ctx, p, nil)
	if err != nil {
		return err
	}
	defer c.view.close()
	batch := r.db.pdb.NewBatch()
	if err := errors.Join(r.foreign(batch, c), r.state(batch, c), r.ring(batch, c)); err != nil {
		return errors.Join(err, batch.Close())
	}
	if err := r.commit(ctx, batch); err != nil {
		return err
	}
	all := c.state.Cleaned != nil // a pass may be in the middle of several
	rebuild := false
	for i := range c.segments {
		rebuild = rebuild || c.segments[i].rebuild
	}
	for i := range c.segments {
		if c.segments[i].rebuild || all && rebuild {
			if err := r.segment(ctx, c, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// check verifies a partition by itself. Close its view.
func (r *repair) check(ctx context.Context, p *Partition, remove func(key, value []byte) error) (*logCheck, error) {
	view, err := r.db.newView()
	if err != nil {
		return nil, err
	}
	v := &verifier{db: r.db, view: view, topics: r.found.topics, alarms: r.found.alarms, remove: remove}
	c := &logCheck{verifier: v, id: p.id(), settings: p.topic.settings()}
	if err := c.run(ctx); err != nil {
		view.close()
		return nil, err
	}
	return c, nil
}

// quarantineLog removes what cannot stay of the log, keeps the log's end where it was
// and notes that there are holes.
func (r *repair) quarantineLog(ctx context.Context, p *Partition) error {
	batch := r.db.pdb.NewBatch()
	removed := r.Done
	c, err := r.check(ctx, p, r.remover(batch, p.id()))
	if err != nil {
		return errors.Join(err, batch.Close())
	}
	defer c.view.close()
	if r.Done == removed && !c.lossy {
		return batch.Close()
	}
	if err := r.holes(batch, c); err != nil {
		return errors.Join(err, batch.Close())
	}
	return r.commit(ctx, batch)
}

// holes notes that offsets of the log may be missing. The end of the log stays where it
// is, which entries that go may have been the only ones to say.
func (r *repair) holes(batch *pebble.Batch, c *logCheck) error {
	if !c.lossy || len(c.segments) == 0 {
		return nil
	}
	active := &c.segments[len(c.segments)-1]
	row := active.stored
	if !active.readable {
		row = retention.NewSegment(active.Base)
	}
	row.End = max(row.End, c.end)
	if err := batch.Set(keys.AppendSegment(nil, c.id, active.Base), retention.AppendSegment(nil, row), nil); err != nil {
		return err
	}
	c.state.Holes = true
	if !c.stateOK {
		return nil // state writes it, from the messages
	}
	r.did(c.id, -1, "noted that offsets of the log are missing")
	return r.setState(batch, c)
}

func (r *repair) setState(batch *pebble.Batch, c *logCheck) error {
	value, err := encodeRow(&c.state)
	if err != nil {
		return err
	}
	return batch.Set(keys.AppendState(nil, c.id), value, nil)
}

// foreign removes index rows that belong to no segment.
func (r *repair) foreign(batch *pebble.Batch, c *logCheck) error {
	if !c.foreign {
		return nil
	}
	r.did(c.id, -1, "removed index rows of segments that do not exist")
	from := int64(0)
	var ranges []keys.Range
	for i := range c.segments {
		base := c.segments[i].Base
		if i == 0 {
			ranges = append(ranges, keys.LogRange(c.id.Companion(), 0, base))
		}
		ranges = append(ranges, keys.TimestampRange(c.id, from, base))
		from = base + 1
	}
	if len(c.segments) == 0 {
		ranges = append(ranges, keys.LogRange(c.id.Companion(), 0, maxOffset))
	}
	return deleteRanges(batch, append(ranges, keys.TimestampRange(c.id, from, maxOffset)))
}

// state writes the state row anew if it contradicts the log.
func (r *repair) state(batch *pebble.Batch, c *logCheck) error {
	if !c.badState {
		return nil
	}
	switch {
	case c.stateOK:
		c.state.LogStart = min(c.state.LogStart, c.end)
	case c.first >= 0:
		c.state.LogStart = c.first
	default:
		c.state.LogStart = c.end
	}
	c.state.Epochs = c.newestEpoch + 1
	c.state.Transactional = c.state.Transactional || c.transactional
	r.did(c.id, c.state.LogStart, "wrote the partition's state anew, with a log start at %d", c.state.LogStart)
	return r.setState(batch, c)
}

// ring makes the partition due now, so that its alarm is computed again.
func (r *repair) ring(batch *pebble.Batch, c *logCheck) error {
	r.did(c.id, -1, "made the partition due for maintenance")
	return batch.Set(keys.AppendDue(nil, int64(max(r.db.now(), 0)), c.id), nil, nil)
}

// segment makes the row and the index of a segment anew, from its entries, in one batch.
func (r *repair) segment(ctx context.Context, c *logCheck, i int) error {
	old, upper, active := &c.segments[i], c.upper(i), i == len(c.segments)-1
	batch := r.db.pdb.NewBatch()
	err := deleteRanges(batch, []keys.Range{
		keys.LogRange(c.id.Companion(), old.Base, upper), keys.TimestampRange(c.id, old.Base, old.Base+1),
	})
	if err != nil {
		return errors.Join(err, batch.Close())
	}
	seg := retention.NewSegment(old.Base)
	err = c.each(ctx, keys.LogRange(c.id, old.Base, upper), func(s *rowScan) error {
		a, ok := appendedOf(s, seg.LastAppend)
		if !ok {
			return nil
		}
		if row, due := seg.Add(a, c.settings.indexIntervalBytes); due {
			return setIndexRow(batch, c.id, row)
		}
		return nil
	})
	if seg.Sealed = !active; err == nil && seg.Sealed {
		if row, due := seg.ClosingRow(); due {
			err = setIndexRow(batch, c.id, row)
		}
	}
	seg.End = max(seg.End, c.endOf(i))
	if err == nil {
		err = batch.Set(keys.AppendSegment(nil, c.id, seg.Base), retention.AppendSegment(nil, seg), nil)
	}
	if err != nil {
		return errors.Join(err, batch.Close())
	}
	r.did(c.id, seg.Base, "made the segment's row and %d index rows anew, from %d entries with %d messages", seg.IndexRows, seg.Entries, seg.Messages)
	return r.commit(ctx, batch)
}

// appendedOf is what a segment accounts for the current row, which is an entry if its
// key is one; as load does.
func appendedOf(s *rowScan, clock codec.Timestamp) (a retention.Appended, ok bool) {
	_, last, err := keys.DecodeLog(s.key)
	if err != nil {
		return a, false
	}
	e, err := codec.ParseEntry(s.key, s.value)
	if err != nil {
		return damagedAppended(last, clock, len(s.value)), true
	}
	return retention.AppendedOf(&e, len(s.value)), true
}

// endOf is where a segment ends beside what its entries say.
func (c *logCheck) endOf(i int) int64 {
	old := &c.segments[i]
	switch {
	case i == len(c.segments)-1 && c.badEnd: // its entries alone are right
		return max(old.Base, c.state.LogStart)
	case i == len(c.segments)-1:
		return c.end
	case old.readable:
		return min(old.End, c.upper(i))
	default:
		return old.Base
	}
}
