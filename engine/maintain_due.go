package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// Maintained is what one maintenance run did.
type Maintained struct {
	// Due counts the partitions whose alarm had rung.
	Due int
	// Rolled counts active segments sealed for their age.
	Rolled int
	// Removed sums what retention removed; Start means nothing in it.
	Removed Retained
	// Groups counts the consumer groups forgotten, see Options.GroupExpiry.
	Groups int
}

// Bounds of one maintenance batch: how many partitions share it. Their locks
// are held while it is built.
const maintainBatch = 256

// maintainRetry is when a partition that could not be maintained is due again.
const maintainRetry = time.Minute

// MaintainOnce does everything that is due at now: it rolls idle segments and
// removes expired ones, of all partitions, opened or not, in batches that are
// atomic and on stable storage (SPEC 6, 7.2). The store does this by itself about
// once a second; call it for a schedule or a clock of your own. What is not due
// is not looked at. Logs due for compaction are handed to the goroutine that
// compacts, which MaintainOnce does not wait for.
//
// The error joins those of single partitions, which are due again after a
// minute, or is ErrFailed, ErrClosed or ctx.Err().
func (db *DB) MaintainOnce(ctx context.Context, now time.Time) (Maintained, error) {
	if err := db.writable(); err != nil {
		return Maintained{}, err
	}
	db.stats.maintenanceRuns.Add(1)
	db.maintaining.Lock()
	defer db.maintaining.Unlock()
	done, err := db.maintain(ctx, codec.TimestampOf(now))
	if err == nil {
		done.Groups, err = db.expireIdleGroups(ctx, codec.TimestampOf(now))
	}
	db.maintained(now, done, err)
	return done, err
}

func (db *DB) maintain(ctx context.Context, now codec.Timestamp) (Maintained, error) {
	var total Maintained
	var errs []error
	after := []byte(nil) // alarms set to the past by this run ring at the next
	for {
		alarms, err := db.rung(now, after)
		if err != nil || len(alarms) == 0 {
			return total, errors.Join(append(errs, err)...)
		}
		after = alarms[len(alarms)-1].key
		total.Due += len(alarms)
		if err := db.maintainBatch(ctx, alarms, now, &total); err != nil {
			errs = append(errs, err)
		}
		if err := errors.Join(db.writable(), ctx.Err(), db.settleTombstones()); err != nil {
			return total, errors.Join(append(errs, err)...)
		}
	}
}

// maxTombstones is how many range tombstones may pile up in memory during one
// run: each batch makes the next iterator sort all of them again.
const maxTombstones = 16 << 10

// settleTombstones flushes when one run has left many.
func (db *DB) settleTombstones() error {
	if db.tombstones.Load() < maxTombstones {
		return nil
	}
	db.tombstones.Store(0)
	return db.unlessFailed(db.pdb.Flush)
}

// alarm is a key of the due space.
type alarm struct {
	key []byte
	at  codec.Timestamp
	id  keys.Partition
}

// rung returns the next alarms at or before now, in order of time.
func (db *DB) rung(now codec.Timestamp, after []byte) ([]alarm, error) {
	r := keys.DueRange(int64(now))
	if after != nil {
		r.Start = append(slices.Clone(after), 0)
	}
	it, err := db.newIter(r.Start, r.End)
	if err != nil {
		return nil, err
	}
	defer it.close()
	var alarms []alarm
	ok, err := it.move(seekGE, r.Start)
	for ; ok && err == nil && len(alarms) < maintainBatch; ok, err = it.move(next, nil) {
		at, id, err := keys.DecodeDue(it.key)
		if err != nil {
			return nil, &CorruptionError{Offset: -1, Err: err}
		}
		alarms = append(alarms, alarm{slices.Clone(it.key), codec.Timestamp(at), id})
	}
	return alarms, err
}

// maintainBatch answers alarms in one atomic batch: Pebble slows down with the
// number of range deletions between flushes, not with their size. Partitions are
// locked in key order, as everything that locks several does.
func (db *DB) maintainBatch(ctx context.Context, alarms []alarm, now codec.Timestamp, total *Maintained) error {
	batch := db.pdb.NewBatch()
	var errs []error
	var due []*Partition
	for _, a := range alarms {
		if err := batch.Delete(a.key, nil); err != nil {
			return err
		}
		p, err := db.partitionByID(a.id)
		switch {
		case errors.Is(err, ErrUnknownTopic): // deleted: the alarm is all that is left
		case err != nil:
			db.noteFailing(a.id, err)
			errs = append(errs, err)
			retry := keys.AppendDue(nil, int64(now)+maintainRetry.Milliseconds(), a.id)
			if err := batch.Set(retry, nil, nil); err != nil {
				return err
			}
		default:
			db.noteFailing(a.id, nil)
			due = append(due, p)
			total.Removed.DiskBytes += p.planRetention(now).DiskBytes
		}
	}
	slices.SortFunc(due, comparePartitions)
	due = slices.Compact(due)
	cm, err := db.maintainLocked(batch, due, now, total)
	if err == nil {
		err = db.wait(ctx, cm)
	}
	return errors.Join(append(errs, err)...)
}

func comparePartitions(a, b *Partition) int {
	return cmp.Or(cmp.Compare(a.id().Topic, b.id().Topic), cmp.Compare(a.id().Number, b.id().Number))
}

