package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// compactedTags is a compacted topic with tags, whose tombstones and markers go a
// second after the pass that first keeps them.
func compactedTags() engine.TopicConfig {
	c := enriched()
	c.CleanupPolicy, c.MinCleanableRatio, c.DeleteRetention = engine.CleanupCompact, 1, ms(1000)
	return c
}

// SPEC 9.15: a message of an aborted transaction costs no older one of its key, and
// goes.
func TestCompactionDropsAbortedMessages(t *testing.T) { // 9.15
	for _, c := range []codec.Compression{codec.None, codec.Snappy} {
		s := newStore(t)
		p := s.log(compactedTags())
		_, err := p.Append(t.Context(), kv("k", "old"))
		require.NoError(t, err)
		tx := begin(t, s, 7)
		_, err = tx.AppendSet(t.Context(), p, []codec.Message{kv("k", "aborted"), kv("l", "aborted")}, engine.AppendOptions{Compression: c})
		require.NoError(t, err)
		require.NoError(t, tx.Abort(t.Context()))
		require.NoError(t, p.Roll(t.Context()))
		r := compacted(t, p)
		require.EqualValues(t, 2, r.Aborted)
		require.Equal(t, "old", visible(t, p, engine.ReadCommitted))
		require.Equal(t, "old", visible(t, p, engine.ReadUncommitted))
		require.Len(t, controlsOf(t, p, 0), 2, "the markers stay for now")
	}
}

// SPEC 9.15: what an open transaction holds back is not cleaned, nor does it cost
// what is older.
func TestCompactionWaitsForOpenTransactions(t *testing.T) { // 9.15
	s := newStore(t)
	p := s.log(compactedTags())
	fillKeys := func(vs ...string) {
		for _, v := range vs {
			_, err := p.Append(t.Context(), kv("k", v))
			require.NoError(t, err)
		}
		require.NoError(t, p.Roll(t.Context()))
	}
	fillKeys("a", "b")
	tx := begin(t, s, 7)
	_, err := tx.Append(t.Context(), p, kv("k", "c"))
	require.NoError(t, err)
	fillKeys("d")
	compacted(t, p)
	require.Equal(t, "b c d", visible(t, p, engine.ReadUncommitted))
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, p.Roll(t.Context()))
	compacted(t, p)
	require.Equal(t, "d", visible(t, p, engine.ReadCommitted))
}

// SPEC 9.15: an end marker stays while a message of its transaction does and then
// until its horizon; the start marker goes with the pass after. A leader epoch stays
// for ever.
func TestCompactionKeepsMarkersWhileTheyAreNeeded(t *testing.T) { // 9.15
	s := newStore(t)
	p := s.log(compactedTags())
	_, err := p.BeginEpoch(t.Context(), 1)
	require.NoError(t, err)
	tx := begin(t, s, 7)
	_, err = tx.Append(t.Context(), p, kv("k", "a"))
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	types := func() (list []codec.ControlType) {
		for _, c := range controlsOf(t, p, 0) {
			list = append(list, c.Type)
		}
		return list
	}
	pass := func(value string) engine.CompactResult {
		_, err := p.Append(t.Context(), kv("k", value))
		require.NoError(t, err)
		require.NoError(t, p.Roll(t.Context()))
		return compacted(t, p)
	}
	require.NoError(t, p.Roll(t.Context()))
	compacted(t, p)
	s.clock.add(5000)
	all := []codec.ControlType{codec.ControlLeaderEpoch, codec.ControlBegin, codec.ControlCommit}
	pass("b") // the message of the transaction is gone: the marker gets its horizon
	require.Equal(t, all, types())
	require.Equal(t, "b", visible(t, p, engine.ReadCommitted))
	pass("c")
	require.Equal(t, all, types(), "the horizon has not passed")
	s.clock.add(1001)
	require.EqualValues(t, 1, pass("d").Markers)
	require.Equal(t, all[:2], types())
	require.Zero(t, transactionRows(t, s))
	p = s.log(compactedTags())
	require.EqualValues(t, 1, pass("e").Markers)
	require.Equal(t, all[:1], types())
	require.Equal(t, "e", visible(t, p, engine.ReadCommitted))
	epochs, err := p.Epochs(t.Context())
	require.NoError(t, err)
	require.Equal(t, []engine.Epoch{{Epoch: 1, Start: 0}}, epochs)
}

