package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/keys"
)

// RepairOptions change a repair. The zero value rebuilds and loses nothing.
type RepairOptions struct {
	// Quarantine also removes what cannot be rebuilt: damaged and misplaced entries,
	// damaged rows of producers and consumer offsets, rows with malformed keys, and
	// entries of topics that do not exist. Each is copied to a file in the store's
	// directory first, see ReadQuarantine. It also accepts that offsets are missing.
	// Offsets of other messages do not change.
	Quarantine bool
	// Progress is called as Verify calls its own, in the verifications before and after.
	Progress func(VerifyProgress)
}

// RepairAction is one thing that Repair did.
type RepairAction struct {
	Topic     string // empty where it does not exist
	Partition int32
	Offset    int64 // as in a Finding
	Done      string
}

// String returns the action as a line.
func (a RepairAction) String() string {
	return fmt.Sprintf("%s/%d at %d: %s", a.Topic, a.Partition, a.Offset, a.Done)
}

// Repaired is what Repair found and did, and what is left.
type Repaired struct {
	Before Verification
	// Done counts the actions, Actions are the first MaxFindings of them.
	Done    int64
	Actions []RepairAction
	// Quarantine is the file with the rows that were removed, "" if there is none, and
	// Quarantined their number.
	Quarantine  string
	Quarantined int64
	// After is what was found afterwards: that of Before if there was nothing to do.
	After Verification
}

// Repair verifies the store and mends what it finds wrong. What is made from messages
// is made anew: index rows, segment statistics, the log's end, the state of a partition,
// alarms. Rows of what does not exist are removed. No message is removed, and no row
// that cannot be made anew, but with RepairOptions.Quarantine, after it was copied.
// Transactions and leader epochs are left as they are.
//
// The store may be in use. Compaction waits meanwhile; so do topics that are to be
// made, altered or deleted, and appends to a partition, while that partition is mended.
// Each step is atomic and on stable storage before the next. What was done when Repair
// returns an error stands, and the next Repair goes on.
//
// Errors: those of Verify, ErrReadOnly, ErrFailed, and of writing the quarantine file,
// before anything in it is removed.
func (db *DB) Repair(ctx context.Context, o RepairOptions) (Repaired, error) {
	if db.isClosed() { // of a zero DB too
		return Repaired{}, fmt.Errorf("engine: repair: %w", ErrClosed)
	}
	r := &repair{db: db, o: o, quarantine: quarantine{fs: db.opts.FS, dir: db.dir}}
	err := r.run(ctx)
	if cerr := r.quarantine.close(); err == nil {
		err = cerr
	}
	r.Repaired.Quarantine, r.Quarantined = r.quarantine.name, r.quarantine.rows
	if err != nil {
		err = fmt.Errorf("engine: repair: %w", err)
	}
	return r.Repaired, err
}

// repair is one run of Repair.
type repair struct {
	Repaired
	db         *DB
	o          RepairOptions
	quarantine quarantine
	found      *verifier
}

func (r *repair) run(ctx context.Context) error {
	db := r.db
	if err := db.writable(); err != nil {
		return err
	}
	if err := db.compactor.begin(ctx); err != nil {
		return err
	}
	defer db.compactor.end()
	r.found = &verifier{db: db, progress: r.o.Progress}
	err := r.found.run(ctx)
	r.Before, r.After = r.found.Verification, r.found.Verification
	if err != nil || r.Before.Clean() {
		return err
	}
	for _, step := range []func(context.Context) error{r.malformed, r.orphans, r.logs, r.offsets} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	after := &verifier{db: db, progress: r.o.Progress}
	err = after.run(ctx)
	r.After = after.Verification
	db.log(slog.LevelInfo, "repair", "findings", r.Before.Found, "actions", r.Done, "quarantined", r.quarantine.rows, "left", r.After.Found)
	return err
}

func (r *repair) did(id keys.Partition, offset int64, format string, args ...any) {
	r.Done++
	if len(r.Actions) < MaxFindings {
		r.Actions = append(r.Actions, RepairAction{r.found.topics[id.Topic].name, id.Number, offset, fmt.Sprintf(format, args...)})
	}
}

// malformed removes rows with keys that belong to no partition.
func (r *repair) malformed(ctx context.Context) error {
	if !r.o.Quarantine {
		return nil
	}
	batch := r.db.pdb.NewBatch()
	sweep := &verifier{db: r.db, remove: r.remover(batch, keys.Partition{Number: -1})}
	if err := sweep.open(); err != nil {
		return err
	}
	defer sweep.view.close()
	err := errors.Join(sweep.catalog(ctx), sweep.partitions(ctx), sweep.dues(ctx), sweep.consumerOffsets(ctx))
	if err != nil {
		return errors.Join(err, batch.Close())
	}
	return r.commit(ctx, batch)
}

// remover copies rows to the quarantine and deletes them in the batch.
func (r *repair) remover(batch *pebble.Batch, id keys.Partition) func(key, value []byte) error {
	return func(key, value []byte) error {
		if err := r.quarantine.add(key, value); err != nil {
			return err
		}
		offset := int64(-1)
		if _, last, err := keys.DecodeLog(key); err == nil {
			offset = last
		}
		r.did(id, offset, "copied a row of %d bytes to the quarantine and removed it", len(value))
		return batch.Delete(key, nil)
	}
}

