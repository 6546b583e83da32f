package engine

import "sync/atomic"

// counters are the store's own numbers. All only grow.
type counters struct {
	commits          atomic.Uint64
	messages         atomic.Uint64
	sets             atomic.Uint64
	wireBytes        atomic.Uint64
	storedBytes      atomic.Uint64
	recompressions   atomic.Uint64
	inflations       atomic.Uint64
	uncounted        atomic.Uint64
	readBytes        atomic.Uint64
	rolls            atomic.Uint64
	reclaims         atomic.Uint64
	retainedSegments atomic.Uint64
	retainedMessages atomic.Uint64
	retainedBytes    atomic.Uint64
	compactions      atomic.Uint64
	compactedMsgs    atomic.Uint64
	compactedBytes   atomic.Uint64
	compactionBytes  atomic.Uint64
	backgroundErrors atomic.Uint64
	corruptions      atomic.Uint64
	stalls           atomic.Uint64
	reads            atomic.Uint64
	readMessages     atomic.Uint64
	fetches          atomic.Uint64
	fetchedBytes     atomic.Uint64
	searches         atomic.Uint64
	partitionsOpened atomic.Uint64
	indexRows        atomic.Uint64
	maintenanceRuns  atomic.Uint64
	diskFull         atomic.Uint64

	syncLatency, groupSize histogram
}

func (c *counters) init() {
	c.syncLatency.bounds, c.groupSize.bounds = syncBounds, groupBounds
}

func (c *counters) appended(prep *prepared) {
	c.sets.Add(1)
	c.messages.Add(uint64(prep.messages))
	c.wireBytes.Add(uint64(prep.wire))
	c.storedBytes.Add(uint64(prep.stored))
}
