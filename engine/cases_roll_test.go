package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/retention"
)

var hourly = engine.TopicConfig{SegmentAge: ms(int64(hour))}

// Case R01: a segment rolls when the set does not fit; a set is never split.
func TestR01SizeRoll(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{SegmentBytes: 300})
	for _, step := range []struct {
		messages int
		bases    []int64
	}{{2, []int64{0}}, {2, []int64{0, 2}}, {1, []int64{0, 2}}, {3, []int64{0, 2, 5}}, {1, []int64{0, 2, 5, 8}}} {
		lead(t, p, make([]codec.Timestamp, step.messages)...)
		require.Equal(t, step.bases, bases(t, p))
	}
	require.Equal(t, []int64{200, 300, 300, 100}, segmentSizes(t, p))
	s.reopen()
	require.Equal(t, []int64{0, 2, 5, 8}, bases(t, s.log(engine.TopicConfig{})))
}

// Case R02 a: a replay of old messages does not roll by time.
func TestR02ReplayDoesNotRoll(t *testing.T) {
	s := newStore(t)
	p := s.log(hourly)
	for i := range codec.Timestamp(100) {
		lead(t, p, t0-240*hour+i)
	}
	require.Equal(t, []int64{0}, bases(t, p))
}

// Case R02 b: an idle segment rolls strictly after segment.ms.
func TestR02IdleSegmentRolls(t *testing.T) {
	s := newStore(t)
	p := s.log(hourly)
	lead(t, p, t0)
	s.clock.add(hour)
	lead(t, p, t0+hour)
	require.Equal(t, []int64{0}, bases(t, p))
	s.clock.add(hour + 1)
	lead(t, p, t0+hour+1)
	require.Equal(t, []int64{0, 2}, bases(t, p))
}

// Case R04, SPEC 7.2: time rolls with and without timestamps.
func TestR04TimeRollsWithAndWithoutTimestamps(t *testing.T) {
	s := newStore(t)
	p := s.log(hourly)
	var x codec.Timestamp
	for i, step := range []struct {
		wait     codec.Timestamp
		ts       func() codec.Timestamp
		segments int
	}{
		{hour + 1, func() codec.Timestamp { return none }, 1},
		{0, func() codec.Timestamp { return none }, 1},
		{hour + 1, func() codec.Timestamp { return none }, 2},
		{hour + 1, func() codec.Timestamp { return none }, 3},
		{hour + 1, func() codec.Timestamp { x = s.clock.read() + hour + 1; return x }, 4},
		{hour + 1, func() codec.Timestamp { return x }, 4},
		{hour + 1, func() codec.Timestamp { return x }, 5},
		{0, func() codec.Timestamp { return s.clock.read() }, 6},
	} {
		s.clock.add(step.wait)
		lead(t, p, step.ts())
		require.Len(t, bases(t, p), step.segments, "step %d", i+1)
	}
}

// Case R05: late appends without a timestamp roll by the idle rule; -1 is no end
// of a span.
func TestR05NoTimestampIsNoSpan(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{SegmentAge: ms(1000)})
	lead(t, p, t0)
	for range 2 {
		s.clock.add(365 * 24 * hour)
		lead(t, p, none)
	}
	require.Equal(t, []int64{0, 1, 2}, bases(t, p))
}

// Case R07: the set's largest timestamp decides, before the set.
func TestR07LargestTimestampOfTheSetDecides(t *testing.T) {
	s := newStore(t)
	p := s.log(hourly)
	lead(t, p, t0)
	lead(t, p, t0+1, t0+hour+1)
	require.Equal(t, []int64{0, 1}, bases(t, p))
}

