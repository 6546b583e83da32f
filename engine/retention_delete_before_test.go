package engine_test

import (
	"math"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// deleteBefore raises the log start.
func deleteBefore(t testing.TB, p *engine.Partition, offset int64) {
	t.Helper()
	start, err := p.DeleteBefore(t.Context(), offset)
	require.NoError(t, err)
	if offset >= 0 {
		require.Equal(t, offset, start)
	}
}

// T13, SPEC 6.7: the log start moves into a segment, an entry, a wrapper.
func TestT13LogStartInsideAnEntry(t *testing.T) {
	for name, fill := range map[string]func(testing.TB, *engine.Partition, ...codec.Timestamp){
		"one by one": leadEach,
		"packed":     func(t testing.TB, p *engine.Partition, ts ...codec.Timestamp) { lead(t, p, ts...) },
		"wrapper":    func(t testing.TB, p *engine.Partition, ts ...codec.Timestamp) { leadGzip(t, p, ts...) },
	} {
		for _, interval := range []int64{engine.ExplicitZero, 4096} {
			t.Run(name, func(t *testing.T) {
				livesFrom(t, t0, engine.TopicConfig{IndexIntervalBytes: interval}, func(t *testing.T, l *life) {
					fill(t, l.p, 10, 20, 30, 40, 50)
					l.rest()
					deleteBefore(t, l.p, 2)
					l.rest()
					requireBounds(t, l.p, 2, 5)
					requireSentinels(t, l.p, 2, 5)
					requireSearch(t, l.p, answer{0, 30, 2}, answer{15, 30, 2}, answer{31, 40, 3}, answer{51, none, notFound})
					for _, from := range []int64{0, 1} {
						_, err := collect(l.p, t, from)
						require.Equal(t, engine.OffsetRangeError{Topic: "t", Offset: from, Start: 2, End: 5}, *requireOvertaken(t, err))
						_, err = l.p.Fetch(t.Context(), from, engine.FetchOptions{})
						requireCode(t, codec.CodeOffsetOutOfRange, err)
					}
					require.Equal(t, []int64{2, 3, 4}, offsetsOf(readAll(t, l.p, 2)))
					l.soundAfterwards(l.p)
				})
			})
		}
	}
}

// SPEC 6.7: at the high watermark, by number and by name, and what comes after.
func TestDeleteBeforeTheHighWatermark(t *testing.T) {
	for _, offset := range []int64{engine.HighWatermark, 6} {
		livesFrom(t, t0, expiring(4, maxAge(-1)), func(t *testing.T, l *life) {
			lead(t, l.p, 1, 2, 3)
			leadGzip(t, l.p, 4, 5, 6)
			deleteBefore(t, l.p, offset)
			l.rest()
			requireBounds(t, l.p, 6, 6)
			require.Empty(t, readAll(t, l.p, 6))
			requireSearch(t, l.p, answer{0, none, notFound})
			requireNewest(t, l.p, engine.Position{Offset: 6, Timestamp: none})
			require.EqualValues(t, 6, lead(t, l.p, 7))
			l.rest()
			requireBounds(t, l.p, 6, 7)
			requireSearch(t, l.p, answer{0, 7, 6})
			requireNewest(t, l.p, engine.Position{Offset: 6, Timestamp: 7, Found: true})
			l.soundAfterwards(l.p)
		})
	}
}

// SPEC 6.6: segments wholly below the log start go, the last one stays.
func TestDeleteBeforeRemovesWholeSegments(t *testing.T) {
	livesFrom(t, t0, expiring(2, maxAge(-1)), func(t *testing.T, l *life) {
		leadEach(t, l.p, 1, 2, 3, 4, 5)
		for start, want := range [][]int64{{0, 2, 4}, {0, 2, 4}, {2, 4}, {2, 4}, {4}, {4}} {
			deleteBefore(t, l.p, int64(start))
			l.rest()
			require.Equal(t, want, bases(t, l.p))
			requireBounds(t, l.p, int64(start), 5)
		}
		l.soundAfterwards(l.p)
	})
}

// Space comes back from within a segment too: what lies wholly below the log
// start is gone from Pebble.
func TestDeleteBeforeRemovesEntriesOfTheActiveSegment(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	leadEach(t, p, 1, 2, 3)
	lead(t, p, 4, 5, 6)
	deleteBefore(t, p, 2)
	deleteBefore(t, p, 4)
	s.raw(func(pdb *pebble.DB) {
		require.Equal(t, []int64{5}, rowsOf(t, pdb, p.TestKeys()).log)
	})
}

// Retention and DeleteBefore in all orders leave nothing below the log start.
func TestRetentionAfterDeleteBefore(t *testing.T) {
	livesFrom(t, 100, expiring(4, maxAge(1000)), func(t *testing.T, l *life) {
		leadEach(t, l.p, 1, 2, 3, 4, 900, 900, 900, 900, 900)
		deleteBefore(t, l.p, 2)
		l.at(1005)
		r := retained(t, l.p)
		require.Equal(t, 1, r.Segments)
		require.EqualValues(t, 4, r.Start)
		l.rest()
		requireBounds(t, l.p, 4, 9)
		deleteBefore(t, l.p, 6)
		l.at(1901)
		require.Equal(t, 2, retained(t, l.p).Segments)
		l.rest()
		requireBounds(t, l.p, 9, 9)
		l.soundAfterwards(l.p)
	})
}

// A log start beyond all messages of a segment does not move back when the
// segment expires.
func TestExpiryNeverMovesTheLogStartBack(t *testing.T) {
	livesFrom(t, 100, expiring(3, maxAge(1000)), func(t *testing.T, l *life) {
		leadEach(t, l.p, 1, 2, 3, 9000, 9000)
		deleteBefore(t, l.p, 4)
		l.at(2000)
		require.Zero(t, l.maintain().Removed.Segments)
		l.rest()
		requireBounds(t, l.p, 4, 5)
		l.at(math.MaxInt64 / 2)
		require.Equal(t, 1, retained(t, l.p).Segments)
		requireBounds(t, l.p, 5, 5)
	})
}
