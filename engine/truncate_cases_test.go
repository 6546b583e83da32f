package engine_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/retention"
)

func truncate(t testing.TB, p *engine.Partition, offset int64) {
	t.Helper()
	require.NoError(t, p.TruncateTo(t.Context(), offset))
}

func sums(t testing.TB, p *engine.Partition) (bytes, messages int64) {
	t.Helper()
	segments, err := p.Segments()
	require.NoError(t, err)
	for _, s := range segments {
		bytes += s.Bytes
		messages += s.Messages
	}
	return bytes, messages
}

// requireFreshSegment checks that the log is one empty segment at an offset that
// remembers nothing (SPEC 5.3.10).
func requireFreshSegment(t testing.TB, p *engine.Partition, base int64) {
	t.Helper()
	segments, err := p.Segments()
	require.NoError(t, err)
	require.Equal(t, []retention.Segment{retention.NewSegment(base)}, segments)
}

// U01: truncating a log of ten.
func TestU01Truncate(t *testing.T) {
	livesFrom(t, t0, engine.TopicConfig{}, func(t *testing.T, l *life) {
		for range 10 {
			lead(t, l.p, t0)
		}
		l.rest()
		was := stateOf(t, l.p)
		truncate(t, l.p, 10)
		truncate(t, l.p, 11)
		truncate(t, l.p, math.MaxInt64)
		bad := requireOvertaken(t, l.p.TruncateTo(t.Context(), -1))
		require.Equal(t, engine.OffsetRangeError{Topic: "t", Offset: -1, Start: 0, End: 10}, *bad)
		require.Equal(t, was, stateOf(t, l.p))

		truncate(t, l.p, 5)
		l.rest()
		requireBounds(t, l.p, 0, 5)
		size, n := sums(t, l.p)
		require.EqualValues(t, 500, size)
		require.EqualValues(t, 5, n)

		truncate(t, l.p, 0)
		l.rest()
		requireBounds(t, l.p, 0, 0)
		requireFreshSegment(t, l.p, 0)
		l.at(t0 + 7)
		require.Zero(t, lead(t, l.p, 3))
		segments, err := l.p.Segments()
		require.NoError(t, err)
		require.Equal(t, []codec.Timestamp{3, 3, t0 + 7, t0 + 7}, []codec.Timestamp{
			segments[0].FirstTimestamp, segments[0].MaxTimestamp, segments[0].FirstAppend, segments[0].LastAppend,
		})
		require.EqualValues(t, 100, segments[0].Bytes)
	})
}

// U02: a sealed segment becomes the active one again.
func TestU02TruncateAcrossSegments(t *testing.T) {
	for _, interval := range []int64{engine.ExplicitZero, 4096} {
		config := expiring(3, maxAge(-1))
		config.IndexIntervalBytes = interval
		livesFrom(t, t0, config, func(t *testing.T, l *life) {
			leadEach(t, l.p, 100, 900, 200, 300, 950, 400, 500, 990, 600)
			l.rest()
			truncate(t, l.p, 5)
			l.rest()
			require.Equal(t, []int64{0, 3}, bases(t, l.p))
			require.Equal(t, []codec.Timestamp{900, 950}, largest(t, l.p))
			requireBounds(t, l.p, 0, 5)
			requireSearch(t, l.p, answer{901, 950, 4}, answer{951, none, notFound})

			require.EqualValues(t, 5, lead(t, l.p, 700))
			l.rest()
			require.Equal(t, []int64{0, 3}, bases(t, l.p))
			requireSearch(t, l.p, answer{901, 950, 4}, answer{951, none, notFound})

			truncate(t, l.p, 4)
			l.rest()
			requireSearch(t, l.p, answer{901, none, notFound}, answer{950, none, notFound})

			truncate(t, l.p, 3)
			l.rest()
			requireBounds(t, l.p, 0, 3)
			requireSearch(t, l.p, answer{301, 900, 1}, answer{900, 900, 1}, answer{901, none, notFound})
			require.EqualValues(t, 3, lead(t, l.p, 1))
			require.Equal(t, []int64{0, 3}, bases(t, l.p))
			l.soundAfterwards(l.p)
		})
	}
}

