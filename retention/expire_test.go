package retention_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/retention"
)

// onePerSegment returns a log with one record in each segment.
func onePerSegment(timestamps ...codec.Timestamp) *testLog {
	l := newLog()
	l.roll.SegmentBytes = recordBytes
	for _, ts := range timestamps {
		l.now = ts
		l.append(ts)
	}
	return l
}

// X01: strictly older than the limit.
func TestTimeRetentionBoundary(t *testing.T) {
	l := newLog()
	l.roll.SegmentBytes = 300
	l.append(4000, 5000, 3000)
	l.append(9999)
	l.now = 6000
	require.Zero(t, l.expire(age(1000)).Drop)
	l.now = 6001
	require.Equal(t, retention.Decision{Drop: 1, ByTime: 1, NewStart: 3}, l.expire(age(1000)))
}

// S30, S32: the last index row, as it is at the close, decides.
func TestSegmentExpiresWithItsLastRow(t *testing.T) {
	l := newLog()
	l.append(t0, t0+500)
	l.rollTo(l.end)
	l.now = t0 + 1500
	require.Zero(t, l.expire(age(1000)).Drop)
	l.now = t0 + 1501
	require.Equal(t, 1, l.expire(age(1000)).Drop)
	require.EqualValues(t, 2, l.start)
	require.Equal(t, []int64{2}, l.bases())
}

// S37: a record lives as long as its neighbours.
func TestLifetimeDependsOnNeighbours(t *testing.T) {
	alone := newLog()
	alone.append(t0)
	alone.now = t0 + 1001
	require.Equal(t, 1, alone.expire(age(1000)).Drop)

	together := newLog()
	together.append(t0, t0+10_000)
	together.now = t0 + 11_000
	require.Zero(t, together.expire(age(1000)).Drop)
	together.now++
	require.Equal(t, 1, together.expire(age(1000)).Drop)
}

// X03: a prefix goes, and what does not qualify protects what follows.
func TestOldestFirst(t *testing.T) {
	for _, tc := range []struct {
		timestamps []codec.Timestamp
		want       int
	}{
		{[]codec.Timestamp{9000, 100, 200, 300}, 0},
		{[]codec.Timestamp{100, 9000, 200, 300}, 1},
		{[]codec.Timestamp{100, 200, 9000, 300}, 2},
	} {
		l := onePerSegment(tc.timestamps...)
		l.now = 2000
		require.Equal(t, tc.want, l.expire(age(1000)).Drop, "%v", tc.timestamps)
		require.EqualValues(t, tc.want, l.start)
	}
	l := onePerSegment(100, 200, 9000, 300)
	l.now = 2000
	l.expire(age(1000))
	l.now = 10_001
	d := l.expire(age(1000))
	require.Equal(t, retention.Decision{Drop: 2, ByTime: 2, RollFirst: true, NewStart: 4}, d)
	require.Equal(t, []int64{4}, l.bases())
}

// X04, SPEC 6.8: the active segment goes when it holds something, offsets stay.
func TestExpiryOfEverythingKeepsTheEnd(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 25: 9} {
		l := newLog()
		l.roll.SegmentBytes = 300
		for range n {
			l.append(t0 - 10)
		}
		require.Equal(t, want, l.expire(age(0)).Drop, "%d records", n)
		require.Zero(t, l.expire(age(0)).Drop, "second pass")
		require.Equal(t, []int64{int64(n)}, l.bases())
		require.EqualValues(t, n, l.start)
		l.append(t0)
		require.EqualValues(t, n+1, l.active().End)
	}
}

// S55, KAFKA-979: an idle active segment expires.
func TestActiveSegmentExpiresWithoutTraffic(t *testing.T) {
	l := newLog()
	l.roll.SegmentMs = 7 * day
	l.append(t0)
	l.now = t0 + 1000
	require.Zero(t, l.expire(age(1000)).Drop)
	l.now = t0 + 1001
	require.Equal(t, retention.Decision{Drop: 1, ByTime: 1, RollFirst: true, NewStart: 1}, l.expire(age(1000)))
}

// S58: imported at T+5000, the segment's own times count.
func TestImportTimeIsIgnored(t *testing.T) {
	l := newLog()
	l.append(t0)
	imported, err := retention.DecodeSegment(retention.AppendSegment(nil, *l.active()))
	require.NoError(t, err)
	d := retention.Expire([]retention.Segment{imported}, age(1000), l.bounds(), t0+5000)
	require.Equal(t, 1, d.Drop)
}

// X06: timestamp zero is a timestamp.
func TestTimestampZeroExpires(t *testing.T) {
	l := newLog()
	l.roll.SegmentBytes = 200
	l.append(0, 0)
	l.append(t0)
	require.Equal(t, 1, l.expire(age(1_000_000_000)).Drop)
}

// C13: without timestamps the last append's clock counts.
func TestSegmentWithoutTimestampsExpiresByItsLastAppend(t *testing.T) {
	l := newLog()
	l.append(-1)
	l.now += 500
	l.append(-1)
	l.now = t0 + 1500
	require.Zero(t, l.expire(age(1000)).Drop)
	l.now++
	require.Equal(t, 1, l.expire(age(1000)).Drop)
}

