package engine // scanManifest is not exported: Open is its only caller

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

const testManifest = "db/MANIFEST-000001"

// manifestStore is a directory db with a MANIFEST of the given bytes.
func manifestStore(t testing.TB, data []byte) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	require.NoError(t, fs.MkdirAll("db", 0o755))
	for name, data := range map[string][]byte{testManifest: data, "db/marker.manifest.000001.MANIFEST-000001": nil} {
		f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
		require.NoError(t, err)
		_, err = f.Write(slices.Clone(data)) // MemFS may scribble over it
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	return fs
}

// writeRecords returns a file of records as Pebble writes a MANIFEST, and where
// each begins.
func writeRecords(t testing.TB, records ...[]byte) (data []byte, begins []int) {
	t.Helper()
	var buf bytes.Buffer
	w := record.NewWriter(&buf)
	for _, r := range records {
		rw, err := w.Next()
		require.NoError(t, err)
		at, err := w.LastRecordOffset()
		require.NoError(t, err)
		begins = append(begins, int(at))
		_, err = rw.Write(r)
		require.NoError(t, err)
		require.NoError(t, w.Flush())
	}
	return buf.Bytes(), begins
}

// randomRecords are records of up to three blocks.
func randomRecords(rng *rand.Rand, n int) [][]byte {
	records := make([][]byte, n)
	for i := range records {
		size := 1 + rng.IntN(300)
		if rng.IntN(4) == 0 {
			size = rng.IntN(3 * manifestBlock)
		}
		records[i] = make([]byte, max(size, 1))
		for j := range records[i] {
			records[i][j] = byte(rng.Uint32())
		}
	}
	return records
}

// requireDamage asserts that a scan finds the damage at an offset; -1 means none.
func requireDamage(t *testing.T, data []byte, offset int64, why string) {
	t.Helper()
	err := scanManifest(manifestStore(t, data), "db")
	if offset < 0 {
		require.NoError(t, err, why)
		return
	}
	damage, ok := errors.AsType[*ManifestError](err)
	require.True(t, ok, "%s: %v", why, err)
	require.Equal(t, ManifestError{File: testManifest, Offset: offset}, *damage, why)
}

// pebbleManifest makes a store whose MANIFEST has a record per flush.
func pebbleManifest(t testing.TB, fs vfs.FS, flushes int) {
	t.Helper()
	db, err := pebble.Open("db", &pebble.Options{
		FS: fs, FormatMajorVersion: pebble.FormatTableFormatV6, Logger: noLog{},
		DisableAutomaticCompactions: true, L0StopWritesThreshold: 1000, MemTableSize: 64 << 10,
	})
	require.NoError(t, err)
	for n := range flushes {
		require.NoError(t, db.Set(binary.BigEndian.AppendUint64(nil, uint64(n)), nil, pebble.NoSync))
		require.NoError(t, db.Flush())
	}
	require.NoError(t, db.Close())
}

// noLog is a Pebble logger; a Fatalf fails the test by its panic.
type noLog struct{}

func (noLog) Infof(string, ...any)              {}
func (noLog) Errorf(string, ...any)             {}
func (noLog) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func readManifest(t testing.TB, fs vfs.FS) []byte {
	t.Helper()
	desc, err := pebble.Peek("db", fs)
	require.NoError(t, err)
	f, err := fs.Open(desc.ManifestFilename)
	require.NoError(t, err)
	data, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return data
}

// A MANIFEST that Pebble wrote passes, cut anywhere too, and with any one bit
// flipped it is refused, unless the bit is in the last record.
func TestScanManifestOfPebble(t *testing.T) {
	fs := vfs.NewMem()
	pebbleManifest(t, fs, 25)
	data := readManifest(t, fs)
	require.NoError(t, scanManifest(fs, "db"))

	last := lastRecord(t, data)
	for i := range data {
		flipped := slices.Clone(data)
		flipped[i] ^= 1 << (i % 8)
		err := scanManifest(manifestStore(t, flipped), "db")
		if i < last {
			require.ErrorContains(t, err, "damaged at byte", "flip at %d of %d", i, len(data))
		} else {
			require.NoError(t, err, "flip in the last record")
		}
		requireDamage(t, data[:i], -1, fmt.Sprintf("cut at %d of %d", i, len(data)))
	}
}

// lastRecord returns where the last record of a small file begins.
func lastRecord(t *testing.T, data []byte) int {
	t.Helper()
	require.Less(t, len(data), manifestBlock)
	for i := 0; ; {
		c := chunkAt(data[i:])
		require.True(t, c.valid)
		if i+c.size == len(data) {
			return i
		}
		i += c.size
	}
}