// U05: truncating to the start, below it, and a full reset.
func TestU05TruncateBelowTheStartAndReset(t *testing.T) {
	livesFrom(t, t0, engine.TopicConfig{}, func(t *testing.T, l *life) {
		require.NoError(t, l.p.ResetTo(t.Context(), 10))
		l.rest()
		requireBounds(t, l.p, 10, 10)
		leadEach(t, l.p, 1, 2)
		truncate(t, l.p, 10)
		l.rest()
		requireBounds(t, l.p, 10, 10)
		requireFreshSegment(t, l.p, 10)

		require.EqualValues(t, 10, lead(t, l.p, 5))
		l.rest()
		truncate(t, l.p, 3)
		l.rest()
		requireBounds(t, l.p, 3, 3)
		requireFreshSegment(t, l.p, 3)
		require.EqualValues(t, 3, lead(t, l.p, 5))

		require.NoError(t, l.p.ResetTo(t.Context(), 50))
		l.rest()
		requireBounds(t, l.p, 50, 50)
		requireSentinels(t, l.p, 50, 50)
		requireSearch(t, l.p, answer{0, none, notFound}, answer{5, none, notFound}, answer{math.MaxInt64, none, notFound})
		require.EqualValues(t, 50, lead(t, l.p, 5))
		l.soundAfterwards(l.p)
	})
}

// U05 where the log starts inside its segment: truncating to the start empties
// the log, and the segment begins fresh (SPEC 5.3.10).
func TestU05TruncateToALogStartInsideASegment(t *testing.T) {
	for _, starts := range []int64{2, 8} { // few and many messages lie below
		livesFrom(t, t0, engine.TopicConfig{}, func(t *testing.T, l *life) {
			for range 10 {
				lead(t, l.p, 7)
			}
			_, err := l.p.DeleteBefore(t.Context(), starts)
			require.NoError(t, err)
			l.rest()
			truncate(t, l.p, starts)
			l.rest()
			requireBounds(t, l.p, starts, starts)
			size, n := sums(t, l.p)
			require.Zero(t, n, "messages of an empty log")
			require.Zero(t, size, "bytes of an empty log")
			require.EqualValues(t, starts, lead(t, l.p, 7))
			l.soundAfterwards(l.p)
		})
	}
}

// The same where an entry spans the log start: nothing below it comes back.
func TestTruncateToALogStartInsideAnEntry(t *testing.T) {
	for _, compressed := range []bool{false, true} {
		livesFrom(t, t0, engine.TopicConfig{}, func(t *testing.T, l *life) {
			if compressed {
				leadGzip(t, l.p, 1, 2, 3, 4, 5)
			} else {
				lead(t, l.p, 1, 2, 3, 4, 5)
			}
			_, err := l.p.DeleteBefore(t.Context(), 2)
			require.NoError(t, err)
			l.rest()
			truncate(t, l.p, 2)
			l.rest()
			requireBounds(t, l.p, 2, 2)
			_, n := sums(t, l.p)
			require.Zero(t, n, "messages of an empty log")
			requireSearch(t, l.p, answer{0, none, notFound})
			l.soundAfterwards(l.p)
		})
	}
}

// M06: the next offset is the one asked for, never one more.
func TestM06NextOffsetIsTheOneAskedFor(t *testing.T) {
	livesFrom(t, t0, engine.TopicConfig{}, func(t *testing.T, l *life) {
		truncate(t, l.p, 0) // LEO of an empty log
		requireBounds(t, l.p, 0, 0)
		require.Zero(t, lead(t, l.p, 1))
		truncate(t, l.p, 1)
		l.rest()
		require.EqualValues(t, 1, lead(t, l.p, 1))
		for _, offset := range []int64{7, 7, 3, 3, 0, 1 << 40} { // above, equal, below
			require.NoError(t, l.p.ResetTo(t.Context(), offset))
			l.rest()
			requireBounds(t, l.p, offset, offset)
			require.NoError(t, l.p.ResetTo(t.Context(), offset))
			l.rest()
			require.Equal(t, offset, lead(t, l.p, 1))
			l.rest()
			requireBounds(t, l.p, offset, offset+1)
		}
		requireOvertaken(t, l.p.ResetTo(t.Context(), -1))
		requireBounds(t, l.p, 1<<40, 1<<40+1)
	})
}

