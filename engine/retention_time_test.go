package engine_test

import (
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// X01: strictly older than retention.ms.
func TestX01TimeRetentionBoundary(t *testing.T) {
	livesFrom(t, 5000, expiring(3, maxAge(1000)), func(t *testing.T, l *life) {
		leadEach(t, l.p, 4000, 5000, 3000, 9999)
		l.at(6000)
		require.Equal(t, engine.Retained{}, retained(t, l.p))
		l.at(6001)
		require.Equal(t, engine.Retained{Segments: 1, ByTime: 1, Messages: 3, WireBytes: 300, Start: 3}, unsized(retained(t, l.p)))
		l.rest()
		requireBounds(t, l.p, 3, 4)
		require.Equal(t, []int64{3}, bases(t, l.p))
	})
}

// unsized drops the sizes that depend on the encoding.
func unsized(r engine.Retained) engine.Retained {
	r.StoredBytes, r.DiskBytes = 0, 0
	return r
}

// X03: a prefix goes, and what does not qualify protects what follows.
func TestX03OldestFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		timestamps []codec.Timestamp
		removed    int
	}{
		"first is newest":  {[]codec.Timestamp{9000, 100, 200, 300}, 0},
		"second is newest": {[]codec.Timestamp{100, 9000, 200, 300}, 1},
		"third is newest":  {[]codec.Timestamp{100, 200, 9000, 300}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			livesFrom(t, 400, expiring(1, maxAge(1000)), func(t *testing.T, l *life) {
				leadEach(t, l.p, tc.timestamps...)
				l.at(2000)
				require.Equal(t, tc.removed, retained(t, l.p).Segments)
				l.rest()
				requireBounds(t, l.p, int64(tc.removed), 4)
			})
		})
	}
}

// X03 c, later: what was protected goes with its protector.
func TestX03ProtectedSegmentsGoLater(t *testing.T) {
	livesFrom(t, 400, expiring(1, maxAge(1000)), func(t *testing.T, l *life) {
		leadEach(t, l.p, 100, 200, 9000, 300)
		l.at(2000)
		require.Equal(t, 2, retained(t, l.p).Segments)
		l.at(10_001)
		require.Equal(t, 2, retained(t, l.p).Segments)
		l.rest()
		require.Equal(t, []int64{4}, bases(t, l.p))
		requireBounds(t, l.p, 4, 4)
	})
}

// X04: the active segment goes too if it holds something, offsets stay.
func TestX04CollectingEverythingKeepsTheEnd(t *testing.T) {
	for n, removed := range map[int]int{0: 0, 1: 1, 25: 9} {
		livesFrom(t, t0, expiring(3, maxAge(0)), func(t *testing.T, l *life) {
			for range n {
				lead(t, l.p, t0-10)
			}
			l.rest()
			require.Equal(t, removed, retained(t, l.p).Segments, "%d records", n)
			l.rest()
			require.Equal(t, engine.Retained{Start: int64(n)}, retained(t, l.p), "second pass")
			requireBounds(t, l.p, int64(n), int64(n))
			require.Equal(t, []int64{int64(n)}, bases(t, l.p))
			l.rest()
			require.EqualValues(t, n, lead(t, l.p, t0))
		})
	}
}

// K03: everything is gone, the power too, and offsets do not begin anew.
func TestK03EndSurvivesRetentionOfEverythingAndACrash(t *testing.T) {
	mem := vfs.NewCrashableMem()
	s := newStoreWith(t, engine.Options{FS: steadyMem{mem}})
	config := expiring(3, maxAge(0))
	p := s.log(config)
	for range 25 {
		lead(t, p, t0-10)
	}
	require.Equal(t, 9, retained(t, p).Segments)
	crashed := newStoreWith(t, engine.Options{FS: steadyMem{mem.CrashClone(vfs.CrashCloneCfg{})}})
	p = crashed.log(config)
	requireBounds(t, p, 25, 25)
	requireSearch(t, p, answer{0, none, notFound})
	require.EqualValues(t, 25, lead(t, p, t0))
}

// X06: timestamp 0 is a timestamp.
func TestX06TimestampZeroExpires(t *testing.T) {
	livesFrom(t, t0, expiring(2, maxAge(1e9)), func(t *testing.T, l *life) {
		lead(t, l.p, 0, 0)
		lead(t, l.p, t0)
		l.rest()
		require.Equal(t, 1, retained(t, l.p).Segments)
		requireBounds(t, l.p, 2, 3)
	})
}

