package engine_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/engine/enginetest"
)

// powerCut is what the disk held when the power went, and how many batches were
// acknowledged before and begun.
type powerCut struct {
	mem           *vfs.MemFS
	op            int
	acked, begun  int64
	keptOfUnsaved int
}

// cutEverywhere runs a script of batches on a store and returns a survivor for
// each operation of its file system.
func cutEverywhere(t *testing.T, mode engine.Durability, script [][]modelOp) []powerCut {
	t.Helper()
	var cuts []powerCut
	var acked, begun atomic.Int64
	var started atomic.Bool // opening is tested elsewhere
	mem := vfs.NewCrashableMem()
	rng := rand.New(rand.NewPCG(1, 2))
	fs := enginetest.NewCrashFS(mem, func(op int, _ bool) {
		if !started.Load() {
			return
		}
		for _, keep := range []int{0, 50, 100} {
			before := acked.Load()
			clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: rng})
			cuts = append(cuts, powerCut{clone, op, before, begun.Load(), keep})
		}
	})
	db, err := engine.Open("db", engine.Options{FS: fs, Durability: mode}.SmallMemory())
	require.NoError(t, err)
	logs := modelLogs(t, db)
	started.Store(true)
	b := db.NewBatch()
	for i, ops := range script {
		begun.Store(int64(i + 1))
		fillBatch(b, logs, ops)
		_, err := b.Commit(t.Context())
		require.NoError(t, err)
		acked.Store(int64(i + 1))
	}
	require.NoError(t, db.Close())
	return cuts
}

// goodScript returns batches that all change something, and what is there after
// each of the first n.
func goodScript(seed uint64, n int) (script [][]modelOp, after []*batchModel) {
	s := &batchScript{rng: rand.New(rand.NewPCG(seed, 0))}
	m := newBatchModel(3)
	after = append(after, m)
	for len(script) < n {
		ops := s.ops(m)
		next := m.clone()
		if _, repeated, err := next.apply(ops); err != nil || repeated {
			continue
		}
		ops = append(ops, modelOp{group: "step", offset: int64(len(script))}) // tells the batches apart
		next = m.clone()
		if _, _, err := next.apply(ops); err != nil {
			panic(err)
		}
		script, after, m = append(script, ops), append(after, next), next
	}
	return script, after
}

// The power goes after every operation of the file system. What comes back is the
// state after some batch, whole, not before the last acknowledged one and not after
// the last begun; and batches tried again from there on, with their sequences, lead
// to the end that the script has.
func TestPowerCutLeavesWholeBatches(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	script, after := goodScript(seed, 14)
	inDoubt := 0
	for _, cut := range cutEverywhere(t, engine.SyncAlways, script) {
		name := fmt.Sprintf("operation %d, %d%% kept, batches %d to %d", cut.op, cut.keptOfUnsaved, cut.acked, cut.begun)
		db, err := engine.Open("db", engine.Options{FS: enginetest.NewCrashFS(cut.mem, nil)}.SmallMemory())
		require.NoError(t, err, name)
		logs := modelLogs(t, db)
		at := stateAfter(t, db, logs, after)
		require.GreaterOrEqual(t, int64(at), cut.acked, name)
		require.LessOrEqual(t, int64(at), cut.begun, name)
		if int64(at) > cut.acked {
			inDoubt++
		}
		for _, ops := range script[at:] {
			b := db.NewBatch()
			fillBatch(b, logs, ops)
			_, err := b.Commit(t.Context())
			require.NoError(t, err, name)
		}
		requireModel(t, after[len(script)], db, logs)
		require.NoError(t, db.Close())
	}
	require.NotZero(t, inDoubt, "no cut came between the write of a batch and its acknowledgement")
}

// stateAfter returns after how many batches of the script the store is.
func stateAfter(t *testing.T, db *engine.DB, logs []*engine.Partition, after []*batchModel) int {
	t.Helper()
	for i, m := range after {
		if m.diff(t, db, logs) == nil {
			return i
		}
	}
	require.Fail(t, "no state of the script", "%v", after[len(after)-1].diff(t, db, logs))
	return -1
}

// The negative control: without a sync, acknowledged batches are lost, and the test
// sees it. What is left is still whole.
func TestPowerCutWithoutSyncLosesWholeBatches(t *testing.T) {
	script, after := goodScript(rand.Uint64(), 14)
	lost := 0
	for _, cut := range cutEverywhere(t, engine.SyncNever, script) {
		db, err := engine.Open("db", engine.Options{FS: enginetest.NewCrashFS(cut.mem, nil)}.SmallMemory())
		require.NoError(t, err)
		at := stateAfter(t, db, modelLogs(t, db), after)
		if int64(at) < cut.acked {
			lost++
		}
		require.NoError(t, db.Close())
	}
	require.NotZero(t, lost)
}

// A numbered batch whose acknowledgement the power cut took away is tried again
// and is there once, with the receipts of the first time.
func TestRetryAfterPowerCutAppendsOnce(t *testing.T) {
	fill := func(b *engine.Batch, logs []*engine.Partition) {
		for i := range int64(3) {
			number(b, logs[0], "x", i)
			number(b, logs[2], "x", i)
		}
		b.Expect(logs[0], 0)
		b.CommitOffset("g", logs[1], 5, "")
	}
	var cuts []*vfs.MemFS
	mem := vfs.NewCrashableMem()
	var began atomic.Bool
	fs := enginetest.NewCrashFS(mem, func(int, bool) {
		if began.Load() {
			cuts = append(cuts, mem.CrashClone(vfs.CrashCloneCfg{}), mem.CrashClone(vfs.CrashCloneCfg{
				UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))}))
		}
	})
	db, err := engine.Open("db", engine.Options{FS: fs}.SmallMemory())
	require.NoError(t, err)
	logs := modelLogs(t, db)
	began.Store(true)
	b := db.NewBatch()
	fill(b, logs)
	first, err := b.Commit(t.Context())
	require.NoError(t, err)
	began.Store(false)
	require.NoError(t, db.Close())
	require.NotEmpty(t, cuts)
	for _, mem := range cuts {
		db, err := engine.Open("db", engine.Options{FS: enginetest.NewCrashFS(mem, nil)}.SmallMemory())
		require.NoError(t, err)
		logs := modelLogs(t, db)
		b := db.NewBatch()
		fill(b, logs)
		again, err := b.Commit(t.Context())
		require.NoError(t, err)
		require.Equal(t, positions(first), positions(again))
		require.EqualValues(t, 3, end(t, logs[0]))
		require.EqualValues(t, 3, end(t, logs[2]))
		require.NoError(t, db.Close())
	}
}

func positions(receipts []engine.Receipt) (list []int64) {
	for _, r := range receipts {
		list = append(list, r.Offset)
	}
	return list
}
