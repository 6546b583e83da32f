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
}

func (c *counters) appended(prep *prepared) {
	c.sets.Add(1)
	c.messages.Add(uint64(prep.messages))
	c.wireBytes.Add(uint64(prep.wire))
	c.storedBytes.Add(uint64(prep.stored))
}