// X07: the log is never cut below retention.bytes; the active segment counts and
// can go.
func TestX07SizeRetention(t *testing.T) {
	for limit, removed := range map[int64]int{0: 3, 100: 2, 150: 1, 200: 1, 250: 0, 299: 0, 300: 0, 301: 0, -1: 0} {
		livesFrom(t, t0, expiring(1, maxBytes(limit)), func(t *testing.T, l *life) {
			leadEach(t, l.p, t0, t0, t0)
			l.rest()
			r := retained(t, l.p)
			require.Equal(t, removed, r.Segments, "retention.bytes %d", limit)
			require.Equal(t, removed, r.BySize)
			require.Equal(t, removed == 3, r.Rolled)
			l.rest()
			requireBounds(t, l.p, int64(removed), 3)
		})
	}
}

// X08: time first, then size over what time left.
func TestX08TimeAndSizeRetention(t *testing.T) {
	livesFrom(t, 10_000, expiring(1, limits(1000, 200)), func(t *testing.T, l *life) {
		leadEach(t, l.p, 100, 9500, 9600, 9700)
		l.rest()
		require.Equal(t, engine.Retained{Segments: 2, ByTime: 1, BySize: 1, Messages: 2, WireBytes: 200, Start: 2}, unsized(retained(t, l.p)))
		l.rest()
		requireBounds(t, l.p, 2, 4)
	})
}

// X09: -1, 0 and the largest retention.ms.
func TestX09RetentionExtremes(t *testing.T) {
	for limit, removed := range map[int64]int{-1: 0, 0: 1, math.MaxInt64: 0} {
		livesFrom(t, 1000, expiring(1, maxAge(limit)), func(t *testing.T, l *life) {
			leadEach(t, l.p, 999, 1000, 1001)
			l.rest()
			require.Equal(t, removed, retained(t, l.p).Segments, "retention.ms %d", limit)
			requireBounds(t, l.p, int64(removed), 3)
		})
	}
}

// X11: without the delete policy nothing expires, and the log start cannot be
// raised (SPEC C36: the policy is checked before any effect).
func TestX11CompactedLogDoesNotExpire(t *testing.T) {
	config := expiring(1, limits(1000, 100))
	config.CleanupPolicy, config.MinCleanableRatio = engine.CleanupCompact, 1 // never compacted
	livesFrom(t, t0, config, func(t *testing.T, l *life) {
		leadEach(t, l.p, 100, 200, 300)
		l.at(2 * t0)
		was := stateOf(t, l.p)
		require.Equal(t, engine.Retained{}, retained(t, l.p))
		require.Zero(t, l.maintain().Removed)
		for _, offset := range []int64{0, 1, 3, engine.HighWatermark, 17, -5} {
			_, err := l.p.DeleteBefore(t.Context(), offset)
			requireCode(t, codec.CodePolicyViolation, err)
		}
		require.Equal(t, was, stateOf(t, l.p))
	})
}

// X11: with both policies retention works as with delete alone.
func TestX11CompactDeleteExpires(t *testing.T) {
	config := expiring(1, maxAge(1000))
	config.CleanupPolicy, config.MinCleanableRatio = engine.CleanupCompactDelete, 1
	livesFrom(t, 300, config, func(t *testing.T, l *life) {
		leadEach(t, l.p, 100, 200, 300)
		l.at(1201)
		require.Equal(t, 2, retained(t, l.p).Segments)
		start, err := l.p.DeleteBefore(t.Context(), 3)
		require.NoError(t, err)
		require.EqualValues(t, 3, start)
	})
}

// X12 a: a clock that stepped back expires nothing and wraps nothing.
func TestX12ClockGoesBack(t *testing.T) {
	livesFrom(t, 6000, expiring(1, maxAge(1000)), func(t *testing.T, l *life) {
		leadEach(t, l.p, 5000, 6000)
		l.at(100)
		require.Equal(t, engine.Retained{}, retained(t, l.p))
		require.Zero(t, l.maintain())
		l.at(7001)
		require.Equal(t, 2, l.maintain().Removed.Segments)
	})
}

// X12 b: sizes are 64 bits wide. The sizes are faked in the segment rows.
func TestX12SizesBeyond32Bits(t *testing.T) {
	s := newStore(t)
	config := expiring(1, maxBytes(6<<30))
	p := s.log(config)
	leadEach(t, p, t0, t0, t0)
	id := p.TestKeys()
	s.raw(func(pdb *pebble.DB) {
		for _, seg := range rowsOf(t, pdb, id).segments {
			seg.Bytes = 3 << 30
			require.NoError(t, pdb.Set(keys.AppendSegment(nil, id, seg.Base), retention.AppendSegment(nil, seg), pebble.Sync))
		}
	})
	p = s.log(config)
	require.Equal(t, engine.Retained{Segments: 1, BySize: 1, Messages: 1, WireBytes: 3 << 30, Start: 1}, unsized(retained(t, p)))
}

