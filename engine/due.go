package engine

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// When a partition next wants maintenance is a key in the due space, ordered by
// time. The maintenance loop reads what is due from there, so partitions that
// want nothing cost nothing, opened or not.
//
// The key is an alarm, not a promise: it may ring early, and then the due time
// is computed again; a partition may have several. It never rings late: whatever
// can bring the due time forward (a first append, a roll, growth, a new first
// segment, new settings) sets another. Alarms are a store's own: nothing of them
// is in the rows that replicas share.

// scheduleLocked moves the partition's alarm forward if it is due earlier. p.mu
// is held.
func (p *Partition) scheduleLocked(batch *pebble.Batch) error {
	return p.scheduleAtLocked(batch, p.dueLocked())
}

func (p *Partition) scheduleAtLocked(batch *pebble.Batch, due codec.Timestamp) error {
	set := p.mu.alarm
	if due == retention.Never || set != retention.Never && set <= due {
		return nil
	}
	return p.setAlarmLocked(batch, due)
}

// dueSoonerLocked reports whether an append may have brought the due time before
// the alarm: the log has grown past its size, or its active segment is older than
// it was thought to be, by a first timestamp or a clock that went back. It looks
// at two segments, however many there are.
func (p *Partition) dueSoonerLocked() bool {
	s := p.topic.settings()
	if limit := s.retention.Bytes; limit >= 0 && p.mu.alarm != 0 && p.mu.bytes-limit >= p.mu.segments[0].Bytes {
		return true
	}
	limits := retention.NoLimits()
	if len(p.mu.segments) == 1 {
		limits.AgeMs, limits.ClampFuture = s.retention.AgeMs, s.retention.ClampFuture
	}
	active := p.mu.segments[len(p.mu.segments)-1:]
	bounds := retention.Bounds{Start: active[0].Base, HighWatermark: p.mu.end, End: p.mu.end}
	due := retention.DueAt(active, limits, bounds, s.rollPolicy(p.Topic(), p.Number(), active[0].Base))
	return due != retention.Never && (p.mu.alarm == retention.Never || due < p.mu.alarm)
}

// setAlarmLocked replaces the alarm; retention.Never clears it.
func (p *Partition) setAlarmLocked(batch *pebble.Batch, due codec.Timestamp) error {
	old := p.mu.alarm
	if old == due {
		return nil
	}
	if old != retention.Never {
		if err := batch.Delete(keys.AppendDue(nil, int64(old), p.id()), nil); err != nil {
			return err
		}
	}
	if due != retention.Never {
		if err := batch.Set(keys.AppendDue(nil, int64(due), p.id()), nil, nil); err != nil {
			return err
		}
	}
	p.mu.alarm = due
	return nil
}

// dueLocked returns when the partition next wants maintenance.
func (p *Partition) dueLocked() codec.Timestamp {
	return sooner(p.retentionDueLocked(), p.compactionDueLocked())
}

// sooner returns the earlier of two instants of which either may be
// [retention.Never].
func sooner(a, b codec.Timestamp) codec.Timestamp {
	if a == retention.Never || b != retention.Never && b < a {
		return b
	}
	return a
}

// retentionDueLocked returns when something next rolls or expires.
func (p *Partition) retentionDueLocked() codec.Timestamp {
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
	state := partitionState{Version: stateVersion, LogStart: p.logStart.Load()}
	if p.mu.seldom != nil {
		state.Cleaned = p.mu.seldom.cleaned
		state.Transactional = p.mu.seldom.transactions != nil
		state.Epochs = p.mu.seldom.epochs
		state.Holes = p.mu.seldom.holes
	}
	value, err := encodeRow(&state)
	if err != nil {
		return err
	}
	return batch.Set(keys.AppendState(nil, p.id()), value, nil)
}

// ringTopic adds alarms to the batch that make every partition of the topic that
// exists due now. It does not open the partitions.
func (db *DB) ringTopic(batch *pebble.Batch, t *Topic) error {
	r := keys.SegmentRange(keys.Partition{Topic: t.id}, 0, 0)
	end := keys.SegmentRange(keys.Partition{Topic: t.id, Number: maxPartition}, 0, maxOffset).End
	it, err := db.newIter(r.Start, end)
	if err != nil {
		return err
	}
	defer it.close()
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
	return err
}