// M06: raising the log start to -1, -2, LEO and LEO+1.
func TestM06RaiseTheLogStart(t *testing.T) {
	livesFrom(t, t0, engine.TopicConfig{}, func(t *testing.T, l *life) {
		leadEach(t, l.p, 1, 2, 3)
		_, err := l.p.DeleteBefore(t.Context(), 4)
		require.Equal(t, engine.OffsetRangeError{Topic: "t", Offset: 4, Start: 0, End: 3}, *requireOvertaken(t, err))
		_, err = l.p.DeleteBefore(t.Context(), -2)
		require.EqualValues(t, -2, requireOvertaken(t, err).Offset)
		requireBounds(t, l.p, 0, 3)
		start, err := l.p.DeleteBefore(t.Context(), engine.HighWatermark)
		require.NoError(t, err)
		require.EqualValues(t, 3, start)
		l.rest()
		requireBounds(t, l.p, 3, 3)
		start, err = l.p.DeleteBefore(t.Context(), 1) // never moves back
		require.NoError(t, err)
		require.EqualValues(t, 3, start)
		require.EqualValues(t, 3, lead(t, l.p, 4))
	})
}

// T09: the sentinels after a full truncation to 50.
func TestT09SentinelsAfterAReset(t *testing.T) {
	livesFrom(t, t0, engine.TopicConfig{}, func(t *testing.T, l *life) {
		leadEach(t, l.p, 1, 2, 3)
		require.NoError(t, l.p.ResetTo(t.Context(), 50))
		l.rest()
		requireSentinels(t, l.p, 50, 50)
	})
}

// T10: a stale index entry must not point at the record that took its offset.
func TestT10SearchAfterTruncation(t *testing.T) {
	for _, interval := range []int64{engine.ExplicitZero, 4096} {
		for _, oneSet := range []bool{false, true} {
			livesFrom(t, t0, engine.TopicConfig{IndexIntervalBytes: interval}, func(t *testing.T, l *life) {
				if oneSet {
					lead(t, l.p, 100, 900, 300, 400)
				} else {
					leadEach(t, l.p, 100, 900, 300, 400)
				}
				l.rest()
				truncate(t, l.p, 1)
				l.rest()
				requireSearch(t, l.p, answer{100, 100, 0}, answer{101, none, notFound}, answer{300, none, notFound})
				require.EqualValues(t, 1, lead(t, l.p, 500))
				l.rest()
				requireSearch(t, l.p, answer{101, 500, 1}, answer{300, 500, 1}, answer{500, 500, 1},
					answer{600, none, notFound}, answer{900, none, notFound})
			})
		}
	}
}

// T21: the newest message after a truncation to 0.
func TestT21MaxTimestampAfterTruncation(t *testing.T) {
	livesFrom(t, t0, engine.TopicConfig{}, func(t *testing.T, l *life) {
		leadEach(t, l.p, 0, 1, 2, 3, 4, 6, 5, 6)
		l.rest()
		requireNewest(t, l.p, engine.Position{Offset: 5, Timestamp: 6, Found: true})
		truncate(t, l.p, 5)
		l.rest()
		requireNewest(t, l.p, engine.Position{Offset: 4, Timestamp: 4, Found: true})
		truncate(t, l.p, 0)
		l.rest()
		requireNewest(t, l.p, engine.Position{Timestamp: none})
	})
}