// S30, S32: the closing index row decides, strictly; the log start moves to the
// next base and the end stays.
func TestS30LastIndexRowDecides(t *testing.T) {
	livesFrom(t, t0+500, engine.TopicConfig{Retention: maxAge(1000)}, func(t *testing.T, l *life) {
		leadEach(t, l.p, t0, t0+500)
		require.NoError(t, l.p.Roll(t.Context()))
		l.at(t0 + 1500)
		require.Equal(t, pair{t0 + 500, 1}, indexPairs(t, l.p)[1])
		require.Zero(t, retained(t, l.p).Segments)
		l.at(t0 + 1501)
		require.Equal(t, 1, retained(t, l.p).Segments)
		l.rest()
		requireBounds(t, l.p, 2, 2)
		require.Empty(t, indexPairs(t, l.p))
	})
}

// S31: after every roll and close the last index row of a segment has its
// largest timestamp, whatever the order of the input.
func TestS31LastIndexRowHasTheLargestTimestamp(t *testing.T) {
	rng := seeded(t)
	for range 20 {
		s := newStore(t)
		config := engine.TopicConfig{SegmentBytes: 700, IndexIntervalBytes: 1 + rng.Int64N(500)}
		p := s.log(config)
		for range 30 {
			switch n := rng.IntN(12); {
			case n < 9:
				lead(t, p, codec.Timestamp(rng.IntN(50)), codec.Timestamp(rng.IntN(50)))
			case n < 10:
				require.NoError(t, p.Roll(t.Context()))
			case n < 11:
				require.NoError(t, p.TruncateTo(t.Context(), end(t, p)-rng.Int64N(end(t, p)+1)))
			default:
				s.reopen()
				p = s.log(config)
				requireClosed(t, p, true)
			}
			requireClosed(t, p, false)
		}
	}
}

// requireClosed checks the last index row of every sealed segment, or of all.
func requireClosed(t testing.TB, p *engine.Partition, all bool) {
	t.Helper()
	segments, err := p.Segments()
	require.NoError(t, err)
	last := make(map[int64]codec.Timestamp)
	for _, row := range indexRows(t, p) {
		last[row.Base] = row.Timestamp
	}
	for _, seg := range segments {
		if (seg.Sealed || all) && seg.MaxTimestamp >= 0 {
			require.Equal(t, seg.MaxTimestamp, last[seg.Base], "segment %d, sealed %v", seg.Base, seg.Sealed)
		}
	}
}

// seeded returns a source of random numbers and prints its seed.
func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("CAIRN_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "CAIRN_SEED")
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 7))
}

// S35: a log whose index rows are lost still answers, by scanning.
func TestS35SearchWithoutIndexRows(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{IndexIntervalBytes: engine.ExplicitZero})
	leadEach(t, p, t0+10, t0+30, t0+20, t0+40)
	id := p.TestKeys()
	s.raw(func(pdb *pebble.DB) {
		for _, r := range []keys.Range{keys.LogRange(id.Companion(), 0, math.MaxInt64), keys.TimestampRange(id, 0, math.MaxInt64)} {
			require.NoError(t, pdb.DeleteRange(r.Start, r.End, pebble.Sync))
		}
	})
	p = s.log(engine.TopicConfig{})
	require.Empty(t, indexRows(t, p))
	requireSearch(t, p, answer{t0 + 15, t0 + 30, 1}, answer{t0 + 10, t0 + 10, 0}, answer{t0 + 31, t0 + 40, 3}, answer{t0 + 41, none, notFound})
}

// S37: how long a record lives depends on its neighbours.
func TestS37LifetimeDependsOnNeighbours(t *testing.T) {
	livesFrom(t, t0, engine.TopicConfig{Retention: maxAge(1000)}, func(t *testing.T, l *life) {
		lead(t, l.p, t0)
		l.at(t0 + 1000)
		require.Zero(t, retained(t, l.p).Segments)
		l.at(t0 + 1001)
		require.Equal(t, 1, retained(t, l.p).Segments)
	})
	livesFrom(t, t0, engine.TopicConfig{Retention: maxAge(1000)}, func(t *testing.T, l *life) {
		lead(t, l.p, t0, t0+10_000)
		l.at(t0 + 11_000)
		require.Zero(t, retained(t, l.p).Segments)
		require.Len(t, readAll(t, l.p, 0), 2)
		l.at(t0 + 11_001)
		require.Equal(t, 1, retained(t, l.p).Segments)
		requireBounds(t, l.p, 2, 2)
	})
}

// T08: after retention removed everything a search finds nothing, neither -1 nor
// the end.
func TestT08SearchAfterEverythingExpired(t *testing.T) {
	livesFrom(t, 1000, engine.TopicConfig{Retention: maxAge(1000)}, func(t *testing.T, l *life) {
		lead(t, l.p, 100)
		l.at(1101)
		require.Equal(t, 1, retained(t, l.p).Segments)
		l.rest()
		requireSearch(t, l.p, answer{0, none, notFound}, answer{math.MaxInt64, none, notFound})
	})
}

