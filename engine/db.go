package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine/fencefs"
	"github.com/cairnlog/cairn/keys"
)

const (
	maxOffset    = math.MaxInt64
	maxPartition = math.MaxInt32
	maxEpoch     = math.MaxInt32
)

// DB is an open store: topics of numbered partitions in one directory. It is
// safe for concurrent use.
type DB struct {
	opts  Options
	dir   string
	lock  *pebble.Lock
	held  func() // gives the directory back within this process; nil before it is taken
	fence *fencefs.FS
	pdb   *pebble.DB
	water *watermarkFile

	committer  *committer
	commits    sync.Pool // of *commit
	gate       gate
	space      space
	events     events
	maintainer *maintainer
	reclaimer  *reclaimer
	compactor  *compactor
	catalog    catalog
	stats      counters
	groups     groups

	transactional transactional
	checkpointing chan struct{} // holds a token while a checkpoint is made

	// activePartitions counts the partitions appended to since Open; it decides
	// where tables are cut.
	activePartitions atomic.Int64
	opened           atomic.Bool // Pebble's recovery is over

	maintaining sync.Mutex   // one maintenance run at a time
	tombstones  atomic.Int64 // range deletes since the last flush for them
	status      struct {
		sync.Mutex
		MaintenanceStatus
		failing map[keys.Partition]error
	}

	// marked is the last mark written, ackedBefore the commits acknowledged
	// before this Open.
	watermark   watermark // as Open found it
	marked      mark
	ackedBefore uint64
	forgive     bool // the next mark accepts a loss

	// failed is closed at the first failed write; failure is set before.
	failed   chan struct{}
	failOnce sync.Once
	failure  error

	// closed is closed when Close begins. life is held shared while a Pebble
	// iterator is made and exclusively while closed is set, so that no
	// iterator is born after Close has collected them.
	closed     chan struct{}
	life       sync.RWMutex
	iters      iterSet
	closeEnded chan struct{} // closed when Close is through
	observing  sync.Mutex    // held while Pebble is asked for its metrics, and to close it
}

// Open opens the store in dir, or creates it. One process opens a store at a
// time (ErrLocked). After a crash, kill -9 or power loss Open needs no manual
// step; what an append acknowledged is there again (see Options.Durability).
//
// Errors: ErrLocked, ErrNewerFormat, ErrNotExist, a *ConfigError per bad
// option, a *DataLossError when the store came back with less than it
// acknowledged, a *CorruptionError, or an I/O error.
func Open(dir string, opts Options) (*DB, error) {
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("engine: open %s: %w", dir, err)
	}
	db := &DB{
		opts:   opts.withDefaults(),
		dir:    dir,
		failed: make(chan struct{}),
		closed: make(chan struct{}),

		closeEnded:    make(chan struct{}),
		checkpointing: make(chan struct{}, 1),
	}
	db.stats.init()
	db.space.init(db)
	db.events.start(opts.Logger)
	if err := db.open(); err != nil {
		db.events.stop()
		return nil, fmt.Errorf("engine: open %s: %w", dir, err)
	}
	return db, nil
}

func (db *DB) open() (err error) {
	if err := db.lockDir(); err != nil {
		if db.held != nil {
			db.held()
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.abandonOpen())
		}
	}()
	if !db.opts.ReadOnly { // a crash may have left one
		if err := ignoreMissing(db.opts.FS.RemoveAll(db.opts.FS.PathJoin(db.dir, checkpointStage))); err != nil {
			return err
		}
	}
	if err := db.openWater(); err != nil {
		return err
	}
	if err := db.openPebble(); err != nil {
		return err
	}
	db.gate.init(db.opts.MaxQueuedBytes, db.failed, db.closed)
	if !db.opts.ReadOnly {
		db.committer = startCommitter(db)
	}
	if err := db.recover(); err != nil {
		return corruptStore(err)
	}
	db.log(slog.LevelInfo, "store opened", "dir", db.dir, "topics", len(db.Topics()))
	if db.opts.ReadOnly { // nothing to maintain
		return nil
	}
	db.space.start()
	db.reclaimer = startReclaimer(db)
	db.compactor = startCompactor(db)
	db.maintainer = startMaintainer(db)
	return nil
}

// openPebble checks the MANIFEST and opens Pebble behind the fence. Pebble runs
// in its own goroutine: a failed write parks it and Open returns the cause.
func (db *DB) openPebble() error {
	err := scanManifest(db.opts.FS, db.dir)
	if rot, ok := errors.AsType[*ManifestError](err); ok {
		return &CorruptionError{Offset: -1, Err: rot}
	} else if err != nil {
		return err
	}
	pebbleOpts := db.pebbleOptions(db.fence, db.lock)
	opened := make(chan *pebble.DB, 1)
	err = db.unlessFailed(func() error {
		pdb, err := pebble.Open(db.dir, pebbleOpts)
		opened <- pdb
		return err
	})
	if err == nil {
		db.pdb = <-opened
		db.opened.Store(true)
	}
	return corruptStore(err)
}

// corruptStore makes a CorruptionError of what Pebble says of a damaged store at Open:
// damaged blocks, and files that are not there, not of their size, or not a store's.
// The latter have no other sign than their text; an error of the file system names its
// operation.
func corruptStore(err error) error {
	if err == nil {
		return nil
	}
	_, told := errors.AsType[*CorruptionError](err)
	_, ofFile := errors.AsType[*fs.PathError](err)
	text := err.Error()
	switch {
	case told:
		return err
	case pebble.IsCorruptionError(err), !ofFile && (strings.Contains(text, "pebble: ") || strings.Contains(text, "object size mismatch")):
		return &CorruptionError{Offset: -1, Err: err}
	default:
		return err
	}
}

