package engine

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/compaction"
	"github.com/cairnlog/cairn/keys"
)

// CompactOptions change a compaction on demand.
type CompactOptions struct {
	// DryRun reports what would be done and changes nothing. When the map is too
	// small for all keys it is of the first pass.
	DryRun bool
	// MapBytes bounds the map of newest offsets; zero means
	// Options.CompactionMapBytes.
	MapBytes int64
	// Progress, if not nil, is called now and then by the goroutine that called
	// Compact.
	Progress func(compaction.Progress)
}

// CompactResult is what Compact did, or would do.
type CompactResult struct {
	// Stats sum what was read and done in all passes.
	compaction.Stats
	// Passes counts the passes: more than one where the keys did not fit the map,
	// none where there was nothing to do.
	Passes int
	// CleanPoint is the offset below which no message has a newer one.
	CleanPoint int64
	// Before and After are of the whole log. What was appended meanwhile is in
	// After, but for a dry run.
	Before, After LogSize
	// Overtaken says that a truncation, a moved log start or new settings ended a
	// pass. What it did before stands; call Compact again.
	Overtaken bool
}

// LogSize is what a log holds and takes.
type LogSize struct {
	Segments int
	// Messages and WireBytes, in v1 wire bytes, are the segments'; StoredBytes is
	// the size of the stored values.
	Messages, WireBytes, StoredBytes int64
	// DiskBytes estimates the space of the log in Pebble's tables, without what
	// is still in memory. A dry run does not know it afterwards.
	DiskBytes uint64
}

// Compact removes messages that have a newer one of the same key, and tombstones
// that have been there for delete.retention.ms, from the sealed segments of the
// partition now, whatever the share that is dirty (SPEC 9). Offsets, the log start
// and the log's end stay. The store does the same by itself where it is worth it:
// see TopicConfig.MinCleanableRatio.
//
// It works in small atomic steps, yields to appends, and is on stable storage when
// it returns nil. After an error, ctx.Err() included, the steps done stand. It
// waits for a pass that is under way, and for Pebble to give the space back.
//
// Errors: ErrDiskFull (56), since it writes before space comes back;
// codec.CodePolicyViolation (44) if the topic's cleanup.policy does not
// include compact; a *CorruptionError at a damaged entry, which nothing at or
// after it was changed for.
func (p *Partition) Compact(ctx context.Context, o CompactOptions) (CompactResult, error) {
	r, err := p.compact(ctx, o)
	return r, p.wrap("compact", err)
}

func (p *Partition) compact(ctx context.Context, o CompactOptions) (CompactResult, error) {
	var r CompactResult
	if err := p.appendable(ctx); err != nil {
		return r, err
	}
	if !p.topic.settings().cleanupCompact {
		return r, codec.Errorf(codec.CodePolicyViolation, "cleanup.policy does not include compact")
	}
	db := p.topic.db
	if err := db.compactor.begin(ctx); err != nil {
		return r, err
	}
	r.Before = p.size()
	work := compaction.Options{MapBytes: o.MapBytes, DryRun: o.DryRun, Progress: o.Progress}
	reclaiming, err := p.compactAll(ctx, db.now(), work, &r, func(plan *compaction.Plan) bool { return plan.Work })
	db.compactor.end()
	if o.DryRun {
		r.After = r.Before.less(&r.Stats)
		return r, err
	}
	if reclaiming && err == nil {
		err = db.reclaimer.wait(ctx)
	}
	r.After = p.size()
	return r, err
}