// Case R08: the jitter of a segment is drawn once.
func TestR08JitterIsFixedPerSegment(t *testing.T) {
	s := newStore(t)
	var name string
	for i := 0; retention.Jitter(name, 0, 0, 1000, 1000) != 200; i++ {
		name = fmt.Sprintf("jitter-%d", i)
	}
	config := engine.TopicConfig{SegmentAge: ms(1000), SegmentJitter: ms(1000)}
	p := s.named(name, config)
	lead(t, p, t0)
	lead(t, p, t0+800)
	require.Equal(t, []int64{0}, bases(t, p))
	s.reopen()
	p = s.named(name, config)
	lead(t, p, t0+801)
	require.Equal(t, []int64{0, 2}, bases(t, p))
}

// Case R10, for a leader: rolling twice without an append between makes one base.
func TestR10RollingTwiceMakesOneSegment(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	require.NoError(t, p.Roll(t.Context()))
	require.Equal(t, []int64{0}, bases(t, p))
	lead(t, p, t0)
	require.NoError(t, p.Roll(t.Context()))
	require.NoError(t, p.Roll(t.Context()))
	require.Equal(t, []int64{0, 1}, bases(t, p))
	s.reopen()
	p = s.log(engine.TopicConfig{})
	require.NoError(t, p.Roll(t.Context()))
	require.Equal(t, []int64{0, 1}, bases(t, p))
	require.EqualValues(t, 1, lead(t, p, t0))
}

// Case R11: one message of the far future freezes time rolls; size rolls go on.
func TestR11FutureMessageFreezesTimeRolls(t *testing.T) {
	s := newStore(t)
	p := s.log(hourly)
	future := t0 + 100*hour
	for _, step := range []struct {
		ts    codec.Timestamp
		bases []int64
	}{
		{t0, []int64{0}}, {future, []int64{0, 1}}, {t0 + 1, []int64{0, 1}}, {t0 + 50*hour, []int64{0, 1}},
		{future + hour, []int64{0, 1}}, {future + hour + 1, []int64{0, 1, 5}},
	} {
		lead(t, p, step.ts)
		require.Equal(t, step.bases, bases(t, p))
	}
	s.alter(engine.TopicConfig{SegmentAge: ms(int64(hour)), SegmentBytes: 200})
	leadEach(t, p, t0, t0)
	require.Equal(t, []int64{0, 1, 5, 7}, bases(t, p))
}

// SPEC 5.2.8: a full time index rolls the segment, its last slot kept for the
// closing row.
func TestFullTimeIndexRolls(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{IndexIntervalBytes: engine.ExplicitZero, SegmentIndexBytes: 4 * retention.IndexRowBytes})
	for i := range codec.Timestamp(8) {
		lead(t, p, t0+i)
	}
	require.Equal(t, []int64{0, 3, 6}, bases(t, p))
}

// SPEC 7.1.1: filling a segment exactly does not roll.
func TestExactlyFullSegmentDoesNotRoll(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{SegmentBytes: 300})
	leadEach(t, p, t0, t0, t0)
	require.Equal(t, []int64{0}, bases(t, p))
	lead(t, p, t0)
	require.Equal(t, []int64{0, 3}, bases(t, p))
}

// SPEC 7.2.9: an older message after a newer first one never rolls.
func TestNegativeSpanDoesNotRoll(t *testing.T) {
	s := newStore(t)
	p := s.log(hourly)
	leadEach(t, p, t0, 0)
	require.Equal(t, []int64{0}, bases(t, p))
}

// SPEC C35, S57: what rolls count from outlives a reopen.
func TestRollAnchorsOutliveAReopen(t *testing.T) {
	s := newStore(t)
	config := engine.TopicConfig{SegmentAge: ms(1000)}
	lead(t, s.log(config), t0)
	lead(t, s.log(config), t0+900)
	s.reopen()
	p := s.log(config)
	lead(t, p, t0+1000)
	require.Equal(t, []int64{0}, bases(t, p))
	s.reopen()
	p = s.log(config)
	lead(t, p, t0+1001)
	require.Equal(t, []int64{0, 3}, bases(t, p))
}
