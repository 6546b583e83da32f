package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/codec"
)

// write is a batch on its way into the queue. Everything that can refuse it comes
// before anything that changes memory, and all of it happens under the locks of
// all partitions, taken in key order as everything that locks several does:
//
//	load, merge, admit | lock | sequences, conditions, clock and offsets | apply | queue
type write struct {
	db      *DB
	parts   []*partWrite // in key order
	sets    []*batchSet  // in the order of the calls
	offsets []offsetCommit
	batch   *pebble.Batch // nil once it went to the committer
	merged  bool          // batch is not that of a set
	unnamed bool          // errors are for a caller that names the partition
	refused error         // why nothing may be appended, if something is
}

// partWrite is what a write does to one partition.
type partWrite struct {
	p       *Partition
	sets    []*batchSet // not empty ones, in the order of the calls
	expects []int64
	changes bool // appends to it, or commits an offset for it
	// fresh are the sets that are not repeated, st their stamp.
	fresh []*prepared
	st    stamped
}

func newWrite(b *Batch) *write {
	w := &write{db: b.db, sets: b.sets, offsets: b.offsets, unnamed: b.unnamed}
	parts := make(map[*Partition]*partWrite)
	of := func(p *Partition) *partWrite {
		pw := parts[p]
		if pw == nil {
			pw = &partWrite{p: p}
			parts[p] = pw
			w.parts = append(w.parts, pw)
		}
		return pw
	}
	for _, set := range b.sets {
		if pw := of(set.p); set.prep != nil {
			pw.sets = append(pw.sets, set)
			pw.changes = true
		}
	}
	for _, e := range b.expects {
		pw := of(e.p)
		pw.expects = append(pw.expects, e.next)
	}
	for _, c := range b.offsets {
		of(c.p).changes = true
	}
	slices.SortFunc(w.parts, func(a, b *partWrite) int { return comparePartitions(a.p, b.p) })
	return w
}

// release gives back what did not go to the committer. A set's own batch went
// there if it is the write's.
func (w *write) release() {
	if w.batch != nil && w.merged {
		_ = w.batch.Close() // never applied: nothing to fail
	}
	for _, set := range w.sets {
		set.discard()
	}
}

// submit carries the write out up to the queue.
func (w *write) submit(ctx context.Context) (*commit, error) {
	if err := w.db.writable(); err != nil {
		return nil, err
	}
	if err := w.load(); err != nil {
		return nil, err
	}
	if err := w.merge(); err != nil {
		return nil, err
	}
	size := w.stored()
	if size > 0 {
		w.refused = w.db.space.admit(ctx, size)
	}
	admitted, err := w.db.enter(ctx, size)
	if err != nil {
		return nil, err
	}
	var cm *commit
	if err = w.lock(ctx); err == nil {
		cm, err = w.run(admitted)
		w.unlock()
	}
	if w.batch != nil { // not queued
		w.db.gate.release(admitted)
	}
	return cm, err
}

// wrap names the partition in an error.
func (w *write) wrap(p *Partition, err error) error {
	if err == nil || w.unnamed {
		return err
	}
	return fmt.Errorf("%s: %w", p, err)
}

// load reads the producers of partitions that get numbered sets.
func (w *write) load() error {
	for _, set := range w.sets {
		if set.producer == "" {
			continue
		}
		if err := set.p.loadProducers(); err != nil {
			return w.wrap(set.p, err)
		}
	}
	return nil
}

func (w *write) stored() (n int64) {
	for _, set := range w.sets {
		if set.prep != nil {
			n += set.prep.stored
		}
	}
	return n
}

// merge puts the sets that are not repeated into one Pebble batch. A single one
// keeps its own: no byte moves.
func (w *write) merge() error {
	if w.merged {
		_ = w.batch.Close() // never applied: nothing to fail
	}
	var fresh []*prepared
	size := batchSlack
	for _, set := range w.sets {
		if set.prep != nil && !set.repeated {
			fresh = append(fresh, set.prep)
			size += set.prep.batch.Len()
		}
	}
	if w.merged = len(fresh) != 1; w.merged {
		w.batch = w.db.pdb.NewBatchWithSize(size)
		for _, prep := range fresh {
			if err := w.batch.Apply(prep.batch, nil); err != nil {
				return err
			}
		}
	} else {
		w.batch = fresh[0].batch
	}
	reader := w.batch.Reader()
	for _, prep := range fresh {
		prep.relocate(&reader)
	}
	return nil
}

// lock takes the locks of all partitions. For a truncation, which may take long,
// it waits with none of them held.
func (w *write) lock(ctx context.Context) error {
	for {
		cutting := w.lockUncut()
		if cutting == nil {
			return nil
		}
		select {
		case <-cutting:
		case <-ctx.Done():
			return ctx.Err()
		case <-w.db.failed:
			return w.db.failedErr()
		}
	}
}

// lockUncut takes all locks, or none if a truncation is under way, whose end it
// returns.
func (w *write) lockUncut() (cutting <-chan struct{}) {
	for i, pw := range w.parts {
		pw.p.mu.Lock()
		if cutting := pw.p.mu.cutting; cutting != nil {
			for _, locked := range w.parts[:i+1] {
				locked.p.mu.Unlock()
			}
			return cutting
		}
	}
	return nil
}

