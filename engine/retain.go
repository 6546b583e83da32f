package engine

import (
	"bytes"
	"context"
	"log/slog"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// Retained says what retention removed from a partition, or would remove.
type Retained struct {
	// Segments counts the segments removed, by the rule that took them.
	Segments                   int
	ByTime, BySize, ByLogStart int
	// Messages and WireBytes are what was appended to them, in v1 wire bytes,
	// also what DeleteBefore removed meanwhile; StoredBytes is the size of the
	// stored values.
	Messages, WireBytes, StoredBytes int64
	// DiskBytes estimates the space in Pebble's tables that comes back; what is
	// still in memory counts as nothing.
	DiskBytes uint64
	// Rolled: the active segment was sealed, for its age or to be removed.
	Rolled bool
	// Start is the log start afterwards.
	Start int64
}

// RetainOptions change a retention run.
type RetainOptions struct {
	// DryRun reports what would be removed and changes nothing.
	DryRun bool
}

// Retain applies the topic's retention and roll rules to the partition now
// (SPEC 6, 7.2). The maintenance loop does the same by itself when something is
// due. It is atomic and on stable storage when Retain returns; its cost does not
// grow with the messages removed.
func (p *Partition) Retain(ctx context.Context, o RetainOptions) (Retained, error) {
	r, err := p.retain(ctx, o)
	return r, p.wrap("retain", err)
}

func (p *Partition) retain(ctx context.Context, o RetainOptions) (Retained, error) {
	if err := p.appendable(ctx); err != nil {
		return Retained{}, err
	}
	now := p.topic.db.now()
	planned := p.planRetention(now)
	if o.DryRun {
		return planned, nil
	}
	if err := p.lockChange(ctx); err != nil {
		return planned, err
	}
	cm, r, err := p.retainNowLocked(now)
	p.mu.Unlock()
	if err != nil || cm == nil {
		return r, err
	}
	r.DiskBytes = planned.DiskBytes
	return r, p.topic.db.wait(ctx, cm)
}

func (p *Partition) retainNowLocked(now codec.Timestamp) (*commit, Retained, error) {
	if err := p.writableLocked(); err != nil {
		return nil, Retained{}, err
	}
	batch := p.topic.db.pdb.NewBatch()
	r, removed, err := p.retainInto(batch, now)
	if err == nil {
		err = p.topic.db.deleteRemoved(batch, removed)
	}
	if err == nil && len(removed) > 0 {
		err = p.setAlarmLocked(batch, p.dueLocked()) // what rang for these segments is answered
	}
	if err != nil {
		return nil, r, p.broken(err)
	}
	if batch.Empty() {
		return nil, r, batch.Close()
	}
	cm, err := p.queueLocked(batch)
	return cm, r, err
}

// broken fails the store: memory was changed for a batch that could not be
// built.
func (p *Partition) broken(err error) error {
	p.topic.db.fence.Trip(err)
	return p.topic.db.failedErr()
}

// queueLocked queues a batch that changed the partition, to be synced whatever
// the durability mode.
func (p *Partition) queueLocked(batch *pebble.Batch) (*commit, error) {
	cm := p.topic.db.newCommit(batch)
	cm.sync = true
	cm.addEndLocked(p)
	if err := p.topic.db.committer.enqueue(cm); err != nil {
		return nil, p.broken(err)
	}
	return cm, nil
}

// planRetention says what retainInto would do, with the disk space it frees.
func (p *Partition) planRetention(now codec.Timestamp) Retained {
	p.mu.Lock()
	d := p.expireLocked(now)
	r := p.retainedLocked(d)
	r.Rolled = d.RollFirst || p.rollIdleLocked(now) != retention.NoRoll
	low, high := p.mu.segments[0].Base, d.NewStart
	p.mu.Unlock()
	if d.Drop > 0 {
		lr := keys.LogRange(p.id(), low, high)
		if n, err := p.topic.db.diskUsage(lr); err == nil { // an estimate may be missing, the removal not
			r.DiskBytes = n
		}
	}
	return r
}

func (p *Partition) expireLocked(now codec.Timestamp) retention.Decision {
	return retention.Expire(p.mu.segments, p.topic.settings().retention, p.boundsLocked(), now)
}

func (p *Partition) rollIdleLocked(now codec.Timestamp) retention.Reason {
	active := p.activeLocked()
	return retention.RollIdle(*active, p.topic.settings().rollPolicy(p.Topic(), p.Number(), active.Base), now)
}

func (p *Partition) retainedLocked(d retention.Decision) Retained {
	r := Retained{Segments: d.Drop, ByTime: d.ByTime, BySize: d.BySize, ByLogStart: d.ByLogStart, Start: d.NewStart}
	for _, s := range p.mu.segments[:d.Drop] {
		r.Messages += s.Messages
		r.WireBytes += s.Bytes
		r.StoredBytes += s.StoredBytes
	}
	return r
}

// retainInto rolls an idle active segment and removes what has expired, in memory
// and, but for the removals it returns, in the batch. p.mu is held.
func (p *Partition) retainInto(batch *pebble.Batch, now codec.Timestamp) (Retained, []removal, error) {
	d := p.expireLocked(now)
	idle := p.rollIdleLocked(now)
	rolled := d.RollFirst || idle != retention.NoRoll
	if rolled {
		reason := "retention" // everything in it has expired
		if !d.RollFirst {
			reason = idle.String()
		}
		if err := p.rollLocked(batch, p.mu.end, reason); err != nil {
			return Retained{}, nil, err
		}
		if err := p.setSegment(batch, p.activeLocked()); err != nil {
			return Retained{}, nil, err
		}
		if err := p.scheduleLocked(batch); err != nil { // what is sealed may be compacted
			return Retained{}, nil, err
		}
	}
	r := p.retainedLocked(d)
	r.Rolled = rolled
	if d.Drop == 0 {
		return r, nil, nil
	}
	removed, err := p.dropSegmentsLocked(batch, d.Drop, d.NewStart)
	if err != nil {
		return r, nil, err
	}
	stats := &p.topic.db.stats
	stats.retainedSegments.Add(uint64(r.Segments))
	stats.retainedMessages.Add(uint64(r.Messages))
	stats.retainedBytes.Add(uint64(r.WireBytes))
	p.topic.db.log(slog.LevelInfo, "retention", "partition", p.String(), "segments", r.Segments, "by_time", r.ByTime,
		"by_size", r.BySize, "by_log_start", r.ByLogStart, "messages", r.Messages, "bytes", r.WireBytes, "start", r.Start)
	return r, []removal{removed}, nil
}

// dropSegmentsLocked removes the first n segments from memory and their rows from
// the segment space, and returns what else there is to delete. The log start
// moves first: see entryScan.reopen.
func (p *Partition) dropSegmentsLocked(batch *pebble.Batch, n int, start int64) (removal, error) {
	r := removal{
		p:       p,
		low:     p.mu.segments[0].Base,
		high:    p.mu.segments[n].Base,
		logLow:  max(p.mu.segments[0].Base, p.logStart.Load()), // below it DeleteBefore was
		emptied: n == len(p.mu.segments)-1 && p.activeLocked().Empty(),
	}
	for i := range p.mu.segments[:n] {
		if err := batch.Delete(keys.AppendSegment(nil, p.id(), p.mu.segments[i].Base), nil); err != nil {
			return r, err
		}
	}
	if err := p.forgetTransactionsLocked(batch, r.low, r.high); err != nil {
		return r, err
	}
	p.logStart.Store(start)
	p.setSegmentsLocked(slices.Clone(p.mu.segments[n:]))
	if err := p.setState(batch); err != nil {
		return r, err
	}
	return r, p.scheduleLocked(batch) // the segments that are first now may be due earlier
}

// deleteRanges adds range deletes to a batch; empty ranges need none.
func deleteRanges(batch *pebble.Batch, ranges []keys.Range) error {
	for _, r := range ranges {
		if bytes.Compare(r.Start, r.End) >= 0 {
			continue
		}
		if err := batch.DeleteRange(r.Start, r.End, nil); err != nil {
			return err
		}
	}
	return nil
}

// diskUsage estimates the table bytes of a range.
func (db *DB) diskUsage(r keys.Range) (uint64, error) {
	db.life.RLock()
	defer db.life.RUnlock()
	if db.isClosed() {
		return 0, ErrClosed
	}
	return db.pdb.EstimateDiskUsage(r.Start, r.End)
}
