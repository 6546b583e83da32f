package engine // the watermark is not exported: Open is its only reader

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
)

const testWatermark = "db/WATERMARK"

func watermarkDir(t testing.TB) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewMem()
	require.NoError(t, fs.MkdirAll("db", 0o755))
	return fs
}

// writeWatermarks writes marks 1 to n.
func writeWatermarks(t testing.TB, fs vfs.FS, n uint64) {
	t.Helper()
	w, _, err := openWatermark(fs, "db")
	require.NoError(t, err)
	for seq := uint64(1); seq <= n; seq++ {
		require.NoError(t, w.Write(watermark{Seq: seq, Acked: 10 * seq}))
	}
	require.NoError(t, w.Close())
}

// watermarkBytes gives access to the file's content.
func watermarkBytes(t testing.TB, fs *vfs.MemFS) []byte {
	t.Helper()
	data, err := fs.UnsafeGetFileDataBuffer(testWatermark)
	require.NoError(t, err)
	return data
}

func TestWatermarkReadsBackTheLastWrite(t *testing.T) {
	fs := watermarkDir(t)
	for n := range uint64(5) {
		require.NoError(t, fs.RemoveAll(testWatermark))
		writeWatermarks(t, fs, n)
		got, ok, err := readWatermark(fs, "db")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, watermark{Seq: n, Acked: 10 * n}, got)
		w, got, err := openWatermark(fs, "db")
		require.NoError(t, err)
		require.Equal(t, watermark{Seq: n, Acked: 10 * n}, got)
		require.NoError(t, w.Close())
	}
}

// A store opened with data loss goes on from a smaller count: the last write
// counts, not the largest.
func TestWatermarkMayGoBack(t *testing.T) {
	fs := watermarkDir(t)
	writeWatermarks(t, fs, 7)
	writeWatermarks(t, fs, 2)
	got, _, err := readWatermark(fs, "db")
	require.NoError(t, err)
	require.Equal(t, watermark{Seq: 2, Acked: 20}, got)
}

func TestWatermarkAbsentIsNoError(t *testing.T) {
	fs := watermarkDir(t)
	got, ok, err := readWatermark(fs, "db")
	require.NoError(t, err)
	require.False(t, ok)
	require.Zero(t, got)
	names, err := fs.List("db")
	require.NoError(t, err)
	require.Empty(t, names, "reading creates nothing")

	w, got, err := openWatermark(fs, "db")
	require.NoError(t, err)
	require.Zero(t, got)
	require.NoError(t, w.Close())
	_, ok, err = readWatermark(fs, "db")
	require.NoError(t, err)
	require.True(t, ok)
}

// The bytes on disk.
func TestWatermarkLayout(t *testing.T) {
	fs := watermarkDir(t)
	writeWatermarks(t, fs, 2)
	data := watermarkBytes(t, fs)
	require.Len(t, data, 8192)
	const (
		slot0 = "434149524e574d01" + "0000000000000002" + "0000000000000001" + "000000000000000a" + "24995411"
		slot1 = "434149524e574d01" + "0000000000000003" + "0000000000000002" + "0000000000000014" + "def4fc2f"
	)
	require.Equal(t, slot0, hex.EncodeToString(data[:36]))
	require.Equal(t, slot1, hex.EncodeToString(data[4096:][:36]))
	for i, b := range data {
		require.False(t, b != 0 && i%4096 >= 36, "byte %d is not zero", i)
	}
}

// A write touches one slot and does not grow the file.
func TestWatermarkWriteIsInPlace(t *testing.T) {
	fs := watermarkDir(t)
	writeWatermarks(t, fs, 1)
	before := slices.Clone(watermarkBytes(t, fs))
	writeWatermarks(t, fs, 1)
	after := watermarkBytes(t, fs)
	require.Len(t, after, len(before))
	require.Equal(t, before[:4096], after[:4096])
	require.NotEqual(t, before[4096:], after[4096:])
}