// compactAll runs a pass if the plan is worth it, and goes on while the map was
// too small. What it did is on stable storage when it returns nil; reclaiming says
// that space is on its way back. The compactor's token is held.
func (p *Partition) compactAll(ctx context.Context, now codec.Timestamp, o compaction.Options, r *CompactResult, worth func(*compaction.Plan) bool) (reclaiming bool, err error) {
	db := p.topic.db
	db.compactor.running(p)
	defer db.compactor.running(nil)
	if o.MapBytes == 0 {
		o.MapBytes = db.opts.CompactionMapBytes
	}
	report := o.Progress
	o.Progress = func(at compaction.Progress) {
		db.compactor.progress(at)
		if report != nil {
			report(at)
		}
	}
	for more := true; more; {
		store := newCompactStore(p, now)
		if r.Passes == 0 && !worth(&store.plan) {
			r.CleanPoint = store.plan.FirstDirty
			return false, nil
		}
		if err := store.transactions(); err != nil {
			return reclaiming, err
		}
		done, err := compaction.Pass(ctx, store, store.plan, now, o)
		r.add(&done)
		if !o.DryRun {
			db.compactor.passed(p, &done)
			reclaiming = store.reclaim(&done) || reclaiming
		}
		if err != nil {
			if bad, ok := errors.AsType[*compaction.EntryError](err); ok {
				err = p.corrupt(bad.Offset, bad.Err)
			}
			return reclaiming, err
		}
		more = done.More && !done.Overtaken && !o.DryRun
	}
	if o.DryRun {
		return false, nil
	}
	return reclaiming, p.settleCompaction(ctx)
}

func (r *CompactResult) add(done *compaction.Result) {
	r.Passes++
	r.Stats.Add(&done.Stats)
	r.CleanPoint, r.Overtaken = done.CleanPoint, done.Overtaken
}

// reclaim asks for the space of what the pass removed or wrote anew, if it is a
// tenth of what it read: giving it back rewrites the rest. It reports whether it
// did.
func (s *compactStore) reclaim(done *compaction.Result) bool {
	garbage := done.StoredBytesBefore - done.StoredBytesAfter + done.BytesWritten
	if s.from >= s.to || garbage < reclaimMin || garbage < done.StoredBytesBefore/10 {
		return false
	}
	s.p.topic.db.reclaimer.add(keys.LogRange(s.p.id(), s.from, s.to))
	return true
}

// settleCompaction sets the partition's next alarm and forces what was done to
// stable storage.
func (p *Partition) settleCompaction(ctx context.Context) error {
	if err := p.lockChange(ctx); err != nil {
		return err
	}
	cm, err := p.settleLocked()
	p.mu.Unlock()
	if err != nil {
		return err
	}
	return p.topic.db.wait(ctx, cm)
}

func (p *Partition) settleLocked() (*commit, error) {
	if err := p.writableLocked(); err != nil {
		return nil, err
	}
	batch := p.topic.db.pdb.NewBatch()
	err := batch.LogData(nil, nil) // a batch without anything is not synced
	if err == nil {
		err = p.setAlarmLocked(batch, p.dueLocked())
	}
	if err != nil {
		return nil, p.broken(err)
	}
	return p.queueSettledLocked(batch)
}

// queueSettledLocked queues a synced batch that holds nothing a caller was
// promised.
func (p *Partition) queueSettledLocked(batch *pebble.Batch) (*commit, error) {
	cm := p.topic.db.newCommit(batch)
	cm.sync, cm.internal = true, true
	cm.addEndLocked(p)
	if err := p.topic.db.committer.enqueue(cm); err != nil {
		return nil, p.broken(err)
	}
	return cm, nil
}

// size sums up the log.
func (p *Partition) size() LogSize {
	var l LogSize
	p.mu.Lock()
	l.Segments = len(p.mu.segments)
	for i := range p.mu.segments {
		s := &p.mu.segments[i]
		l.Messages += s.Messages
		l.WireBytes += s.Bytes
		l.StoredBytes += s.StoredBytes
	}
	p.mu.Unlock()
	if n, err := p.topic.db.diskUsage(keys.LogRange(p.id(), 0, maxOffset)); err == nil { // an estimate may be missing
		l.DiskBytes = n
	}
	return l
}

// less is what a dry run expects to be left.
func (l LogSize) less(s *compaction.Stats) LogSize {
	return LogSize{
		Segments:    l.Segments - int(s.SegmentsBefore-s.SegmentsAfter),
		Messages:    l.Messages - s.Dropped(),
		WireBytes:   l.WireBytes - (s.WireBytesBefore - s.WireBytesAfter),
		StoredBytes: l.StoredBytes - (s.StoredBytesBefore - s.StoredBytesAfter),
	}
}
