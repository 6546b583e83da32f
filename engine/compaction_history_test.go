package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/compaction"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/engine/enginetest"
)

// interruptCompaction ends a pass after its first step.
func (s *store) interruptCompaction(p *engine.Partition) {
	s.t.Helper()
	steps := int64(0)
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	_, err := p.Compact(ctx, engine.CompactOptions{Progress: func(at compaction.Progress) {
		if steps = at.Stats.Steps; steps > 0 {
			cancel()
		}
	}})
	if err != nil {
		require.ErrorIs(s.t, err, context.Canceled)
	}
}

// kept is a message as the model has it.
type kept struct {
	codec.Message
	horizon codec.Timestamp // of a tombstone, -1 before a pass kept it
}

// compactedModel is SPEC 9.5-9.8 in ten lines, for a log whose messages below an
// offset are cleaned.
func compactedModel(log []kept, cleanable int64, now, retention codec.Timestamp) (left []kept) {
	newest := map[string]int64{}
	for _, m := range log {
		if m.Key != nil && m.Offset < cleanable {
			newest[string(m.Key)] = m.Offset
		}
	}
	for _, m := range log {
		if m.Offset < cleanable {
			if m.Key == nil || newest[string(m.Key)] > m.Offset || m.horizon >= 0 && m.horizon <= now {
				continue
			}
			if m.Value == nil && m.horizon < 0 {
				m.horizon = now + retention
			}
		}
		left = append(left, m)
	}
	return left
}

// compactedHistory is a random log beside its model.
type compactedHistory struct {
	*store
	t      testing.TB
	rng    *rand.Rand
	p      *engine.Partition
	config engine.TopicConfig
	keys   int

	model      []kept
	start, end int64
	// lost are the keys that had a message cut off with the log's end, since the
	// last append of theirs: a pass may have dropped an older one for it before.
	lost map[string]bool
	// release lets the store maintain itself: it is not to do anything that the
	// model does not know of. Close waits for it.
	release func()
}

func newCompactedHistory(t testing.TB, rng *rand.Rand) *compactedHistory {
	h := &compactedHistory{store: newStore(t), t: t, rng: rng, keys: 1 + rng.IntN(12), lost: map[string]bool{}}
	h.clock.set(1000)
	h.config = compacting(1 + rng.Int64N(8))
	h.config.CleanupPolicy = engine.CleanupCompactDelete
	h.config.IndexIntervalBytes = []int64{engine.ExplicitZero, 150, 4096}[rng.IntN(3)]
	h.config.DeleteRetention = ms(1 + rng.Int64N(80))
	h.config.Retention = limits([...]int64{-1, 60, 200}[rng.IntN(3)], [...]int64{-1, -1, 700}[rng.IntN(3)])
	h.p = h.log(h.config)
	h.release = h.HoldMaintenance()
	t.Cleanup(func() { h.release() })
	return h
}

// again closes the store and opens it. What maintenance did meanwhile is taken
// over.
func (h *compactedHistory) again() {
	h.t.Helper()
	h.release()
	h.exactAfterwards(h.p)
	h.release = h.HoldMaintenance()
	h.p = h.log(h.config)
	offsets, err := h.p.Offsets()
	require.NoError(h.t, err)
	h.raise(offsets.Start, nil)
}

func (h *compactedHistory) messages() []codec.Message {
	msgs := make([]codec.Message, 1+h.rng.IntN(5))
	for i := range msgs {
		m := &msgs[i]
		m.TimestampType = codec.CreateTime
		m.Timestamp = h.clock.read() + codec.Timestamp(h.rng.IntN(60)-30)
		if h.rng.IntN(12) == 0 {
			m.Timestamp = none
		}
		m.Key = fmt.Append(nil, "k", h.rng.IntN(h.keys))
		if h.rng.IntN(8) == 0 {
			m.Key = append(m.Key, "a key of more than twenty-seven bytes"...)
		}
		if h.config.CleanupPolicy == engine.CleanupDelete && h.rng.IntN(4) == 0 {
			m.Key = nil
		}
		if h.rng.IntN(4) > 0 {
			m.Value = make([]byte, h.rng.IntN(30))
		}
	}
	return msgs
}

