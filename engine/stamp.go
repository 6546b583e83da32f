package engine

import (
	"log/slog"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// An append under the lock has two halves. stamp decides: it reads the clock's
// value, checks timestamps, decides on a roll and assigns offsets. apply carries
// out: the same state and the same stamped set give the same rows, byte for
// byte, whatever the clock. A leader runs both, recovery and a follower only
// apply.

// stamped is a set whose offsets, timestamps and place are decided.
type stamped struct {
	roll    retention.Reason // if any, a new segment begins at the set's first offset
	base    int64
	entries []preparedEntry // sealed, absolute offsets
	clock   codec.Timestamp
}

// segmentRowInterval is how many stored bytes may be appended before the active
// segment's row is written again: it bounds what load replays. A row is about
// 150 bytes, so it costs 0.06 %.
const segmentRowInterval = 256 << 10

// stampLocked decides about a prepared set at clock now; several are one set, in
// their order. On an error nothing has changed.
func (p *Partition) stampLocked(now codec.Timestamp, preps ...*prepared) (stamped, error) {
	whole, err := p.checkStampLocked(now, preps)
	if err != nil {
		return stamped{}, err
	}
	active := p.activeLocked()
	s := preps[len(preps)-1].settings
	reason := retention.RollBefore(*active, whole, s.rollPolicy(p.Topic(), p.Number(), active.Base), now)
	st := stamped{roll: reason, base: p.mu.end, clock: now}
	base := p.mu.end
	for _, prep := range preps {
		for i := range prep.entries {
			prep.entries[i].seal(base, prep, now)
		}
		base += prep.messages
		if st.entries == nil {
			st.entries = prep.entries
		} else {
			st.entries = append(st.entries[:len(st.entries):len(st.entries)], prep.entries...)
		}
	}
	return st, nil
}

// checkStampLocked returns what is stamped as retention sees it, or why it is
// refused.
func (p *Partition) checkStampLocked(now codec.Timestamp, preps []*prepared) (retention.Set, error) {
	whole := retention.Set{MaxTimestamp: codec.NoTimestamp}
	messages := int64(0)
	if slices.ContainsFunc(preps, (*prepared).controlled) {
		if err := p.checkControlLocked(preps); err != nil {
			return whole, err
		}
	}
	for _, prep := range preps {
		if err := prep.settings.checkTimes(prep, now); err != nil {
			return whole, err
		}
		largest := prep.largest
		if prep.clocked() {
			largest = max(now, 0)
		}
		whole.MaxTimestamp = max(whole.MaxTimestamp, largest)
		whole.WireBytes += prep.wire
		messages += prep.messages
		if limit := prep.settings.segmentBytes; whole.WireBytes > limit {
			return whole, codec.Errorf(codec.CodeRecordListTooLarge, "sets of %d wire bytes exceed segment.bytes %d", whole.WireBytes, limit)
		}
	}
	if p.mu.end > maxOffset-1-messages {
		return whole, codec.Errorf(codec.CodeRecordListTooLarge, "offsets are exhausted")
	}
	whole.LastOffset = p.mu.end + messages - 1
	return whole, nil
}

// checkTimes applies the timestamp threshold (SPEC 2.2.10-14). Under
// LogAppendTime it does not hold.
func (s *topicSettings) checkTimes(prep *prepared, now codec.Timestamp) error {
	if s.logAppends() || prep.unset || prep.min == codec.NoTimestamp {
		return nil
	}
	limit := s.maxTimestampDifferenceMs
	at := int64(max(now, 0)) // with both non-negative no difference can overflow
	for _, ts := range [2]codec.Timestamp{prep.min, prep.max} {
		if int64(ts)-at > limit || at-int64(ts) > limit {
			return codec.Errorf(codec.CodeInvalidTimestamp,
				"timestamp %d is more than %d ms from the clock %d", int64(ts), limit, int64(now))
		}
	}
	return nil
}

// seal makes the entry's offsets absolute and finishes its bytes.
func (e *preparedEntry) seal(base int64, prep *prepared, now codec.Timestamp) {
	e.first += base
	e.last += base
	if e.maxOffset >= 0 {
		e.maxOffset += base
	}
	st := codec.Stamp{Timestamp: e.timestamp, Clock: now}
	if prep.clocked() {
		st.LogAppend = prep.settings.logAppends()
		st.Timestamp = max(now, 0)
		e.timestamp, e.maxTimestamp, e.maxOffset = st.Timestamp, st.Timestamp, e.first
		if e.wrapper {
			e.maxOffset = e.last
		}
		if e.control.typ != 0 { // nobody searches for it
			e.maxTimestamp, e.maxOffset = codec.NoTimestamp, -1
		}
	}
	keys.PutLogOffset(e.key, e.last)
	codec.Seal(e.key, e.value, st)
}

// applyLocked adds a stamped set to the partition's state and to the batch,
// which already holds the entries, the rows they bring with them.
func (p *Partition) applyLocked(batch *pebble.Batch, st stamped) error {
	if st.roll != retention.NoRoll {
		if err := p.rollLocked(batch, st.base, st.roll.String()); err != nil {
			return err
		}
	}
	active := p.activeLocked()
	fresh := active.Entries == 0
	before, wireBefore := active.StoredBytes, active.Bytes
	interval := p.topic.settings().indexIntervalBytes
	for i := range st.entries {
		row, due := active.Add(st.entries[i].appended(st.clock), interval)
		if due {
			if err := p.setIndexRow(batch, row); err != nil {
				return err
			}
		}
		if c := st.entries[i].control; c.typ != 0 {
			if err := p.controlLocked(batch, c, st.entries[i].last); err != nil {
				return err
			}
		}
	}
	p.mu.end = active.End
	p.mu.bytes += active.Bytes - wireBefore
	p.mu.unsaved = true
	if fresh || before/segmentRowInterval != active.StoredBytes/segmentRowInterval {
		if err := p.setSegment(batch, active); err != nil {
			return err
		}
	}
	if fresh || p.dueSoonerLocked() {
		return p.scheduleLocked(batch)
	}
	return nil
}

func (e *preparedEntry) appended(clock codec.Timestamp) retention.Appended {
	return retention.Appended{
		Last:           e.last,
		FirstTimestamp: e.timestamp,
		MaxTimestamp:   e.maxTimestamp,
		MaxOffset:      e.maxOffset,
		Clock:          clock,
		WireBytes:      e.wire,
		StoredBytes:    int64(len(e.value)),
		Messages:       e.messages,
	}
}

// rollLocked seals the active segment with its closing index row and begins a
// new one at base (SPEC 7.1.4), for a reason that is logged. An empty active segment stays.
func (p *Partition) rollLocked(batch *pebble.Batch, base int64, reason string) error {
	active := p.activeLocked()
	if active.Entries == 0 {
		return nil
	}
	if row, due := active.ClosingRow(); due {
		if err := p.setIndexRow(batch, row); err != nil {
			return err
		}
	}
	active.Sealed = true
	if err := p.setSegment(batch, active); err != nil {
		return err
	}
	p.mu.segments = append(p.mu.segments, retention.NewSegment(base))
	p.topic.db.stats.rolls.Add(1)
	p.topic.db.log(slog.LevelInfo, "roll", "partition", p.String(), "base", base, "reason", reason)
	return nil
}

// setSegment writes a segment's row.
func (p *Partition) setSegment(batch *pebble.Batch, s *retention.Segment) error {
	if !s.Sealed {
		p.mu.unsaved = false
	}
	return batch.Set(keys.AppendSegment(nil, p.id(), s.Base), retention.AppendSegment(nil, *s), nil)
}

// setIndexRow writes a time-index row to both places: the companion partition,
// where it is replicated and truncated like a message, and the timestamp
// keyspace, where a search finds it.
func (p *Partition) setIndexRow(batch *pebble.Batch, row retention.IndexRow) error {
	p.topic.db.stats.indexRows.Add(1)
	return setIndexRow(batch, p.id(), row)
}

func setIndexRow(batch *pebble.Batch, id keys.Partition, row retention.IndexRow) error {
	var keyBuf, valueBuf [64]byte // larger than any key or row: nothing is allocated
	key := keys.AppendLog(keyBuf[:0], id.Companion(), row.Offset)
	if err := batch.Set(key, codec.AppendIndexRow(valueBuf[:0], key, row), nil); err != nil {
		return err
	}
	key = keys.AppendTimestamp(keyBuf[:0], id, row.Base, int64(row.Timestamp))
	return batch.Set(key, codec.AppendTimestampRow(valueBuf[:0], key, row), nil)
}
