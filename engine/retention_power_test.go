package engine_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// steadyMem replaces MemFS.ReuseForWrite, which takes a lock recursively and can
// deadlock with CrashClone in Pebble v2.1.7.
type steadyMem struct{ *vfs.MemFS }

func (f steadyMem) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.Remove(oldname); err != nil {
		return nil, err
	}
	return f.Create(newname, c)
}

// powerFS keeps what a power cut before the k-th mutating operation after arm
// would leave, in several ways: nothing, everything and some of what was not
// synced.
type powerFS struct {
	steadyMem
	mu    sync.Mutex
	armed bool
	left  int
	cuts  []*vfs.MemFS
}

func (f *powerFS) arm(k int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.left = true, k
}

// op comes before every mutating operation.
func (f *powerFS) op() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed {
		return
	}
	if f.left--; f.left == -1 {
		f.cutLocked()
	}
}

func (f *powerFS) cutLocked() {
	for _, percent := range []int{0, 100, 50} {
		rng := rand.New(rand.NewPCG(uint64(percent), uint64(f.left)))
		f.cuts = append(f.cuts, f.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}))
	}
}

// cut is the power cut now.
func (f *powerFS) cut() []*vfs.MemFS {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cutLocked()
	return f.cuts
}

func (f *powerFS) wasCut() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.cuts) > 0
}

func (f *powerFS) watched(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &powerFile{file, f}, nil
}

func (f *powerFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f.op()
	return f.watched(f.steadyMem.Create(name, c))
}

func (f *powerFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f.op()
	return f.watched(f.steadyMem.ReuseForWrite(oldname, newname, c))
}

func (f *powerFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return f.watched(f.steadyMem.OpenReadWrite(name, c, o...))
}

func (f *powerFS) Remove(name string) error {
	f.op()
	return f.steadyMem.Remove(name)
}

func (f *powerFS) Rename(oldname, newname string) error {
	f.op()
	return f.steadyMem.Rename(oldname, newname)
}

type powerFile struct {
	vfs.File
	fs *powerFS
}

func (f *powerFile) Write(p []byte) (int, error)            { f.fs.op(); return f.File.Write(p) }
func (f *powerFile) WriteAt(p []byte, o int64) (int, error) { f.fs.op(); return f.File.WriteAt(p, o) }
func (f *powerFile) Sync() error                            { f.fs.op(); return f.File.Sync() }
func (f *powerFile) SyncData() error                        { f.fs.op(); return f.File.SyncData() }
func (f *powerFile) SyncTo(n int64) (bool, error)           { f.fs.op(); return f.File.SyncTo(n) }

// powered is a store made by a function and closed, from which power is cut again
// and again.
type powered struct {
	t     *testing.T
	base  *vfs.MemFS
	clock *wallClock
}

func newPowered(t *testing.T, fill func(s *store)) *powered {
	t.Helper()
	mem := vfs.NewCrashableMem()
	s := newStoreWith(t, engine.Options{FS: steadyMem{mem}})
	fill(s)
	require.NoError(t, s.Close())
	whole := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	return &powered{t: t, base: whole, clock: s.clock}
}

// open opens the store over a file system.
func (w *powered) open(fs vfs.FS) *store {
	w.t.Helper()
	s := &store{t: w.t, dir: "store", clock: w.clock}
	s.opts = engine.Options{FS: fs, Now: w.clock.Now}.SmallMemory()
	s.open()
	return s
}

// fresh returns a copy of the base to work on.
func (w *powered) fresh() *powerFS {
	all := vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(2, 2))}
	return &powerFS{steadyMem: steadyMem{w.base.CrashClone(all)}}
}

// everything is all a store says of its topics, after a crash.
func everything(s *store) string {
	s.t.Helper()
	var out []string
	for _, topic := range s.Topics() {
		for n := range topic.Partitions() {
			p := topic.Partition(n)
			state := stateOf(s.t, p)
			var answers []engine.Position
			for ts := range codec.Timestamp(40) {
				pos, err := p.OffsetFor(ts)
				require.NoError(s.t, err)
				answers = append(answers, pos)
			}
			newest, err := p.MaxTimestamp(s.t.Context())
			require.NoError(s.t, err)
			out = append(out, fmt.Sprintf("%s %+v\n%+v\n%+v\n%x\n%v\n%v", p, state.offsets, state.segments, state.rows, state.set, answers, newest))
		}
	}
	return fmt.Sprint(out)
}

// left is what is found after power was cut: what the store says, live and after
// another reopening.
func (w *powered) left(mem *vfs.MemFS) string {
	w.t.Helper()
	s := w.open(steadyMem{mem})
	first := everything(s)
	require.NoError(w.t, s.Close())
	return first
}