func (h *compactedHistory) appendSet() {
	msgs := h.messages()
	r, err := h.p.AppendSet(h.t.Context(), msgs, engine.AppendOptions{Compression: codec.Compression(h.rng.IntN(4))})
	if errors.Is(err, codec.ErrRecordListTooLarge) {
		return
	}
	require.NoError(h.t, err)
	require.Equal(h.t, h.end, r.Offset)
	for i, m := range cloneMessages(msgs) {
		m.Offset = r.Offset + int64(i)
		h.model = append(h.model, kept{m, -1})
		delete(h.lost, string(m.Key))
	}
	h.end = r.Offset + int64(len(msgs))
}

func (h *compactedHistory) cut(offset int64) {
	require.NoError(h.t, h.p.TruncateTo(h.t.Context(), offset))
	if offset < h.end {
		h.model = slices.DeleteFunc(h.model, func(m kept) bool {
			if m.Offset >= offset {
				h.lost[string(m.Key)] = true
			}
			return m.Offset >= offset
		})
		h.end = offset
		h.start = min(h.start, offset)
	}
}

// raise takes over a log start: it never falls.
func (h *compactedHistory) raise(start int64, err error) {
	require.NoError(h.t, err)
	require.GreaterOrEqual(h.t, start, h.start)
	h.start = start
	h.model = slices.DeleteFunc(h.model, func(m kept) bool { return m.Offset < start })
}

func (h *compactedHistory) retain() {
	r, err := h.p.Retain(h.t.Context(), engine.RetainOptions{})
	h.raise(r.Start, err)
}

func (h *compactedHistory) deleteBefore() {
	h.raise(h.p.DeleteBefore(h.t.Context(), h.start+h.rng.Int64N(h.end-h.start+1)))
}

func (h *compactedHistory) compact() {
	if h.config.CleanupPolicy == engine.CleanupDelete {
		return
	}
	segments, err := h.p.Segments()
	require.NoError(h.t, err)
	cleanable, now := segments[len(segments)-1].Base, h.clock.read()
	_, err = h.p.Compact(h.t.Context(), engine.CompactOptions{MapBytes: []int64{1, 100, 1 << 20}[h.rng.IntN(3)]})
	require.NoError(h.t, err)
	h.model = compactedModel(h.model, cleanable, now, codec.Timestamp(h.config.DeleteRetention.Milliseconds()))
}

func (h *compactedHistory) step() string {
	h.clock.add(codec.Timestamp(h.rng.IntN(40)))
	switch n := h.rng.IntN(24); n {
	case 0:
		at := max(0, h.end-h.rng.Int64N(8))
		h.cut(at)
		return fmt.Sprint("truncate to ", at)
	case 1:
		h.deleteBefore()
		return "delete before"
	case 2:
		h.retain()
		return "retain"
	case 3:
		require.NoError(h.t, h.p.Roll(h.t.Context()))
		return "roll"
	case 4:
		h.again()
		return "reopen"
	case 5:
		h.config.CleanupPolicy = engine.CleanupDelete + engine.CleanupCompactDelete - h.config.CleanupPolicy
		h.alter(h.config)
		return "alter"
	case 6, 7, 8, 9:
		h.compact()
		return "compact"
	default:
		h.appendSet()
		return "append"
	}
}

func (h *compactedHistory) check(op string) {
	h.t.Helper()
	require.NoError(h.t, enginetest.CheckVerified(h.t.Context(), h.DB), op)
	requireBounds(h.t, h.p, h.start, h.end)
	want := make([]codec.Message, len(h.model))
	for i, m := range h.model {
		want[i] = m.Message
	}
	require.Equal(h.t, describe(want), survivors(h.t, h.p), op)
}

// Compaction in random histories with truncation, retention, moved log starts,
// reopenings and changes of policy, with maps of all sizes: what is left is what a
// model of ten lines leaves, and what is stored agrees with itself.
func TestCompactionHistoriesAgreeWithModel(t *testing.T) {
	bubble(t, compactionHistories) // where maintenance has no time to interfere
}

