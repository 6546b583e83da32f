package engine

import (
	"context"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/compaction"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// compactStore is a partition as one compaction pass sees it.
type compactStore struct {
	p    *Partition
	plan compaction.Plan
	// What the plan was made on: the cuts counted and the log start.
	cuts  uint64
	start int64
	// from and to are the offsets the pass changed something in.
	from, to int64
	pace     pace
}

// newCompactStore plans a pass.
func newCompactStore(p *Partition, now codec.Timestamp) *compactStore {
	s := &compactStore{p: p, from: maxOffset, pace: pace{db: p.topic.db, sets: p.topic.db.stats.sets.Load()}}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.cuts, s.start = p.cuts.Load(), p.logStart.Load()
	s.plan = p.planLocked(p.boundsLocked(), now)
	return s
}

// transactions gives the plan the transactions that ended in the log, 32 bytes each in
// memory for the pass. All that began below the end of the plan have: see planLocked.
func (s *compactStore) transactions() error {
	var ended []compaction.Transaction
	s.p.mu.Lock()
	none := s.p.transactionsLocked() == nil
	s.p.mu.Unlock()
	if none {
		return nil
	}
	err := s.p.transactionRows(0, keys.OpenEnd, func(t span, row transactionRow) {
		ended = append(ended, compaction.Transaction{ID: row.ID, Start: t.start, End: t.end, Aborted: row.Aborted})
	})
	s.plan = s.plan.WithTransactions(ended)
	return err
}

// Scan reads rows through iterators that are replaced now and then, as those of
// entryScan are.
func (s *compactStore) Scan(ctx context.Context, r keys.Range, each func(key, value []byte) error) error {
	for r.Start != nil {
		it, err := s.p.topic.db.newIter(r.Start, r.End)
		if err != nil {
			return err
		}
		r.Start, err = s.scanSome(ctx, it, r.Start, each)
		it.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// scanSome scans with one iterator and returns where the next begins, nil at the
// end.
func (s *compactStore) scanSome(ctx context.Context, it *iterator, from []byte, each func(key, value []byte) error) ([]byte, error) {
	db := s.p.topic.db
	since, read := db.now(), 0
	ok, err := it.move(seekGE, from)
	for ; ok && err == nil; ok, err = it.move(next, nil) {
		if err := s.pace.wait(ctx, len(it.value)); err != nil {
			return nil, err
		}
		if err := each(it.key, it.value); err != nil {
			return nil, err
		}
		if read += len(it.value); read > maxIterBytes || db.now()-since > maxIterAge {
			return append(slices.Clone(it.key), 0), nil
		}
	}
	return nil, s.p.readError(-1, err)
}

// Commit carries out one step. It does not wait for the disk. The log of writes
// comes back as a prefix, so where the step survives, everything before it does:
// the newer messages for which it drops older ones, and the steps before, without
// which it must not drop a tombstone. Where it is lost the log is as it was, and
// the next pass does it again.
//
// Reading goes on only when Pebble has the step: one is on its way at a time.
func (s *compactStore) Commit(ctx context.Context, step *compaction.Step) error {
	p := s.p
	if err := p.topic.db.writable(); err != nil {
		return err
	}
	batch := p.topic.db.pdb.NewBatch()
	if err := p.stepInto(batch, step); err != nil {
		return err
	}
	written := batch.Len()
	if len(step.Sets) > 0 { // what only deletes goes on when the disk is full
		if err := p.topic.db.space.admit(ctx, int64(written)); err != nil {
			return err
		}
	}
	if err := p.lockChange(ctx); err != nil {
		return err
	}
	cm, err := s.commitLocked(batch, step)
	p.mu.Unlock()
	if err != nil {
		return err
	}
	s.from, s.to = min(s.from, step.Base), max(s.to, step.End)
	if err := p.topic.db.wait(ctx, cm); err != nil {
		return err
	}
	p.topic.db.stats.compactionBytes.Add(uint64(written))
	return s.pace.wait(ctx, written)
}

// stepInto puts what a step does to entries and index rows into the batch.
func (p *Partition) stepInto(batch *pebble.Batch, step *compaction.Step) error {
	if err := deleteRanges(batch, step.Ranges(p.id())); err != nil {
		return err
	}
	var key [keys.LogSize]byte
	for _, offset := range step.Deletes {
		if err := batch.Delete(keys.AppendLog(key[:0], p.id(), offset), nil); err != nil {
			return err
		}
	}
	for _, e := range step.Sets {
		if err := batch.Set(keys.AppendLog(key[:0], p.id(), e.Offset), e.Value, nil); err != nil {
			return err
		}
	}
	for _, row := range step.Rows {
		if err := p.setIndexRow(batch, row); err != nil {
			return err
		}
	}
	for _, t := range step.Ended {
		if err := batch.Delete(keys.AppendTransaction(nil, p.id(), t.End, t.Start), nil); err != nil {
			return err
		}
	}
	return nil
}

// commitLocked changes the partition's state with the step and queues the batch.
// A log that was changed under the pass, or that is not to be compacted any more,
// wins.
func (s *compactStore) commitLocked(batch *pebble.Batch, step *compaction.Step) (*commit, error) {
	p := s.p
	if err := p.writableLocked(); err != nil {
		return nil, err
	}
	start := p.logStart.Load()
	overtaken := p.cutBelowLocked(s.plan.EndCleanable, s.cuts) || start != s.start && start > step.Base
	first := slices.IndexFunc(p.mu.segments, func(g retention.Segment) bool { return g.Base >= step.Base })
	if overtaken || first < 0 || !p.topic.settings().cleanupCompact {
		return nil, compaction.ErrOvertaken
	}
	p.seldomLocked().cleaned = &cleaned{step.CleanPoint, step.TombstoneDue}
	err := p.setState(batch)
	due := step.TombstoneDue
	if err == nil && step.Segment != nil {
		last := slices.IndexFunc(p.mu.segments, func(g retention.Segment) bool { return g.Base >= step.End })
		p.setSegmentsLocked(slices.Concat(p.mu.segments[:first], []retention.Segment{*step.Segment}, p.mu.segments[last:]))
		err = p.setSegment(batch, step.Segment)
		due = p.dueLocked()
	}
	if err == nil {
		err = p.scheduleAtLocked(batch, due)
	}
	if err != nil {
		return nil, p.broken(err)
	}
	cm := p.topic.db.newCommit(batch)
	cm.internal = true
	cm.addEndLocked(p)
	if err := p.topic.db.committer.enqueue(cm); err != nil {
		return nil, p.broken(err)
	}
	return cm, nil
}

// pace keeps a pass from getting in the way of appends: while there are any, it
// moves at most compactionRate bytes a second, read and written.
type pace struct {
	db    *DB
	bytes int    // since the last pause
	sets  uint64 // appended at the last pause
}

const (
	// paceBytes is moved between two pauses.
	paceBytes = 256 << 10
	// compactionRate is in bytes a second. See DESIGN.md, Compaction.
	compactionRate = 32 << 20
)

// wait pauses if it is time to. It returns ctx.Err(), ErrClosed or ErrFailed.
func (c *pace) wait(ctx context.Context, bytes int) error {
	c.bytes += bytes
	if c.bytes < paceBytes {
		return nil
	}
	if sets := c.db.stats.sets.Load(); sets != c.sets {
		c.sets = sets
		pause := time.NewTimer(time.Second * time.Duration(c.bytes) / compactionRate)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
		case <-c.db.closed:
		case <-c.db.failed:
		}
	}
	c.bytes = 0
	if err := c.db.writable(); err != nil {
		return err
	}
	return ctx.Err()
}
