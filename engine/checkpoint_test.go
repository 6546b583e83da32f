package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/engine/enginetest"
)

// holdings is everything a reader sees of a store.
type holdings map[string]any

func contentsOf(t testing.TB, db *engine.DB) holdings {
	t.Helper()
	all := holdings{}
	for _, topic := range db.Topics() {
		all["topic "+topic.Name()] = topic.Config()
		for n := range topic.Partitions() {
			p := topic.Partition(n)
			offsets, err := p.Offsets()
			require.NoError(t, err)
			segments, err := p.Segments()
			require.NoError(t, err)
			all[p.String()] = []any{offsets, segments, indexRows(t, p), readAll(t, p, offsets.Start), controlsOf(t, p, offsets.Start)}
		}
	}
	groups, err := db.Groups(t.Context())
	require.NoError(t, err)
	for _, name := range groups {
		list, err := db.Group(name).Offsets(t.Context())
		require.NoError(t, err)
		for _, c := range list {
			all["group "+name+" "+c.Partition.String()] = c.Offset
		}
	}
	open, err := db.OpenTransactions(t.Context())
	require.NoError(t, err)
	for _, o := range open {
		all[fmt.Sprint("transaction ", o.ID)] = len(o.Partitions)
	}
	return all
}

// populate fills a store with everything that a store can hold.
func populate(t testing.TB, s *store) {
	t.Helper()
	p := s.named("plain", engine.TopicConfig{SegmentBytes: 500})
	leadEach(t, p, t0, t0+1, t0+2, t0+3, t0+4, t0+5, t0+6)
	leadGzip(t, p, t0+7, t0+8)
	_, err := p.DeleteBefore(t.Context(), 2)
	require.NoError(t, err)
	q := s.named("tags", enriched())
	tx := begin(t, s, 7)
	appendIn(t, tx, q, "a")
	require.NoError(t, tx.Commit(t.Context()))
	appendIn(t, begin(t, s, 8), q, "b")
	k := s.named("compacted", compacting(3))
	fill(t, k, "a@1 b@2 a@3 | a@4 b@5- |")
	compacted(t, k)
	b := s.NewBatch()
	b.Append(p, text("batch"))
	b.CommitOffset("group", p, 5, "meta")
	number(b, p, "producer", 0)
	_, err = b.Commit(t.Context())
	require.NoError(t, err)
}

func TestCheckpointIsTheStoreAndAStoreOfItsOwn(t *testing.T) {
	s := newStore(t)
	populate(t, s)
	s.reopen() // Close adds to the index what it may
	want := contentsOf(t, s.DB)
	require.NoError(t, s.Checkpoint(t.Context(), "copies/one"))
	require.Equal(t, want, contentsOf(t, s.DB), "the store is as it was")

	copied, err := engine.Open("copies/one", s.opts)
	require.NoError(t, err)
	require.Equal(t, want, contentsOf(t, copied))
	topic, ok := copied.Topic("plain")
	require.True(t, ok)
	lead(t, topic.Partition(0), t0+100)
	require.NoError(t, copied.DeleteTopic(t.Context(), "tags"))
	require.Equal(t, want, contentsOf(t, s.DB), "nothing is shared that changes")
	require.NoError(t, copied.Close())
	require.NoError(t, enginetest.Audit(s.opts.FS, "copies/one"))
	s.reopen()
	require.Equal(t, want, contentsOf(t, s.DB))
	names, err := s.opts.FS.List("copies")
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, names)
}

