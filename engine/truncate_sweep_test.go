package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/retention"
)

// script is a log that can be built as far as any offset: sets of messages that
// are packed or compressed, each at a clock, and rolls.
type script []scripted

type scripted struct {
	roll  bool // before the set
	codec codec.Compression
	clock codec.Timestamp
	msgs  []codec.Message
}

// randomScript makes a log of about n messages. Timestamps are small, so that
// equal ones and all orders occur, or -1.
func randomScript(rng *rand.Rand, n int) script {
	var s script
	for at := 0; at < n; {
		set := scripted{
			roll:  rng.IntN(4) == 0,
			codec: []codec.Compression{codec.None, codec.None, codec.Gzip, codec.Snappy, codec.LZ4}[rng.IntN(5)],
			clock: t0 + codec.Timestamp(len(s)*rng.IntN(50)),
		}
		for range 1 + rng.IntN(5) {
			set.msgs = append(set.msgs, sized(codec.Timestamp(rng.IntN(31)-1), 36+rng.IntN(100)))
			at++
		}
		s = append(s, set)
	}
	return s
}

// end is the offset after the script's messages.
func (sc script) end() (n int64) {
	for _, set := range sc {
		n += int64(len(set.msgs))
	}
	return n
}

// build appends the script's messages below an offset: of the set it falls into,
// only those.
func (sc script) build(t testing.TB, s *store, p *engine.Partition, below int64) {
	t.Helper()
	at := int64(0)
	for _, set := range sc {
		if at > below {
			return
		}
		s.clock.set(set.clock)
		if set.roll {
			require.NoError(t, p.Roll(t.Context()))
		}
		msgs := set.msgs[:min(int64(len(set.msgs)), below-at)]
		if len(msgs) == 0 {
			return
		}
		_, err := p.AppendSet(t.Context(), msgs, engine.AppendOptions{Compression: set.codec})
		require.NoError(t, err)
		at += int64(len(set.msgs))
	}
}

var sweepTopics = map[string]engine.TopicConfig{
	"CreateTime":       {IndexIntervalBytes: 200},
	"CreateTime dense": {IndexIntervalBytes: engine.ExplicitZero},
	"LogAppendTime":    {IndexIntervalBytes: 200, TimestampType: codec.LogAppendTime},
	"v0":               {IndexIntervalBytes: 200, MessageFormat: engine.FormatV0},
}

// U01, U02, T10, C23, SPEC 5.3: a log truncated anywhere is the log that was
// never longer: live, reopened, and when appends go on.
func TestTruncatedLogIsTheLogThatWasNeverLonger(t *testing.T) {
	for name, config := range sweepTopics {
		t.Run(name, func(t *testing.T) {
			rng := seeded(t)
			for range rounds(t, 1) {
				sweep(t, rng, config)
			}
		})
	}
}

func sweep(t *testing.T, rng *rand.Rand, config engine.TopicConfig) {
	t.Helper()
	s := newStore(t)
	sc := randomScript(rng, 40)
	more := randomScript(rng, 6)
	pairs := func(f func(x int64, cut, short *engine.Partition)) {
		for x := range sc.end() + 1 {
			f(x, s.named(fmt.Sprint("cut", x), config), s.named(fmt.Sprint("short", x), config))
		}
	}
	pairs(func(x int64, cut, short *engine.Partition) {
		sc.build(t, s, cut, math.MaxInt64)
		truncate(t, cut, x)
		sc.build(t, s, short, x)
		requireSame(t, cut, short, x)
	})
	s.reopen()
	pairs(func(x int64, cut, short *engine.Partition) {
		requireSame(t, cut, short, x)
		more.build(t, s, cut, math.MaxInt64)
		more.build(t, s, short, math.MaxInt64)
		requireSame(t, cut, short, x)
	})
	s.reopen()
	var cuts []*engine.Partition
	pairs(func(x int64, cut, short *engine.Partition) {
		requireSame(t, cut, short, x)
		cuts = append(cuts, cut)
	})
	s.soundAfterwards(cuts...)
}