func compactionHistories(t *testing.T) {
	rng := seeded(t)
	for range rounds(t, 60) {
		h := newCompactedHistory(t, rng)
		for range 60 {
			h.check(h.step())
		}
		now := h.clock.read()
		requireSearchesAgree(t, h.p, now-120, now+40)
		if h.config.CleanupPolicy != engine.CleanupDelete {
			require.NoError(t, h.p.Roll(t.Context()))
			h.compact()
			h.check("last")
		}
		h.again()
		h.check("reopened")
		requireSearchesAgree(t, h.p, now-120, now+40)
		h.again()
	}
}

// P08, U06 and more: between any two steps of a pass the log is cut, its start
// moved, it grows, rolls, expires or is not to be compacted any more. What is gone
// stays gone, the log start never falls, the newest message of a key is never
// lost, and later passes come to a clean end.
func TestLogChangesDuringAPass(t *testing.T) {
	bubble(t, logChangesDuringAPass)
}

func logChangesDuringAPass(t *testing.T) {
	rng := seeded(t)
	overtaken := 0
	for range rounds(t, 60) {
		h := newCompactedHistory(t, rng)
		h.config.DeleteRetention = engine.Forever // or a tombstone is the newest, and goes
		h.alter(h.config)
		for range 3 {
			for range 4 + rng.IntN(20) {
				h.appendSet()
			}
			require.NoError(t, h.p.Roll(t.Context()))
			r, err := h.p.Compact(t.Context(), engine.CompactOptions{
				MapBytes: []int64{100, 1 << 20}[rng.IntN(2)],
				Progress: func(compaction.Progress) { h.change() }, // between any two steps
			})
			require.NoError(t, err)
			if r.Overtaken {
				overtaken++
			}
			h.requireNewest()
			requireBounds(t, h.p, h.start, h.end)
			if rng.IntN(3) == 0 {
				h.again()
				h.requireNewest()
			}
			require.NoError(t, h.p.Roll(t.Context()))
			_, err = h.p.Compact(t.Context(), engine.CompactOptions{})
			require.NoError(t, err)
			h.requireNewest()
			left := left(t, h.p)
			require.Len(t, left, len(newestOf(left)), "a key is there twice")
			now := h.clock.read()
			requireSearchesAgree(t, h.p, now-60, now+40)
			h.again()
			h.model = h.model[:0]
			for _, m := range left {
				h.model = append(h.model, kept{m, -1})
			}
		}
	}
	require.Positive(t, overtaken)
}

// change does something to a log that is compacted. The model keeps all that
// might be left.
func (h *compactedHistory) change() {
	switch h.rng.IntN(12) {
	case 0:
		h.cut(max(h.start, h.end-h.rng.Int64N(h.end-h.start+1)))
	case 1:
		h.deleteBefore()
	case 2:
		h.retain()
	case 3:
		require.NoError(h.t, h.p.Roll(h.t.Context()))
	case 4:
		require.NoError(h.t, h.p.ResetTo(h.t.Context(), h.end))
		h.model, h.start = nil, h.end
	case 5:
		for _, policy := range []engine.CleanupPolicy{engine.CleanupDelete, engine.CleanupCompactDelete} {
			h.config.CleanupPolicy = policy
			h.alter(h.config)
		}
	case 6, 7:
		h.appendSet()
	}
}

// requireNewest requires that what is left are messages of the model, among them
// the newest of every key whose newest was not cut off with the log's end. Of a
// key that was, an older one may be left or none.
func (h *compactedHistory) requireNewest() {
	h.t.Helper()
	left := left(h.t, h.p)
	all := make([]codec.Message, len(h.model))
	for i, m := range h.model {
		all[i] = m.Message
	}
	requireSubset(h.t, left, all)
	newest, got := newestOf(all), newestOf(left)
	for key := range newest {
		if !h.lost[key] {
			require.Equal(h.t, newest[key], got[key], "key %s", key)
		}
	}
}
