package retention_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/retention"
)

const day = 24 * 60 * 60 * 1000

// R01: a set is never split, and filling a segment exactly is allowed.
func TestSizeRoll(t *testing.T) {
	l := newLog()
	l.roll.SegmentBytes = 300
	want := [][]int64{{0}, {0, 2}, {0, 2}, {0, 2, 5}, {0, 2, 5, 8}}
	for i, n := range []int{2, 2, 1, 3, 1} {
		l.append(make([]codec.Timestamp, n)...)
		require.Equal(t, want[i], l.bases())
	}
	require.Equal(t, []int64{200, 300, 300, 100}, l.sizes())
}

// R02, C11 replay: old data does not roll by its age, an idle segment does.
func TestReplayDoesNotRollButIdlenessDoes(t *testing.T) {
	const s = 3_600_000
	replay := newLog()
	replay.roll.SegmentMs = s
	for i := range 100 {
		replay.append(codec.Timestamp(t0 - 10*day + i))
	}
	require.Equal(t, []int64{0}, replay.bases())

	idle := newLog()
	idle.roll.SegmentMs = s
	idle.append(t0)
	idle.now += s
	require.Equal(t, retention.NoRoll, idle.append(t0+s))
	idle.now += s + 1
	require.NotEqual(t, retention.NoRoll, idle.append(t0+s+1))
	require.Equal(t, []int64{0, 2}, idle.bases())
}

// C11 span and C11 steady.
func TestSpanRoll(t *testing.T) {
	l := newLog()
	l.roll.SegmentMs = 1000
	l.append(t0)
	require.Equal(t, retention.NoRoll, l.append(t0+1000))
	require.Equal(t, retention.BySpan, l.append(t0+1001))
	require.Equal(t, []int64{0, 2}, l.bases())

	steady := newLog()
	steady.roll.SegmentMs = 1000
	for range 33 {
		steady.append(steady.now)
		steady.now += 100
	}
	require.Equal(t, []int64{0, 11, 22}, steady.bases())
}

// R04: with and without timestamps.
func TestTimeRollWithAndWithoutTimestamps(t *testing.T) {
	const s = 3_600_000
	l := newLog()
	l.roll.SegmentMs = s
	counts := func(wait int64, ts codec.Timestamp) int {
		l.now += codec.Timestamp(wait)
		l.append(ts)
		return len(l.segments)
	}
	require.Equal(t, 1, counts(s+1, -1), "an empty segment never rolls")
	require.Equal(t, 1, counts(0, -1))
	require.Equal(t, 2, counts(s+1, -1))
	require.Equal(t, 3, counts(s+1, -1))
	x := l.now + 2*(s+1)
	require.Equal(t, 4, counts(s+1, x))
	require.Equal(t, 4, counts(s+1, x), "not idle: its largest timestamp is now")
	require.Equal(t, 5, counts(s+1, x))
	require.Equal(t, 6, counts(0, l.now), "rolls by span")
}

// R05: no timestamp is never part of a span.
func TestNoTimestampIsNoSpan(t *testing.T) {
	l := newLog()
	l.roll.SegmentMs = 1000
	l.append(t0)
	for range 2 {
		l.now += 365 * day
		require.Equal(t, retention.ByIdle, l.append(-1))
	}
	require.Equal(t, []int64{0, 1, 2}, l.bases())
}

// SPEC 7.2.8: a first frame without a timestamp measures the segment by its
// clock, fed or not.
func TestSegmentWithoutFirstTimestampRollsByAge(t *testing.T) {
	l := newLog()
	l.roll.SegmentMs = 1000
	l.append(-1)
	for range 4 {
		l.now += 250
		require.Equal(t, retention.NoRoll, l.append(-1))
	}
	l.now++
	require.Equal(t, retention.ByAge, l.append(-1))
}

// R07: the set's largest timestamp counts.
func TestRollLooksAtTheSetsLargest(t *testing.T) {
	l := newLog()
	l.roll.SegmentMs = 3_600_000
	l.append(t0)
	require.Equal(t, retention.BySpan, l.append(t0+1, t0+3_600_001))
	require.Equal(t, []int64{0, 1}, l.bases())
}

