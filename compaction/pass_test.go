package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/compaction"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

type compactionStep = compaction.Step

// crash runs passes until one fails at failAt, and checks what is left; false if
// none did. A torn one was in the middle of its second or a later pass.
func (l *testLog) crash(remap bool) bool {
	l.t.Helper()
	for more := true; more; {
		r, err := compaction.Pass(context.Background(), l, l.plan(), l.now, l.options)
		if err != nil {
			require.ErrorIs(l.t, err, errCrash)
			l.requireSound()
			if remap { // the next pass may see another part
				l.options.MapBytes = 5 * oneKey
			}
			return true
		}
		more = r.More
	}
	return false
}

// newest returns the newest message of every key, with its offset.
func newest(l *testLog) map[string]string {
	m := map[string]string{}
	for _, msg := range l.messages() {
		if msg.Key != nil {
			m[string(msg.Key)] = fmt.Sprint(msg.Offset, int64(msg.Timestamp), msg.Value, msg.Value == nil)
		}
	}
	return m
}

func TestOvertakenPassEndsCleanly(t *testing.T) {
	l := newLog(t).append("a@1 b@2 | b@3 c@4 | c@5 d@6 | d@7 e@8 | e@9 f@10 | f@11 |")
	l.policy.SegmentBytes = 200
	whole := l.clone()
	whole.compact()
	require.Greater(t, whole.commits, 2)
	for k := range whole.commits {
		c := l.clone()
		c.failAt, c.fail = k, fmt.Errorf("commit: %w", compaction.ErrOvertaken)
		r := c.compact()
		require.True(t, r.Overtaken)
		require.EqualValues(t, k, r.Steps)
		require.Equal(t, newest(l), newest(c))
		c.failAt = -1
		c.compact()
		require.Equal(t, whole.survivors(), c.survivors())
	}
}

// P08: retention took the first segment while the second was compacted; nothing
// below the log start comes back, and nothing is counted twice.
func TestP08LogStartMovesDuringPass(t *testing.T) {
	l := newLog(t).append("a@1 b@2 | a@3 b@4 | a@5 c@6 |")
	l.policy.SegmentBytes = 200
	plan := l.plan()
	l.moveStart(2)
	r, err := compaction.Pass(t.Context(), l, plan, 0, l.options)
	require.NoError(t, err)
	require.True(t, r.Overtaken)
	require.Equal(t, "2:a@3 3:b@4 4:a@5 5:c@6", l.survivors())
	require.Zero(t, r.Steps)
	l.compact()
	require.Equal(t, "3:b@4 4:a@5 5:c@6", l.survivors())
	require.EqualValues(t, 2, l.segments[0].Base)
}

func TestCanceledPassStops(t *testing.T) {
	l := newLog(t).append("a@1 a@2 | a@3 |")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err := compaction.Pass(ctx, l, l.plan(), 0, l.options)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, l.commits)
}

// A pass cannot call clean what it cannot read.
func TestDamagedEntryEndsThePass(t *testing.T) {
	l := newLog(t).append("a@1 b@2 | a@3 b@4 | a@5 |")
	l.policy.SegmentBytes = 200
	l.rows[string(keys.AppendLog(nil, partition, 3))][20] ^= 1
	_, err := compaction.Pass(t.Context(), l, l.plan(), 0, l.options)
	var damaged *compaction.EntryError
	require.ErrorAs(t, err, &damaged)
	require.EqualValues(t, 3, damaged.Offset)
	require.ErrorIs(t, err, codec.ErrDamaged)
	require.ErrorContains(t, err, "entry 3")
	require.Zero(t, l.commits)
}

func TestDryRunChangesNothing(t *testing.T) {
	l := newLog(t).append("a@1 b@2- a@3 | @4 b@5 a@6- | c@7 |")
	l.wrapper(codec.Gzip, true, false, messages(t, "c@8 d@9 c@10")...)
	l.roll()
	dry := l.clone()
	dry.options.DryRun = true
	counted, err := compaction.Pass(t.Context(), dry, dry.plan(), 0, dry.options)
	require.NoError(t, err)
	require.Zero(t, dry.commits)
	require.Equal(t, l.rows, dry.rows)
	did := l.compact()
	did.Steps, did.BytesWritten = 0, 0
	require.Equal(t, did.Stats, counted.Stats)
	require.Positive(t, did.Dropped())
}