func requireNewest(t testing.TB, p *engine.Partition, want engine.Position) {
	t.Helper()
	got, err := p.MaxTimestamp(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// T21 with a log start inside the frame that holds the newest message.
func TestT21MaxTimestampBelowTheLogStart(t *testing.T) {
	for _, compressed := range []bool{false, true} {
		livesFrom(t, t0, engine.TopicConfig{}, func(t *testing.T, l *life) {
			if compressed {
				leadGzip(t, l.p, 1, 9, 5, 3)
			} else {
				lead(t, l.p, 1, 9, 5, 3)
			}
			_, err := l.p.DeleteBefore(t.Context(), 2)
			require.NoError(t, err)
			l.rest()
			requireNewest(t, l.p, engine.Position{Offset: 2, Timestamp: 5, Found: true})
			_, err = l.p.DeleteBefore(t.Context(), 4)
			require.NoError(t, err)
			l.rest()
			requireNewest(t, l.p, engine.Position{Offset: 4, Timestamp: none})
		})
	}
}

// R10: truncation to 0 leaves one segment, and rolling twice makes one.
func TestR10TruncateAfterRolls(t *testing.T) {
	livesFrom(t, t0, expiring(1, maxAge(-1)), func(t *testing.T, l *life) {
		require.NoError(t, l.p.ResetTo(t.Context(), 2_147_483_847))
		require.EqualValues(t, 2_147_483_847, lead(t, l.p, 5))
		require.NoError(t, l.p.Roll(t.Context()))
		l.rest()
		require.NoError(t, l.p.Roll(t.Context()))
		require.Equal(t, []int64{2_147_483_847, 2_147_483_848}, bases(t, l.p))
		truncate(t, l.p, 0)
		l.rest()
		require.Equal(t, []int64{0}, bases(t, l.p))
		require.NoError(t, l.p.ResetTo(t.Context(), 100))
		require.EqualValues(t, 100, lead(t, l.p, 5))
		l.rest()
		require.EqualValues(t, 101, end(t, l.p))
		require.Equal(t, []int64{100}, bases(t, l.p))
	})
}

// R-cases: truncating into a sealed segment and rolling it again keeps one
// segment for each base.
func TestRollAfterTruncationIntoASealedSegment(t *testing.T) {
	livesFrom(t, t0, expiring(2, maxAge(-1)), func(t *testing.T, l *life) {
		leadEach(t, l.p, 1, 2, 3, 4, 5)
		for _, offset := range []int64{4, 3, 2} {
			truncate(t, l.p, offset)
			l.rest()
			require.NoError(t, l.p.Roll(t.Context()))
			require.NoError(t, l.p.Roll(t.Context()))
			l.rest()
			want := []int64{0, 2, offset}
			if offset == 2 {
				want = []int64{0, 2}
			}
			require.Equal(t, want, bases(t, l.p))
		}
		require.EqualValues(t, 2, lead(t, l.p, 9))
		l.soundAfterwards(l.p)
	})
}

// S103, local mode: rows go with the messages, and the largest timestamp comes
// down to what is left.
func TestS103TruncationCutsTheIndex(t *testing.T) {
	livesFrom(t, t0, engine.TopicConfig{IndexIntervalBytes: 100}, func(t *testing.T, l *life) {
		for i := range codec.Timestamp(8) {
			l.clock.set(t0 + i)
			_, err := l.p.Append(t.Context(), sized(t0+i, 36))
			require.NoError(t, err)
		}
		require.Equal(t, []pair{{t0, 0}, {t0 + 3, 3}, {t0 + 6, 6}}, indexPairs(t, l.p))
		l.rest()
		truncate(t, l.p, 4)
		require.Equal(t, []pair{{t0, 0}, {t0 + 3, 3}}, indexPairs(t, l.p))
		require.Equal(t, []codec.Timestamp{t0 + 3}, largest(t, l.p))
		l.rest()
		require.Equal(t, []pair{{t0, 0}, {t0 + 3, 3}}, indexPairs(t, l.p))
		truncate(t, l.p, 3)
		require.Equal(t, []pair{{t0, 0}}, indexPairs(t, l.p))
		require.Equal(t, []codec.Timestamp{t0 + 2}, largest(t, l.p))
		l.rest()
		if l.openAt != 0 { // SPEC 5.2.6, S31: closing made the closing row
			require.Equal(t, []pair{{t0, 0}, {t0 + 2, 2}}, indexPairs(t, l.p))
		}
		truncate(t, l.p, 0)
		require.Empty(t, indexPairs(t, l.p))
		l.soundAfterwards(l.p)
	})
}

// T19 and a truncation: the last index row may carry the largest timestamp there
// is, and stays in both places.
func TestTruncationKeepsTheRowOfTheLargestTimestamp(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{IndexIntervalBytes: engine.ExplicitZero})
	leadEach(t, p, 0, math.MaxInt64, 5)
	truncate(t, p, 2)
	requireSearch(t, p, answer{0, 0, 0}, answer{1, math.MaxInt64, 1}, answer{math.MaxInt64, math.MaxInt64, 1})
	s.soundAfterwards(p)
	p = s.log(engine.TopicConfig{})
	requireSearch(t, p, answer{0, 0, 0}, answer{1, math.MaxInt64, 1}, answer{math.MaxInt64, math.MaxInt64, 1})
}

// C23: truncating inside W keeps the records below exactly, in a frame of their
// own with its own largest timestamp.
func TestC23TruncationInsideAWrapper(t *testing.T) {
	livesFrom(t, t0, engine.TopicConfig{}, func(t *testing.T, l *life) {
		require.NoError(t, l.p.ResetTo(t.Context(), 100))
		produce(t, l.p, entries(t, 0, goldenW))
		l.rest()
		truncate(t, l.p, 101)
		l.rest()
		requireBounds(t, l.p, 100, 101)
		f, _, err := codec.ReadFrame(fetchAll(t, l.p, 100))
		require.NoError(t, err)
		require.EqualValues(t, 100, f.Offset)
		require.Equal(t, codec.Gzip, f.Compression)
		require.Equal(t, t0, f.Timestamp)
		require.Equal(t, []codec.Timestamp{t0}, timestampsOf(readAll(t, l.p, 100)))
		segments, err := l.p.Segments()
		require.NoError(t, err)
		require.Equal(t, t0, segments[0].MaxTimestamp)
		require.Equal(t, t0, segments[0].FirstTimestamp, "C35: the timestamp of the first frame as it is now")
	})
}

// C23, SPEC 6.7: a cut into a wrapper that has gaps leaves nothing of it when all
// that is below the cut is below the log start.
func TestCutInAGapAboveTheLogStartLeavesNoEntry(t *testing.T) {
	s := newStore(t)
	config := compacting(100)
	config.CleanupPolicy = engine.CleanupCompactDelete
	p := s.log(config)
	pack(t, p, codec.Gzip, "a@1 b@2 c@3 d@4")
	fill(t, p, "c@5 | e@6")
	compacted(t, p)
	require.Equal(t, "0:a@1 1:b@2 3:d@4 4:c@5 5:e@6", survivors(t, p))
	_, err := p.DeleteBefore(t.Context(), 2)
	require.NoError(t, err)
	require.NoError(t, p.TruncateTo(t.Context(), 3))
	require.Empty(t, survivors(t, p))
	requireBounds(t, p, 2, 3)
	s.exactAfterwards(p)
}

// C23, C35: what is left of a first wrapper decides about span rolls, live and
// after a reopening.
func TestC23CutWrapperIsTheAnchorOfSpanRolls(t *testing.T) {
	config := engine.TopicConfig{SegmentAge: ms(1000)}
	livesFrom(t, t0, config, func(t *testing.T, l *life) {
		leadGzip(t, l.p, t0, t0+900)
		truncate(t, l.p, 1)
		l.rest()
		lead(t, l.p, t0+1001) // 1001 after the only message left
		require.Equal(t, []int64{0, 1}, bases(t, l.p))
	})
}

// K06: opening and closing over and over changes nothing.
func TestK06ReopeningOverAndOverChangesNothing(t *testing.T) {
	mem := newPowered(t, func(s *store) {
		config := expiring(3, maxAge(-1))
		config.IndexIntervalBytes = 150
		p := s.named("a", config)
		leadEach(t, p, 100, 900, 200, 300)
		leadGzip(t, p, 950, 400)
		lead(t, p, 970, 965)
		require.NoError(t, p.TruncateTo(t.Context(), 7))
	})
	fs := mem.fresh()
	var first string
	for i := range 10 {
		mem.clock.set(t0 + codec.Timestamp(i)*1e6)
		s := mem.open(fs)
		got := everything(s)
		if i == 0 {
			first = got
		}
		require.Equal(t, first, got, "opening %d", i)
		crashed := fs.cut()[0]
		fs.cuts = nil
		require.NoError(t, s.Close())
		if i%2 == 1 {
			fs = &powerFS{steadyMem: steadyMem{crashed}}
		}
	}
}