// X07: the log is never cut below its size, the active segment included.
func TestSizeRetention(t *testing.T) {
	for limit, want := range map[int64]int{0: 3, 100: 2, 150: 1, 200: 1, 250: 0, 299: 0, 300: 0, 301: 0, -1: 0} {
		l := onePerSegment(t0, t0, t0)
		d := l.expire(size(limit))
		require.Equal(t, want, d.Drop, "retention.bytes %d", limit)
		require.Equal(t, want, d.BySize)
		require.Equal(t, want == 3, d.RollFirst)
		require.EqualValues(t, 3, l.active().End)
	}
}

// X08: size is computed on what time left.
func TestTimeGoesBeforeSize(t *testing.T) {
	l := onePerSegment(100, 9500, 9600, 9700)
	l.now = 10_000
	d := l.expire(retention.Limits{AgeMs: 1000, Bytes: 200})
	require.Equal(t, retention.Decision{Drop: 2, ByTime: 1, BySize: 1, NewStart: 2}, d)
}

// X09: -1, 0 and the largest retention.ms.
func TestRetentionExtremes(t *testing.T) {
	for limit, want := range map[int64]int{-1: 0, 0: 1, math.MaxInt64: 0} {
		l := onePerSegment(999, 1000, 1001)
		l.now = 1000
		require.Equal(t, want, l.expire(age(limit)).Drop, "retention.ms %d", limit)
	}
}

// X11, SPEC 6.6: without the delete policy only the log start takes segments.
func TestOnlyTheLogStartTakesFromACompactedLog(t *testing.T) {
	l := onePerSegment(100, 200, 300)
	l.now = math.MaxInt64
	require.Zero(t, l.expire(retention.NoLimits()).Drop)
	for start, want := range []int{0, 1, 2, 2} { // the last segment stays
		l := onePerSegment(100, 200, 300)
		l.start = int64(start)
		d := l.expire(retention.NoLimits())
		require.Equal(t, want, d.ByLogStart, "log start %d", start)
		require.EqualValues(t, start, d.NewStart, "never moves back")
	}
}

// X12a: a clock that stepped back expires nothing; X12b: sums beyond 32 and 64
// bits.
func TestClockBackwardsAndHugeSizes(t *testing.T) {
	l := onePerSegment(5000, 6000)
	l.now = 100
	require.Zero(t, l.expire(age(1000)).Drop)
	l.now = math.MinInt64
	require.Zero(t, l.expire(age(0)).Drop)

	l = onePerSegment(t0, t0, t0)
	for i := range l.segments {
		l.segments[i].Bytes = 3 << 30
	}
	require.Equal(t, 1, l.expire(size(6<<30)).Drop)
	for i := range l.segments {
		l.segments[i].Bytes = math.MaxInt64 - 1
	}
	require.Zero(t, l.expire(size(2)).Drop)
}

// SPEC 6.8: nothing above the high watermark goes, whatever the reason.
func TestHighWatermarkHoldsSegmentsBack(t *testing.T) {
	for hw, want := range map[int64]int{0: 0, 1: 1, 2: 2, 3: 3} {
		l := onePerSegment(100, 200, 300)
		b := retention.Bounds{HighWatermark: hw, End: 3}
		require.Equal(t, want, retention.Expire(l.segments, age(0), b, t0).Drop)
		require.Equal(t, want, retention.Expire(l.segments, size(0), b, t0).Drop)
		b.Start = 2
		require.Equal(t, min(want, 2), retention.Expire(l.segments, retention.NoLimits(), b, t0).Drop)
	}
}

// SPEC 6.10: a record from the future pins the log unless clamped.
func TestClampFuture(t *testing.T) {
	l := onePerSegment(t0, t0, t0)
	l.segments[0].MaxTimestamp = t0 + 365*day
	limits := age(1000)
	l.now = t0 + 1001
	require.Zero(t, retention.Expire(l.segments, limits, l.bounds(), l.now).Drop)
	limits.ClampFuture = true
	require.Equal(t, 3, retention.Expire(l.segments, limits, l.bounds(), l.now).Drop)
	require.Zero(t, retention.Expire(l.segments, limits, l.bounds(), l.now-1).Drop)
}

func TestExpireOfNoSegments(t *testing.T) {
	require.Equal(t, retention.Decision{}, retention.Expire(nil, age(0), retention.Bounds{}, t0))
}

func TestPolicyLimits(t *testing.T) {
	for _, tc := range []struct {
		policy retention.Policy
		want   retention.Limits
	}{
		{retention.Policy{}, retention.Limits{AgeMs: 604_800_000, Bytes: -1}},
		{retention.Policy{MaxAge: retention.Unlimited, MaxBytes: retention.Unlimited}, retention.NoLimits()},
		{retention.Policy{MaxAge: math.MaxInt64, MaxBytes: -5}, retention.NoLimits()},
		{retention.Policy{MaxAge: retention.Immediate, MaxBytes: retention.KeepNothing}, retention.Limits{}},
		{retention.Policy{MaxAge: 1999 * time.Microsecond, MaxBytes: 7, ClampFuture: true}, retention.Limits{AgeMs: 1, Bytes: 7, ClampFuture: true}},
	} {
		require.Equal(t, tc.want, tc.policy.Limits(), "%+v", tc.policy)
	}
}