// R08: jitter shortens the span; a jitter beyond segment.ms does not underflow.
func TestJitterShortensTheSpan(t *testing.T) {
	l := newLog()
	l.roll.SegmentMs, l.roll.JitterMs = 1000, 200
	l.append(t0)
	require.Equal(t, retention.NoRoll, l.append(t0+800))
	require.Equal(t, retention.BySpan, l.append(t0+801))
	require.Equal(t, []int64{0, 2}, l.bases())

	l = newLog()
	l.roll.SegmentMs, l.roll.JitterMs = 1000, math.MaxInt64
	l.append(t0)
	require.Equal(t, retention.NoRoll, l.append(t0))
	require.Equal(t, retention.BySpan, l.append(t0+1))
}

// SPEC 7.2.10: uniform in [0, min(jitter, segment.ms)), the same every time.
func TestJitterIsBoundedSpreadAndDeterministic(t *testing.T) {
	require.Zero(t, retention.Jitter("orders", 0, 0, 0, 1000))
	require.Zero(t, retention.Jitter("orders", 0, 0, 1000, 0))
	require.Zero(t, retention.Jitter("orders", 0, 0, 1, 1000))
	buckets := make([]int, 10)
	for base := range int64(1000) {
		j := retention.Jitter("orders", 3, base*7, 5000, 1000)
		require.Equal(t, j, retention.Jitter("orders", 3, base*7, 5000, 1000))
		require.True(t, j >= 0 && j < 1000)
		buckets[j/100]++
	}
	for i, n := range buckets {
		require.InDelta(t, 100, n, 50, "bucket %d of %v", i, buckets)
	}
	require.NotEqual(t, retention.Jitter("a", 0, 0, 1e9, 1e9), retention.Jitter("b", 0, 0, 1e9, 1e9))
	require.NotEqual(t, retention.Jitter("a", 0, 0, 1e9, 1e9), retention.Jitter("a", 1, 0, 1e9, 1e9))
	// Rolls must fall on the same instant in every version and on every replica.
	require.EqualValues(t, 651_341_187, retention.Jitter("orders", 7, 12345, 1e9, 1e9))
}

// R09, KAFKA-4451, SPEC 7.1.3: offsets stay within 31 bits of the base.
func TestOffsetRangeRoll(t *testing.T) {
	l := newLog()
	l.appendAt(0, 1)
	for i := range int64(3) {
		l.appendAt(1<<31+1+i, codec.Timestamp(2+i))
	}
	require.Equal(t, []int64{0, 2, 1<<31 + 2}, l.bases())
	require.EqualValues(t, 1<<31+4, l.end)
}

// SPEC 12.4 (7.1.3): 2147483647 itself still fits.
func TestOffsetRangeBoundary(t *testing.T) {
	l := newLog()
	l.appendAt(0, 1)
	require.Equal(t, retention.NoRoll, l.appendAt(math.MaxInt32, 1))
	require.Equal(t, retention.ByOffsetRange, l.appendAt(math.MaxInt32+1, 1))
	require.Equal(t, []int64{0, math.MaxInt32 + 1}, l.bases())
}

// R10: the only roll of an empty segment is the one that changes its base.
func TestFarOffsetRollsAnEmptySegment(t *testing.T) {
	l := newLog()
	require.Equal(t, retention.ByOffsetRange, l.appendAt(2147483847, 5))
	require.Equal(t, []int64{0, 200}, l.bases())
	l.rollTo(l.end)
	require.Equal(t, retention.NoRoll, l.tick(), "rolling twice makes no second base")
}

// R11: one record from the far future ends time rolls, not size rolls.
func TestFutureRecordFreezesTimeRolls(t *testing.T) {
	const s = 3_600_000
	const f0 = t0 + 100*s
	l := newLog()
	l.roll.SegmentMs = s
	want := [][]int64{{0}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1, 5}}
	for i, ts := range []codec.Timestamp{t0, f0, t0 + 1, t0 + 50*s, f0 + s, f0 + s + 1} {
		l.append(ts)
		require.Equal(t, want[i], l.bases())
	}
	l.roll.SegmentBytes = recordBytes
	require.Equal(t, retention.BySize, l.append(t0))
}

// S33, S34: largest timestamp T+700 although the last one appended was T.
func TestIdleRollCountsFromTheLargestTimestamp(t *testing.T) {
	l := newLog()
	l.roll.SegmentMs = 1000
	l.now = t0 + 700
	l.append(t0 + 700)
	l.append(t0)
	l.now = t0 + 1700
	require.Equal(t, retention.NoRoll, l.tick())
	l.now = t0 + 1701
	require.Equal(t, retention.ByIdle, l.tick())
	require.Equal(t, []int64{0, 2}, l.bases())
	require.True(t, l.active().Empty())
	l.now += day
	require.Equal(t, retention.NoRoll, l.tick(), "an empty segment never rolls")
}

