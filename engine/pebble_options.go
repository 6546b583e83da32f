package engine

import (
	"fmt"
	"log/slog"
	"math/bits"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/engine/fencefs"
	"github.com/cairnlog/cairn/keys"
)

// Pebble is tuned for logs. The measurement behind each constant is in
// DESIGN.md, "Tuning".
const (
	// pebbleFormat is FormatTableFormatV6 (021): WAL sync chunks, so that a bad
	// bit in the log is noticed, and MinLZ. Value separation needs more and
	// stays off.
	pebbleFormat = pebble.FormatTableFormatV6

	memTables = 4 // write buffers before appends wait
	// reservedMemTables is how many Pebble takes out of the block cache even when
	// it is idle, the active one and one for reuse: without them 128 MiB of cache
	// held nothing beside two of 64 MiB, and half of a scan was reading again.
	reservedMemTables = 2
	l0Threshold       = 8         // fewer rewrites L0 for nothing; more slows reads
	l0StopThreshold   = 1000      // bulk loads must not stall on L0
	lbaseBytes        = 512 << 20 // fewer levels: less rewriting
	walBytesPerSync   = 1 << 20
	tableBytesMin     = 4 << 20
	tableBytesMax     = 16 << 20 // small tables: retention drops whole files
	blockBytes        = 32 << 10
	indexBlockBytes   = 256 << 10
	maxManifest       = 16 << 20 // bounds the scan at Open

	// rangeDelFlushDelay is how long a deleted range may wait in memory before
	// its space can come back.
	rangeDelFlushDelay = 2 * time.Second

	// spansPerMemTable is how many tables one flush may be cut into at
	// partition boundaries: 64 MiB over 64 partitions leaves tables of 1 MiB.
	spansPerMemTable = 64
)

func (db *DB) pebbleOptions(fs *fencefs.FS, lock *pebble.Lock) *pebble.Options {
	o := &pebble.Options{
		FS:                          toldFS{fs, &db.space},
		Lock:                        lock,
		ReadOnly:                    db.opts.ReadOnly,
		FormatMajorVersion:          pebbleFormat,
		Comparer:                    pebble.DefaultComparer,
		Logger:                      &pebbleLogger{db},
		EventListener:               db.pebbleEvents(),
		CacheSize:                   db.opts.CacheBytes + reservedMemTables*db.opts.MemTableBytes,
		MaxOpenFiles:                4096,
		MemTableSize:                uint64(db.opts.MemTableBytes),
		MemTableStopWritesThreshold: memTables,
		L0CompactionThreshold:       l0Threshold,
		L0StopWritesThreshold:       l0StopThreshold,
		LBaseMaxBytes:               lbaseBytes,
		MaxManifestFileSize:         maxManifest,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		FlushDelayDeleteRange:       rangeDelFlushDelay,
		BytesPerSync:                1 << 20,
		WALBytesPerSync:             walBytesPerSync,
	}
	for i, size := 0, int64(tableBytesMin); i < len(o.TargetFileSizes); i, size = i+1, size*2 {
		o.TargetFileSizes[i] = min(size, tableBytesMax)
	}
	for i := range o.Levels {
		o.Levels[i].BlockSize = blockBytes
		o.Levels[i].IndexBlockSize = indexBlockBytes
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	o.Experimental.ReadSamplingMultiplier = -1 // a long scan must not start compactions
	o.Experimental.FileCacheShards = 4
	o.Experimental.SpanPolicyFunc = db.spanPolicy
	return o
}

// spanPolicy ends tables at partition boundaries, so that compaction moves
// files instead of rewriting them and retention drops whole files. With many
// partitions it cuts per group of them, so that tables stay above 1 MiB.
func (db *DB) spanPolicy(start []byte) (pebble.SpanPolicy, []byte, error) {
	if !db.opened.Load() { // the flush of a replayed log: how many partitions it holds is not known
		return pebble.SpanPolicy{}, nextSpace(start), nil
	}
	return pebble.SpanPolicy{}, spanEnd(start, int(db.activePartitions.Load())), nil
}

// spanEnd returns where the table that begins with key start must end, or nil.
func spanEnd(start []byte, active int) []byte {
	p, _, err := keys.DecodeLog(start)
	if err != nil {
		return nextSpace(start)
	}
	group := spanGroup(active)
	if p.IsCompanion() {
		return keys.LogRange(keys.Partition{Topic: p.Topic, Number: -1}, 0, maxOffset).End
	}
	last := min(int64(p.Number)|int64(group-1), int64(maxPartition))
	return keys.LogRange(keys.Partition{Topic: p.Topic, Number: int32(last)}, 0, maxOffset).End
}

// spanGroup is the number of neighbouring partitions that share tables, a
// power of two.
func spanGroup(active int) int {
	n := (active + spansPerMemTable - 1) / spansPerMemTable
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len(uint(n-1))
}

// nextSpace returns the first key of the next key space.
func nextSpace(key []byte) []byte {
	if len(key) == 0 || key[0] == 0xff {
		return nil
	}
	return []byte{key[0] + 1}
}

// pebbleLogger turns Pebble's fatal errors into a failed store: the goroutine
// that met one is parked, as after a failed write, and the process lives.
type pebbleLogger struct{ db *DB }

func (l *pebbleLogger) Infof(string, ...any) {}

func (l *pebbleLogger) Errorf(format string, args ...any) {
	l.db.log(slog.LevelError, "pebble", "event", fmt.Sprintf(format, args...))
}

func (l *pebbleLogger) Fatalf(format string, args ...any) {
	l.db.fence.Trip(fmt.Errorf("pebble: "+format, args...))
	select {}
}

// pebbleEvents counts and logs what Pebble reports from the background. The
// callbacks run under Pebble's locks: they only touch counters and the logger.
func (db *DB) pebbleEvents() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			db.stats.backgroundErrors.Add(1)
			db.space.request() // it may be that the disk is full
			db.log(slog.LevelError, "background work failed", "err", err)
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			db.stats.corruptions.Add(1)
			db.log(slog.LevelError, "damaged table", "path", info.Path, "err", info.Details)
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			db.stats.stalls.Add(1)
			db.log(slog.LevelWarn, "writes stall", "reason", info.Reason)
		},
	}
}
