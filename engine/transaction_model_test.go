package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/engine/enginetest"
)

// txModel is what logs with transactions should hold: the dumb version.
type txModel struct{ logs []txLog }

// txLog is a log as a list of what stands at each offset.
type txLog []txRecord

type txRecord struct {
	control codec.ControlType // 0: a message
	id      int64             // of a control message or of a message's transaction; 0 for none
	value   string
}

// txStep is one call. Each is atomic.
type txStep struct {
	kind     string // append, plain, commit, abort, cut, roll
	log      int
	id       int64
	values   []string
	compress bool
	offset   int64
}

func (m *txModel) clone() *txModel {
	c := new(txModel)
	for _, l := range m.logs {
		c.logs = append(c.logs, slices.Clone(l))
	}
	return c
}

// open returns where the open transactions of a log start.
func (l txLog) open() map[int64]int {
	open := make(map[int64]int)
	for i, r := range l {
		switch r.control {
		case codec.ControlBegin:
			open[r.id] = i
		case codec.ControlCommit, codec.ControlAbort:
			delete(open, r.id)
		}
	}
	return open
}

// committed returns the values a reader of committed messages sees.
func (l txLog) committed() (list []string) {
	end := len(l)
	for _, start := range l.open() {
		end = min(end, start)
	}
	for i, r := range l[:end] {
		if r.control == 0 && (r.id == 0 || l.fate(i) == codec.ControlCommit) {
			list = append(list, r.value)
		}
	}
	return list
}

// fate returns how the transaction of the message at i ended.
func (l txLog) fate(i int) codec.ControlType {
	for _, r := range l[i:] {
		if r.id == l[i].id && (r.control == codec.ControlCommit || r.control == codec.ControlAbort) {
			return r.control
		}
	}
	return 0
}

func (l txLog) all() (list []string) {
	for _, r := range l {
		if r.control == 0 {
			list = append(list, r.value)
		}
	}
	return list
}

func (m *txModel) apply(s txStep) {
	l := &m.logs[s.log]
	switch s.kind {
	case "append":
		if _, open := l.open()[s.id]; !open {
			*l = append(*l, txRecord{control: codec.ControlBegin, id: s.id})
		}
		fallthrough
	case "plain":
		for _, v := range s.values {
			*l = append(*l, txRecord{id: s.id, value: v})
		}
	case "commit", "abort":
		control := codec.ControlCommit
		if s.kind == "abort" {
			control = codec.ControlAbort
		}
		for i := range m.logs {
			if _, open := m.logs[i].open()[s.id]; open {
				m.logs[i] = append(m.logs[i], txRecord{control: control, id: s.id})
			}
		}
	case "cut":
		*l = (*l)[:min(s.offset, int64(len(*l)))]
	}
}

// txScript returns steps, and what is there after the first n of them.
func txScript(rng *rand.Rand, logs, steps int) (script []txStep, after []*txModel) {
	m := &txModel{logs: make([]txLog, logs)}
	after = append(after, m)
	for i := range steps {
		s := txStep{log: rng.IntN(logs), id: 1 + rng.Int64N(3), compress: rng.IntN(3) == 0}
		for v := range 1 + rng.IntN(3) {
			s.values = append(s.values, fmt.Sprintf("%d.%d", i, v))
		}
		switch n := rng.IntN(20); {
		case n < 8:
			s.kind = "append"
		case n < 11:
			s.kind, s.id = "plain", 0
		case n < 14:
			s.kind = "commit"
		case n < 17:
			s.kind = "abort"
		case n < 18:
			s.kind, s.offset = "cut", rng.Int64N(int64(len(m.logs[s.log])+1))
		default:
			s.kind = "roll"
		}
		m = m.clone()
		m.apply(s)
		script, after = append(script, s), append(after, m)
	}
	return script, after
}

// txStore runs steps on a store.
type txStore struct {
	db      *engine.DB
	logs    []*engine.Partition
	handles map[int64]*engine.Transaction
}

func newTxStore(t testing.TB, db *engine.DB, logs int, config engine.TopicConfig) *txStore {
	t.Helper()
	s := &txStore{db: db, handles: make(map[int64]*engine.Transaction)}
	for i := range logs {
		topic, err := db.EnsureTopic(fmt.Sprint("log", i), casesConfig(config))
		require.NoError(t, err)
		s.logs = append(s.logs, topic.Partition(0))
	}
	return s
}

// handle returns the handle of a transaction: resumed if it is open.
func (x *txStore) handle(t testing.TB, id int64) *engine.Transaction {
	t.Helper()
	if x.handles[id] != nil {
		return x.handles[id]
	}
	tx, err := x.db.Resume(t.Context(), id)
	if err != nil {
		require.ErrorIs(t, err, engine.ErrTransaction)
		tx, err = x.db.Begin(t.Context(), id)
	}
	require.NoError(t, err)
	x.handles[id] = tx
	return tx
}

func (x *txStore) run(t testing.TB, s txStep) {
	t.Helper()
	p := x.logs[s.log]
	var msgs []codec.Message
	for _, v := range s.values {
		msgs = append(msgs, kv(v, v))
	}
	var o engine.AppendOptions
	if s.compress {
		o.Compression = codec.LZ4
	}
	var err error
	switch s.kind {
	case "append":
		_, err = x.handle(t, s.id).AppendSet(t.Context(), p, msgs, o)
	case "plain":
		_, err = p.AppendSet(t.Context(), msgs, o)
	case "commit":
		err = x.handle(t, s.id).Commit(t.Context())
		delete(x.handles, s.id)
	case "abort":
		err = x.handle(t, s.id).Abort(t.Context())
		delete(x.handles, s.id)
	case "cut":
		err = p.TruncateTo(t.Context(), s.offset)
	case "roll":
		err = p.Roll(t.Context())
	}
	require.NoError(t, err, "%+v", s)
}