func TestProgressAndCounts(t *testing.T) {
	l := newLog(t)
	l.policy.SegmentBytes = 1 << 20
	for i := range 2000 {
		l.plain(message(t, fmt.Sprintf("%d@%d", i%10, i)))
	}
	l.roll()
	var seen []compaction.Progress
	l.options.StepBytes = 10_000
	l.options.Progress = func(p compaction.Progress) { seen = append(seen, p) }
	r := l.compact()
	require.Equal(t, compaction.Mapping, seen[0].Stage)
	require.Equal(t, compaction.Cleaning, seen[len(seen)-1].Stage)
	require.EqualValues(t, 200_000, seen[0].Total)
	require.EqualValues(t, 200_000, seen[len(seen)-1].Done)
	require.EqualValues(t, 1990, r.Superseded)
	require.EqualValues(t, 2000, r.Mapped)
	require.EqualValues(t, 10, r.Keys)
	require.EqualValues(t, 1990, r.Emptied)
	require.EqualValues(t, 1, r.SegmentsAfter)
	require.Positive(t, r.BytesWritten)
	require.Less(t, r.BytesWritten, int64(2000), "neighbours are deleted as ranges")
}

// SPEC 9.7: an entry is stamped once, and only when all of it is clean.
func TestStampingOfMixedEntries(t *testing.T) {
	l := newLog(t).packed("a@1- b@2 c@3- |")
	l.options.MapBytes, l.now = oneKey, 100
	l.compact() // knows a only
	require.EqualValues(t, 1, l.cleanPoint)
	require.Empty(t, l.horizons(), "c is not known to be the newest")
	l.compact()
	l.now = 200
	l.compact()
	require.False(t, l.plan().Work)
	require.Equal(t, []codec.Timestamp{1200}, l.horizons())
	l.now = 500
	l.append("b@4 |") // cuts the entry: the horizon stays
	l.options.MapBytes = 0
	l.compact()
	require.Equal(t, "0:a@1- 2:c@3- 3:b@4", l.survivors())
	require.Equal(t, []codec.Timestamp{1200}, l.horizons())
	l.now = 1199
	require.EqualValues(t, 1200, l.plan().Due)
	require.False(t, l.plan().Eligible)
	l.now = 1200
	require.True(t, l.plan().Eligible)
	l.compact()
	require.Equal(t, "3:b@4", l.survivors())
	require.Equal(t, retention.Never, l.due)
}

// A tombstone shadows until it is gone, and nothing old comes back after.
func TestTombstoneShadowsOlderValues(t *testing.T) {
	l := newLog(t).append("a@1 | b@2 | a@3- | b@4 |")
	l.options.MapBytes = oneKey
	l.policy.DeleteRetentionMs = 0
	for range 10 {
		l.compactAll()
	}
	require.Equal(t, "3:b@4", l.survivors())
}

// Stamping is all a pass does to a log of tombstones, and it does it once.
func TestStampedEntriesKeepTheirMessages(t *testing.T) {
	for _, known := range []bool{true, false} {
		l := newLog(t)
		l.wrapper(codec.Snappy, known, false, messages(t, "a@1- b@2 c@3-")...)
		l.roll()
		before := l.entries(0, 9)[0]
		r := l.compact()
		after := l.entries(0, 9)[0]
		require.EqualValues(t, 1, r.Stamped)
		require.Zero(t, r.Rewritten)
		require.Equal(t, before.messages, after.messages)
		require.Equal(t, before.entry.WireSize(), after.entry.WireSize())
		require.EqualValues(t, 1000, after.entry.Horizon)
	}
}

// The map holds the configured memory and no more, whatever the number of keys,
// and a pass with it the constant part of one step and one entry.
func TestMemoryIsBounded(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const distinct = 200_000
	store := newBenchStore(t, 3*distinct, distinct, 1)
	for _, mapBytes := range []int64{1 << 20, 4 << 20} {
		peak := peakOf(func(sample func()) {
			r, err := compaction.Pass(t.Context(), store, store.plan(distinct), 0, compaction.Options{
				MapBytes: mapBytes, Progress: func(compaction.Progress) { sample() },
			})
			require.NoError(t, err)
			require.True(t, r.More)
			require.EqualValues(t, mapBytes/32*4/5, r.Keys)
			require.Greater(t, r.Superseded, r.Keys/2)
			require.Greater(t, r.Steps, int64(1))
		})
		t.Logf("map of %d KiB: peak of %d KiB", mapBytes>>10, peak>>10)
		require.Less(t, peak, mapBytes+1<<20)
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("a\x00"), []byte("a"), []byte{})
	f.Add([]byte(strings.Repeat("k", 27)), []byte(strings.Repeat("k", 28)), []byte("k"))
	f.Add([]byte{0xff}, []byte{0xff, 0xff}, []byte(strings.Repeat("\x00", 28)))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		list := [][]byte{a, b, c, append(append([]byte{}, a...), b...), b, a}
		l := newLog(t)
		for _, k := range list {
			if k == nil {
				k = []byte{}
			}
			l.plain(codec.Message{Key: k, Value: []byte{}})
		}
		l.roll()
		before := newest(l)
		l.compact()
		require.Equal(t, before, newest(l))
		require.Len(t, l.messages(), len(maps.Collect(maps.All(before))))
	})
}
