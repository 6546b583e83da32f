package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"

	"github.com/cockroachdb/pebble/v2"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cairnlog/cairn/keys"
)

// The rows of the meta space.
const (
	metaFormat    = "format"
	metaNextTopic = "next-topic"
	metaMark      = "mark"
	metaDefaults  = "defaults"
)

// storeFormat is the version of the layout; golden files in keys, codec and
// retention pin what it means.
const storeFormat = 1

// mark is written with a sync about once a second while there are appends, and
// then the watermark file says the same outside Pebble: if the store comes back
// with an older mark than the file, acknowledged commits are missing.
type mark struct {
	Seq   uint64 `msgpack:"s"`
	Acked uint64 `msgpack:"a"`
}

// recover checks what came back and reads the catalog.
func (db *DB) recover() error {
	var version uint32
	found, err := db.meta(metaFormat, &version)
	if err != nil {
		return err
	}
	if version > storeFormat {
		return fmt.Errorf("%w: %d, this version knows %d", ErrNewerFormat, version, storeFormat)
	}
	if err := db.checkWatermark(); err != nil {
		return err
	}
	if !found {
		if db.opts.ReadOnly {
			return ErrNotExist
		}
		if err := db.create(); err != nil {
			return err
		}
	}
	var nextTopic uint32
	if _, err := db.meta(metaNextTopic, &nextTopic); err != nil {
		return err
	}
	if err := db.loadCatalog(nextTopic); err != nil {
		return err
	}
	if db.opts.ReadOnly {
		return nil
	}
	if db.forgive { // what is lost was accepted: the next Open need not ask again
		if err := db.writeMark(context.Background()); err != nil {
			return err
		}
	}
	return db.ringOnNewDefaults()
}

// ringOnNewDefaults makes everything due when the store is opened with other
// defaults than the last time: alarms were set by those.
func (db *DB) ringOnNewDefaults() error {
	defaults := db.opts.Defaults.Settings()
	var before map[string]string
	if _, err := db.meta(metaDefaults, &before); err != nil {
		return err
	}
	if maps.Equal(before, defaults) {
		return nil
	}
	batch := db.pdb.NewBatch()
	for _, t := range db.Topics() {
		if err := db.ringTopic(batch, t); err != nil {
			return err
		}
	}
	if err := db.setMeta(batch, metaDefaults, defaults); err != nil {
		return err
	}
	return db.commitSync(context.Background(), batch)
}

// create marks a new store. A directory with somebody else's Pebble store in it
// is refused.
func (db *DB) create() error {
	it, err := db.newIter(nil, nil)
	if err != nil {
		return err
	}
	defer it.close()
	if any, err := it.move(last, nil); err != nil {
		return err
	} else if any {
		return &CorruptionError{Offset: -1, Err: errors.New("a Pebble store without Cairn's format row: not a Cairn store, or a damaged one")}
	}
	batch := db.pdb.NewBatch()
	if err := db.setMeta(batch, metaFormat, uint32(storeFormat)); err != nil {
		return err
	}
	return db.commitSync(context.Background(), batch)
}

// openWater opens the watermark file, before Pebble touches the directory: a
// Pebble store without one is not ours, and opening it would change its format.
func (db *DB) openWater() error {
	fs, dir := db.opts.FS, db.dir
	desc, err := pebble.Peek(dir, fs)
	if err != nil {
		return err
	}
	m, found, err := readWatermark(fs, dir)
	if damage, ok := errors.AsType[*WatermarkError](err); ok && db.opts.AllowDataLoss {
		db.log(slog.LevelError, "opened without a watermark", "err", damage)
		if err = nil; !db.opts.ReadOnly {
			err = createWatermark(fs, dir)
		}
	} else if err == nil && desc.Exists && !found && !db.opts.AllowDataLoss {
		return &CorruptionError{Offset: -1, Err: errors.New("a Pebble store without " + watermarkName + ": not a Cairn store, or a copy that left it out")}
	}
	if err != nil {
		return err
	}
	if db.opts.ReadOnly {
		db.watermark = m
		return nil
	}
	db.water, db.watermark, err = openWatermark(fs, dir)
	return err
}

// checkWatermark compares the mark that came back with the watermark file.
func (db *DB) checkWatermark() error {
	var m mark
	if _, err := db.meta(metaMark, &m); err != nil {
		return err
	}
	water := db.watermark
	if m.Seq < water.Seq {
		loss := &DataLossError{Acknowledged: water.Acked, Recovered: m.Acked,
			Err: fmt.Errorf("watermark %d, recovered mark %d", water.Seq, m.Seq)}
		if !db.opts.AllowDataLoss {
			return loss
		}
		db.log(slog.LevelError, "opened with data loss", "err", loss)
		db.forgive = true
	}
	db.marked = mark{max(m.Seq, water.Seq), max(m.Acked, water.Acked)}
	db.ackedBefore = db.marked.Acked
	return nil
}

// writeMark makes the mark and then the watermark say what is acknowledged. It
// does nothing if nothing was acknowledged since the last one. Only the
// maintenance goroutine, and after it Close, call it.
func (db *DB) writeMark(ctx context.Context) error {
	acked := db.ackedBefore + db.stats.commits.Load()
	if acked == db.marked.Acked && !db.forgive {
		return nil
	}
	m := mark{db.marked.Seq + 1, acked}
	batch := db.pdb.NewBatch()
	if err := db.setMeta(batch, metaMark, m); err != nil {
		return err
	}
	if err := db.commitInternal(ctx, batch); err != nil {
		return err
	}
	if err := db.water.Write(watermark(m)); err != nil {
		err = fmt.Errorf("write watermark: %w", err)
		db.fence.Trip(err)
		return db.failedErr()
	}
	db.marked, db.forgive = m, false
	return nil
}

// meta reads a meta row into v; found is false if there is none.
func (db *DB) meta(name string, v any) (found bool, err error) {
	value, err := db.getOpen(keys.AppendMeta(nil, name))
	if err != nil || value == nil {
		return false, err
	}
	if err := msgpack.Unmarshal(value, v); err != nil {
		return false, &CorruptionError{Offset: -1, Err: fmt.Errorf("meta row %s: %w", name, err)}
	}
	return true, nil
}

func (db *DB) setMeta(batch *pebble.Batch, name string, v any) error {
	value, err := encodeRow(v)
	if err != nil {
		return err
	}
	return batch.Set(keys.AppendMeta(nil, name), value, nil)
}
