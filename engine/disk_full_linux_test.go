package engine_test

import (
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// smallDisk mounts a file system of n bytes.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root mounts a tmpfs")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("no tmpfs: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	return dir
}

// DESIGN 10 on a real disk that is small: it fills, appends fail before Pebble can
// run out, reads go on, what is deleted comes back, and appends resume by
// themselves. Twice, and the store is whole after all.
func TestSmallDiskFillsAndRecovers(t *testing.T) {
	s := &store{t: t, dir: smallDisk(t, "size=96m") + "/store", clock: newWallClock(t0), opts: engine.Options{
		MemTableBytes: 2 << 20, CacheBytes: 1 << 20, DiskReserve: 32 << 20}}
	s.opts.FS, s.opts.Now = vfs.Default, s.clock.Now
	s.open()
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	p := s.log(engine.TopicConfig{SegmentBytes: 4 << 20})
	random := rand.NewChaCha8([32]byte{})
	value := make([]byte, 64<<10)
	add := func() error {
		_, _ = random.Read(value) // never fails
		_, err := p.Append(t.Context(), codec.Message{Timestamp: t0, TimestampType: codec.CreateTime, Value: value})
		return err
	}
	acknowledged := int64(0)
	for range 2 {
		var err error
		for ; err == nil; err = add() {
			acknowledged++
			require.Less(t, acknowledged, int64(10_000))
		}
		acknowledged--
		require.ErrorIs(t, err, engine.ErrDiskFull)
		require.Greater(t, s.Metrics().DiskFree, int64(8<<20), "far into the reserve")
		require.False(t, s.Metrics().Failed)
		offsets, err := p.Offsets()
		require.NoError(t, err)
		require.Equal(t, acknowledged, offsets.End)
		require.Len(t, readAll(t, p, offsets.Start), int(offsets.End-offsets.Start))

		_, err = p.DeleteBefore(t.Context(), engine.HighWatermark)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return !s.Metrics().DiskFull }, 30*time.Second, 50*time.Millisecond)
		require.NoError(t, add())
		acknowledged++
	}
	s.reopen()
	p = s.log(engine.TopicConfig{})
	require.Equal(t, acknowledged, end(t, p))
	require.Len(t, readAll(t, p, acknowledged-1), 1)
	require.Zero(t, s.Metrics().BackgroundErrors)
}

// What others put on the disk counts too: appends stop within about a second, and
// resume when it is gone.
func TestDiskFilledByOthers(t *testing.T) {
	disk := smallDisk(t, "size=96m")
	s := newStoreWith(t, engine.Options{FS: vfs.NewMem()}) // its options are small
	require.NoError(t, s.Close())
	s.dir, s.opts.FS, s.opts.DiskReserve = disk+"/store", vfs.Default, 32<<20
	s.open()
	p := s.log(engine.TopicConfig{})
	lead(t, p, t0)
	other := disk + "/other"
	require.NoError(t, os.WriteFile(other, make([]byte, s.Metrics().DiskFree-16<<20), 0o600))
	full := func() bool { return s.Metrics().DiskFull }
	require.Eventually(t, full, 30*time.Second, 20*time.Millisecond)
	_, err := p.Append(t.Context(), at(t0))
	require.ErrorIs(t, err, engine.ErrDiskFull)
	require.Len(t, readAll(t, p, 0), 1)
	require.NoError(t, os.Remove(other))
	require.Eventually(t, func() bool { return !full() }, 30*time.Second, 20*time.Millisecond)
	require.EqualValues(t, 1, lead(t, p, t0))
}