// S57, KAFKA-881: the time of a reopen does not count.
func TestReopenDoesNotPostponeTheRoll(t *testing.T) {
	l := newLog()
	l.roll.SegmentMs = 1000
	l.append(t0)
	l.now = t0 + 900
	reopened, err := retention.DecodeSegment(retention.AppendSegment(nil, *l.active()))
	require.NoError(t, err)
	l.segments[0] = reopened
	l.now = t0 + 1001
	require.Equal(t, retention.ByIdle, l.tick())
}

// SPEC 5.2.8: the last slot is kept for the closing row.
func TestFullIndexRolls(t *testing.T) {
	l := newLog()
	l.interval = 0
	l.roll.IndexBytes = 4 * retention.IndexRowBytes
	for i := range codec.Timestamp(3) {
		require.Equal(t, retention.NoRoll, l.append(t0+i))
	}
	require.Equal(t, retention.ByIndex, l.append(t0+3))
	require.EqualValues(t, 3, l.segments[0].IndexRows)

	l.roll.IndexBytes = 0
	for i := range codec.Timestamp(100) {
		require.Equal(t, retention.NoRoll, l.append(t0+3+i))
	}
}

// SPEC 7.2.12.
func TestEmptyAppendNeverRolls(t *testing.T) {
	l := newLog()
	l.roll.SegmentMs = 1000
	l.append(t0)
	l.now += day
	require.Equal(t, retention.NoRoll, retention.RollBefore(*l.active(), retention.Set{}, l.roll, l.now))
}

func TestReasonsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for r := retention.NoRoll; r <= retention.ByAge; r++ {
		require.False(t, seen[r.String()], r.String())
		seen[r.String()] = true
	}
}

// slowRoll is SPEC 7.1 and 7.2 in the order they are written, in numbers that
// cannot overflow.
func slowRoll(s retention.Segment, set retention.Set, p retention.RollPolicy, now codec.Timestamp) bool {
	limit := float64(p.SegmentMs - min(p.JitterMs, p.SegmentMs))
	since := func(t codec.Timestamp) float64 { return float64(now) - float64(t) }
	if set.LastOffset-s.Base > 2147483647 {
		return true
	}
	if s.Entries == 0 {
		return false
	}
	size := s.Bytes+set.WireBytes > p.SegmentBytes
	full := p.IndexBytes > 0 && s.IndexRows+1 >= p.IndexBytes/12
	span := s.FirstTimestamp >= 0 && set.MaxTimestamp >= 0 && float64(set.MaxTimestamp)-float64(s.FirstTimestamp) > limit
	idle := since(max(s.MaxTimestamp, s.LastAppend)) > limit
	aged := s.FirstTimestamp < 0 && since(s.FirstAppend) > limit
	return size || full || span || idle || aged
}

func TestRollBeforeAgreesWithTheSlowVersion(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	extremes := []codec.Timestamp{-1, 0, math.MaxInt64}
	timestamp := func() codec.Timestamp {
		if r.IntN(10) == 0 {
			return extremes[r.IntN(3)]
		}
		return codec.Timestamp(r.Int64N(20))
	}
	rolled := 0
	for range 100_000 {
		s := retention.NewSegment(0)
		for i := range r.Int64N(4) {
			s.Add(record(i, timestamp(), codec.Timestamp(r.Int64N(20))), 0)
		}
		set := retention.Set{LastOffset: s.End, MaxTimestamp: timestamp(), WireBytes: 1 + r.Int64N(200)}
		if r.IntN(20) == 0 {
			set.LastOffset = math.MaxInt32 + r.Int64N(3)
		}
		p := retention.RollPolicy{
			SegmentBytes: 200 + r.Int64N(400), SegmentMs: r.Int64N(20),
			JitterMs: r.Int64N(5), IndexBytes: r.Int64N(60),
		}
		now := codec.Timestamp(r.Int64N(25))
		got := retention.RollBefore(s, set, p, now) != retention.NoRoll
		require.Equal(t, slowRoll(s, set, p, now), got, "%+v %+v %+v at %d", s, set, p, now)
		if got {
			rolled++
		}
	}
	require.Greater(t, rolled, 10_000)
}