// Appends, batches and offsets go on while checkpoints are made: each copy holds what
// was acknowledged before, and batches as a whole.
func TestCheckpointsWhileThereAreAppends(t *testing.T) {
	for name, mode := range map[string]engine.Durability{"always": engine.SyncAlways, "never": engine.SyncNever} {
		t.Run(name, func(t *testing.T) {
			s := newStoreWith(t, engine.Options{Durability: mode, MemTableBytes: 64 << 10})
			a, b := s.named("a", engine.TopicConfig{}), s.named("b", engine.TopicConfig{})
			ctx, cancel := context.WithCancel(t.Context())
			var acked atomic.Int64
			var writers sync.WaitGroup
			writers.Go(func() {
				for i := int64(0); i < 4000 && ctx.Err() == nil; i++ {
					batch := s.NewBatch()
					m := codec.Message{Value: make([]byte, 500)}
					batch.Append(a, m)
					batch.Append(b, m)
					batch.CommitOffset("g", a, i+1, "")
					if _, err := batch.Commit(ctx); err != nil {
						if !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
						return
					}
					acked.Store(i + 1)
				}
			})
			for i := range 8 {
				before := acked.Load()
				dir := fmt.Sprint("copy", i)
				require.NoError(t, s.Checkpoint(t.Context(), dir))
				copied, err := engine.Open(dir, engine.Options{FS: s.opts.FS, Now: s.opts.Now, ReadOnly: true}.SmallMemory())
				require.NoError(t, err)
				at := func(name string) int64 {
					topic, ok := copied.Topic(name)
					require.True(t, ok)
					offsets, err := topic.Partition(0).Offsets()
					require.NoError(t, err)
					require.Len(t, readAll(t, topic.Partition(0), 0), int(offsets.End))
					return offsets.End
				}
				require.GreaterOrEqual(t, at("a"), before)
				require.Equal(t, at("a"), at("b"), "a batch is whole")
				topic, _ := copied.Topic("a")
				c, err := copied.Group("g").Committed(t.Context(), topic.Partition(0))
				require.NoError(t, err)
				require.Equal(t, at("a"), max(c.Offset, 0))
				require.NoError(t, copied.Close())
			}
			cancel()
			writers.Wait()
		})
	}
}

// The power goes at every operation of the file system while a checkpoint is made:
// the store comes back whole, and the copy is there as a whole or not at all.
func TestPowerCutDuringCheckpoint(t *testing.T) {
	var cuts []*vfs.MemFS
	mem := vfs.NewCrashableMem()
	rng := rand.New(rand.NewPCG(1, 2))
	var started atomic.Bool
	fsys := enginetest.NewCrashFS(mem, func(int, bool) {
		if started.Load() {
			for _, keep := range []int{0, 50, 100} {
				cuts = append(cuts, mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: rng}))
			}
		}
	})
	s := newStoreWith(t, engine.Options{FS: fsys})
	populate(t, s)
	want := contentsOf(t, s.DB)
	started.Store(true)
	require.NoError(t, s.Checkpoint(t.Context(), "copy"))
	started.Store(false)
	require.NotEmpty(t, cuts)
	whole := 0
	for i, cut := range cuts {
		opts := engine.Options{FS: enginetest.NewCrashFS(cut, nil), Now: s.opts.Now}.SmallMemory()
		db, err := engine.Open(s.dir, opts)
		require.NoError(t, err, i)
		require.Equal(t, want, contentsOf(t, db), i)
		require.NoError(t, db.Checkpoint(t.Context(), "again"), "what the crash left is not in the way")
		require.NoError(t, db.Close())
		names, err := cut.List(s.dir)
		require.NoError(t, err)
		require.NotContains(t, names, "CHECKPOINT.tmp")
		if _, err := cut.Stat("copy"); err != nil {
			continue
		}
		whole++
		copied, err := engine.Open("copy", opts)
		require.NoError(t, err, i)
		require.Equal(t, want, contentsOf(t, copied), i)
		require.NoError(t, copied.Close())
	}
	require.NotZero(t, whole)
}

// A checkpoint that fails leaves nothing behind and the store as it is.
func TestCheckpointErrors(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	lead(t, p, t0)
	require.ErrorIs(t, s.Checkpoint(t.Context(), s.dir), fs.ErrExist)
	requireCode(t, codec.CodeInvalidRequest, s.Checkpoint(t.Context(), s.dir+"/inside"))
	requireCode(t, codec.CodeInvalidRequest, s.Checkpoint(t.Context(), ""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Checkpoint(ctx, "copy"), context.Canceled)
	require.NoError(t, s.Checkpoint(t.Context(), "copy"))
	require.ErrorIs(t, s.Checkpoint(t.Context(), "copy"), fs.ErrExist)
	lead(t, p, t0+1)
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Checkpoint(t.Context(), "late"), engine.ErrClosed)
	s.open()
	var none *engine.DB
	require.ErrorIs(t, none.Checkpoint(t.Context(), "x"), engine.ErrClosed)
	names, err := s.opts.FS.List("")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"copy", "store"}, names)
}

// failingUnder is a file system on which every change below a directory fails.
type failingUnder struct {
	vfs.FS
	prefix string
	broken atomic.Bool
}