// commit writes a batch, and before it what it removes to the quarantine.
func (r *repair) commit(ctx context.Context, batch *pebble.Batch) error {
	if batch.Empty() {
		return batch.Close()
	}
	if err := r.quarantine.sync(); err != nil {
		return errors.Join(err, batch.Close())
	}
	return r.db.commitSync(ctx, batch)
}

// orphans removes the rows of topics and partitions that do not exist.
func (r *repair) orphans(ctx context.Context) error {
	for _, id := range r.found.orphans {
		if err := r.orphan(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (r *repair) orphan(ctx context.Context, id keys.Partition) error {
	ddl := &r.db.catalog.ddl
	ddl.Lock()
	defer ddl.Unlock()
	if t := r.db.topicByID(id.Topic); t != nil && id.Number < t.Partitions() {
		return nil // it has come into being
	}
	batch := r.db.pdb.NewBatch()
	view, err := r.db.newView()
	if err != nil {
		return err
	}
	defer view.close()
	v, entries := &verifier{db: r.db, view: view}, 0
	err = v.each(ctx, keys.LogRange(id, 0, maxOffset), func(s *rowScan) error {
		if entries++; !r.o.Quarantine {
			return errEntries
		}
		return r.quarantine.add(s.key, s.value)
	})
	if errors.Is(err, errEntries) {
		return batch.Close()
	}
	if err == nil {
		err = deleteRanges(batch, keys.PartitionRanges(id))
	}
	if err != nil {
		return errors.Join(err, batch.Close())
	}
	r.did(id, -1, "removed the rows of %s, which does not exist, after %d entries were copied to the quarantine", id, entries)
	return r.commit(ctx, batch)
}

// errEntries ends the look for entries that are to stay.
var errEntries = errors.New("there are entries")

// logs mends the partitions that something is wrong with.
func (r *repair) logs(ctx context.Context) error {
	for _, id := range slices.SortedFunc(maps.Keys(r.found.broken), comparePartitionIDs) {
		if err := r.exclusively(ctx, id, func(p *Partition) error { return r.log(ctx, p) }); err != nil {
			return fmt.Errorf("partition %s: %w", id, err)
		}
	}
	return nil
}

// exclusively runs f while nothing of a partition changes and no topic is made, altered
// or deleted, and makes what the partition has in memory what the rows say then. A
// partition that was never used is kept from being loaded: perhaps it cannot be. f is
// not called for one that does not exist.
func (r *repair) exclusively(ctx context.Context, id keys.Partition, f func(p *Partition) error) error {
	ddl := &r.db.catalog.ddl
	ddl.Lock()
	defer ddl.Unlock()
	t := r.db.topicByID(id.Topic)
	if t == nil || id.Number < 0 || id.Number >= t.Partitions() {
		return nil
	}
	p := t.Partition(id.Number)
	p.loading.Lock()
	if !p.loaded.Load() {
		defer p.loading.Unlock()
		return f(p)
	}
	p.loading.Unlock()
	if err := p.lockChange(ctx); err != nil {
		return err
	}
	cutting := make(chan struct{})
	p.mu.cutting = cutting
	p.mu.Unlock()
	err := p.drained(ctx)
	if err == nil {
		err = errors.Join(f(p), p.reload())
	}
	p.mu.Lock()
	p.mu.cutting = nil
	p.mu.Unlock()
	close(cutting)
	return err
}

// reload reads what the partition keeps in memory again. Nothing of it changes
// meanwhile.
func (p *Partition) reload() error {
	p.mu.Lock()
	before := p.mu.end
	p.mu.Unlock()
	rows, err := p.readProducers()
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	readable := err == nil // else memory is all there is
	if err := p.load(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if ps := p.producers.Load(); ps != nil && readable {
		ps.replace(rows)
	}
	if p.mu.end < before { // who waits at the old end starts again
		p.cutLocked(p.mu.end)
	}
	return nil
}

// offsets mends the consumer offsets. A group may have committed a good one meanwhile.
func (r *repair) offsets(ctx context.Context) error {
	slices.SortStableFunc(r.found.offsets, func(a, b badOffset) int { return cmp.Compare(a.kind, b.kind) })
	for _, bad := range r.found.offsets {
		remove := func() error { return r.offset(ctx, bad) }
		var err error
		switch {
		case bad.kind == OrphanRows: // of what does not exist: nobody commits it
			err = remove()
		case r.o.Quarantine:
			err = r.exclusively(ctx, bad.id, func(*Partition) error { return remove() })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *repair) offset(ctx context.Context, bad badOffset) error {
	key := keys.AppendOffset(nil, bad.group, bad.id)
	value, err := r.db.get(key)
	if err != nil || value == nil {
		return err
	}
	batch := r.db.pdb.NewBatch()
	switch {
	case bad.kind == OrphanRows:
		err = batch.Delete(key, nil)
		r.did(bad.id, -1, "removed the offset of group %q for %s, which does not exist", bad.group, bad.id)
	case checkOffset(bad.group, value) != nil:
		err = r.remover(batch, bad.id)(key, value)
	}
	if err != nil {
		return errors.Join(err, batch.Close())
	}
	return r.commit(ctx, batch)
}
