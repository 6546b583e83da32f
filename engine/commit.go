package engine

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Every write goes through the committer, for two reasons. A write that fails
// parks the goroutine that made it behind the fence (see fencefs), and that
// must never be a caller's. And appends that arrive while the disk syncs share
// the next sync.
//
//	appenders --queue--> apply goroutine --groups--> sync goroutine --> done
//
// The apply goroutine puts everything queued into Pebble without waiting for
// the disk and asks for one sync; the sync goroutine waits for it, publishes
// the new ends to readers and answers the appenders. WAL order is queue order,
// so the sync of a group's last batch covers all before it.

// commit is one atomic write on its way to the disk.
type commit struct {
	batch *pebble.Batch
	bytes int64 // admitted by the gate, given back when done
	sync  bool  // done waits for stable storage
	// run, if not nil, is called between the commits before and after, instead of a
	// batch.
	run func()
	// internal: carries nothing a caller was promised, so the mark ignores it.
	internal bool
	// ends become visible to readers when the commit is done.
	ends []partitionEnd
	end1 [1]partitionEnd // backs ends for the usual one
	done chan error      // buffered; one answer
	// ackEarly: nobody waits on done, the queue owns the commit.
	ackEarly bool
}

// partitionEnd is where one partition stands once a commit is done.
type partitionEnd struct {
	partition *Partition
	end       int64  // offsets below it are readable
	seq       uint64 // how many commits of the partition are done then
}

// newCommit takes a commit from the store's own pool: a channel of one store must
// not turn up in another, which may run in another testing/synctest bubble.
func (db *DB) newCommit(batch *pebble.Batch) *commit {
	c, ok := db.commits.Get().(*commit)
	if !ok {
		c = &commit{done: make(chan error, 1)}
	}
	c.batch = batch
	return c
}

// recycle gives an answered commit back.
func (db *DB) recycle(c *commit) {
	*c = commit{done: c.done}
	db.commits.Put(c)
}

type committer struct {
	db *DB

	mu struct {
		sync.Mutex
		queue    []*commit
		stopping bool
	}
	wake   chan struct{} // 1: the queue is not empty, or stopping
	groups chan syncGroup
	spare  chan []*commit // group slices for reuse
	ended  chan struct{}
}

// syncGroup is commits that share a sync, and when they were given to Pebble.
type syncGroup struct {
	commits []*commit
	since   time.Time
}

// maxGroups is how many applied groups may wait for their sync.
const maxGroups = 4

func startCommitter(db *DB) *committer {
	c := &committer{
		db:     db,
		wake:   make(chan struct{}, 1),
		groups: make(chan syncGroup, maxGroups),
		spare:  make(chan []*commit, maxGroups+2),
		ended:  make(chan struct{}),
	}
	go c.applyLoop()
	go c.syncLoop()
	return c
}

// enqueue hands over a commit, or returns ErrClosed if it comes too late. Callers
// that need an order among commits hold the lock that gives it.
func (c *committer) enqueue(cm *commit) error {
	if c == nil {
		return ErrReadOnly
	}
	c.mu.Lock()
	if c.mu.stopping {
		c.mu.Unlock()
		return ErrClosed
	}
	c.mu.queue = append(c.mu.queue, cm)
	first := len(c.mu.queue) == 1
	c.mu.Unlock()
	if first {
		c.signal()
	}
	return nil
}

func (c *committer) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// stop drains the queue and joins both goroutines, unless the store failed:
// then they are parked for good.
func (c *committer) stop() {
	c.mu.Lock()
	c.mu.stopping = true
	c.mu.Unlock()
	c.signal()
	select {
	case <-c.ended:
	case <-c.db.failed:
	}
}

// take waits for commits; ok is false when the committer stops and none is left.
func (c *committer) take() (group []*commit, ok bool) {
	var empty []*commit
	select {
	case empty = <-c.spare:
	default:
	}
	for {
		c.mu.Lock()
		group, c.mu.queue = c.mu.queue, empty
		stopping := c.mu.stopping
		c.mu.Unlock()
		if len(group) > 0 {
			return group, true
		}
		if stopping {
			return nil, false
		}
		empty = group
		<-c.wake
		// The appender that woke us is rarely alone: let those beside it queue too,
		// or the sync begins with one append and the others wait for the next.
		runtime.Gosched()
	}
}

func (c *committer) applyLoop() {
	defer close(c.groups)
	for {
		commits, ok := c.take()
		if !ok {
			return
		}
		since := c.db.opts.Now()
		if err := c.apply(commits); err != nil {
			c.db.fence.Trip(err)
			return
		}
		c.groups <- syncGroup{commits, since}
	}
}

// mergeBytes is the largest append that is worth copying into one batch with its
// neighbours, and mergedBytes bounds that batch: one pass through Pebble's commit
// pipeline costs more than copying 32 KiB.
const (
	mergeBytes  = 32 << 10
	mergedBytes = 1 << 20
)

// apply puts a group into Pebble, small appends merged. The last batch that needs
// the disk carries the request for the sync.
func (c *committer) apply(group []*commit) error {
	syncAt := -1
	for i, cm := range group {
		if cm.sync {
			syncAt = i
		}
	}
	for len(group) > 0 {
		if run := group[0].run; run != nil {
			run()
			group = group[1:]
			syncAt--
			continue
		}
		n := mergeable(group)
		if syncAt >= 0 && syncAt < n {
			n = syncAt + 1
		}
		if err := c.applyMerged(group[:n], n-1 == syncAt); err != nil {
			return err
		}
		group = group[n:]
		syncAt -= n
	}
	return nil
}