// T09: the sentinels after retention removed offsets 0 to 2.
func TestT09SentinelsAfterRetention(t *testing.T) {
	livesFrom(t, 1000, expiring(3, maxAge(1000)), func(t *testing.T, l *life) {
		leadEach(t, l.p, 100, 100, 100, 900, 900)
		l.at(1101)
		require.Equal(t, 1, retained(t, l.p).Segments)
		l.rest()
		requireSentinels(t, l.p, 3, 5)
	})
}

// T12: index rows of what retention removed do not answer.
func TestT12SearchAfterRetention(t *testing.T) {
	for _, interval := range []int64{engine.ExplicitZero, 4096} {
		config := expiring(3, maxAge(1000))
		config.IndexIntervalBytes = interval
		livesFrom(t, 500, config, func(t *testing.T, l *life) {
			leadEach(t, l.p, 100, 200, 300, 150, 450, 350)
			l.at(1400)
			require.Equal(t, 1, retained(t, l.p).Segments)
			l.rest()
			requireBounds(t, l.p, 3, 6)
			requireSearch(t, l.p, answer{0, 150, 3}, answer{100, 150, 3}, answer{151, 450, 4}, answer{400, 450, 4}, answer{451, none, notFound})
		})
	}
}

// SPEC C13: without timestamps the clock of the last append counts.
func TestSegmentsWithoutTimestampsExpireByTheirLastAppend(t *testing.T) {
	livesFrom(t, t0, engine.TopicConfig{Retention: maxAge(1000)}, func(t *testing.T, l *life) {
		lead(t, l.p, none)
		l.at(t0 + 500)
		lead(t, l.p, none)
		l.at(t0 + 1500)
		require.Zero(t, retained(t, l.p).Segments)
		l.at(t0 + 1501)
		require.Equal(t, 1, retained(t, l.p).Segments)
	})
}

// SPEC 6.10: a message from the future pins its segment and all later ones,
// unless retention.clamp.future is on.
func TestFutureMessagesPinUnlessClamped(t *testing.T) {
	for _, clamp := range []bool{false, true} {
		policy := maxAge(1000)
		policy.ClampFuture = clamp
		livesFrom(t, t0, expiring(1, policy), func(t *testing.T, l *life) {
			leadEach(t, l.p, t0+1e9, t0, t0)
			l.at(t0 + 1000)
			require.Zero(t, l.maintain().Removed.Segments)
			l.at(t0 + 1001)
			want := 0
			if clamp {
				want = 3
			}
			require.Equal(t, want, l.maintain().Removed.Segments, "clamp %v", clamp)
		})
	}
}

// K05: a roll and a crash right after it expire nothing.
func TestK05CrashAfterARollExpiresNothing(t *testing.T) {
	mem := vfs.NewCrashableMem()
	s := newStoreWith(t, engine.Options{FS: steadyMem{mem}})
	config := engine.TopicConfig{Retention: maxAge(7 * 24 * 3_600_000)}
	p := s.log(config)
	leadEach(t, p, t0, t0, t0)
	require.NoError(t, p.Roll(t.Context()))
	crashed := newStoreWith(t, engine.Options{FS: steadyMem{mem.CrashClone(vfs.CrashCloneCfg{})}})
	p = crashed.log(config)
	require.Equal(t, []codec.Timestamp{t0, none}, largest(t, p))
	require.Equal(t, engine.Retained{}, retained(t, p))
}

// The dry run says what the run does, idle roll of the active segment included.
func TestDryRunTellsOfTheRoll(t *testing.T) {
	s := newStore(t)
	config := expiring(1, maxAge(1000))
	config.SegmentAge = ms(100)
	p := s.log(config)
	leadEach(t, p, t0-500, t0)
	s.clock.set(t0 + 501)
	r := retained(t, p)
	require.Equal(t, 1, r.Segments)
	require.True(t, r.Rolled)
	require.Equal(t, []int64{1, 2}, bases(t, p))
}

// A dry run changes nothing, not even the roll of an idle segment.
func TestDryRunChangesNothing(t *testing.T) {
	s := newStore(t)
	config := expiring(2, maxAge(1000))
	config.SegmentAge = ms(100)
	p := s.log(config)
	leadEach(t, p, t0, t0, t0)
	s.clock.set(t0 + 1001)
	was := stateOf(t, p)
	r, err := p.Retain(t.Context(), engine.RetainOptions{DryRun: true})
	require.NoError(t, err)
	require.Equal(t, 2, r.Segments)
	require.Equal(t, was, stateOf(t, p))
}
