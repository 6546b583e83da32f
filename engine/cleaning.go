package engine

import (
	"fmt"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/compaction"
	"github.com/cairnlog/cairn/retention"
)

// seldom is the state of a partition that most partitions do without.
type seldom struct {
	// cutAt is where the last truncation cut.
	cutAt int64
	// cleaned is how far compaction came, nil before its first step. It is
	// replaced, not changed.
	cleaned *cleaned
	// transactions is nil before the first transaction.
	transactions *transactions
	// epochs is the newest leader epoch plus one; 0 without one.
	epochs int32
	// holes: a repair took entries out, or found some missing.
	holes bool
}

// cleaned is how far compaction came in a log, in its state row.
type cleaned struct {
	// CleanPoint is compaction's; a cut lowers it (SPEC 9.14).
	CleanPoint int64 `msgpack:"cp"`
	// TombstoneDue is when the first tombstone may go, retention.Never for none.
	TombstoneDue codec.Timestamp `msgpack:"td"`
}

func (c *cleaned) check() error {
	if c != nil && (c.CleanPoint < 0 || c.TombstoneDue < retention.Never) {
		return fmt.Errorf("clean point %d, tombstones due %d", c.CleanPoint, int64(c.TombstoneDue))
	}
	return nil
}

func (p *Partition) seldomLocked() *seldom {
	if p.mu.seldom == nil {
		p.mu.seldom = new(seldom)
	}
	return p.mu.seldom
}

// soil lowers the clean point to where a cut log's active segment begins: what is
// in it may be clean, but a pass that seals it again must look for tombstones.
func (s *seldom) soil(active int64) {
	if c := s.cleaned; c != nil && c.CleanPoint > active {
		s.cleaned = &cleaned{active, c.TombstoneDue}
	}
}

// planLocked plans a compaction pass. p.mu is held.
func (p *Partition) planLocked(b retention.Bounds, now codec.Timestamp) compaction.Plan {
	b.HighWatermark = p.stableLocked(b.HighWatermark) // what is not decided yet may go
	log := compaction.Log{Partition: p.id(), Segments: p.mu.segments, Bounds: b, TombstoneDue: retention.Never}
	if s := p.mu.seldom; s != nil && s.cleaned != nil {
		log.CleanPoint, log.TombstoneDue = s.cleaned.CleanPoint, s.cleaned.TombstoneDue
	}
	return compaction.PlanOf(log, p.topic.settings().compactionPolicy(), now)
}

// compactionDueLocked returns when a compaction pass will be worth it: zero if it
// is. p.mu is held.
func (p *Partition) compactionDueLocked() codec.Timestamp {
	if !p.topic.settings().cleanupCompact || len(p.mu.segments) == 1 {
		return retention.Never
	}
	bounds := p.boundsLocked()
	bounds.HighWatermark = bounds.End // what is not durable yet will be
	return p.planLocked(bounds, p.topic.db.now()).Due
}

// offerLocked hands the partition to the compactor if a pass is worth it, and
// returns when to ask again. p.mu is held.
func (p *Partition) offerLocked(now codec.Timestamp) codec.Timestamp {
	if !p.topic.settings().cleanupCompact || len(p.mu.segments) == 1 {
		return retention.Never
	}
	if plan := p.planLocked(p.boundsLocked(), now); plan.Eligible {
		return p.topic.db.compactor.offer(p, plan.Ratio, now)
	}
	return p.compactionDueLocked()
}
