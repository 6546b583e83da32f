package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// tickInterval is how often due work is looked for, and the watermark brought up
// to date while there are appends: what a damaged log file could hide is at most
// this old.
const tickInterval = time.Second

// maintainer is the store's background work beside the committer's: one goroutine,
// and another for SyncEvery, started in Open and joined in Close.
type maintainer struct {
	db     *DB
	cancel context.CancelFunc
	joined sync.WaitGroup
}

func startMaintainer(db *DB) *maintainer {
	ctx, cancel := context.WithCancel(context.Background())
	m := &maintainer{db: db, cancel: cancel}
	m.joined.Go(func() { m.run(ctx) })
	if db.opts.Durability > 0 {
		m.joined.Go(func() { m.sync(ctx) })
	}
	return m
}

// sync forces the data to disk every Durability: a loop of its own, so that
// maintenance does not delay it.
func (m *maintainer) sync(ctx context.Context) {
	ticks := time.NewTicker(time.Duration(m.db.opts.Durability))
	defer ticks.Stop()
	var synced uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.db.failed:
			return
		case <-ticks.C:
		}
		if commits := m.db.stats.commits.Load(); commits != synced {
			synced = commits
			if err := m.db.syncNow(ctx); err != nil && ctx.Err() == nil {
				m.db.log(slog.LevelError, "sync", "err", err)
			}
		}
	}
}

func (m *maintainer) stop() {
	m.cancel()
	m.joined.Wait()
}

func (m *maintainer) run(ctx context.Context) {
	ticks := time.NewTicker(tickInterval)
	defer ticks.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-m.db.failed:
			return
		case <-ticks.C:
			m.db.space.request()
			if m.db.opts.Durability != SyncNever {
				err = m.db.writeMark(ctx)
			}
			_, dueErr := m.db.MaintainOnce(ctx, m.db.opts.Now())
			err = errors.Join(err, dueErr)
		}
		if err != nil && ctx.Err() == nil {
			m.db.log(slog.LevelError, "maintenance", "err", err)
		}
	}
}

// closePartitions writes what reopening would otherwise rebuild: the closing
// index row and the segment row of every partition that was opened (SPEC 5.2.6).
// It runs after closed is set, so no append changes a partition behind it.
func (db *DB) closePartitions(ctx context.Context) error {
	batch := db.pdb.NewBatch()
	for _, t := range db.Topics() {
		for _, p := range t.opened() {
			if err := p.closeInto(ctx, batch); err != nil {
				return err
			}
			if batch.Len() < closeBatchBytes {
				continue
			}
			if err := db.commitInternal(ctx, batch); err != nil {
				return err
			}
			batch = db.pdb.NewBatch()
		}
	}
	if batch.Empty() {
		return batch.Close()
	}
	return db.commitInternal(ctx, batch)
}

// closeBatchBytes bounds one batch of closing rows.
const closeBatchBytes = 1 << 20

// closeInto adds the partition's closing rows to the batch.
func (p *Partition) closeInto(ctx context.Context, batch *pebble.Batch) error {
	if !p.loaded.Load() {
		return nil
	}
	if err := p.lockChange(ctx); err != nil {
		return err
	}
	defer p.mu.Unlock()
	if p.mu.dropped {
		return nil
	}
	active := p.activeLocked()
	row, due := active.ClosingRow()
	if due {
		if err := p.setIndexRow(batch, row); err != nil {
			return err
		}
	}
	if due || p.mu.unsaved {
		return p.setSegment(batch, active)
	}
	return nil
}
