package compaction_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/compaction"
	"github.com/cairnlog/cairn/retention"
)

// sealed makes a log of segments of the given largest timestamps, 300 bytes and
// ten offsets each, and an empty active one.
func sealed(largest ...codec.Timestamp) compaction.Log {
	l := compaction.Log{TombstoneDue: retention.Never}
	for i, ts := range largest {
		s := retention.NewSegment(int64(10 * i))
		s.End, s.Bytes, s.Entries, s.Sealed = s.Base+10, 300, 3, true
		s.MaxTimestamp, s.LastAppend = ts, 100
		l.Segments = append(l.Segments, s)
	}
	end := int64(10 * len(largest))
	l.Segments = append(l.Segments, retention.NewSegment(end))
	l.Bounds = retention.Bounds{HighWatermark: end, End: end}
	return l
}

// C07: the ratio is exceeded strictly, and nothing of nothing is no ratio.
func TestC07DirtyRatio(t *testing.T) {
	l := sealed(1, 1)
	l.CleanPoint = 10
	for threshold, eligible := range map[float64]bool{0.5: false, 0.49: true, math.Nextafter(0.5, 0): true, 0: true, 1: false} {
		p := compaction.PlanOf(l, compaction.Policy{MinCleanableRatio: threshold}, 0)
		require.Equal(t, eligible, p.Eligible, "%g", threshold)
		require.True(t, p.Work)
		require.EqualValues(t, 300, p.CleanBytes)
		require.EqualValues(t, 300, p.CleanableBytes)
		require.Equal(t, 0.5, p.Ratio)
		require.Equal(t, !eligible, p.Reason == compaction.BelowRatio)
		require.Equal(t, !eligible, p.Due == retention.Never)
	}
	l.Segments[2].Bytes, l.Segments[2].Entries = 1<<40, 1
	require.Equal(t, 0.5, compaction.PlanOf(l, compaction.Policy{}, 0).Ratio, "active bytes count in neither")

	empty := sealed(-1, -1)
	empty.Segments[0].Bytes, empty.Segments[1].Bytes = 0, 0
	p := compaction.PlanOf(empty, compaction.Policy{}, 0)
	require.False(t, p.Eligible)
	require.Zero(t, p.Ratio)
	require.Equal(t, compaction.Clean, p.Reason)
	require.False(t, compaction.PlanOf(sealed(), compaction.Policy{}, 0).Work)
	require.False(t, compaction.PlanOf(compaction.Log{}, compaction.Policy{}, 0).Work)
}

func TestFirstDirty(t *testing.T) {
	for _, c := range []struct{ cleanPoint, start, want int64 }{
		{0, 0, 0},
		{10, 0, 10},
		{10, 15, 15}, // the log start passed it
		{30, 5, 30},  // the log's end
		{31, 5, 5},   // beyond it: stale, says nothing
		{7, 0, 7},    // within a segment: after a cut, or a full map
	} {
		l := sealed(1, 1, 1)
		l.CleanPoint, l.Bounds.Start = c.cleanPoint, c.start
		require.Equal(t, c.want, compaction.PlanOf(l, compaction.Policy{}, 0).FirstDirty, "%+v", c)
	}
	l := sealed(1, 1, 1)
	l.CleanPoint = 7
	p := compaction.PlanOf(l, compaction.Policy{}, 0)
	require.Zero(t, p.CleanBytes, "a segment that is dirty in part counts as dirty")
	require.EqualValues(t, 900, p.CleanableBytes)
}