// SPEC 9.15, 9.7: an end marker whose messages are gone is removed when its horizon
// has passed, without anything else to do.
func TestMarkersFallDueByThemselves(t *testing.T) { // 9.15
	s := newStore(t)
	config := compactedTags()
	config.MinCleanableRatio = engine.CleanAlways
	p := s.log(config)
	tx := begin(t, s, 7)
	_, err := tx.Append(t.Context(), p, kv("k", "a"))
	require.NoError(t, err)
	require.NoError(t, tx.Abort(t.Context()))
	require.NoError(t, p.Roll(t.Context()))
	compacted(t, p)
	_, due := p.CleanPoint()
	require.Equal(t, t0+1000, due)
	s.clock.add(1000)
	require.EqualValues(t, 1, compacted(t, p).Markers)
	require.Len(t, controlsOf(t, p, 0), 1)
}

// Random histories with few keys: compaction never changes the newest committed
// value of a key, nor what is open, at any point, and not over a reopen.
func TestCompactionKeepsCommittedValues(t *testing.T) { // 9.1, 9.15
	for range rounds(t, 15) {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		s := newStore(t)
		config := compactedTags()
		config.SegmentBytes = 600
		x := newTxStore(t, s.DB, 1, config)
		for i := range 60 {
			switch n := rng.IntN(10); {
			case n < 7:
				step := txStep{kind: []string{"append", "append", "plain", "commit", "abort"}[rng.IntN(5)], id: 1 + rng.Int64N(2), compress: rng.IntN(3) == 0}
				if step.kind == "plain" {
					step.id = 0
				}
				for range 1 + rng.IntN(3) {
					step.values = append(step.values, fmt.Sprint(rng.IntN(4)))
				}
				x.runKeyed(t, step, i)
			case n < 8:
				s.clock.add(codec.Timestamp(rng.IntN(800)))
			case n < 9:
				s.reopen()
				x = newTxStore(t, s.DB, 1, config)
			default:
				p := x.logs[0]
				require.NoError(t, p.Roll(t.Context()))
				before, open := newestCommitted(t, p), openIDs(t, s)
				_, err := p.Compact(t.Context(), engine.CompactOptions{})
				require.NoError(t, err)
				require.Equal(t, before, newestCommitted(t, p), "seed %d, step %d", seed, i)
				require.Equal(t, open, openIDs(t, s), "seed %d, step %d", seed, i)
			}
		}
		s.exactAfterwards(x.logs[0])
	}
}

// runKeyed is run with the values as keys.
func (x *txStore) runKeyed(t testing.TB, s txStep, i int) {
	t.Helper()
	if s.kind == "commit" || s.kind == "abort" {
		x.run(t, s)
		return
	}
	var o engine.AppendOptions
	if s.compress {
		o.Compression = codec.LZ4
	}
	var msgs []codec.Message
	for j, key := range s.values {
		m := kv(key, fmt.Sprint(i, ".", j))
		if j == 2 {
			m.Value = nil
		}
		msgs = append(msgs, m)
	}
	var err error
	if s.id == 0 {
		_, err = x.logs[0].AppendSet(t.Context(), msgs, o)
	} else {
		_, err = x.handle(t, s.id).AppendSet(t.Context(), x.logs[0], msgs, o)
	}
	require.NoError(t, err)
}

// newestCommitted returns the newest committed value of each key; a tombstone is none.
func newestCommitted(t testing.TB, p *engine.Partition) map[string]string {
	t.Helper()
	newest := make(map[string]string)
	for m, err := range p.Read(t.Context(), 0, engine.ReadOptions{Isolation: engine.ReadCommitted}) {
		require.NoError(t, err)
		if m.Value == nil {
			delete(newest, string(m.Key))
		} else {
			newest[string(m.Key)] = string(m.Value)
		}
	}
	return newest
}

func openIDs(t testing.TB, s *store) (ids []int64) {
	t.Helper()
	open, err := s.OpenTransactions(t.Context())
	require.NoError(t, err)
	for _, o := range open {
		ids = append(ids, o.ID)
	}
	return ids
}