// requireSame compares all that two logs say.
func requireSame(t testing.TB, got, want *engine.Partition, x int64) {
	t.Helper()
	gotOffsets, err := got.Offsets()
	require.NoError(t, err)
	wantOffsets, err := want.Offsets()
	require.NoError(t, err)
	require.Equal(t, wantOffsets, gotOffsets, "truncated to %d", x)
	start := wantOffsets.Start
	require.Equal(t, readAll(t, want, start), readAll(t, got, start), "truncated to %d", x)
	require.Equal(t, fetchAll(t, want, start), fetchAll(t, got, start), "truncated to %d", x)
	for _, ts := range slices.Concat(upTo(35), []codec.Timestamp{t0 - 1, t0, t0 + 20, t0 + 1000, t0 + 3000, math.MaxInt64}) {
		wantPos, err := want.OffsetFor(ts)
		require.NoError(t, err)
		gotPos, err := got.OffsetFor(ts)
		require.NoError(t, err)
		require.Equal(t, wantPos, gotPos, "truncated to %d, S(%d)", x, int64(ts))
	}
	wantNewest, err := want.MaxTimestamp(t.Context())
	require.NoError(t, err)
	requireNewest(t, got, wantNewest)
	require.Equal(t, plainSegments(t, want), plainSegments(t, got), "truncated to %d", x)
	requireTrueRows(t, got)
}

func upTo(n codec.Timestamp) []codec.Timestamp {
	var list []codec.Timestamp
	for ts := range n {
		list = append(list, ts)
	}
	return list
}

// plainSegments are the segments without what depends on the rows of the index
// and on how entries are packed.
func plainSegments(t testing.TB, p *engine.Partition) []retention.Segment {
	t.Helper()
	segments, err := p.Segments()
	require.NoError(t, err)
	for i := range segments {
		s := &segments[i]
		s.IndexedTimestamp, s.IndexRows, s.SinceIndex, s.ScanFrom, s.StoredBytes = 0, 0, 0, 0, 0
	}
	return segments
}

// requireTrueRows checks SPEC 5.1.2: timestamps and offsets of a segment's rows
// grow, every row names a frame with its timestamp, and nothing newer lies before
// it.
func requireTrueRows(t testing.TB, p *engine.Partition) {
	t.Helper()
	offsets, err := p.Offsets()
	require.NoError(t, err)
	msgs := readAll(t, p, offsets.Start)
	var before retention.IndexRow
	for i, row := range indexRows(t, p) {
		if i > 0 && before.Base == row.Base {
			require.Greater(t, row.Timestamp, before.Timestamp)
			require.Greater(t, row.Offset, before.Offset)
		}
		before = row
		newest := none
		for _, m := range msgs {
			if m.Offset >= row.Base && m.Offset <= row.Offset {
				newest = max(newest, m.Timestamp)
			}
		}
		if row.Offset >= offsets.Start {
			require.Equal(t, row.Timestamp, newest, "row %+v", row)
		}
	}
}

// Truncation after DeleteBefore, at every pair of offsets: nothing below the log
// start comes back, nothing is left behind.
func TestTruncationAfterDeleteBeforeAtEveryPair(t *testing.T) {
	rng := seeded(t)
	sc := randomScript(rng, 12)
	n := sc.end()
	s := newStore(t)
	config := engine.TopicConfig{IndexIntervalBytes: engine.ExplicitZero}
	var all []*engine.Partition
	each := func(f func(d, x int64, p *engine.Partition)) {
		for d := range n + 1 {
			for x := d; x <= n; x++ {
				f(d, x, s.named(fmt.Sprintf("%d-%d", d, x), config))
			}
		}
	}
	check := func(d, x int64, p *engine.Partition, want []codec.Message) {
		requireBounds(t, p, d, x)
		require.Equal(t, want, readAll(t, p, d), "delete before %d, truncate to %d", d, x)
		requireLinear(t, p, want)
	}
	kept := make(map[[2]int64][]codec.Message)
	each(func(d, x int64, p *engine.Partition) {
		sc.build(t, s, p, math.MaxInt64)
		want := readAll(t, p, 0)[d:x]
		_, err := p.DeleteBefore(t.Context(), d)
		require.NoError(t, err)
		truncate(t, p, x)
		if len(want) == 0 {
			want = nil
		}
		kept[[2]int64{d, x}] = want
		check(d, x, p, want)
		all = append(all, p)
	})
	s.soundAfterwards(all...)
	each(func(d, x int64, p *engine.Partition) { check(d, x, p, kept[[2]int64{d, x}]) })
}

// requireLinear compares every search with a walk over the messages.
func requireLinear(t testing.TB, p *engine.Partition, msgs []codec.Message) {
	t.Helper()
	for _, q := range append(upTo(33), t0) {
		want := answer{q, none, notFound}
		newest := engine.Position{Offset: end(t, p), Timestamp: none}
		for _, m := range msgs {
			if m.Timestamp >= q && want.offset == notFound {
				want = answer{q, m.Timestamp, m.Offset}
			}
			if m.Timestamp > newest.Timestamp {
				newest = engine.Position{Offset: m.Offset, Timestamp: m.Timestamp, Found: true}
			}
		}
		requireSearch(t, p, want)
		requireNewest(t, p, newest)
	}
}