// SPEC 9.3 at every border.
func TestLagBorders(t *testing.T) {
	for _, c := range []struct {
		largest []codec.Timestamp
		lag     int64
		now     codec.Timestamp
		clean   int64
		end     int64
		due     codec.Timestamp
	}{
		{[]codec.Timestamp{100, 200, 50}, 0, 0, 0, 30, 0},     // off
		{[]codec.Timestamp{100, 200, 50}, 10, 210, 0, 30, 0},  // 200 > 210-10 is false
		{[]codec.Timestamp{100, 200, 50}, 10, 209, 0, 10, 0},  // and now true; 50 stays behind it
		{[]codec.Timestamp{100, 200, 50}, 10, 109, 0, 0, 110}, // nothing at all
		{[]codec.Timestamp{100, 200, 50}, 10, 209, 20, 30, 0}, // clean segments are not asked
		{[]codec.Timestamp{-1}, 10, 110, 0, 10, 0},            // no timestamps: the last append
		{[]codec.Timestamp{-1}, 10, 109, 0, 0, 110},           //
		{[]codec.Timestamp{0}, 10, 9, 0, 0, 10},               // 0 is a timestamp
		{[]codec.Timestamp{5}, math.MaxInt64, 1 << 62, 0, 0, retention.Never},
		{[]codec.Timestamp{math.MaxInt64}, 1, math.MaxInt64, 0, 0, retention.Never},
		{[]codec.Timestamp{5}, math.MaxInt64, math.MinInt64, 0, 0, retention.Never},
	} {
		l := sealed(c.largest...)
		l.CleanPoint = c.clean
		p := compaction.PlanOf(l, compaction.Policy{MinLagMs: c.lag}, c.now)
		require.Equal(t, c.end, p.EndCleanable, "%+v", c)
		require.Equal(t, c.due, p.Due, "%+v", c)
		require.Equal(t, c.end == 0, p.Reason == compaction.Lagging, "%+v", c)
	}
}

// A newer message that a failover may take away does not cost the older one.
func TestNothingAboveHighWatermarkIsCleaned(t *testing.T) {
	l := sealed(1, 1, 1)
	for hw, end := range map[int64]int64{30: 30, 29: 20, 20: 20, 19: 10, 0: 0} {
		l.Bounds.HighWatermark = hw
		p := compaction.PlanOf(l, compaction.Policy{}, 0)
		require.Equal(t, end, p.EndCleanable, "%d", hw)
	}
}

func TestTombstoneAlarm(t *testing.T) {
	l := sealed(1, 1)
	l.CleanPoint, l.TombstoneDue = 20, 500
	policy := compaction.Policy{MinCleanableRatio: 0.5}
	p := compaction.PlanOf(l, policy, 499)
	require.False(t, p.Work || p.Eligible)
	require.EqualValues(t, 500, p.Due)
	p = compaction.PlanOf(l, policy, 500)
	require.True(t, p.Work && p.Eligible)
	require.Zero(t, p.Due)
	require.Equal(t, compaction.Tombstones, p.Reason)
	l.Segments, l.Bounds.HighWatermark = l.Segments[2:], 20
	p = compaction.PlanOf(l, policy, 500)
	require.False(t, p.Work, "nothing sealed is left to clean")
	require.Equal(t, retention.Never, p.Due)
}

// Whatever Due promises, nothing happens before it; and at it the answer differs.
func TestDueIsNeverLate(t *testing.T) {
	rng := randomSource(t)
	for range 3000 {
		times := make([]codec.Timestamp, rng.IntN(5))
		for i := range times {
			times[i] = codec.Timestamp(rng.IntN(60) - 1)
		}
		l := sealed(times...)
		l.CleanPoint = int64(rng.IntN(len(times)*10 + 1))
		if rng.IntN(2) == 0 {
			l.TombstoneDue = codec.Timestamp(rng.IntN(200))
		}
		policy := compaction.Policy{MinLagMs: int64(rng.IntN(100)), MinCleanableRatio: rng.Float64()}
		first := -1 // the first instant at which a pass is due
		for now := range codec.Timestamp(400) {
			if compaction.PlanOf(l, policy, now).Eligible {
				first = int(now)
				break
			}
		}
		for now := range codec.Timestamp(200) {
			due := compaction.PlanOf(l, policy, now).Due
			if first >= 0 && int(now) < first {
				require.NotEqual(t, retention.Never, due)
				require.LessOrEqual(t, int(due), first)
				require.Greater(t, due, now, "an alarm in the past rings for ever")
			}
			if first < 0 && due != retention.Never {
				require.Greater(t, due, now)
			}
		}
	}
}

func TestReasonsAndStagesNameThemselves(t *testing.T) {
	require.Equal(t, "clean lagging below ratio dirty tombstones mapping cleaning", fmt.Sprint(
		compaction.Clean, " ", compaction.Lagging, " ", compaction.BelowRatio, " ", compaction.Dirty, " ",
		compaction.Tombstones, " ", compaction.Mapping, " ", compaction.Cleaning))
}