func (f *failingUnder) err(name string) error {
	if f.broken.Load() && strings.HasPrefix(name, f.prefix) {
		return &fs.PathError{Op: "write", Path: name, Err: errInjected}
	}
	return nil
}

func (f *failingUnder) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.err(name); err != nil {
		return nil, err
	}
	return f.FS.Create(name, c)
}

func (f *failingUnder) Link(from, to string) error {
	if err := f.err(to); err != nil {
		return err
	}
	return f.FS.Link(from, to)
}

// A disk that takes no copy fails the checkpoint, not the store, also where the copy
// begins inside of the store's directory.
func TestCheckpointToABrokenDiskLeavesTheStore(t *testing.T) {
	for _, prefix := range []string{"copy", "store/CHECKPOINT.tmp"} {
		fsys := &failingUnder{FS: vfs.NewMem(), prefix: prefix}
		s := newStoreWith(t, engine.Options{FS: fsys})
		p := s.log(engine.TopicConfig{})
		lead(t, p, t0)
		fsys.broken.Store(true)
		require.ErrorIs(t, s.Checkpoint(t.Context(), "copy"), errInjected, prefix)
		lead(t, p, t0+1)
		_, err := fsys.Stat("copy")
		require.ErrorIs(t, err, fs.ErrNotExist)
		fsys.broken.Store(false)
		require.NoError(t, s.Checkpoint(t.Context(), "copy"))
	}
}

// Close ends a checkpoint that waits, and checkpoints take turns.
func TestCheckpointsAtOnceAndClose(t *testing.T) {
	s := newStore(t)
	populate(t, s)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			err := s.Checkpoint(t.Context(), fmt.Sprint("copy", i))
			if err != nil && !errors.Is(err, engine.ErrClosed) {
				t.Error(err)
			}
		})
	}
	require.NoError(t, s.Close())
	all.Wait()
	s.open()
	names, err := s.opts.FS.List("")
	require.NoError(t, err)
	for _, name := range names {
		require.NotContains(t, name, ".incomplete")
		if name != s.dir {
			require.NoError(t, enginetest.Audit(s.opts.FS, name))
		}
	}
}

// On a real file system tables are linked.
func TestCheckpointOnDiskLinksTables(t *testing.T) {
	s := diskStore(t)
	populate(t, s)
	want := contentsOf(t, s.DB)
	copied := filepath.Join(filepath.Dir(s.dir), "copy")
	require.NoError(t, s.Checkpoint(t.Context(), copied))
	shared := 0
	entries, err := os.ReadDir(copied)
	require.NoError(t, err)
	for _, e := range entries {
		ours, err := os.Stat(filepath.Join(s.dir, e.Name()))
		theirs, err2 := os.Stat(filepath.Join(copied, e.Name()))
		require.NoError(t, err2)
		if err == nil && os.SameFile(ours, theirs) {
			shared++
		}
	}
	require.NotZero(t, shared)
	db, err := engine.Open(copied, s.opts)
	require.NoError(t, err)
	require.Equal(t, want, contentsOf(t, db))
	require.NoError(t, db.Close())
}

// A checkpoint removes nothing that it did not make, whatever it is called: not the
// store itself, nor a directory of somebody else's.
func TestCheckpointRemovesNothingOfOthers(t *testing.T) {
	s := newStore(t)
	lead(t, s.log(engine.TopicConfig{}), t0)
	require.NoError(t, s.Close())
	s.dir = "copy.incomplete"
	s.open()
	lead(t, s.log(engine.TopicConfig{}), t0)
	require.NoError(t, s.opts.FS.MkdirAll("other.incomplete", 0o755))
	writeFile(t, s.opts.FS, "other.incomplete/precious", []byte("mine"))
	require.NoError(t, s.Checkpoint(t.Context(), "copy"))
	require.NoError(t, s.Checkpoint(t.Context(), "other"))
	require.Equal(t, "mine", string(readFile(t, s.opts.FS, "other.incomplete/precious")))
	s.reopen()
	require.EqualValues(t, 1, end(t, s.log(engine.TopicConfig{})))
}

// A directory that leads into the store by a symbolic link is inside of it.
func TestCheckpointIntoTheStoreByALink(t *testing.T) {
	s := diskStore(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(s.dir, link); err != nil {
		t.Skip("no symbolic links: ", err)
	}
	requireCode(t, codec.CodeInvalidRequest, s.Checkpoint(t.Context(), filepath.Join(link, "copy")))
}
