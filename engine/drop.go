package engine

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// DeleteTopic deletes a topic with all its partitions, atomically and on stable
// storage when it returns. Its cost does not grow with the data; the space comes
// back in the background. Handles on the topic and its partitions return
// ErrUnknownTopic from then on, a new topic of the same name starts empty.
func (db *DB) DeleteTopic(ctx context.Context, name string) error {
	if err := db.writable(); err != nil {
		return err
	}
	db.catalog.ddl.Lock()
	defer db.catalog.ddl.Unlock()
	t, ok := db.Topic(name)
	if !ok {
		return fmt.Errorf("engine: delete %s: %w", name, ErrUnknownTopic)
	}
	batch := db.pdb.NewBatch()
	err := batch.Delete(keys.AppendCatalog(nil, name), nil)
	if err == nil {
		err = deleteRanges(batch, keys.TopicRanges(t.id))
	}
	if err != nil {
		return err
	}
	t.drop()
	db.catalog.remove(t)
	if err := db.deleteTopicOffsets(context.WithoutCancel(ctx), batch, t.id); err != nil { // what stays is never seen
		db.log(slog.LevelError, "offsets of a deleted topic stay", "topic", name, "err", err)
	}
	if err := db.commitSync(ctx, batch); err != nil {
		return fmt.Errorf("engine: delete %s: %w", name, err)
	}
	db.reclaimer.add(keys.TopicRanges(t.id)[0])
	return nil
}

// drop makes every handle of the topic refuse. What was queued before is
// deleted with the rest: the queue is in order.
func (t *Topic) drop() {
	t.mu.Lock()
	t.dropped.Store(true)
	t.mu.Unlock()
	for _, p := range t.opened() {
		p.loading.Lock()
		p.mu.Lock()
		p.mu.dropped = true
		p.mu.Unlock()
		p.loading.Unlock()
		p.wake()
	}
}

// Drop deletes everything of the partition, offsets included, those that consumer
// groups committed too: its next message gets offset 0. Atomic and on stable storage when it returns. Reads that run
// meanwhile end as with TruncateTo.
func (p *Partition) Drop(ctx context.Context) error {
	err := p.exclusively(ctx, func() (*commit, error) {
		batch := p.topic.db.pdb.NewBatch()
		if err := p.deleteOffsets(batch); err != nil {
			return nil, err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if err := p.writableLocked(); err != nil {
			return nil, err
		}
		if err := p.dropInto(batch); err != nil {
			return nil, p.broken(err)
		}
		return p.queueLocked(batch)
	})
	return p.wrap("drop", err)
}

// dropInto deletes the partition's rows and begins it anew in memory; nothing
// stays on disk.
func (p *Partition) dropInto(batch *pebble.Batch) error {
	if due := p.mu.alarm; due != retention.Never {
		if err := batch.Delete(keys.AppendDue(nil, int64(due), p.id()), nil); err != nil {
			return err
		}
	}
	p.topic.db.reclaimer.add(keys.LogRange(p.id(), 0, maxOffset))
	if err := deleteRanges(batch, keys.PartitionRanges(p.id())); err != nil {
		return err
	}
	p.producers.Store(new(producers))
	p.cutLocked(0)
	p.mu.seldom.cleaned, p.mu.seldom.transactions, p.mu.seldom.epochs, p.mu.seldom.holes = nil, nil, 0, false
	p.logStart.Store(0)
	p.setSegmentsLocked([]retention.Segment{retention.NewSegment(0)})
	p.mu.alarm = retention.Never
	p.mu.unsaved = false
	return nil
}