// slowExpire deletes one segment at a time from a copy, as SPEC 6 reads.
func slowExpire(segments []retention.Segment, l retention.Limits, b retention.Bounds, now int64) int {
	next := func(i int) int64 {
		if i+1 < len(segments) {
			return segments[i+1].Base
		}
		return b.End
	}
	dropped, left := 0, func() (n int64) {
		for _, s := range segments {
			n += s.Bytes
		}
		return n
	}
	deletePrefix := func(qualifies func(s retention.Segment) bool) {
		for len(segments) > 0 && b.HighWatermark >= next(0) && (len(segments) > 1 || segments[0].Entries > 0) && qualifies(segments[0]) {
			segments = segments[1:]
			dropped++
		}
	}
	deletePrefix(func(s retention.Segment) bool {
		largest := s.MaxTimestamp
		if largest < 0 {
			largest = s.LastAppend
		}
		return l.AgeMs >= 0 && now-int64(largest) > l.AgeMs
	})
	deletePrefix(func(s retention.Segment) bool { return l.Bytes >= 0 && left()-s.Bytes >= l.Bytes })
	deletePrefix(func(retention.Segment) bool { return len(segments) > 1 && segments[1].Base <= b.Start })
	return dropped
}

// randomLog returns a log of a few small segments, the last one maybe empty.
func randomLog(r *rand.Rand) *testLog {
	l := newLog()
	l.now = 0
	for range r.IntN(8) {
		l.now += codec.Timestamp(r.Int64N(10))
		l.append(codec.Timestamp(r.Int64N(40) - 1))
		if r.IntN(2) == 0 {
			l.rollTo(l.end)
		}
	}
	l.start = r.Int64N(l.end + 1)
	return l
}

func randomLimits(r *rand.Rand) retention.Limits {
	return retention.Limits{AgeMs: r.Int64N(30) - 5, Bytes: r.Int64N(900) - 200}
}

func TestExpireAgreesWithTheSlowVersion(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 4))
	kinds := map[string]int{}
	for range 100_000 {
		l := randomLog(r)
		limits, b := randomLimits(r), l.bounds()
		b.HighWatermark -= r.Int64N(b.End+1) * r.Int64N(2)
		now := r.Int64N(80)
		d := retention.Expire(l.segments, limits, b, codec.Timestamp(now))
		require.Equal(t, slowExpire(l.segments, limits, b, now), d.Drop, "%+v %+v %+v at %d", l.segments, limits, b, now)
		require.Equal(t, d.Drop, d.ByTime+d.BySize+d.ByLogStart)
		require.Equal(t, d.RollFirst, d.Drop == len(l.segments))
		require.True(t, d.NewStart >= b.Start && d.NewStart <= b.End)
		kinds[fmt.Sprint(d.ByTime > 0, d.BySize > 0, d.ByLogStart > 0)]++
	}
	require.Len(t, kinds, 8, "every combination of reasons: %v", kinds)
}

// DueAt is the first instant at which anything happens, found the slow way.
func TestDueAtIsTheFirstInstantWithWork(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 5))
	never := 0
	for range 20_000 {
		l := randomLog(r)
		limits, b := randomLimits(r), l.bounds()
		limits.ClampFuture = r.IntN(2) == 0
		b.HighWatermark -= r.Int64N(b.End+1) * r.Int64N(2)
		p := retention.RollPolicy{SegmentBytes: 1 << 20, SegmentMs: r.Int64N(40), JitterMs: r.Int64N(5)}
		if r.IntN(2) == 0 {
			p.SegmentMs = math.MaxInt64
		}
		want := retention.Never
		for now := range codec.Timestamp(120) { // beyond every sum above
			if retention.Expire(l.segments, limits, b, now).Drop > 0 || retention.RollIdle(*l.active(), p, now) != retention.NoRoll {
				want = now
				break
			}
		}
		require.Equal(t, want, retention.DueAt(l.segments, limits, b, p), "%+v %+v %+v %+v", l.segments, limits, b, p)
		if want == retention.Never {
			never++
		}
	}
	require.NotZero(t, never)
}

func TestDueAtBeyondTheEndOfTimeIsNever(t *testing.T) {
	l := newLog()
	l.append(math.MaxInt64 - 5)
	require.Equal(t, retention.Never, retention.DueAt(l.segments, age(10), l.bounds(), l.roll))
	require.EqualValues(t, math.MaxInt64, retention.DueAt(l.segments, age(4), l.bounds(), l.roll))
	require.Equal(t, retention.Never, retention.DueAt(nil, age(0), retention.Bounds{}, l.roll))
}