// maintainLocked changes all partitions and queues the batch under all their
// locks: appends that follow on a partition then follow in the queue too.
func (db *DB) maintainLocked(batch *pebble.Batch, due []*Partition, now codec.Timestamp, total *Maintained) (*commit, error) {
	cm := db.newCommit(batch)
	cm.sync = true
	var removed []removal
	for _, p := range due {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.mu.cutting != nil { // never wait for a truncation with locks held
			if err := batch.Set(keys.AppendDue(nil, int64(now)+1, p.id()), nil, nil); err != nil {
				return nil, err
			}
			continue
		}
		if len(cm.ends) == 0 { // once a lock is held, Close waits for the batch
			if err := db.writable(); err != nil {
				return nil, err
			}
		}
		if p.mu.dropped {
			continue
		}
		r, err := p.maintainInto(batch, now, total)
		if err != nil {
			return nil, p.broken(err)
		}
		removed = append(removed, r...)
		cm.addEndLocked(p)
	}
	if err := db.deleteRemoved(batch, removed); err != nil {
		return nil, due[0].broken(err)
	}
	return cm, db.committer.enqueue(cm)
}

// maintainInto does what is due on one partition and sets its next alarm.
func (p *Partition) maintainInto(batch *pebble.Batch, now codec.Timestamp, total *Maintained) ([]removal, error) {
	r, removed, err := p.retainInto(batch, now)
	if err != nil {
		return nil, err
	}
	if r.Rolled {
		total.Rolled++
	}
	total.Removed.add(r)
	next := sooner(p.retentionDueLocked(), p.offerLocked(now))
	if next != retention.Never {
		next = max(next, now+1)
	}
	if next == p.mu.alarm { // setAlarmLocked would find nothing to do, but the key is gone
		p.mu.alarm = retention.Never
	}
	return removed, p.setAlarmLocked(batch, next)
}

func (r *Retained) add(o Retained) {
	r.Segments += o.Segments
	r.ByTime += o.ByTime
	r.BySize += o.BySize
	r.ByLogStart += o.ByLogStart
	r.Messages += o.Messages
	r.WireBytes += o.WireBytes
	r.StoredBytes += o.StoredBytes
}

// partitionByID returns a loaded partition.
func (db *DB) partitionByID(id keys.Partition) (*Partition, error) {
	t := db.topicByID(id.Topic)
	if t == nil {
		return nil, ErrUnknownTopic
	}
	p := t.Partition(id.Number)
	return p, p.ready()
}

func (db *DB) topicByID(id uint32) *Topic {
	db.catalog.mu.RLock()
	defer db.catalog.mu.RUnlock()
	return db.catalog.mu.byID[id]
}

// MaintenanceStatus is the state of the maintenance loop.
type MaintenanceStatus struct {
	// LastRun is when it last looked, zero if it never did.
	LastRun time.Time
	// Next is the earliest alarm of any partition; zero if there is none.
	Next time.Time
	// Total sums what was done since Open.
	Total Maintained
	// Compaction is the state of compaction.
	Compaction CompactionStatus
	// Err is what could not be done and will be tried again; nil if there is
	// nothing.
	Err error
}

// Maintenance returns the state of the maintenance loop.
func (db *DB) Maintenance() (MaintenanceStatus, error) {
	db.status.Lock()
	s := db.status.MaintenanceStatus
	for _, err := range db.status.failing {
		s.Err = errors.Join(s.Err, err)
	}
	db.status.Unlock()
	if db.opts.ReadOnly {
		return s, nil
	}
	s.Compaction = db.compactor.status()
	s.Err = errors.Join(s.Err, db.compactor.errors())
	alarms, err := db.rung(codec.Timestamp(1<<62), nil)
	if err == nil && len(alarms) > 0 {
		s.Next = alarms[0].at.Time()
	}
	return s, err
}

// noteFailing keeps the error of a partition until its retry, nil forgets it.
func (db *DB) noteFailing(id keys.Partition, err error) {
	db.status.Lock()
	defer db.status.Unlock()
	if err == nil {
		delete(db.status.failing, id)
		return
	}
	if db.status.failing == nil {
		db.status.failing = make(map[keys.Partition]error)
	}
	if len(db.status.failing) < maxFailing {
		db.status.failing[id] = err
	}
}

// maxFailing bounds the errors that are kept.
const maxFailing = 100

func (db *DB) maintained(now time.Time, done Maintained, err error) {
	db.status.Lock()
	defer db.status.Unlock()
	db.status.LastRun = now
	db.status.Err = nil
	if err != nil && len(db.status.failing) == 0 {
		db.status.Err = err
	}
	t := &db.status.Total
	t.Due += done.Due
	t.Rolled += done.Rolled
	t.Groups += done.Groups
	t.Removed.add(done.Removed)
	t.Removed.DiskBytes += done.Removed.DiskBytes
	if done.Removed.Segments > 0 || done.Rolled > 0 || done.Groups > 0 {
		db.log(slog.LevelInfo, "maintenance", "due", done.Due, "rolled", done.Rolled,
			"segments", done.Removed.Segments, "messages", done.Removed.Messages, "bytes", done.Removed.WireBytes, "groups", done.Groups)
	}
}