// mergeable returns how many leading commits make one batch, at least one.
func mergeable(group []*commit) int {
	total := 0
	for i, cm := range group {
		if cm.run != nil {
			return i // never the first
		}
		size := cm.batch.Len()
		total += size
		if size > mergeBytes || total > mergedBytes {
			return max(i, 1)
		}
	}
	return len(group)
}

// applyMerged applies commits as one batch, which the last of them then holds.
func (c *committer) applyMerged(merged []*commit, sync bool) error {
	last := merged[len(merged)-1]
	if len(merged) > 1 {
		batch, err := c.merge(merged)
		if err != nil {
			return err
		}
		last.batch = batch
	}
	var err error
	if sync {
		err = c.db.pdb.ApplyNoSyncWait(last.batch, pebble.Sync)
	} else {
		err = c.db.pdb.Apply(last.batch, pebble.NoSync)
	}
	if err == nil && c.db.opts.Durability != SyncAlways {
		for _, cm := range merged {
			cm.publish()
		}
	}
	return err
}

// merge copies the batches of commits into one, in their order.
func (c *committer) merge(commits []*commit) (*pebble.Batch, error) {
	size := 0
	for _, cm := range commits {
		size += cm.batch.Len()
	}
	batch := c.db.pdb.NewBatchWithSize(size)
	for _, cm := range commits {
		if err := batch.Apply(cm.batch, nil); err != nil {
			return nil, err
		}
		_ = cm.batch.Close() // never applied itself: nothing to fail
		cm.batch = nil
	}
	return batch, nil
}

func (c *committer) syncLoop() {
	defer close(c.ended)
	for g := range c.groups {
		last := lastSynced(g.commits)
		if last != nil {
			if err := last.batch.SyncWait(); err != nil {
				c.db.fence.Trip(err)
				return
			}
		}
		if c.db.hasFailed() { // never acknowledge after the fence
			return
		}
		if last != nil { // a clock set back counts as no time
			c.db.stats.syncLatency.observe(max(0, int64(c.db.opts.Now().Sub(g.since))))
		}
		c.finish(g.commits)
	}
}

// lastSynced returns the commit whose sync covers the group, nil if none asks for
// one.
func lastSynced(commits []*commit) *commit {
	for _, cm := range slices.Backward(commits) {
		if cm.sync {
			return cm
		}
	}
	return nil
}

// finish publishes and answers a group that is where it must be.
func (c *committer) finish(group []*commit) {
	c.count(group)
	var bytes int64
	for _, cm := range group {
		bytes += cm.bytes
		if c.db.opts.Durability == SyncAlways {
			cm.publish()
		}
		if cm.batch != nil { // else it was merged
			_ = cm.batch.Close() // returns memory to a pool; it has no error to give
		}
		if cm.ackEarly {
			c.db.recycle(cm)
		} else {
			cm.done <- nil
		}
	}
	c.db.gate.release(bytes)
	clear(group)
	select {
	case c.spare <- group[:0]:
	default:
	}
}

// count counts the commits of callers, before they are answered.
func (c *committer) count(group []*commit) {
	n := 0
	for _, cm := range group {
		if !cm.internal {
			n++
		}
	}
	if n > 0 {
		c.db.stats.commits.Add(uint64(n))
		c.db.stats.groupSize.observe(int64(n))
	}
}

// publish makes the commit visible. It is called once a commit, in queue order:
// in the unsynced modes when Pebble has it, under SyncAlways when the disk has.
func (cm *commit) publish() {
	for _, e := range cm.ends {
		e.partition.publish(e)
	}
}

// addEndLocked says that the commit moves p to its present end. p.mu is held
// until the commit is queued.
func (cm *commit) addEndLocked(p *Partition) {
	p.mu.seq++
	if cm.ends == nil {
		cm.ends = cm.end1[:0]
	}
	cm.ends = append(cm.ends, partitionEnd{p, p.mu.end, p.mu.seq})
}

// queueAcked queues an append as the durability mode says, and returns what to
// wait for: nil where nobody waits. The locks of its partitions are held. Consumer
// offsets in it are noted on the way.
func (db *DB) queueAcked(cm *commit, offsets []offsetCommit) (waited *commit, err error) {
	cm.sync = db.opts.Durability == SyncAlways
	cm.ackEarly = !cm.sync
	if cm.sync {
		waited = cm // else the queue owns it
	}
	if len(offsets) == 0 {
		return waited, db.committer.enqueue(cm)
	}
	return waited, db.groups.enqueue(db.committer, cm, offsets)
}

// queueBarrier queues a commit that changes nothing: it is done when everything
// queued before is in Pebble and, if sync is set, on the disk.
func (db *DB) queueBarrier(sync bool) (*commit, error) {
	batch := db.pdb.NewBatch()
	if err := batch.LogData(nil, nil); err != nil {
		return nil, err
	}
	cm := db.newCommit(batch)
	cm.sync, cm.internal = sync, true
	return cm, db.committer.enqueue(cm)
}

// wait returns when the commit is done, the store has failed or ctx ends; in
// the latter cases the outcome is unknown.
func (db *DB) wait(ctx context.Context, cm *commit) error {
	select {
	case err := <-cm.done:
		db.recycle(cm)
		return err
	case <-db.failed:
		return db.failedErr()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// commitSync writes a batch to stable storage.
func (db *DB) commitSync(ctx context.Context, batch *pebble.Batch) error {
	cm := db.newCommit(batch)
	cm.sync = true
	return db.enqueueWait(ctx, cm)
}

func (db *DB) enqueueWait(ctx context.Context, cm *commit) error {
	if err := db.committer.enqueue(cm); err != nil {
		return err
	}
	return db.wait(ctx, cm)
}
