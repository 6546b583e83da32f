package engine

// Stats are a store's counters since Open. All only grow.
type Stats struct {
	// Commits counts atomic writes acknowledged, changes of topics among them; Sets and Messages what was
	// appended, WireBytes in v1 wire bytes, StoredBytes as stored values.
	Commits, Sets, Messages, WireBytes, StoredBytes uint64
	// Recompressions counts compressed frames that were compressed again:
	// for another codec or format, renumbered, or cut by a truncation. Appends
	// whose inner offsets are 0..n-1 cause none (SPEC 2.5).
	Recompressions uint64
	// Inflations counts compressed frames that were opened, to check or to read.
	Inflations uint64
	// ReadBytes counts the stored bytes of entries that were read as a whole, by
	// reads, fetches, searches and truncations. ReadHeaders adds nothing.
	ReadBytes uint64
	// Uncounted counts enriched wrappers that did not say how many messages they
	// hold, and had to be opened for it (SPEC 10.4).
	Uncounted uint64
	// Rolls counts segments sealed; RetainedSegments, RetainedMessages and
	// RetainedBytes (v1 wire bytes) what retention removed; Reclaims the
	// compactions that gave its space back.
	Rolls, RetainedSegments, RetainedMessages, RetainedBytes, Reclaims uint64
	// Compactions counts the passes of key compaction; CompactedMessages and
	// CompactedBytes (v1 wire bytes) what they removed, CompactionBytes what they
	// wrote.
	Compactions, CompactedMessages, CompactedBytes, CompactionBytes uint64
	// BackgroundErrors, Corruptions and Stalls count what Pebble reported:
	// background work that failed, damaged tables, and writes that had to wait.
	BackgroundErrors, Corruptions, Stalls uint64
	// Reads counts Read and Follow loops, ReadMessages what they yielded; Fetches
	// and FetchedBytes (v1 wire bytes) Fetch and AppendFetch; Searches OffsetFor.
	Reads, ReadMessages, Fetches, FetchedBytes, Searches uint64
	// PartitionsOpened counts the partitions read at their first use, IndexRows the
	// rows written to the time index, MaintenanceRuns the looks for due work.
	PartitionsOpened, IndexRows, MaintenanceRuns uint64
	// DiskFulls counts what was refused for a full disk.
	DiskFulls uint64
}

// Stats returns the counters; each is exact, together they are of about one
// moment. It may be called at any time, also after Close.
func (db *DB) Stats() Stats {
	if db == nil {
		return Stats{}
	}
	c := &db.stats
	return Stats{
		Commits: c.commits.Load(), Sets: c.sets.Load(), Messages: c.messages.Load(),
		WireBytes: c.wireBytes.Load(), StoredBytes: c.storedBytes.Load(),
		Recompressions: c.recompressions.Load(), Inflations: c.inflations.Load(), Uncounted: c.uncounted.Load(), ReadBytes: c.readBytes.Load(),
		Rolls: c.rolls.Load(), RetainedSegments: c.retainedSegments.Load(),
		RetainedMessages: c.retainedMessages.Load(), RetainedBytes: c.retainedBytes.Load(), Reclaims: c.reclaims.Load(),
		Compactions: c.compactions.Load(), CompactedMessages: c.compactedMsgs.Load(),
		CompactedBytes: c.compactedBytes.Load(), CompactionBytes: c.compactionBytes.Load(),
		BackgroundErrors: c.backgroundErrors.Load(), Corruptions: c.corruptions.Load(), Stalls: c.stalls.Load(),
		Reads: c.reads.Load(), ReadMessages: c.readMessages.Load(), Fetches: c.fetches.Load(),
		FetchedBytes: c.fetchedBytes.Load(), Searches: c.searches.Load(),
		PartitionsOpened: c.partitionsOpened.Load(), IndexRows: c.indexRows.Load(), MaintenanceRuns: c.maintenanceRuns.Load(),
		DiskFulls: c.diskFull.Load(),
	}
}
