package main

import (
	"context"
	"math"
	"time"

	"github.com/cairnlog/cairn/engine"
)

func init() {
	register(command{
		name: "metrics", group: inspectGroup,
		summary: "show what the store did since it was opened, and how Pebble does",
		details: `Counters begin at zero when the store is opened. Segments and index rows are of
the partitions used since then; stats reads all. Sync times are how long the disk
took for groups of commits, as the upper bound of a bucket that so many do not
exceed. A service gets the same numbers from DB.Metrics, Prometheus from cairnprom.`,
		examples: []string{"metrics", "metrics --json"},
		run:      runMetrics,
	})
}

func runMetrics(_ context.Context, s *session, a *arguments) error {
	db, err := s.store()
	if err != nil {
		return err
	}
	m := db.Metrics()
	return s.show(a, append(workRecord(&m), healthRecord(&m)...))
}

// workRecord is what was done.
func workRecord(m *engine.Metrics) record {
	return record{
		{name: "appends", value: m.Sets},
		{name: "messages", value: m.Messages},
		{name: "wire bytes", value: byteCount(m.WireBytes)},
		{name: "stored bytes", value: byteCount(m.StoredBytes)},
		{name: "commits", value: m.Commits},
		{name: "commits per sync", value: m.GroupSize.Mean()},
		{name: "sync p50", value: syncTime(m, 0.5)},
		{name: "sync p99", value: syncTime(m, 0.99)},
		{name: "reads", value: m.Reads},
		{name: "messages read", value: m.ReadMessages},
		{name: "fetches", value: m.Fetches},
		{name: "bytes fetched", value: byteCount(m.FetchedBytes)},
		{name: "searches", value: m.Searches},
		{name: "partitions open", value: m.OpenPartitions},
		{name: "segments", value: m.Segments},
		{name: "index rows", value: m.IndexRows},
		{name: "index rows written", value: m.Stats.IndexRows},
		{name: "segments rolled", value: m.Rolls},
		{name: "segments removed", value: m.RetainedSegments},
		{name: "messages removed", value: m.RetainedMessages},
		{name: "bytes removed", value: byteCount(m.RetainedBytes)},
		{name: "compaction passes", value: m.Compactions},
		{name: "messages compacted", value: m.CompactedMessages},
		{name: "bytes compacted", value: byteCount(m.CompactedBytes)},
	}
}

// healthRecord is how the store and Pebble do.
func healthRecord(m *engine.Metrics) record {
	p := &m.Pebble
	return record{
		{name: "failed", value: m.Failed},
		{name: "disk full", value: m.DiskFull},
		{name: "disk free", value: diskFree(m)},
		{name: "disk reserve", value: byteCount(m.DiskReserve)},
		{name: "write stalls", value: m.Stalls},
		{name: "background errors", value: m.BackgroundErrors},
		{name: "corruptions", value: m.Corruptions},
		{name: "log bytes", value: byteCount(p.WALBytes)},
		{name: "write buffer bytes", value: byteCount(p.MemTableBytes)},
		{name: "tables", value: p.Tables},
		{name: "table bytes", value: byteCount(p.TableBytes)},
		{name: "L0 files", value: p.L0Files},
		{name: "L0 sublevels", value: p.L0Sublevels},
		{name: "read amplification", value: p.ReadAmp},
		{name: "table compactions", value: p.Compactions},
		{name: "cache hits", value: p.CacheHits},
		{name: "cache misses", value: p.CacheMisses},
		{name: "disk bytes", value: byteCount(p.DiskBytes)},
	}
}

// diskFree is nil if it is not known.
func diskFree(m *engine.Metrics) any {
	if m.DiskFree < 0 {
		return nil
	}
	return byteCount(m.DiskFree)
}

// syncTime is a quantile of the sync times; nil if it is not known.
func syncTime(m *engine.Metrics, q float64) any {
	at := m.SyncLatency.Quantile(q)
	if m.SyncLatency.Count() == 0 || at == math.MaxInt64 {
		return nil
	}
	return time.Duration(at)
}
