package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// batchModel is what a store should hold of batches, numbered sets and committed
// offsets: the dumb version.
type batchModel struct {
	logs    []*modelLog
	offsets map[string]map[int]int64 // by group and log
}

type modelLog struct {
	values    []string // by offset
	producers map[string]*modelProducer
}

// modelProducer keeps every set of a producer; of known, the last ones, the
// receipts can be asked for.
type modelProducer struct {
	next  int64
	sets  []modelSet
	known int
}

type modelSet struct{ offset, count int64 }

func newBatchModel(logs int) *batchModel {
	m := &batchModel{offsets: make(map[string]map[int]int64)}
	for range logs {
		m.logs = append(m.logs, &modelLog{producers: make(map[string]*modelProducer)})
	}
	return m
}

func (m *batchModel) clone() *batchModel {
	c := newBatchModel(len(m.logs))
	for i, l := range m.logs {
		c.logs[i].values = slices.Clone(l.values)
		for name, p := range l.producers {
			c.logs[i].producers[name] = &modelProducer{p.next, slices.Clone(p.sets), p.known}
		}
	}
	for g, offsets := range m.offsets {
		c.offsets[g] = maps.Clone(offsets)
	}
	return c
}

// modelOp is one call that fills a batch: an append, numbered if it has a producer,
// a condition, or an offset of a group.
type modelOp struct {
	log      int
	values   []string
	producer string
	sequence int64
	expect   bool
	group    string
	offset   int64
}

// errModel is what the store should refuse a batch with.
type errModel string

func (e errModel) Error() string { return string(e) }

// apply returns the receipts' offsets and whether all sets were repeated, or why
// nothing happens. m is what is there afterwards in the first case only.
func (m *batchModel) apply(ops []modelOp) (offsets []int64, repeated bool, err error) {
	fresh := 0
	seen := make(map[string]bool) // producers with a fresh set in this batch
	was := m.clone()
	for _, op := range ops {
		if len(op.values) == 0 {
			continue
		}
		l := m.logs[op.log]
		if op.producer == "" {
			offsets, fresh = append(offsets, int64(len(l.values))), fresh+1
			l.values = append(l.values, op.values...)
			continue
		}
		key := fmt.Sprint(op.log, op.producer)
		p := l.producers[op.producer]
		if p == nil {
			p = &modelProducer{next: op.sequence}
			l.producers[op.producer] = p
		}
		back := int(p.next - op.sequence)
		switch {
		case op.sequence == p.next:
			offsets, fresh = append(offsets, int64(len(l.values))), fresh+1
			p.sets = append(p.sets, modelSet{int64(len(l.values)), int64(len(op.values))})
			p.known = min(p.known+1, engine.SequenceWindow)
			p.next++
			l.values = append(l.values, op.values...)
			seen[key] = true
		case !seen[key] && back > 0 && back <= p.known:
			offsets = append(offsets, p.sets[len(p.sets)-back].offset)
		default:
			return nil, false, errModel("sequence")
		}
	}
	if len(offsets) > 0 && fresh == 0 {
		return offsets, true, nil
	}
	for _, op := range ops {
		if op.expect && op.offset != int64(len(was.logs[op.log].values)) {
			return nil, false, errModel("conflict")
		}
		if op.group != "" {
			if m.offsets[op.group] == nil {
				m.offsets[op.group] = make(map[int]int64)
			}
			m.offsets[op.group][op.log] = op.offset
		}
	}
	return offsets, false, nil
}

// truncate cuts a log.
func (l *modelLog) truncate(offset int64) {
	l.values = l.values[:min(offset, int64(len(l.values)))]
	for name, p := range l.producers {
		cut := 0
		for n := len(p.sets); n > 0 && p.sets[n-1].offset+p.sets[n-1].count > offset; n-- {
			p.sets = p.sets[:n-1]
			cut++
		}
		p.next -= int64(cut)
		p.known -= cut
		if p.known < 0 || cut > 0 && len(p.sets) == 0 {
			delete(l.producers, name) // where its sequence stands is not known
		}
	}
}

// fill puts ops into a batch.
func fillBatch(b *engine.Batch, logs []*engine.Partition, ops []modelOp) {
	for _, op := range ops {
		p := logs[op.log]
		switch {
		case op.expect:
			b.Expect(p, op.offset)
		case op.group != "":
			b.CommitOffset(op.group, p, op.offset, "")
		default:
			msgs := make([]codec.Message, len(op.values))
			for i, v := range op.values {
				msgs[i] = text(v)
			}
			b.AppendSet(p, msgs, engine.AppendOptions{Producer: op.producer, Sequence: op.sequence})
		}
	}
}

// requireModel compares the store with the model.
func requireModel(t testing.TB, m *batchModel, db *engine.DB, logs []*engine.Partition) {
	t.Helper()
	require.NoError(t, m.diff(t, db, logs))
}

