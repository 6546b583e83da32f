package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// requireNothingLate runs maintenance at the present and walks over all
// partitions: nothing may be left to do. The second run is for what the first
// made possible.
func (s *store) requireNothingLate(partitions []*engine.Partition, doing string) {
	s.t.Helper()
	s.maintain()
	s.clock.add(1)
	s.maintain()
	for _, p := range partitions {
		r, err := p.Retain(s.t.Context(), engine.RetainOptions{DryRun: true})
		require.NoError(s.t, err)
		require.Zero(s.t, r.Segments, "%s, after %s: the alarm rings late: %+v", p, doing, r)
		require.False(s.t, r.Rolled, "%s, after %s: the alarm rings late: %+v", p, doing, r)
	}
}

// DeleteBefore can take away the segment that pinned the others: the message
// from the future is gone and the rest is old.
func TestAlarmAfterDeleteBeforeOfAPinningSegment(t *testing.T) {
	s := newStore(t)
	p := s.log(expiring(1, maxAge(1000)))
	leadEach(t, p, t0+1e9, t0, t0)
	deleteBefore(t, p, 1)
	s.clock.set(t0 + 1001)
	s.requireNothingLate([]*engine.Partition{p}, "DeleteBefore")
}

// The same by hand: Retain by size.
func TestAlarmAfterRetainOfAPinningSegment(t *testing.T) {
	s := newStore(t)
	p := s.log(expiring(1, limits(1000, 200)))
	leadEach(t, p, t0+1e9, t0, t0)
	require.Equal(t, 1, retained(t, p).BySize)
	s.clock.set(t0 + 1001)
	s.requireNothingLate([]*engine.Partition{p}, "Retain")
}

// A log grows beyond retention.bytes by small appends to an active segment.
func TestAlarmOfALogThatGrows(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{SegmentBytes: 1000, Retention: maxBytes(1500)})
	for i := range 26 {
		lead(t, p, t0)
		s.requireNothingLate([]*engine.Partition{p}, fmt.Sprint("append ", i))
	}
}

// A segment without timestamps goes by the clock until a message brings one, an
// old one.
func TestAlarmAfterTheFirstTimestampOfASegment(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{Retention: maxAge(1000)})
	leadEach(t, p, none, 5)
	s.requireNothingLate([]*engine.Partition{p}, "append")
}

// The clock steps back: an append makes the segment idle from then on.
func TestAlarmAfterTheClockWentBack(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{SegmentAge: ms(1000), Retention: maxAge(1500)})
	s.clock.set(t0 + 1e6)
	lead(t, p, none)
	s.clock.set(t0)
	lead(t, p, none)
	s.clock.set(t0 + 1501)
	s.requireNothingLate([]*engine.Partition{p}, "append")
}

// SPEC 6.6: a segment wholly below the log start goes once another follows it.
func TestAlarmAfterARollAboveTheLogStart(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	leadEach(t, p, t0, t0)
	deleteBefore(t, p, 2)
	require.NoError(t, p.Roll(t.Context()))
	s.requireNothingLate([]*engine.Partition{p}, "Roll")
}

// Truncation makes an older segment active, a reset clears everything.
func TestAlarmAfterTruncation(t *testing.T) {
	s := newStore(t)
	config := expiring(2, maxAge(1e6))
	config.SegmentAge = ms(1000)
	p := s.log(config)
	leadEach(t, p, t0, t0, t0+500, t0+500)
	truncate(t, p, 2)
	s.clock.set(t0 + 1001)
	s.requireNothingLate([]*engine.Partition{p}, "TruncateTo")
	require.NoError(t, p.ResetTo(t.Context(), 7))
	lead(t, p, t0)
	s.clock.set(t0 + 1e6 + 1)
	s.requireNothingLate([]*engine.Partition{p}, "ResetTo")
}

// Alarms never ring late: random appends, rolls, removals, settings, clocks and
// reopenings, and after each a walk over everything.
func TestAlarmsNeverRingLate(t *testing.T) {
	rng := seeded(t)
	for range rounds(t, 40) {
		alarmHistory(t, rng)
	}
}

func alarmHistory(t *testing.T, rng *rand.Rand) {
	t.Helper()
	s := newStore(t)
	const topics = 3
	configs := make([]engine.TopicConfig, topics)
	partitions := make([]*engine.Partition, topics)
	for i := range topics {
		configs[i] = randomExpiry(rng)
		partitions[i] = s.named(fmt.Sprint("t", i), configs[i])
	}
	for range 25 {
		i := rng.IntN(topics)
		p := partitions[i]
		now := s.clock.read()
		doing := ""
		switch rng.IntN(12) {
		case 0, 1, 2, 3, 4:
			ts := [...]codec.Timestamp{none, now, now - codec.Timestamp(rng.IntN(3000)), now + codec.Timestamp(rng.IntN(3000))}[rng.IntN(4)]
			doing = fmt.Sprintf("append of %d", int64(ts))
			lead(t, p, ts)
		case 5:
			doing = "Roll"
			require.NoError(t, p.Roll(t.Context()))
		case 6:
			doing = "TruncateTo"
			truncate(t, p, rng.Int64N(end(t, p)+1))
		case 7:
			doing = "DeleteBefore"
			_, err := p.DeleteBefore(t.Context(), rng.Int64N(end(t, p)+1))
			require.NoError(t, err)
		case 8:
			doing = "Retain"
			_, err := p.Retain(t.Context(), engine.RetainOptions{})
			require.NoError(t, err)
		case 9:
			doing = "AlterTopic"
			configs[i] = randomExpiry(rng)
			require.NoError(t, s.AlterTopic(p.Topic(), casesConfig(configs[i])))
		case 10:
			doing = "reopening"
			s.reopen()
			for i := range partitions {
				partitions[i] = s.named(fmt.Sprint("t", i), configs[i])
			}
		default:
			doing = "time"
			s.clock.add(codec.Timestamp(rng.IntN(2500)))
		}
		if rng.IntN(2) == 0 {
			s.requireNothingLate(partitions, doing)
		}
	}
	require.NoError(t, s.Close())
}

// randomExpiry is random settings of retention and rolling.
func randomExpiry(rng *rand.Rand) engine.TopicConfig {
	policy := limits([...]int64{-1, 0, 500, 1000, 3000}[rng.IntN(5)], [...]int64{-1, -1, 100, 350, 1000}[rng.IntN(5)])
	policy.ClampFuture = rng.IntN(3) == 0
	c := engine.TopicConfig{
		SegmentBytes: [...]int64{100, 300, 1000, 1 << 20}[rng.IntN(4)],
		SegmentAge:   [...]time.Duration{0, ms(700), ms(2000)}[rng.IntN(3)],
		Retention:    policy,
	}
	if c.SegmentAge != 0 && rng.IntN(2) == 0 {
		c.SegmentJitter = c.SegmentAge / 2
	}
	if rng.IntN(6) == 0 {
		c.CleanupPolicy, c.MinCleanableRatio = engine.CleanupCompactDelete, 1 // retention alone
	}
	return c
}
