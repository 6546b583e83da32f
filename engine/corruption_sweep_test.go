package engine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// damagedStore is a closed store whose files are damaged one bit at a time.
type damagedStore struct {
	t    *testing.T
	fs   *vfs.MemFS
	dir  string
	opts engine.Options
	want map[string][]codec.Message // by partition
}

func newDamagedStore(t *testing.T, crashed bool) *damagedStore {
	t.Helper()
	mem := vfs.NewCrashableMem()
	s := newStoreWith(t, engine.Options{FS: mem})
	populate(t, s)
	p := s.named("bulk", engine.TopicConfig{SegmentBytes: 20_000})
	rng := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		randomLog(t, rng, p, 1)
	}
	d := &damagedStore{t: t, fs: mem, dir: s.dir, opts: s.opts, want: map[string][]codec.Message{}}
	for _, topic := range s.Topics() {
		offsets, err := topic.Partition(0).Offsets()
		require.NoError(t, err)
		d.want[topic.Name()] = readAll(t, topic.Partition(0), offsets.Start)
	}
	require.NoError(t, s.WriteMark(t.Context())) // what is older is known to be there
	if crashed {                                 // everything is in the log
		d.fs = mem.CrashClone(vfs.CrashCloneCfg{})
	} else {
		require.NoError(t, s.Close())
	}
	d.opts.FS, d.opts.ReadOnly = d.fs, true
	return d
}

// check opens the store for reading and reports what is wrong with what it says: an
// error that is not of the damage, a message that never was, one that is missing
// without a word. found: the damage was noticed.
func (d *damagedStore) check() (found bool, err error) {
	db, err := engine.Open(d.dir, d.opts)
	if err != nil {
		if !isDamage(err) {
			return true, fmt.Errorf("open: %w", err)
		}
		return true, nil
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for name, want := range d.want {
		topic, ok := db.Topic(name)
		if !ok {
			return found, fmt.Errorf("topic %s is gone", name)
		}
		noticed, err := d.compare(topic.Partition(0), want)
		if err != nil {
			return true, fmt.Errorf("%s: %w", name, err)
		}
		found = found || noticed
	}
	return found, nil
}

// compare reads a partition, past each damaged entry.
func (d *damagedStore) compare(p *engine.Partition, want []codec.Message) (found bool, err error) {
	offsets, err := p.Offsets()
	if err != nil {
		if !isDamage(err) {
			return true, err
		}
		return true, nil
	}
	got := map[int64]bool{}
	for from := offsets.Start; from < offsets.End; {
		damagedAt := int64(-1)
		for m, err := range p.Read(d.t.Context(), from, engine.ReadOptions{}) {
			if err != nil {
				at, ok := errors.AsType[*engine.CorruptionError](err)
				if !ok {
					return true, fmt.Errorf("read: %w", err)
				}
				damagedAt = max(at.Offset, from)
				break
			}
			i := slices.IndexFunc(want, func(w codec.Message) bool { return w.Offset == m.Offset })
			if i < 0 || string(want[i].Key) != string(m.Key) || string(want[i].Value) != string(m.Value) ||
				want[i].Timestamp != m.Timestamp || string(want[i].Tags) != string(m.Tags) {
				return true, fmt.Errorf("message %d is wrong", m.Offset)
			}
			got[m.Offset] = true
		}
		if damagedAt < 0 {
			break
		}
		found, from = true, damagedAt+1
	}
	if !found && len(got) != len(want) {
		return false, fmt.Errorf("%d of %d messages, without a word", len(got), len(want))
	}
	return found, nil
}

// isDamage reports whether an error says that the store is damaged.
func isDamage(err error) bool {
	_, watermark := errors.AsType[*engine.WatermarkError](err)
	return watermark || errors.Is(err, engine.ErrCorrupt) || errors.Is(err, engine.ErrDataLoss) ||
		errors.Is(err, engine.ErrNewerFormat) || errors.Is(err, engine.ErrNotExist)
}

// files returns the store's files but for the lock, with their sizes.
func (d *damagedStore) files() map[string]int64 {
	d.t.Helper()
	names, err := d.fs.List(d.dir)
	require.NoError(d.t, err)
	files := map[string]int64{}
	for _, name := range names {
		info, err := d.fs.Stat(d.fs.PathJoin(d.dir, name))
		require.NoError(d.t, err)
		if name != "LOCK" && !info.IsDir() {
			files[name] = info.Size()
		}
	}
	return files
}

// flip turns one bit of a file over; a second time it is as it was.
func (d *damagedStore) flip(name string, at int64, bit int) {
	d.t.Helper()
	f, err := d.fs.OpenReadWrite(d.fs.PathJoin(d.dir, name), vfs.WriteCategoryUnspecified)
	require.NoError(d.t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	require.NoError(d.t, err)
	b[0] ^= 1 << bit
	_, err = f.WriteAt(b[:], at)
	require.NoError(d.t, err)
	require.NoError(d.t, f.Close())
}

// Bytes of every file of a store are damaged, one bit of one at a time: opening or
// reading says so, at the damaged place, or everything is right; never a wrong message,
// never a missing one without a word. Each run begins elsewhere; CAIRN_SOAK takes that
// many times as many.
func TestDamagedBytesAreNoticedOrHarmless(t *testing.T) {
	for name, crashed := range map[string]bool{"closed": false, "crashed": true} {
		t.Run(name, func(t *testing.T) {
			d := newDamagedStore(t, crashed)
			found, err := d.check()
			require.NoError(t, err)
			require.False(t, found, "nothing is damaged yet")
			seed := rand.Uint64()
			rng := rand.New(rand.NewPCG(seed, 0))
			noticed, flips := 0, 0
			for file, size := range d.files() {
				step := max(size*8/int64(rounds(t, 200)), 1)
				for at := rng.Int64N(step); at < size; at += step {
					bit := rng.IntN(8)
					d.flip(file, at, bit)
					found, err := d.check()
					d.flip(file, at, bit)
					require.NoError(t, err, "bit %d of byte %d of %d of %s, seed %d", bit, at, size, file, seed)
					flips++
					if found {
						noticed++
					}
				}
			}
			require.NotZero(t, noticed)
			t.Logf("%d bytes damaged, %d noticed", flips, noticed)
		})
	}
}

// Files that are cut short, emptied or missing.
func TestDamagedFilesAreNoticedOrHarmless(t *testing.T) {
	d := newDamagedStore(t, false)
	for name, size := range d.files() {
		path := d.fs.PathJoin(d.dir, name)
		for _, left := range []int64{0, 1, size / 2, size - 1, -1} {
			whole := readFile(t, d.fs, path)
			if left >= 0 {
				writeFile(t, d.fs, path, whole[:min(left, size)])
			} else {
				require.NoError(t, d.fs.Remove(path))
			}
			_, err := d.check()
			writeFile(t, d.fs, path, whole)
			if !errors.Is(err, fs.ErrNotExist) { // which says it all
				require.NoError(t, err, "%s with %d of %d bytes", name, left, size)
			}
		}
	}
}

func readFile(t testing.TB, fsys vfs.FS, path string) []byte {
	t.Helper()
	f, err := fsys.Open(path)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	b := make([]byte, info.Size())
	_, err = f.ReadAt(b, 0)
	if len(b) > 0 {
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	return b
}

func writeFile(t testing.TB, fsys vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fsys.Create(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(b)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}
