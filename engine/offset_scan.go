package engine

import (
	"context"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/keys"
)

// Rows of consumer offsets are ordered by group, then by topic id. A row whose
// topic id is no topic's is what a commit left behind that a deletion of the topic
// overtook: it is passed over everywhere, and removed with the idle groups.

// groupRow is a row of a group's offsets; its key and value are valid until the
// next move of the scan.
type groupRow struct {
	group string
	id    keys.Partition
	topic *Topic // nil: deleted
	value []byte
}

// settleOffsets waits until offsets committed before the call can be read. Under
// SyncAlways a commit is acknowledged only then, so there is nothing to wait for.
func (db *DB) settleOffsets(ctx context.Context) error {
	if db.isClosed() {
		return ErrClosed
	}
	if db.opts.Durability == SyncAlways || db.hasFailed() {
		return nil
	}
	return db.drainQueue(ctx)
}

// drainQueue waits until everything queued before the call is in Pebble.
func (db *DB) drainQueue(ctx context.Context) error {
	cm, err := db.queueBarrier(false)
	if err != nil {
		return err
	}
	return db.wait(ctx, cm)
}

// eachOffset visits the rows of a range of the offsets in order. skip makes it go
// on with the next group.
func (db *DB) eachOffset(ctx context.Context, r keys.Range, visit func(row groupRow) (skip bool, err error)) error {
	it, err := db.newIter(r.Start, r.End)
	if err != nil {
		return err
	}
	defer it.close()
	ok, err := it.move(seekGE, r.Start)
	for ok && err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		row := groupRow{value: it.value}
		if row.group, row.id, err = keys.DecodeOffset(it.key); err != nil {
			return &CorruptionError{Offset: -1, Err: err}
		}
		row.topic = db.topicByID(row.id.Topic)
		skip, err := visit(row)
		if err != nil {
			return err
		}
		step, key := next, []byte(nil)
		if skip {
			step, key = seekGE, keys.OffsetGroupRange(row.group).End
		}
		if ok, err = it.move(step, key); err != nil {
			return err
		}
	}
	return err
}

// eachGroup visits the names of all groups with a row.
func (db *DB) eachGroup(ctx context.Context, visit func(group string) error) error {
	return db.eachOffset(ctx, keys.OffsetsRange(), func(row groupRow) (bool, error) { return true, visit(row.group) })
}

// deleteTopicOffsets adds to the batch what deletes the offsets that groups have
// committed for a topic. The topic takes no commits any more; its cost grows with
// the number of groups, not with that of offsets.
func (db *DB) deleteTopicOffsets(ctx context.Context, batch *pebble.Batch, topic uint32) error {
	if err := db.drainQueue(ctx); err != nil {
		return err
	}
	return db.eachGroup(ctx, func(group string) error {
		r := keys.OffsetTopicRange(group, topic)
		it, err := db.newIter(r.Start, r.End)
		if err != nil {
			return err
		}
		defer it.close()
		ok, err := it.move(seekGE, r.Start)
		if err != nil || !ok {
			return err
		}
		return deleteRanges(batch, []keys.Range{r})
	})
}

// deleteOffsets adds to the batch what deletes the offsets that groups have
// committed for the partition. p.changing is held and everything before is in
// Pebble.
func (p *Partition) deleteOffsets(batch *pebble.Batch) error {
	return p.topic.db.eachGroup(context.Background(), func(group string) error {
		key := keys.AppendOffset(nil, group, p.id())
		value, err := p.topic.db.get(key)
		if err != nil || value == nil {
			return err
		}
		return batch.Delete(key, nil)
	})
}