// What the scan is for: Pebble opens the damaged store without a word and loses
// keys.
func TestPebbleLosesTablesToOneFlippedBit(t *testing.T) {
	fs := vfs.NewMem()
	pebbleManifest(t, fs, 10)
	desc, err := pebble.Peek("db", fs)
	require.NoError(t, err)
	data, err := fs.UnsafeGetFileDataBuffer(desc.ManifestFilename)
	require.NoError(t, err)
	data[len(data)/2] ^= 1

	require.ErrorContains(t, scanManifest(fs, "db"), "damaged at byte")
	db, err := pebble.Open("db", &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatTableFormatV6, Logger: noLog{}})
	require.NoError(t, err)
	it, err := db.NewIter(nil)
	require.NoError(t, err)
	keys := 0
	for ok := it.First(); ok; ok = it.Next() {
		keys++
	}
	require.NoError(t, it.Close())
	require.Less(t, keys, 10)
	require.NoError(t, db.Close())
}

// Records of every size, damaged at random: a changed byte, a page of zeros, a
// lost piece, noise.
func TestScanManifestFindsDamageBeforeTheLastRecord(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		data, begins := writeRecords(t, randomRecords(rng, 2+rng.IntN(12))...)
		requireDamage(t, data, -1, fmt.Sprintf("seed %d: whole", seed))
		last := begins[len(begins)-1]
		requireDamage(t, data[:last+rng.IntN(len(data)-last)], -1, fmt.Sprintf("seed %d: torn", seed))

		at := rng.IntN(last)
		damaged := slices.Clone(data)
		end := min(at+1+rng.IntN(5000), last)
		switch rng.IntN(3) {
		case 0:
			end = at + 1
			damaged[at] ^= 0x10
		case 1:
			clear(damaged[at:end])
		case 2:
			for i := at; i < end; i++ {
				damaged[i] = byte(rng.Uint32())
			}
		}
		if bytes.Equal(damaged, data) || isPadding(data, at, end) {
			continue
		}
		err := scanManifest(manifestStore(t, damaged), "db")
		require.Error(t, err, "seed %d: bytes %d to %d of %d", seed, at, end, len(data))
	}
}

// isPadding reports whether the bytes from at to end may be padding of a block.
func isPadding(data []byte, at, end int) bool {
	return at/manifestBlock == (end-1)/manifestBlock && at%manifestBlock > manifestBlock-manifestHeader &&
		len(bytes.Trim(data[at:end], "\x00")) == 0
}

// The offset is that of the chunk, for whoever repairs the file.
func TestScanManifestLocatesDamage(t *testing.T) {
	data, begins := writeRecords(t, []byte("one"), []byte("two"), []byte("three"), []byte("four"))
	damaged := slices.Clone(data)
	damaged[begins[1]+8] ^= 1
	requireDamage(t, damaged, int64(begins[1]), "second record")
	damaged[begins[2]] ^= 1
	requireDamage(t, damaged, int64(begins[1]), "second and third")
	damaged[begins[3]] ^= 1
	requireDamage(t, damaged, -1, "all that follows the first: nothing proves that it had been written")
}

// The disk may keep the end of the record that a crash tore and lose its
// beginning; that is no damage.
func TestScanManifestTakesTornRecordInAnyOrder(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 3*manifestBlock)
	data, begins := writeRecords(t, []byte("one"), big)
	const page = 4 << 10
	for at := begins[1]; at < len(data); at = (at/page + 1) * page {
		torn := slices.Clone(data)
		clear(torn[at:min((at/page+1)*page, len(torn))])
		requireDamage(t, torn, -1, fmt.Sprintf("page at %d lost", at))
	}
	data, begins = writeRecords(t, []byte("one"), big, []byte("three"))
	clear(data[begins[1]:page])
	requireDamage(t, data, int64(begins[1]), "but a record after it proves that it had been whole")
}

// Blocks that fit their checksums and not each other.
func TestScanManifestFindsMissingBlock(t *testing.T) {
	big, _ := writeRecords(t, bytes.Repeat([]byte("x"), 2*manifestBlock), []byte("two"))
	small, _ := writeRecords(t, []byte("three"))
	requireDamage(t, big[manifestBlock:], 0, "a record without its beginning")
	requireDamage(t, slices.Concat(big[:manifestBlock], small), manifestBlock, "a record without its end")
}

func TestScanManifestOfNoStore(t *testing.T) {
	fs := vfs.NewMem()
	require.ErrorIs(t, scanManifest(fs, "db"), os.ErrNotExist)
	require.NoError(t, fs.MkdirAll("db", 0o755))
	require.NoError(t, scanManifest(fs, "db"))
	requireDamage(t, nil, -1, "an empty file")
	requireDamage(t, make([]byte, 100_000), -1, "zeros: a torn tail")
	fs = manifestStore(t, nil).(*vfs.MemFS)
	require.NoError(t, fs.Remove(testManifest))
	require.ErrorIs(t, scanManifest(fs, "db"), os.ErrNotExist, "a marker without its file")
}

