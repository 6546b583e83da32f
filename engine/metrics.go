package engine

import (
	"github.com/cockroachdb/pebble/v2"
)

// Metrics are a store's numbers: what it did since Open, what it holds, and how
// Pebble underneath does. cairnprom gives them to Prometheus.
type Metrics struct {
	// Stats are the counters since Open.
	Stats
	// SyncLatency is how long groups of commits took to be on stable storage, in
	// nanoseconds by Options.Now, from when they were given to Pebble: what an
	// append waits for, but for the queue.
	SyncLatency Histogram
	// GroupSize is how many commits were answered together: by one sync under
	// SyncAlways.
	GroupSize Histogram

	// Topics and Partitions are what the store has. OpenPartitions counts the
	// partitions in use since Open, and Segments, SegmentMessages, SegmentBytes
	// (v1 wire bytes) and IndexRows (of the time index) sum up these: what was
	// never used is not read for its numbers.
	Topics, Partitions, OpenPartitions, Segments int
	SegmentMessages, SegmentBytes, IndexRows     int64

	// Failed says that the store takes no write any more (ErrFailed), DiskFull that
	// it takes no append (ErrDiskFull). DiskFree is what the file system had free
	// when it was asked last, -1 if that is not known, DiskReserve what stays free.
	Failed, DiskFull      bool
	DiskFree, DiskReserve int64

	// Pebble is zero after Close and on a failed store.
	Pebble PebbleMetrics
}

// PebbleMetrics are the numbers that tell whether Pebble keeps up.
type PebbleMetrics struct {
	// WALBytes is the size of the log files that are not in tables yet, WALWritten
	// what was written to log files since Open.
	WALBytes, WALWritten uint64
	// MemTables and MemTableBytes are the write buffers; at four appends wait.
	MemTables     int64
	MemTableBytes uint64
	// Flushes and Compactions count since Open; CompactionsFailed were tried
	// again. CompactionDebt estimates the bytes still to compact.
	Flushes, Compactions, CompactionsFailed, CompactionsRunning int64
	CompactionDebt                                              uint64
	// L0Files and L0Sublevels are of the top level: many mean that compaction is
	// behind. ReadAmp is how many places a read looks at.
	L0Files, L0Sublevels int64
	ReadAmp              int
	// Tables and TableBytes are the live tables; DiskBytes all files of Pebble's,
	// those to be removed included.
	Tables                int64
	TableBytes, DiskBytes uint64
	// CacheBytes is what the block cache holds, CacheHits and CacheMisses what was
	// asked of it.
	CacheBytes, CacheHits, CacheMisses int64
	// OpenIterators pin the files they read.
	OpenIterators int64
}

// Metrics returns the store's numbers. It may be called at any time, also after
// Close; it takes about a tenth of a microsecond for each open partition and
// holds up nothing. Each number is exact, together they are of about one moment.
func (db *DB) Metrics() Metrics {
	if db == nil || db.closed == nil {
		return Metrics{}
	}
	m := Metrics{Stats: db.Stats(), SyncLatency: db.stats.syncLatency.snapshot(), GroupSize: db.stats.groupSize.snapshot(),
		Failed: db.hasFailed(), DiskFull: db.space.full.Load(), DiskFree: db.space.free(), DiskReserve: db.space.reserve}
	for _, t := range db.Topics() {
		m.Topics++
		m.Partitions += int(t.Partitions())
		for _, p := range t.opened() {
			p.measure(&m)
		}
	}
	if pm := db.pebbleMetrics(); pm != nil {
		m.Pebble = pebbleNumbers(pm)
	}
	return m
}

// measure adds an open partition.
func (p *Partition) measure(m *Metrics) {
	if !p.loaded.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	m.OpenPartitions++
	m.Segments += len(p.mu.segments)
	m.SegmentBytes += p.mu.bytes
	for i := range p.mu.segments {
		m.SegmentMessages += p.mu.segments[i].Messages
		m.IndexRows += int64(p.mu.segments[i].IndexRows)
	}
}

// pebbleMetrics asks Pebble, unless it is closed or abandoned. Pebble's answer may
// park behind the fence, so it is given in a goroutine of its own; Close waits for
// it by the lock.
func (db *DB) pebbleMetrics() *pebble.Metrics {
	if db.hasFailed() {
		return nil
	}
	got := make(chan *pebble.Metrics, 1)
	err := db.unlessFailed(func() error {
		db.observing.Lock()
		defer db.observing.Unlock()
		if db.isClosed() {
			return ErrClosed
		}
		got <- db.pdb.Metrics()
		return nil
	})
	if err != nil { // closed or failed: there is nothing to tell
		return nil
	}
	return <-got
}

func pebbleNumbers(pm *pebble.Metrics) PebbleMetrics {
	total := pm.Total()
	return PebbleMetrics{
		WALBytes: pm.WAL.Size, WALWritten: pm.WAL.BytesWritten,
		MemTables: pm.MemTable.Count, MemTableBytes: pm.MemTable.Size,
		Flushes: pm.Flush.Count, Compactions: pm.Compact.Count, CompactionsFailed: pm.Compact.FailedCount,
		CompactionsRunning: pm.Compact.NumInProgress, CompactionDebt: pm.Compact.EstimatedDebt,
		L0Files: pm.Levels[0].TablesCount, L0Sublevels: int64(pm.Levels[0].Sublevels), ReadAmp: pm.ReadAmp(),
		Tables: total.TablesCount, TableBytes: uint64(total.TablesSize), DiskBytes: pm.DiskSpaceUsage(),
		CacheBytes: pm.BlockCache.Size, CacheHits: pm.BlockCache.Hits, CacheMisses: pm.BlockCache.Misses,
		OpenIterators: pm.TableIters,
	}
}