// check runs an operation with the power cut at every write of it and of the
// close after it: what comes back is the state before or after, and the state
// after once the operation has returned.
func (w *powered) check(name string, op func(s *store)) {
	w.t.Run(name, func(t *testing.T) {
		control := w.fresh()
		s := w.open(control)
		before := w.left(control.cut()[0])
		op(s)
		control.cuts = nil
		after := w.left(control.cut()[0])
		require.NoError(t, s.Close())
		require.NotEqual(t, before, after, "the operation does nothing")

		seen := map[bool]int{}
		for k := 0; ; k++ {
			fs := w.fresh()
			s := w.open(fs)
			fs.arm(k)
			op(s)
			if !fs.wasCut() { // acknowledged: the cut is in the close, or after it
				for _, mem := range fs.cut() {
					require.Equal(t, after, w.left(mem), "acknowledged, cut %d", k)
				}
				require.NoError(t, s.Close())
				break
			}
			require.NoError(t, s.Close())
			for i, mem := range fs.cuts {
				left := w.left(mem)
				require.Contains(t, []string{before, after}, left, "cut %d, %d of %d", k, i, len(fs.cuts))
				seen[left == after]++
			}
		}
		t.Logf("%d times before, %d times after", seen[false], seen[true])
		require.Positive(t, seen[false])
	})
}

// Issue 3, S32, U01, SPEC 6.7: every removal is atomic and on the disk when it
// returns.
func TestPowerCutsLeaveTheStateBeforeOrAfter(t *testing.T) {
	w := newPowered(t, func(s *store) {
		config := expiring(4, maxAge(1000))
		config.IndexIntervalBytes = engine.ExplicitZero
		config.SegmentAge = ms(1000)
		for _, name := range []string{"a", "b"} {
			p := s.named(name, config)
			s.clock.set(20)
			leadEach(s.t, p, 5, 3, 9, 1)
			leadGzip(s.t, p, 12, 30, 20)
			lead(s.t, p, 11, 13)
			lead(s.t, p, 2)
		}
		s.clock.set(1015)
	})
	a := func(s *store) *engine.Partition {
		topic, ok := s.Topic("a")
		require.True(s.t, ok)
		return topic.Partition(0)
	}
	w.check("retention", func(s *store) { require.Positive(s.t, retained(s.t, a(s)).Segments) })
	w.check("maintenance", func(s *store) { require.Positive(s.t, s.maintain().Removed.Segments) })
	w.check("roll", func(s *store) { require.NoError(s.t, a(s).Roll(s.t.Context())) })
	for offset := range int64(10) {
		w.check(fmt.Sprint("truncate to ", offset), func(s *store) { require.NoError(s.t, a(s).TruncateTo(s.t.Context(), offset)) })
		w.check(fmt.Sprint("delete before ", offset+1), func(s *store) {
			_, err := a(s).DeleteBefore(s.t.Context(), offset+1)
			require.NoError(s.t, err)
		})
	}
	w.check("reset", func(s *store) { require.NoError(s.t, a(s).ResetTo(s.t.Context(), 50)) })
	w.check("drop", func(s *store) { require.NoError(s.t, a(s).Drop(s.t.Context())) })
	w.check("delete topic", func(s *store) { require.NoError(s.t, s.DeleteTopic(s.t.Context(), "a")) })
}

// Power cuts in a run of removals and appends: what was acknowledged is there,
// whole, and at most the step that was under way.
func TestPowerCutsInAHistoryOfRemovals(t *testing.T) {
	rng := seeded(t)
	w := newPowered(t, func(s *store) { s.named("a", expiring(3, maxAge(1000))) })
	for round := range 60 {
		fs := w.fresh()
		w.clock.set(1000)
		s := w.open(fs)
		p := s.named("a", engine.TopicConfig{})
		before, after := "", contents(t, p)
		fs.arm(rng.IntN(60))
		for !fs.wasCut() {
			w.clock.add(codec.Timestamp(rng.IntN(200)))
			randomStep(t, rng, p, w.clock.read())
			before, after = after, contents(t, p)
		}
		require.NoError(t, s.Close())
		for _, mem := range fs.cuts {
			left := w.open(steadyMem{mem})
			got := contents(t, left.named("a", engine.TopicConfig{}))
			require.NoError(t, left.Close())
			require.Contains(t, []string{before, after}, got, "round %d", round)
		}
	}
}

// randomStep changes a log at random.
func randomStep(t testing.TB, rng *rand.Rand, p *engine.Partition, now codec.Timestamp) {
	t.Helper()
	leo := end(t, p)
	switch rng.IntN(10) {
	case 0:
		require.NoError(t, p.TruncateTo(t.Context(), rng.Int64N(leo+2)))
	case 1:
		_, err := p.DeleteBefore(t.Context(), rng.Int64N(leo+1))
		require.NoError(t, err)
	case 2:
		require.NoError(t, p.Roll(t.Context()))
	case 3:
		_, err := p.Retain(t.Context(), engine.RetainOptions{})
		require.NoError(t, err)
	case 4:
		leadGzip(t, p, now, now-codec.Timestamp(rng.IntN(100)))
	default:
		lead(t, p, now-codec.Timestamp(rng.IntN(100)))
	}
}

// contents is a log's bounds and messages.
func contents(t testing.TB, p *engine.Partition) string {
	t.Helper()
	offsets, err := p.Offsets()
	require.NoError(t, err)
	return fmt.Sprintf("%+v %+v", offsets, readAll(t, p, offsets.Start))
}