// Any damage to the newer slot leaves the older one, and to both is an error.
func TestWatermarkSurvivesDamageToOneSlot(t *testing.T) {
	fs := watermarkDir(t)
	writeWatermarks(t, fs, 8) // generation 9, in the second slot
	data := watermarkBytes(t, fs)
	for i := range watermarkSlotSize {
		data[4096+i] ^= 0x40
		got, ok, err := readWatermark(fs, "db")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, watermark{Seq: 7, Acked: 70}, got, "byte %d", i)

		data[i] ^= 0x40
		_, ok, err = readWatermark(fs, "db")
		requireWatermarkError(t, err, "wrong checksum")
		require.False(t, ok)
		_, _, err = openWatermark(fs, "db")
		requireWatermarkError(t, err, "wrong checksum")
		data[i] ^= 0x40
		data[4096+i] ^= 0x40
	}
	require.NoError(t, createWatermark(fs, "db"))
	got, ok, err := readWatermark(fs, "db")
	require.NoError(t, err)
	require.True(t, ok)
	require.Zero(t, got, "a new file demands nothing")
}

func requireWatermarkError(t *testing.T, err error, reason string) {
	t.Helper()
	damage, ok := errors.AsType[*WatermarkError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, testWatermark, damage.File)
	require.Contains(t, damage.Reason, reason)
}

// A file cut short, of another kind, or of a later version is not a missing one.
func TestWatermarkRefusesForeignFile(t *testing.T) {
	later := make([]byte, watermarkSlotSize)
	encodeWatermark(later, watermark{}, 1)
	later[7]++
	seal := func(slot []byte) []byte { // with a checksum that fits
		var whole [watermarkSlotSize]byte
		copy(whole[:], slot)
		sealWatermark(whole[:])
		return whole[:]
	}
	for _, c := range []struct {
		content []byte
		reason  string
	}{
		{nil, "too short"},
		{[]byte("x"), "too short"},
		{later[:watermarkSlotSize-1], "too short"},
		{make([]byte, 8192), "wrong checksum"},
		{seal([]byte("CAIRNXX")), "not a watermark"},
		{seal(later[:32]), "unknown version 2"},
	} {
		fs := watermarkDir(t)
		f, err := fs.Create(testWatermark, watermarkCategory)
		require.NoError(t, err)
		_, err = f.Write(c.content)
		require.NoError(t, err)
		_, _, err = openWatermark(fs, "db")
		requireWatermarkError(t, err, c.reason)
	}
}

// A failed write leaves the slot that counts, however often it is tried.
func TestWatermarkFailedWriteKeepsTheOtherSlot(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpFileWriteAt, errorfs.OpFileSyncData} {
		mem := watermarkDir(t)
		var fail bool
		fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if fail && op.Kind == kind {
				return syscall.EIO
			}
			return nil
		}))
		w, _, err := openWatermark(fs, "db")
		require.NoError(t, err)
		require.NoError(t, w.Write(watermark{Seq: 1}))
		at := w.generation % 2 * watermarkStride
		kept := slices.Clone(watermarkBytes(t, mem)[at:][:watermarkSlotSize])
		fail = true
		for range 3 {
			require.ErrorIs(t, w.Write(watermark{Seq: 2}), syscall.EIO)
			require.Equal(t, kept, watermarkBytes(t, mem)[at:][:watermarkSlotSize])
		}
		fail = false
		require.NoError(t, w.Write(watermark{Seq: 3}))
		require.NoError(t, w.Close())
		got, _, err := readWatermark(fs, "db")
		require.NoError(t, err)
		require.Equal(t, watermark{Seq: 3}, got)
	}
}