// diff returns how the store differs from the model, or nil.
func (m *txModel) diff(t testing.TB, x *txStore) error {
	t.Helper()
	want := make(map[int64][]string)
	for i, l := range m.logs {
		p := x.logs[i]
		if got := visible(t, p, engine.ReadUncommitted); got != joined(l.all()) {
			return fmt.Errorf("log %d: %s, expected %s", i, got, joined(l.all()))
		}
		if got := visible(t, p, engine.ReadCommitted); got != joined(l.committed()) {
			return fmt.Errorf("log %d, committed: %s, expected %s", i, got, joined(l.committed()))
		}
		offset := 0
		for _, c := range controlsOf(t, p, 0) {
			for offset < int(c.Offset) && offset < len(l) && l[offset].control == 0 {
				offset++
			}
			if offset >= len(l) || l[offset].control != c.Type || l[offset].id != c.ID || int64(offset) != c.Offset {
				return fmt.Errorf("log %d: unexpected %+v", i, c)
			}
			offset++
		}
		if got := end(t, p); got != int64(len(l)) {
			return fmt.Errorf("log %d ends at %d, expected %d", i, got, len(l))
		}
		for id, start := range l.open() {
			want[id] = append(want[id], fmt.Sprintf("%s@%d", p.Topic(), start))
		}
	}
	open, err := x.db.OpenTransactions(t.Context())
	require.NoError(t, err)
	got := make(map[int64][]string)
	for _, o := range open {
		for _, at := range o.Partitions {
			got[o.ID] = append(got[o.ID], fmt.Sprintf("%s@%d", at.Topic, at.Start))
		}
	}
	if !maps.EqualFunc(want, got, slices.Equal) {
		return fmt.Errorf("open: %v, expected %v", got, want)
	}
	return nil
}

// Random histories of transactions over two logs agree with the model after each
// step, and after reopening (S81, SPEC 10.7.10).
func TestTransactionsAgreeWithAModel(t *testing.T) {
	for range rounds(t, 20) {
		seed := rand.Uint64()
		script, after := txScript(rand.New(rand.NewPCG(seed, 0)), 2, 60)
		s := newStore(t)
		x := newTxStore(t, s.DB, 2, enriched())
		for i, step := range script {
			x.run(t, step)
			require.NoError(t, after[i+1].diff(t, x), "seed %d, step %d: %+v", seed, i, step)
			if i%9 == 8 {
				s.reopen()
				x = newTxStore(t, s.DB, 2, enriched())
				require.NoError(t, after[i+1].diff(t, x), "seed %d, reopened after step %d", seed, i)
			}
		}
	}
}

// The power goes after every operation of the file system: what comes back is the
// state after some step, transactions whole, not before the last acknowledged one,
// and the script can go on from there.
func TestPowerCutLeavesWholeTransactions(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	script, after := txScript(rand.New(rand.NewPCG(seed, 0)), 2, 25)
	cuts := cutSteps(t, script)
	require.NotEmpty(t, cuts)
	for _, cut := range cuts {
		name := fmt.Sprintf("operation %d, %d%% kept, steps %d to %d", cut.op, cut.keptOfUnsaved, cut.acked, cut.begun)
		db, err := engine.Open("db", engine.Options{FS: enginetest.NewCrashFS(cut.mem, nil)}.SmallMemory())
		require.NoError(t, err, name)
		x := newTxStore(t, db, 2, enriched())
		at := int64(-1)
		for i := cut.acked; i <= cut.begun && at < 0; i++ {
			if after[i].diff(t, x) == nil {
				at = i
			}
		}
		require.NotEqual(t, int64(-1), at, "%s: %v", name, after[cut.begun].diff(t, x))
		for i, step := range script[at:] {
			x.run(t, step)
			if err := after[int(at)+i+1].diff(t, x); err != nil {
				require.NoError(t, err, "%s, step %d: %+v", name, int(at)+i, step)
			}
		}
		require.NoError(t, db.Close())
	}
}

// cutSteps runs a script and returns a survivor for each operation of its file
// system, with nothing and with half of the unsynced data kept.
func cutSteps(t *testing.T, script []txStep) []powerCut {
	t.Helper()
	var cuts []powerCut
	var acked, begun atomic.Int64
	var started atomic.Bool
	mem := vfs.NewCrashableMem()
	rng := rand.New(rand.NewPCG(1, 2))
	fs := enginetest.NewCrashFS(mem, func(op int, _ bool) {
		if !started.Load() {
			return
		}
		for _, keep := range []int{0, 50} {
			before := acked.Load()
			cuts = append(cuts, powerCut{mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: rng}), op, before, begun.Load(), keep})
		}
	})
	db, err := engine.Open("db", engine.Options{FS: fs}.SmallMemory())
	require.NoError(t, err)
	x := newTxStore(t, db, 2, enriched())
	started.Store(true)
	for i, step := range script {
		begun.Store(int64(i + 1))
		x.run(t, step)
		acked.Store(int64(i + 1))
	}
	require.NoError(t, db.Close())
	return cuts
}
