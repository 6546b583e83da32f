package cairnprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairnlog/cairn/engine"
)

// number is one of the store's numbers as a series.
type number struct {
	name, help string
	kind       prometheus.ValueType
	value      func(*engine.Metrics) float64
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// numbers are all but the histograms.
var numbers = []number{
	{"cairn_commits_total", "Atomic writes acknowledged.", counter, func(m *engine.Metrics) float64 { return float64(m.Commits) }},
	{"cairn_appends_total", "Message sets appended.", counter, func(m *engine.Metrics) float64 { return float64(m.Sets) }},
	{"cairn_appended_messages_total", "Messages appended.", counter, func(m *engine.Metrics) float64 { return float64(m.Messages) }},
	{"cairn_appended_bytes_total", "Bytes appended, in v1 wire bytes.", counter, func(m *engine.Metrics) float64 { return float64(m.WireBytes) }},
	{"cairn_stored_bytes_total", "Bytes appended, as stored.", counter, func(m *engine.Metrics) float64 { return float64(m.StoredBytes) }},
	{"cairn_recompressions_total", "Compressed frames that were compressed again.", counter, func(m *engine.Metrics) float64 { return float64(m.Recompressions) }},
	{"cairn_inflations_total", "Compressed frames that were opened, to check or to read.", counter, func(m *engine.Metrics) float64 { return float64(m.Inflations) }},
	{"cairn_uncounted_wrappers_total", "Enriched wrappers that had to be opened to count their messages.", counter, func(m *engine.Metrics) float64 { return float64(m.Uncounted) }},
	{"cairn_read_bytes_total", "Stored bytes of entries that were read as a whole.", counter, func(m *engine.Metrics) float64 { return float64(m.ReadBytes) }},
	{"cairn_reads_total", "Read and Follow loops begun.", counter, func(m *engine.Metrics) float64 { return float64(m.Reads) }},
	{"cairn_read_messages_total", "Messages that Read and Follow yielded.", counter, func(m *engine.Metrics) float64 { return float64(m.ReadMessages) }},
	{"cairn_fetches_total", "Fetches in the wire format.", counter, func(m *engine.Metrics) float64 { return float64(m.Fetches) }},
	{"cairn_fetched_bytes_total", "Bytes fetched, in v1 wire bytes.", counter, func(m *engine.Metrics) float64 { return float64(m.FetchedBytes) }},
	{"cairn_searches_total", "Searches by time.", counter, func(m *engine.Metrics) float64 { return float64(m.Searches) }},
	{"cairn_partitions_opened_total", "Partitions read at their first use.", counter, func(m *engine.Metrics) float64 { return float64(m.PartitionsOpened) }},
	{"cairn_index_rows_written_total", "Rows written to the time index.", counter, func(m *engine.Metrics) float64 { return float64(m.Stats.IndexRows) }},
	{"cairn_segment_rolls_total", "Segments sealed.", counter, func(m *engine.Metrics) float64 { return float64(m.Rolls) }},
	{"cairn_maintenance_runs_total", "Looks for due work.", counter, func(m *engine.Metrics) float64 { return float64(m.MaintenanceRuns) }},
	{"cairn_retention_segments_total", "Segments removed by retention.", counter, func(m *engine.Metrics) float64 { return float64(m.RetainedSegments) }},
	{"cairn_retention_messages_total", "Messages removed by retention.", counter, func(m *engine.Metrics) float64 { return float64(m.RetainedMessages) }},
	{"cairn_retention_bytes_total", "Bytes removed by retention, in v1 wire bytes.", counter, func(m *engine.Metrics) float64 { return float64(m.RetainedBytes) }},
	{"cairn_reclaims_total", "Compactions that gave the space of removed data back.", counter, func(m *engine.Metrics) float64 { return float64(m.Reclaims) }},
	{"cairn_compaction_passes_total", "Passes of key compaction.", counter, func(m *engine.Metrics) float64 { return float64(m.Compactions) }},
	{"cairn_compaction_messages_total", "Messages removed by key compaction.", counter, func(m *engine.Metrics) float64 { return float64(m.CompactedMessages) }},
	{"cairn_compaction_bytes_total", "Bytes removed by key compaction, in v1 wire bytes.", counter, func(m *engine.Metrics) float64 { return float64(m.CompactedBytes) }},
	{"cairn_compaction_written_bytes_total", "Bytes written by key compaction.", counter, func(m *engine.Metrics) float64 { return float64(m.CompactionBytes) }},
	{"cairn_background_errors_total", "Background work of Pebble that failed.", counter, func(m *engine.Metrics) float64 { return float64(m.BackgroundErrors) }},
	{"cairn_corruptions_total", "Damaged tables found.", counter, func(m *engine.Metrics) float64 { return float64(m.Corruptions) }},
	{"cairn_write_stalls_total", "Times that writes had to wait for Pebble.", counter, func(m *engine.Metrics) float64 { return float64(m.Stalls) }},
	{"cairn_disk_full_refusals_total", "Appends refused for a full disk.", counter, func(m *engine.Metrics) float64 { return float64(m.DiskFulls) }},
	{"cairn_pebble_wal_written_bytes_total", "Bytes written to Pebble's log files.", counter, func(m *engine.Metrics) float64 { return float64(m.Pebble.WALWritten) }},
	{"cairn_pebble_flushes_total", "Write buffers made into tables.", counter, func(m *engine.Metrics) float64 { return float64(m.Pebble.Flushes) }},
	{"cairn_pebble_compactions_total", "Compactions of tables.", counter, func(m *engine.Metrics) float64 { return float64(m.Pebble.Compactions) }},
	{"cairn_pebble_compactions_failed_total", "Compactions of tables that failed.", counter, func(m *engine.Metrics) float64 { return float64(m.Pebble.CompactionsFailed) }},
	{"cairn_pebble_cache_hits_total", "Blocks found in the block cache.", counter, func(m *engine.Metrics) float64 { return float64(m.Pebble.CacheHits) }},
	{"cairn_pebble_cache_misses_total", "Blocks not found in the block cache.", counter, func(m *engine.Metrics) float64 { return float64(m.Pebble.CacheMisses) }},

	{"cairn_topics", "Topics of the store.", gauge, func(m *engine.Metrics) float64 { return float64(m.Topics) }},
	{"cairn_partitions", "Partitions of the store.", gauge, func(m *engine.Metrics) float64 { return float64(m.Partitions) }},
	{"cairn_open_partitions", "Partitions in use since the store was opened.", gauge, func(m *engine.Metrics) float64 { return float64(m.OpenPartitions) }},
	{"cairn_segments", "Segments of the open partitions.", gauge, func(m *engine.Metrics) float64 { return float64(m.Segments) }},
	{"cairn_segment_messages", "Messages in the segments of the open partitions.", gauge, func(m *engine.Metrics) float64 { return float64(m.SegmentMessages) }},
	{"cairn_segment_bytes", "Bytes in the segments of the open partitions, in v1 wire bytes.", gauge, func(m *engine.Metrics) float64 { return float64(m.SegmentBytes) }},
	{"cairn_index_rows", "Rows in the time index of the open partitions.", gauge, func(m *engine.Metrics) float64 { return float64(m.IndexRows) }},
	{"cairn_disk_free_bytes", "Bytes free in the file system, -1 if unknown.", gauge, func(m *engine.Metrics) float64 { return float64(m.DiskFree) }},
	{"cairn_disk_reserve_bytes", "Bytes that appends leave free.", gauge, func(m *engine.Metrics) float64 { return float64(m.DiskReserve) }},
	{"cairn_pebble_wal_bytes", "Size of the log files that are not in tables yet.", gauge, func(m *engine.Metrics) float64 { return float64(m.Pebble.WALBytes) }},
	{"cairn_pebble_memtables", "Write buffers.", gauge, func(m *engine.Metrics) float64 { return float64(m.Pebble.MemTables) }},
	{"cairn_pebble_memtable_bytes", "Size of the write buffers.", gauge, func(m *engine.Metrics) float64 { return float64(m.Pebble.MemTableBytes) }},
	{"cairn_pebble_compactions_running", "Compactions of tables under way.", gauge, func(m *engine.Metrics) float64 { return float64(m.Pebble.CompactionsRunning) }},
	{"cairn_pebble_compaction_debt_bytes", "Estimated bytes still to compact.", gauge, func(m *engine.Metrics) float64 { return float64(m.Pebble.CompactionDebt) }},
	{"cairn_pebble_l0_files", "Tables in the top level.", gauge, func(m *engine.Metrics) float64 { return float64(m.Pebble.L0Files) }},
	{"cairn_pebble_l0_sublevels", "Sublevels of the top level.", gauge, func(m *engine.Metrics) float64 { return float64(m.Pebble.L0Sublevels) }},
	{"cairn_pebble_read_amplification", "Places that a read looks at.", gauge, func(m *engine.Metrics) float64 { return float64(m.Pebble.ReadAmp) }},
	{"cairn_pebble_tables", "Live tables.", gauge, func(m *engine.Metrics) float64 { return float64(m.Pebble.Tables) }},
	{"cairn_pebble_table_bytes", "Size of the live tables.", gauge, func(m *engine.Metrics) float64 { return float64(m.Pebble.TableBytes) }},
	{"cairn_pebble_disk_bytes", "Size of all files of Pebble.", gauge, func(m *engine.Metrics) float64 { return float64(m.Pebble.DiskBytes) }},
	{"cairn_pebble_cache_bytes", "Bytes in the block cache.", gauge, func(m *engine.Metrics) float64 { return float64(m.Pebble.CacheBytes) }},
	{"cairn_pebble_open_iterators", "Open iterators over tables.", gauge, func(m *engine.Metrics) float64 { return float64(m.Pebble.OpenIterators) }},
	{"cairn_failed", "1 if the store takes no write any more.", gauge, func(m *engine.Metrics) float64 { return flag(m.Failed) }},
	{"cairn_disk_full", "1 if the store takes no append for want of disk space.", gauge, func(m *engine.Metrics) float64 { return flag(m.DiskFull) }},
}

func flag(set bool) float64 {
	if set {
		return 1
	}
	return 0
}