func (w *write) unlock() {
	for _, pw := range w.parts {
		pw.p.mu.Unlock()
	}
}

// run checks, and then changes and queues, under all the locks. A nil commit is
// nothing to wait for.
func (w *write) run(admitted int64) (*commit, error) {
	if err := w.db.writable(); err != nil {
		return nil, err
	}
	repeated, err := w.checkSequences()
	if err != nil {
		return nil, err
	}
	if repeated { // nothing is appended: a full disk does not matter
		return w.await()
	}
	if w.refused != nil {
		return nil, w.refused
	}
	now := w.db.now()
	for _, pw := range w.parts {
		if err := pw.check(now); err != nil {
			return nil, w.wrap(pw.p, err)
		}
	}
	if !slices.ContainsFunc(w.parts, func(pw *partWrite) bool { return pw.changes }) {
		return nil, nil
	}
	err = w.apply(now)
	var cm *commit
	if err == nil {
		cm, err = w.queue(admitted)
	}
	if err != nil {
		return nil, w.parts[0].p.broken(err)
	}
	return cm, nil
}

// checkSequences finds the repeated sets, and the receipts they had. It reports
// whether there is nothing else.
func (w *write) checkSequences() (repeated bool, err error) {
	fresh, skipped := false, false
	for _, pw := range w.parts {
		if err := pw.checkSequences(); err != nil {
			return false, w.wrap(pw.p, err)
		}
		for _, set := range pw.sets {
			if set.repeated {
				skipped = true
				continue
			}
			fresh = true
			pw.fresh = append(pw.fresh, set.prep)
		}
	}
	if skipped && fresh { // what was merged has too much in it
		err = w.merge()
	}
	return skipped && !fresh, err
}

func (pw *partWrite) checkSequences() error {
	p := pw.p
	if p.mu.dropped {
		return ErrUnknownTopic
	}
	var next map[string]int64 // of the producers this write has sets of
	for _, set := range pw.sets {
		if set.producer == "" {
			continue
		}
		want, again := next[set.producer]
		ok := !again || set.sequence == want
		if r := p.producers.Load().get(set.producer); !again && r != nil {
			want = r.last + 1
			set.receipt, set.repeated, ok = r.find(set.sequence)
		}
		if !ok {
			return &SequenceError{Topic: p.Topic(), Partition: p.Number(), Producer: set.producer, Sequence: set.sequence, Next: want}
		}
		if set.repeated {
			continue
		}
		if next == nil {
			next = make(map[string]int64)
		}
		next[set.producer] = set.sequence + 1
	}
	return nil
}

// check holds the conditions against the log and stamps what is appended.
func (pw *partWrite) check(now codec.Timestamp) (err error) {
	p := pw.p
	for _, next := range pw.expects {
		if next != p.mu.end {
			return &ConflictError{Topic: p.Topic(), Partition: p.Number(), Expected: next, Next: p.mu.end}
		}
	}
	if len(pw.fresh) > 0 {
		pw.st, err = p.stampLocked(now, pw.fresh...)
	}
	return err
}

// apply changes memory and fills the batch. An error leaves the two apart.
func (w *write) apply(now codec.Timestamp) error {
	for _, pw := range w.parts {
		if len(pw.fresh) == 0 {
			continue
		}
		if err := pw.p.applyLocked(w.batch, pw.st); err != nil {
			return err
		}
		if err := pw.receive(w.batch); err != nil {
			return err
		}
		pw.p.appendedLocked()
	}
	for _, c := range w.offsets {
		if err := c.set(w.batch, now); err != nil {
			return err
		}
	}
	return nil
}

// receive gives the sets their receipts and notes those of numbered ones.
func (pw *partWrite) receive(batch *pebble.Batch) error {
	st := pw.st
	for _, set := range pw.sets {
		if set.repeated {
			continue
		}
		set.receipt = set.prep.receipt(st)
		st.base += set.prep.messages
		pw.p.topic.db.stats.appended(set.prep)
		if set.producer == "" {
			continue
		}
		if err := pw.p.producedLocked(batch, set.producer, set.sequence, set.receipt); err != nil {
			return err
		}
	}
	return nil
}

// queue hands the batch to the committer.
func (w *write) queue(admitted int64) (*commit, error) {
	cm := w.db.newCommit(w.batch)
	cm.bytes = admitted
	for _, pw := range w.parts {
		if pw.changes {
			cm.addEndLocked(pw.p)
		}
	}
	for _, set := range w.sets { // it is the committer's now
		if set.prep != nil && set.prep.batch == w.batch {
			set.prep.recycle()
			set.prep = nil
		}
	}
	w.batch = nil
	return w.db.queueAcked(cm, w.offsets)
}

// await returns what to wait for when every set is repeated: they may still be on
// their way to the disk.
func (w *write) await() (*commit, error) {
	if w.db.opts.Durability != SyncAlways {
		return nil, nil
	}
	for _, pw := range w.parts {
		if pw.p.done.Load() < pw.p.mu.seq {
			return w.db.queueBarrier(true)
		}
	}
	return nil, nil
}
