package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// TestKeys gives tests outside the package the ids they need to find a
// partition's rows in the Pebble store underneath.
func (p *Partition) TestKeys() keys.Partition { return p.id() }

// Recompressions is how many wrappers were compressed again.
func (db *DB) Recompressions() uint64 { return db.stats.recompressions.Load() }

// Inflations is how many wrappers were opened.
func (db *DB) Inflations() uint64 { return db.stats.inflations.Load() }

// Flush makes Pebble write a table in the background.
func (db *DB) Flush() error {
	_, err := db.pdb.AsyncFlush()
	return err
}

// OpenIterators is how many Pebble iterators are open.
func (db *DB) OpenIterators() int {
	db.iters.mu.Lock()
	defer db.iters.mu.Unlock()
	return len(db.iters.open)
}

// StartAt makes an unused partition begin at an offset, as a log does whose
// head is gone.
func (p *Partition) StartAt(t testing.TB, offset int64) {
	t.Helper()
	if p.loaded.Load() {
		t.Fatal("partition is in use")
	}
	row, err := encodeRow(&partitionState{Version: stateVersion, LogStart: offset})
	if err != nil {
		t.Fatal(err)
	}
	batch := p.topic.db.pdb.NewBatch()
	if err := batch.Set(keys.AppendState(nil, p.id()), row, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.topic.db.commitSync(context.Background(), batch); err != nil {
		t.Fatal(err)
	}
}

// CleanPoint is the partition's, with its tombstones' due time: 0 and -1 of a log
// that was never compacted.
func (p *Partition) CleanPoint() (int64, codec.Timestamp) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.mu.seldom; s != nil && s.cleaned != nil {
		return s.cleaned.CleanPoint, s.cleaned.TombstoneDue
	}
	return 0, retention.Never
}

// HandleBytes is the size of a partition handle.
const HandleBytes = unsafe.Sizeof(Partition{})

// HoldMaintenance keeps maintenance from running until the function it returns is
// called, once or more often. Close waits for it.
func (db *DB) HoldMaintenance() func() {
	db.maintaining.Lock()
	return sync.OnceFunc(db.maintaining.Unlock)
}

// HoldCompaction keeps passes from beginning until the function it returns is
// called.
func (db *DB) HoldCompaction() func() {
	db.compactor.busy <- struct{}{}
	return func() { <-db.compactor.busy }
}

// MetaRow returns a meta row as Pebble stores it.
func MetaRow(name string, v any) (key, value []byte, err error) {
	value, err = encodeRow(v)
	return keys.AppendMeta(nil, name), value, err
}

// EncodeRow is how the store's own rows are encoded.
func EncodeRow(row any) ([]byte, error) { return encodeRow(row) }

// QuietLogger is for Pebble stores opened without the engine.
var QuietLogger pebble.Logger = quiet{}

// OpenRaw opens the Pebble store underneath a closed store.
func OpenRaw(dir string, opts Options) (*pebble.DB, error) {
	pdb, err := pebble.Open(dir, &pebble.Options{FS: opts.withDefaults().FS, FormatMajorVersion: pebbleFormat, Logger: QuietLogger})
	if err != nil {
		return nil, fmt.Errorf("open raw: %w", err)
	}
	return pdb, nil
}

type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// TestHistogram is a histogram with bounds of a test's.
type TestHistogram struct{ h histogram }

func NewTestHistogram(bounds ...int64) *TestHistogram {
	return &TestHistogram{histogram{bounds: bounds}}
}
func (h *TestHistogram) Observe(v int64)     { h.h.observe(v) }
func (h *TestHistogram) Snapshot() Histogram { return h.h.snapshot() }

// Fail fails the store, as a failed write to the disk does.
func (db *DB) Fail(cause error) { db.fence.Trip(cause) }

// CheckSpace returns when the file system was asked for its free space anew.
func (db *DB) CheckSpace(t testing.TB) {
	t.Helper()
	if err := db.space.check(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// MaxEvents is how many events wait for a slow log handler.
const MaxEvents = maxEvents

// TouchMetrics does what the hot paths do for their numbers: an append of n stored
// bytes, its group, and a read.
func (db *DB) TouchMetrics(ctx context.Context, n int64) error {
	group := [1]*commit{{}}
	db.committer.count(group[:])
	db.stats.appended(&prepared{messages: 1, wire: n, stored: n})
	db.stats.syncLatency.observe(int64(db.opts.Now().Sub(time.Time{})))
	db.stats.reads.Add(1)
	db.stats.readMessages.Add(1)
	return db.space.admit(ctx, n)
}

// AskBlindSpace asks for free space as an append does, after the file system has said
// that it does not tell and with nobody left who asks it.
func AskBlindSpace(ctx context.Context) error {
	db := &DB{closed: make(chan struct{}), failed: make(chan struct{})}
	db.space.init(db)
	db.space.blind.Store(true)
	return db.space.check(ctx)
}

// OpenViews is how many views of the store are open.
func (db *DB) OpenViews() int {
	db.iters.mu.Lock()
	defer db.iters.mu.Unlock()
	return len(db.iters.views)
}

// Overwrite writes a row behind the store's back, as damage does.
func (db *DB) Overwrite(t testing.TB, key, value []byte) {
	t.Helper()
	if err := db.pdb.Set(key, value, pebble.NoSync); err != nil {
		t.Fatal(err)
	}
}

// WriteMark writes the mark and the watermark as the maintenance loop does about once
// a second.
func (db *DB) WriteMark(ctx context.Context) error {
	defer db.HoldMaintenance()()
	return db.writeMark(ctx)
}