// A failed creation leaves no file that counts as one.
func TestWatermarkFailedCreationIsNoWatermark(t *testing.T) {
	for k := int32(0); ; k++ {
		mem := watermarkDir(t)
		_, _, err := openWatermark(errorfs.Wrap(mem, errorfs.OnIndex(k)), "db")
		if err == nil {
			require.Greater(t, k, int32(5))
			return
		}
		require.ErrorIs(t, err, errorfs.ErrInjected)
		w, got, err := openWatermark(mem, "db")
		require.NoError(t, err)
		require.Zero(t, got)
		require.NoError(t, w.Close())
	}
}

// DESIGN 10: after a power cut before any operation, with any of the unsynced
// pages kept, the watermark is at least the last one written and at most the last
// one begun, and never damaged.
func TestWatermarkSurvivesEveryCrash(t *testing.T) {
	crashes := 0
	for k, done := int32(0), false; !done; k++ {
		done = true
		for seed := range uint64(8) {
			mem := vfs.NewCrashableMem()
			require.NoError(t, mem.MkdirAll("db", 0o755))
			root, err := mem.OpenDir("")
			require.NoError(t, err)
			require.NoError(t, root.Sync())

			rng := rand.New(rand.NewPCG(uint64(k), seed))
			var begun, written, atLeast, atMost uint64
			var crashed *vfs.MemFS
			left := k
			fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if left--; left == -1 {
					crashed = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
					atLeast, atMost = written, begun
				}
				return nil
			}))
			for range 2 {
				w, _, err := openWatermark(fs, "db")
				require.NoError(t, err)
				for range 4 {
					begun++
					require.NoError(t, w.Write(watermark{Seq: begun, Acked: 10 * begun}))
					written = begun
				}
				require.NoError(t, w.Close())
			}
			if crashed == nil {
				continue
			}
			done = false
			crashes++
			w, got, err := openWatermark(crashed, "db")
			require.NoError(t, err, "crash at %d, seed %d", k, seed)
			require.NoError(t, w.Close())
			require.GreaterOrEqual(t, got.Seq, atLeast, "crash at %d, seed %d", k, seed)
			require.LessOrEqual(t, got.Seq, atMost, "crash at %d, seed %d", k, seed)
			require.Equal(t, 10*got.Seq, got.Acked)
		}
	}
	require.Greater(t, crashes, 200)
}

// The file on the real file system: what the memory one may be lax about.
func TestWatermarkOnDisk(t *testing.T) {
	dir := t.TempDir()
	for n := range uint64(3) {
		w, got, err := openWatermark(vfs.Default, dir)
		require.NoError(t, err)
		require.Equal(t, watermark{Seq: n}, got)
		require.NoError(t, w.Write(watermark{Seq: n + 1}))
		require.NoError(t, w.Close())
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file is left")
	require.Equal(t, watermarkName, entries[0].Name())
}

func TestWatermarkErrorTellsWhatItMeans(t *testing.T) {
	err := &WatermarkError{File: testWatermark, Reason: "too short; too short"}
	require.True(t, strings.HasPrefix(err.Error(), "db/WATERMARK is damaged (too short; too short): "))
}

func BenchmarkWatermarkWrite(b *testing.B) {
	w, _, err := openWatermark(vfs.Default, b.TempDir())
	require.NoError(b, err)
	b.ReportAllocs()
	for seq := uint64(1); b.Loop(); seq++ {
		require.NoError(b, w.Write(watermark{Seq: seq}))
	}
	require.NoError(b, w.Close())
}

func FuzzDecodeWatermark(f *testing.F) {
	var slot [watermarkSlotSize]byte
	encodeWatermark(slot[:], watermark{Seq: 1, Acked: 2}, 3)
	f.Add(slot[:])
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, slot []byte) {
		m, generation, err := decodeWatermark(slot)
		if err != nil {
			return
		}
		var again [watermarkSlotSize]byte
		encodeWatermark(again[:], m, generation)
		require.Equal(t, again[:], slot[:watermarkSlotSize], fmt.Sprint(m))
	})
}
