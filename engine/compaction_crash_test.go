package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/compaction"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/engine/enginetest"
)

// newestOf returns the newest message of every key.
func newestOf(msgs []codec.Message) map[string]string {
	newest := map[string]string{}
	for _, m := range msgs {
		newest[string(m.Key)] = fmt.Sprintf("%d@%d %x", m.Offset, int64(m.Timestamp), m.Value)
	}
	return newest
}

// K02: the power is cut at every write of a compaction, in several ways. What
// comes back holds the newest message of every key, no message that was not there
// before and all that are there afterwards; borders and searches are right; and
// compacting again leads to the same end. cuts must be of several kinds.
func checkPowerCutsInCompaction(t *testing.T, w *powered, topic string) {
	t.Helper()
	log := func(s *store) *engine.Partition { return s.named(topic, engine.TopicConfig{}) }
	compact := func(s *store) {
		_, err := log(s).Compact(t.Context(), engine.CompactOptions{Progress: func(compaction.Progress) {
			require.NoError(t, s.Sync(t.Context())) // or the steps reach the disk together
		}})
		require.NoError(t, err)
	}
	s := w.open(w.fresh())
	before := readAll(t, log(s), 0)
	compact(s)
	after := readAll(t, log(s), 0)
	require.NoError(t, s.Close())
	require.Less(t, len(after), len(before))

	kinds := map[string]int{}
	for k := 0; ; k++ {
		fs := w.fresh()
		s := w.open(fs)
		fs.arm(k)
		compact(s)
		acked := !fs.wasCut()
		if acked {
			fs.cut()
		}
		require.NoError(t, s.Close())
		for _, mem := range fs.cuts {
			s := w.open(steadyMem{mem})
			p := log(s)
			require.NoError(t, enginetest.CheckVerified(t.Context(), s.DB), "cut %d", k)
			left := readAll(t, p, 0)
			switch text := describe(left); {
			case text == describe(after):
				kinds["after"]++
			case text == describe(before):
				kinds["before"]++
			default:
				kinds["between"]++
			}
			require.False(t, acked && describe(left) != describe(after), "what was acknowledged came back otherwise")
			require.Equal(t, newestOf(before), newestOf(left), "cut %d", k)
			requireSubset(t, after, left)
			requireSubset(t, left, before)
			requireBounds(t, p, 0, before[len(before)-1].Offset+1)
			requireSearchesAgree(t, p, 0, 40)
			compact(s)
			require.Equal(t, after, readAll(t, p, 0), "cut %d", k)
			offsets, err := p.Offsets()
			require.NoError(t, err)
			require.NoError(t, s.Close())
			s.edit(func(pdb *pebble.DB) { exact(t, pdb, p, offsets) })
		}
		if acked {
			break
		}
	}
	t.Log(kinds)
	require.Positive(t, kinds["before"])
	require.Positive(t, kinds["after"])
	require.Positive(t, kinds["between"], "no cut was in the middle")
}

// requireSubset requires that every message of part is one of whole, in order.
func requireSubset(t testing.TB, part, whole []codec.Message) {
	t.Helper()
	for len(part) > 0 && len(whole) > 0 {
		if part[0].Offset == whole[0].Offset {
			require.Equal(t, whole[0], part[0])
			part = part[1:]
		}
		whole = whole[1:]
	}
	require.Empty(t, part)
}

// noise is bytes that no codec makes smaller.
func noise(n int, seed int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(b) // never fails
	return b
}

// K02 on ten small segments: a group of segments is one step.
func TestK02PowerCutsBetweenGroups(t *testing.T) {
	w := newPowered(t, func(s *store) {
		config := compacting(3)
		config.IndexIntervalBytes = engine.ExplicitZero
		p := s.named("a", config)
		for i := range 10 {
			pack(t, p, codec.None, fmt.Sprintf("a@%d b%d@%d", i, i%4, 30-i))
			pack(t, p, codec.None, fmt.Sprintf("c%d@%d", i, i))
		}
		fill(t, p, "|")
	})
	checkPowerCutsInCompaction(t, w, "a")
}

// K02 on one large group of several steps: within it the segment rows say more
// than is there.
func TestK02PowerCutsWithinAGroup(t *testing.T) {
	bubble(t, powerCutsWithinAGroup) // no real time goes by
}

func powerCutsWithinAGroup(t *testing.T) {
	w := newPowered(t, func(s *store) {
		p := s.named("a", engine.TopicConfig{CleanupPolicy: engine.CleanupCompact, MinCleanableRatio: 1, SegmentBytes: 1 << 20, MaxMessageBytes: 1 << 20})
		for i := range 8 {
			msgs := keyed(t, fmt.Sprintf("a@%d b%d@%d", 30-i, i, i))
			for j := range msgs {
				msgs[j].Value = noise(80<<10, 2*i+j)
			}
			_, err := p.AppendSet(t.Context(), msgs, engine.AppendOptions{Compression: codec.Gzip})
			require.NoError(t, err)
			if i == 6 {
				fill(t, p, "|")
			}
		}
		fill(t, p, "|")
	})
	checkPowerCutsInCompaction(t, w, "a")
}

// A crash in the middle of a group leaves rows that say too much. A truncation
// there counts what stays.
func TestTruncationWhereAPassEnded(t *testing.T) {
	s := newStore(t)
	p := s.log(largeConfig)
	for i := range 12 {
		msgs := keyed(t, fmt.Sprintf("a@%d b%d@%d", 30-i, i, i))
		for j := range msgs {
			msgs[j].Value = noise(80<<10, 2*i+j)
		}
		_, err := p.AppendSet(t.Context(), msgs, engine.AppendOptions{Compression: codec.Gzip})
		require.NoError(t, err)
	}
	fill(t, p, "|")
	for _, cut := range []int64{20, 17, 6, 5} {
		s.interruptCompaction(p)
		require.NoError(t, p.TruncateTo(t.Context(), cut))
		requireSearchesAgree(t, p, 0, 40)
		s.exactAfterwards(p)
		p = s.log(engine.TopicConfig{})
		requireBounds(t, p, 0, cut)
		segments, err := p.Segments()
		require.NoError(t, err)
		require.Zero(t, segments[0].FirstTimestamp)
		fill(t, p, fmt.Sprintf("a@%d |", cut))
	}
}