// cloneFS takes crash clones of a memory file system before and after every write
// to a MANIFEST.
type cloneFS struct {
	*vfs.MemFS
	rng    *rand.Rand
	clones []*vfs.MemFS
}

func (f *cloneFS) clone() {
	f.clones = append(f.clones, f.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: f.rng.IntN(101), RNG: f.rng}))
}

func (f *cloneFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.MemFS.Create(name, c)
	if err != nil || !strings.Contains(name, "MANIFEST") {
		return file, err
	}
	return cloneFile{file, f}, nil
}

// ReuseForWrite goes round a deadlock with CrashClone in Pebble v2.1.7.
func (f *cloneFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.Remove(oldname); err != nil {
		return nil, err
	}
	return f.Create(newname, c)
}

type cloneFile struct {
	vfs.File
	fs *cloneFS
}

func (f cloneFile) Write(p []byte) (int, error) {
	f.fs.clone()
	defer f.fs.clone()
	return f.File.Write(p)
}

// A power cut is no damage: what it leaves of a MANIFEST passes, also when its
// records take several pages and blocks of which the disk kept any.
func TestScanManifestTakesEveryCrash(t *testing.T) {
	fs := &cloneFS{MemFS: vfs.NewCrashableMem(), rng: rand.New(rand.NewPCG(1, 1))}
	db, err := pebble.Open("db", &pebble.Options{
		FS: fs, FormatMajorVersion: pebble.FormatTableFormatV6, Logger: noLog{}, MaxManifestFileSize: 256 << 10,
		DisableAutomaticCompactions: true, L0StopWritesThreshold: 1000, MemTableSize: 1 << 20,
	})
	require.NoError(t, err)
	for n := range 24 {
		key := bytes.Repeat([]byte{byte(n)}, 1+fs.rng.IntN(50_000)) // is in the record twice
		require.NoError(t, db.Set(key, nil, pebble.NoSync))
		require.NoError(t, db.Flush())
	}
	require.NoError(t, db.Close())
	require.Greater(t, len(fs.clones), 80)
	for i, clone := range fs.clones {
		if _, err := clone.Stat("db"); err != nil {
			continue // the directory itself was lost
		}
		if err := scanManifest(clone, "db"); !errors.Is(err, os.ErrNotExist) { // #5825: the fence's business
			require.NoError(t, err, "clone %d", i)
		}
	}
}

// manifestCases are files that could make a careless scan slow.
func manifestCases(tb testing.TB, size int) map[string][]byte {
	tb.Helper()
	edit := bytes.Repeat([]byte("an edit of a usual size "), 8)
	records := make([][]byte, size/len(edit))
	for i := range records {
		records[i] = edit
	}
	whole, _ := writeRecords(tb, records...)
	noise := slices.Clone(whole)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := 100; i < len(noise); i++ {
		noise[i] = byte(rng.Uint32())
	}
	zeros := make([]byte, size)
	copy(zeros, whole[:1000])
	return map[string][]byte{
		"whole":     whole,
		"noise":     noise,
		"zeros":     zeros,
		"plausible": bytes.Repeat([]byte{chunkMiddle}, size), // a header at every byte
	}
}

// Time does not grow with the square of the file, whatever is in it.
func TestScanManifestIsBoundedInTime(t *testing.T) {
	for name, data := range manifestCases(t, 8<<20) {
		fs := manifestStore(t, data)
		start := time.Now()
		require.NoError(t, scanManifest(fs, "db"))
		require.Less(t, time.Since(start), 5*time.Second, name)
	}
}

func BenchmarkScanManifest(b *testing.B) {
	const size = 128 << 20 // Pebble's MaxManifestFileSize
	for name, data := range manifestCases(b, size) {
		b.Run("content="+name, func(b *testing.B) {
			fs := manifestStore(b, data)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, scanManifest(fs, "db"))
			}
		})
	}
}

func FuzzScanManifest(f *testing.F) {
	data, _ := writeRecords(f, []byte("one"), bytes.Repeat([]byte("x"), 40_000), []byte("three"))
	f.Add(data)
	f.Add(data[:100])
	f.Fuzz(func(t *testing.T, data []byte) {
		bad, damaged, err := scanRecords(bytes.NewReader(data))
		require.NoError(t, err)
		if damaged {
			require.GreaterOrEqual(t, bad, int64(0))
			require.Less(t, bad, int64(len(data)))
		}
	})
}
