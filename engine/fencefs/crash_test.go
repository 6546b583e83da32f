package fencefs_test

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/engine/fencefs"
)

// crashFS is a crashable memory file system under a fence that clones itself,
// as a power cut would leave it, after the k-th mutating operation.
type crashFS struct {
	*faultFS
	mem *vfs.MemFS
	rng *rand.Rand

	mu    sync.Mutex
	left  int // operations until the crash
	clone *vfs.MemFS
}

// noReuse replaces MemFS.ReuseForWrite, which takes a lock recursively and can
// deadlock with CrashClone in Pebble v2.1.7.
type noReuse struct{ *vfs.MemFS }

func (f noReuse) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.Remove(oldname); err != nil {
		return nil, err
	}
	return f.Create(newname, c)
}

// crashAfter arms a crash before each operation but the first k.
func crashAfter(mem *vfs.MemFS, k int, rng *rand.Rand, match func(op, name string) bool) *crashFS {
	f := &crashFS{faultFS: &faultFS{FS: noReuse{mem}}, mem: mem, rng: rng, left: k}
	f.set(func(op, name string) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !match(op, name) {
			return nil
		}
		if f.left--; f.left == -1 {
			f.clone = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		}
		return nil
	})
	return f
}

func anyOp(string, string) bool { return true }

// wholeClone copies a memory file system with all that is in it.
func wholeClone(mem *vfs.MemFS) *vfs.MemFS {
	return mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))})
}

// openPlain opens Pebble over any file system.
func openPlain(fs vfs.FS) (*pebble.DB, error) {
	return pebble.Open("db", &pebble.Options{
		FS:                 fs,
		Logger:             &store{},
		FormatMajorVersion: pebble.FormatTableFormatV6,
		MemTableSize:       64 << 10,
		CacheSize:          1,
	})
}

// oldStore returns a store with the key a, closed.
func oldStore(t *testing.T) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewCrashableMem()
	db, err := openPlain(noReuse{mem})
	require.NoError(t, err)
	require.NoError(t, db.Set([]byte("a"), nil, pebble.Sync))
	require.NoError(t, db.Close())
	return mem
}

// session opens a store, writes, flushes and closes.
func session(t *testing.T, fs vfs.FS) {
	t.Helper()
	db, err := openPlain(fs)
	require.NoError(t, err)
	require.NoError(t, db.Set([]byte("b"), nil, pebble.Sync))
	require.NoError(t, db.Flush())
	require.NoError(t, db.Close())
}

// requireOpens opens what a crash left and looks for key a if it must be there.
func requireOpens(t *testing.T, crashed *vfs.MemFS, hasKey bool) {
	t.Helper()
	db, err := openPlain(fencefs.New(noReuse{crashed}, nil))
	require.NoError(t, err)
	if hasKey {
		_, closer, err := db.Get([]byte("a"))
		require.NoError(t, err)
		require.NoError(t, closer.Close())
	}
	require.NoError(t, db.Close())
}

// crashedStore returns what a power cut within a session left of an old store.
func crashedStore(t *testing.T, old *vfs.MemFS, seed uint64) *vfs.MemFS {
	t.Helper()
	crash := crashAfter(wholeClone(old), int(seed)*7%35, rand.New(rand.NewPCG(seed, 2)), anyOp)
	session(t, fencefs.New(crash, nil))
	require.NotNil(t, crash.clone)
	return crash.clone
}

// DESIGN 10: Open never needs a manual step after a power cut. The cut comes
// before each operation of a session in turn, several times with other choices of
// what the disk had kept, until a session ends without one.
func TestEveryCrashInOpenLeavesAStoreThatOpens(t *testing.T) {
	const rounds = 10
	old := oldStore(t)
	for _, c := range []struct {
		name   string
		base   func(seed uint64) *vfs.MemFS
		hasKey bool
	}{
		{"new store", func(uint64) *vfs.MemFS { return vfs.NewCrashableMem() }, false},
		{"old store", func(uint64) *vfs.MemFS { return wholeClone(old) }, true},
		{"crashed store", func(seed uint64) *vfs.MemFS { return crashedStore(t, old, seed) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			crashes := 0
			for k, done := 0, false; !done; k++ {
				done = true
				for seed := range uint64(rounds) {
					crash := crashAfter(c.base(seed), k, rand.New(rand.NewPCG(uint64(k), seed)), anyOp)
					session(t, fencefs.New(crash, nil))
					if crash.clone != nil {
						done = false
						crashes++
						requireOpens(t, crash.clone, c.hasKey)
					}
				}
			}
			t.Logf("%d crashes", crashes)
			require.GreaterOrEqual(t, crashes, 300)
		})
	}
}

// The crash that the fence is there for, aimed at: right after a marker was
// created. The control shows that it does harm without the fence.
func TestCrashAfterMarkerNeedsTheFence(t *testing.T) {
	base := oldStore(t)
	markerMade := func(op, name string) bool { // the close that follows the create
		return op == "close" && strings.HasPrefix(name, "marker.manifest")
	}
	broken := func(wrap func(vfs.FS) vfs.FS) (n int) {
		for seed := range uint64(40) {
			crash := crashAfter(wholeClone(base), 0, rand.New(rand.NewPCG(seed, 1)), markerMade)
			session(t, wrap(crash))
			require.NotNil(t, crash.clone)
			if db, err := openPlain(noReuse{crash.clone}); err != nil {
				require.ErrorContains(t, err, "could not open manifest file")
				n++
			} else {
				require.NoError(t, db.Close())
			}
		}
		return n
	}
	require.Zero(t, broken(func(fs vfs.FS) vfs.FS { return fencefs.New(fs, nil) }))
	require.NotZero(t, broken(func(fs vfs.FS) vfs.FS { return fs }), "the control does no harm: the test proves nothing")
}