// unlessFailed runs f in a goroutine and returns its error, or the store's
// failure when f was parked behind the fence.
func (db *DB) unlessFailed(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-db.failed:
		return db.failedErr()
	}
}

// abandonOpen undoes a failed open.
func (db *DB) abandonOpen() error {
	close(db.closed)
	if db.committer != nil {
		db.committer.stop()
	}
	var err error
	if db.pdb != nil && !db.hasFailed() {
		err = db.unlessFailed(db.pdb.Close)
	}
	return errors.Join(err, db.closeWatermark(), db.releaseLock())
}

func (db *DB) closeWatermark() error {
	if db.water == nil {
		return nil
	}
	return db.water.Close()
}

// fail marks the store failed; the fence calls it at the first failed write.
func (db *DB) fail(cause error) {
	db.failOnce.Do(func() {
		db.failure = cause
		close(db.failed)
		db.log(slog.LevelError, "store failed: no further write is accepted", "err", cause)
	})
}

func (db *DB) hasFailed() bool {
	select {
	case <-db.failed:
		return true
	default:
		return false
	}
}

// failedErr waits for the goroutine that tripped the fence to say why.
func (db *DB) failedErr() error {
	<-db.failed
	return fmt.Errorf("%w: %w", ErrFailed, db.failure)
}

// isClosed reports whether Close has begun. A zero DB was never open.
func (db *DB) isClosed() bool {
	if db == nil || db.closed == nil {
		return true
	}
	select {
	case <-db.closed:
		return true
	default:
		return false
	}
}

// writable returns why the store takes no writes, or nil.
func (db *DB) writable() error {
	switch {
	case db.isClosed():
		return ErrClosed
	case db.opts.ReadOnly:
		return ErrReadOnly
	case db.hasFailed():
		return db.failedErr()
	}
	return nil
}

// Sync forces everything appended so far to stable storage, whatever the
// durability mode. It returns ErrFailed wrapped around the cause if it could
// not, or ctx.Err().
func (db *DB) Sync(ctx context.Context) error {
	if err := db.writable(); err != nil {
		return err
	}
	return db.syncNow(ctx)
}

func (db *DB) syncNow(ctx context.Context) error {
	batch := db.pdb.NewBatch()
	if err := batch.LogData(nil, nil); err != nil {
		return err
	}
	return db.commitInternal(ctx, batch)
}

// commitInternal syncs a batch that holds nothing a caller was promised.
func (db *DB) commitInternal(ctx context.Context, batch *pebble.Batch) error {
	cm := db.newCommit(batch)
	cm.sync, cm.internal = true, true
	return db.enqueueWait(ctx, cm)
}

// Close syncs and closes the store. It ends running reads and follows with
// ErrClosed and waits for appends already queued. A second Close does nothing.
// On a failed store Close returns nil once the directory can be opened again;
// the goroutines parked behind the fence stay parked.
func (db *DB) Close() error {
	if db == nil || db.closed == nil {
		return nil
	}
	db.life.Lock()
	if db.isClosed() {
		db.life.Unlock()
		<-db.closeEnded
		return nil
	}
	close(db.closed)
	db.life.Unlock()
	defer close(db.closeEnded)
	defer db.events.stop()

	select { // a checkpoint under way notices, and cleans up
	case db.checkpointing <- struct{}{}:
	case <-db.failed:
	}
	var errs []error
	if !db.opts.ReadOnly {
		errs = append(errs, db.stopWriting())
	}
	db.iters.closeAll()
	if !db.hasFailed() {
		errs = append(errs, db.unlessFailed(db.flushAndClose))
	}
	errs = append(errs, db.closeWatermark(), db.releaseLock())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("engine: close %s: %w", db.dir, err)
	}
	db.log(slog.LevelInfo, "store closed", "dir", db.dir)
	return nil
}

// stopWriting ends all work in the background and writes what it leaves.
func (db *DB) stopWriting() (err error) {
	db.maintainer.stop()
	db.compactor.stop()
	db.space.stop()
	if !db.hasFailed() {
		err = db.writeClosing()
	}
	db.committer.stop()
	db.reclaimer.stop()
	return err
}

// closeTimeout bounds how long Close waits for a disk that takes no writes. What
// was acknowledged is safe without them: it is in the log.
const closeTimeout = 30 * time.Second

// writeClosing writes what makes the next Open quick. A store whose writes have
// stalled is abandoned like a failed one.
func (db *DB) writeClosing() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := db.closePartitions(ctx)
	if err == nil {
		err = db.writeMark(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		db.fence.Trip(fmt.Errorf("close: writes stall: %w", err))
	}
	return err
}

// flushAndClose leaves nothing in the log for the next Open to replay. A flush
// that fails for a full disk is no loss: the log has it all.
func (db *DB) flushAndClose() error {
	db.observing.Lock()
	defer db.observing.Unlock()
	if db.opts.ReadOnly {
		return db.pdb.Close()
	}
	flushed, err := db.pdb.AsyncFlush()
	if err == nil {
		select {
		case <-flushed:
		case <-time.After(closeTimeout):
		}
	}
	return errors.Join(err, db.pdb.Close())
}

// now reads the store's clock in message time.
func (db *DB) now() codec.Timestamp { return codec.TimestampOf(db.opts.Now()) }
