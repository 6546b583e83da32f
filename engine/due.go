package engine

import (
	"context"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// When a partition next wants maintenance is a key in the due space, ordered by
// time, and a field of its state row. The maintenance loop reads what is due
// from there, so partitions that want nothing cost nothing, opened or not.
//
// The key is an alarm, not a promise: it may ring early, and then the due time
// is computed again. It never rings late: whatever can bring the due time
// forward (a first append, a roll, growth, new settings) moves the alarm.

// scheduleLocked moves the partition's alarm forward if it is due earlier. p.mu
// is held.
func (p *Partition) scheduleLocked(batch *pebble.Batch) error {
	due := p.dueLocked()
	set := p.mu.state.Due
	if due == retention.Never || set != retention.Never && set <= due {
		return nil
	}
	return p.setAlarmLocked(batch, due)
}

// setAlarmLocked replaces the alarm; retention.Never clears it.
func (p *Partition) setAlarmLocked(batch *pebble.Batch, due codec.Timestamp) error {
	old := p.mu.state.Due
	if old == due {
		return nil
	}
	if old != retention.Never {
		if err := batch.Delete(keys.AppendDue(nil, int64(old), p.id), nil); err != nil {
			return err
		}
	}
	if due != retention.Never {
		if err := batch.Set(keys.AppendDue(nil, int64(due), p.id), nil, nil); err != nil {
			return err
		}
	}
	p.mu.state.Due = due
	return p.setState(batch)
}

// dueLocked returns when the partition next wants maintenance.
func (p *Partition) dueLocked() codec.Timestamp {
	s := p.topic.settings()
	bounds := p.boundsLocked()
	bounds.HighWatermark = bounds.End // what is not durable yet will be
	return retention.DueAt(p.mu.segments, s.retention, bounds,
		s.rollPolicy(p.Topic(), p.Number(), p.activeLocked().Base))
}

func (p *Partition) boundsLocked() retention.Bounds {
	return retention.Bounds{Start: p.logStart.Load(), HighWatermark: min(p.readable.Load(), p.mu.end), End: p.mu.end}
}

// setState writes the partition's state row.
func (p *Partition) setState(batch *pebble.Batch) error {
	value, err := encodeRow(&p.mu.state)
	if err != nil {
		return err
	}
	return batch.Set(keys.AppendState(nil, p.id), value, nil)
}

// ringTopic makes every partition of the topic that exists due now, because its
// settings changed. It sets extra alarms and does not open the partitions.
func (db *DB) ringTopic(t *Topic) error {
	r := keys.SegmentRange(keys.Partition{Topic: t.id}, 0, 0)
	end := keys.SegmentRange(keys.Partition{Topic: t.id, Number: maxPartition}, 0, maxOffset).End
	it, err := db.newIter(r.Start, end)
	if err != nil {
		return err
	}
	defer it.close()
	batch := db.pdb.NewBatch()
	now := int64(max(db.now(), 0))
	ok, err := it.move(seekGE, r.Start)
	for ok && err == nil {
		id, _, decodeErr := keys.DecodeSegment(it.key)
		if decodeErr != nil {
			return &CorruptionError{Topic: t.name, Offset: -1, Err: decodeErr}
		}
		if err := batch.Set(keys.AppendDue(nil, now, id), nil, nil); err != nil {
			return err
		}
		ok, err = it.move(seekGE, keys.SegmentRange(id, 0, maxOffset).End)
	}
	if err != nil || batch.Empty() {
		return err
	}
	return db.commitSync(context.Background(), batch)
}