// diff returns how the store differs from the model, or nil.
func (m *batchModel) diff(t testing.TB, db *engine.DB, logs []*engine.Partition) error {
	for i, l := range m.logs {
		if got := values(t, logs[i]); !slices.Equal(l.values, got) {
			return fmt.Errorf("log %d: %q, expected %q", i, got, l.values)
		}
	}
	var groups []string
	for group, want := range m.offsets {
		list, err := db.Group(group).Offsets(t.Context())
		require.NoError(t, err)
		got := make(map[int]int64)
		for _, c := range list {
			got[slices.Index(logs, c.Partition)] = c.Offset
		}
		if !maps.Equal(want, got) {
			return fmt.Errorf("group %s: %v, expected %v", group, got, want)
		}
		if len(want) > 0 {
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	got, err := db.Groups(t.Context())
	require.NoError(t, err)
	if !slices.Equal(groups, got) {
		return fmt.Errorf("groups %q, expected %q", got, groups)
	}
	return nil
}

// batchScript makes random batches that a model takes, and some that it refuses.
type batchScript struct {
	rng   *rand.Rand
	count int
}

func (s *batchScript) ops(m *batchModel) []modelOp {
	ops := make([]modelOp, 1+s.rng.IntN(6))
	for i := range ops {
		op := modelOp{log: s.rng.IntN(len(m.logs))}
		l := m.logs[op.log]
		switch s.rng.IntN(10) {
		case 0:
			op.expect, op.offset = true, int64(len(l.values))
			if s.rng.IntN(5) == 0 {
				op.offset += int64(s.rng.IntN(3)) - 1
			}
		case 1, 2:
			op.group, op.offset = string(rune('A'+s.rng.IntN(3))), int64(s.rng.IntN(len(l.values)+2))
		default:
			for range 1 + s.rng.IntN(3) {
				s.count++
				op.values = append(op.values, fmt.Sprint("v", s.count))
			}
			if s.rng.IntN(3) > 0 {
				op.producer = string(rune('x' + s.rng.IntN(3)))
				if p := l.producers[op.producer]; p != nil {
					op.sequence = p.next
					if s.rng.IntN(4) == 0 {
						op.sequence = max(p.next+int64(s.rng.IntN(14))-12, 0)
					}
				}
			}
		}
		ops[i] = op
	}
	return ops
}

// Random batches, truncations and deletions, with reopens in between, agree with
// the model.
func TestBatchesAgreeWithTheModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for round := range uint64(20) {
		script := &batchScript{rng: rand.New(rand.NewPCG(seed, round))}
		s := newStoreWith(t, engine.Options{Durability: []engine.Durability{engine.SyncAlways, engine.SyncNever}[round%2]})
		m := newBatchModel(3)
		logs := modelLogs(t, s.DB)
		for range 120 {
			logs = stepModel(t, script, s, m, logs)
		}
		requireModel(t, m, s.DB, logs)
	}
}

// modelLogs returns the partitions of the model's logs, over two topics.
func modelLogs(t testing.TB, db *engine.DB) []*engine.Partition {
	t.Helper()
	one, err := db.EnsureTopic("one", casesConfig(engine.TopicConfig{SegmentBytes: 2000}))
	require.NoError(t, err)
	two, err := db.EnsureTopic("two", casesConfig(engine.TopicConfig{Partitions: 2}))
	require.NoError(t, err)
	return []*engine.Partition{one.Partition(0), two.Partition(0), two.Partition(1)}
}

func stepModel(t *testing.T, script *batchScript, s *store, m *batchModel, logs []*engine.Partition) []*engine.Partition {
	t.Helper()
	n := script.rng.IntN(len(logs))
	l := m.logs[n]
	switch script.rng.IntN(30) {
	case 0:
		s.reopen()
		logs = modelLogs(t, s.DB)
		requireModel(t, m, s.DB, logs)
	case 1, 2:
		offset := int64(script.rng.IntN(len(l.values) + 1))
		require.NoError(t, logs[n].TruncateTo(t.Context(), offset))
		l.truncate(offset)
	case 3:
		require.NoError(t, logs[n].Drop(t.Context()))
		*l = *newBatchModel(1).logs[0]
		for _, offsets := range m.offsets {
			delete(offsets, n)
		}
	case 4:
		require.NoError(t, s.Group("A").Delete(t.Context()))
		delete(m.offsets, "A")
	case 5:
		require.NoError(t, s.Group("B").Forget(t.Context(), logs[n]))
		delete(m.offsets["B"], n)
	default:
		stepBatch(t, script, s, m, logs)
	}
	return logs
}

func stepBatch(t *testing.T, script *batchScript, s *store, m *batchModel, logs []*engine.Partition) {
	t.Helper()
	ops := script.ops(m)
	after := m.clone()
	want, repeated, wantErr := after.apply(ops)
	b := s.NewBatch()
	fillBatch(b, logs, ops)
	receipts, err := b.Commit(t.Context())
	_, conflict := errors.AsType[*engine.ConflictError](err)
	_, sequence := errors.AsType[*engine.SequenceError](err)
	if wantErr != nil {
		require.Equal(t, wantErr == errModel("conflict"), conflict, "%v, expected %v: %+v", err, wantErr, ops)
		require.Equal(t, wantErr == errModel("sequence"), sequence, "%v, expected %v: %+v", err, wantErr, ops)
		requireModel(t, m, s.DB, logs)
		return
	}
	require.NoError(t, err, "%+v", ops)
	var got []int64
	for _, r := range receipts {
		got = append(got, r.Offset)
	}
	require.Equal(t, want, got, "%+v", ops)
	if !repeated {
		*m = *after
	}
}
