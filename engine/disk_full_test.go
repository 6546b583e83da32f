package engine_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/retention"
)

// reserve is what the stores here keep free.
const reserve = 64 << 20

// spaceFS is a memory file system that says how much of it is free.
type spaceFS struct {
	vfs.FS
	free  atomic.Int64
	asked atomic.Int64

	mu   sync.Mutex
	tell func() (int64, error) // nil: free
}

func newSpaceFS(free int64) *spaceFS {
	f := &spaceFS{FS: vfs.NewMem()}
	f.free.Store(free)
	return f
}

func (f *spaceFS) set(tell func() (int64, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tell = tell
}

func (f *spaceFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	f.asked.Add(1)
	f.mu.Lock()
	tell := f.tell
	f.mu.Unlock()
	free, err := f.free.Load(), error(nil)
	if tell != nil {
		free, err = tell()
	}
	return vfs.DiskUsage{AvailBytes: uint64(free)}, err
}

// Unwrap hides the memory file system: it does not tell.
func (f *spaceFS) Unwrap() vfs.FS { return nil }

// newFullStore is a store with ten records of t0 on a disk that is full.
func newFullStore(t *testing.T, config engine.TopicConfig) (*store, *spaceFS, *engine.Partition) {
	t.Helper()
	fs := newSpaceFS(1 << 40)
	s := newStoreWith(t, engine.Options{FS: fs, DiskReserve: reserve})
	p := s.log(config)
	leadEach(t, p, t0, t0, t0, t0, t0, t0, t0, t0, t0, t0)
	fs.free.Store(reserve - 1)
	s.CheckSpace(t)
	require.True(t, s.Metrics().DiskFull)
	return s, fs, p
}

// DESIGN 10: below the reserve appends fail with ErrDiskFull. Every way to append,
// with Kafka's code for its storage, and a refused set changes nothing.
func TestEveryAppendToAFullDiskIsRefused(t *testing.T) {
	s, _, p := newFullStore(t, engine.TopicConfig{})
	old := s.named("v0", engine.TopicConfig{MessageFormat: engine.FormatV0})
	ctx, msgs := t.Context(), records(t0)
	was := stateOf(t, p)
	for name, add := range map[string]func() error{
		"append": func() error { _, err := p.Append(ctx, msgs...); return err },
		"numbered": func() error {
			_, err := p.AppendSet(ctx, msgs, engine.AppendOptions{Producer: "a", Sequence: 3})
			return err
		},
		"compressed": func() error {
			_, err := p.AppendSet(ctx, msgs, engine.AppendOptions{Compression: codec.Gzip})
			return err
		},
		"compressed v0": func() error {
			_, err := old.AppendSet(ctx, msgs, engine.AppendOptions{Compression: codec.Gzip})
			return err
		},
		"submit":  func() error { _, err := p.Submit(ctx, msgs, engine.AppendOptions{}); return err },
		"produce": func() error { _, err := p.Produce(ctx, entries(t, 0, goldenW)); return err },
		"batch": func() error {
			b := s.NewBatch()
			b.Append(p, msgs...)
			b.CommitOffset("g", p, 3, "")
			_, err := b.Commit(ctx)
			return err
		},
	} {
		refused := s.Stats().DiskFulls
		err := add()
		require.ErrorIs(t, err, engine.ErrDiskFull, name)
		full, ok := errors.AsType[*engine.DiskFullError](err)
		require.True(t, ok, name)
		require.Equal(t, engine.DiskFullError{Free: reserve - 1, Reserve: reserve}, *full)
		requireCode(t, codec.CodeKafkaStorage, err)
		require.Equal(t, refused+1, s.Stats().DiskFulls, name)
		require.Equal(t, was, stateOf(t, p), name)
	}
	at, err := s.Group("g").Committed(ctx, p)
	require.NoError(t, err)
	require.Zero(t, at.Next(), "the batch was refused as a whole")
	_, err = p.Append(ctx)
	require.NoError(t, err, "an empty set takes nothing")
}

// DESIGN 10: reads and retention go on, and all else that removes.
func TestReadsAndRemovalsGoOnWhenTheDiskIsFull(t *testing.T) {
	s, _, p := newFullStore(t, engine.TopicConfig{SegmentBytes: 300, Retention: retention.Policy{MaxBytes: 300}})
	ctx := t.Context()
	require.Len(t, readAll(t, p, 0), 10)
	require.NotEmpty(t, fetchAll(t, p, 0))
	_, err := p.OffsetFor(t0)
	require.NoError(t, err)
	require.NoError(t, s.Group("g").Commit(ctx, p, 3, ""), "a reader keeps its place")
	require.NoError(t, p.Roll(ctx))

	r, err := p.Retain(ctx, engine.RetainOptions{})
	require.NoError(t, err)
	require.NotZero(t, r.Segments)
	_, err = s.MaintainOnce(ctx, s.clock.Now())
	require.NoError(t, err)
	_, err = p.DeleteBefore(ctx, 9)
	require.NoError(t, err)
	err = p.TruncateTo(ctx, 9)
	require.NoError(t, err)
	require.NoError(t, p.Drop(ctx))
	require.NoError(t, s.DeleteTopic(ctx, "t"))
	require.NoError(t, s.Sync(ctx))
	s.reopen()
	_, ok := s.Topic("t")
	require.False(t, ok)
}

// DESIGN 10: appends resume by themselves when space is back, within about a
// second, and not before there is some to spare.
func TestAppendsResumeByThemselvesWhenSpaceIsBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, fs, p := newFullStore(t, engine.TopicConfig{})
		refused := func() error { _, err := p.Append(t.Context(), at(t0)); return err }
		require.ErrorIs(t, refused(), engine.ErrDiskFull)
		fs.free.Store(reserve + 1)
		s.sleep(3 * time.Second)
		require.ErrorIs(t, refused(), engine.ErrDiskFull, "nothing to spare")
		fs.free.Store(reserve + reserve/8)
		s.sleep(2 * time.Second)
		require.NoError(t, refused())
		require.False(t, s.Metrics().DiskFull)
		fs.free.Store(reserve - 1)
		s.sleep(2 * time.Second)
		require.ErrorIs(t, refused(), engine.ErrDiskFull, "noticed by itself, too")
		require.NoError(t, s.Close())
	})
}

// A numbered set whose first try was appended is not appended again: its receipt
// needs no space. A batch with something new in it does.
func TestRepeatedSetGetsItsReceiptFromAFullDisk(t *testing.T) {
	fs := newSpaceFS(1 << 40)
	s := newStoreWith(t, engine.Options{FS: fs, DiskReserve: reserve})
	p := s.log(engine.TopicConfig{})
	numbered := func(n int64) (engine.Receipt, error) {
		return p.AppendSet(t.Context(), records(t0), engine.AppendOptions{Producer: "a", Sequence: n})
	}
	first, err := numbered(0)
	require.NoError(t, err)
	fs.free.Store(0)
	s.CheckSpace(t)

	again, err := numbered(0)
	require.NoError(t, err)
	require.Equal(t, first, again)
	_, err = numbered(1)
	require.ErrorIs(t, err, engine.ErrDiskFull)
	b := s.NewBatch()
	b.AppendSet(p, records(t0), engine.AppendOptions{Producer: "a", Sequence: 0})
	b.AppendSet(p, records(t0), engine.AppendOptions{Producer: "a", Sequence: 1})
	_, err = b.Commit(t.Context())
	require.ErrorIs(t, err, engine.ErrDiskFull)

	fs.free.Store(1 << 40)
	s.CheckSpace(t)
	next, err := numbered(1)
	require.NoError(t, err)
	require.EqualValues(t, 1, next.Offset, "the refused ones left nothing")
}

// DESIGN 10: before Pebble can run out. A burst between two ticks finds out by
// itself that the disk fills, also one that others fill.
func TestBurstStopsAtTheReserve(t *testing.T) {
	const capacity = reserve + 40<<20
	fs := newSpaceFS(capacity)
	s := newStoreWith(t, engine.Options{FS: fs, DiskReserve: reserve})
	p := s.log(engine.TopicConfig{SegmentBytes: 1 << 30})
	fs.set(func() (int64, error) { return capacity - 2*int64(s.Stats().StoredBytes), nil })
	msg := codec.Message{Timestamp: t0, TimestampType: codec.CreateTime, Value: make([]byte, 100<<10)}
	var err error
	for n := 0; err == nil; n++ {
		require.Less(t, n, 1000)
		_, err = p.Append(t.Context(), msg)
	}
	require.ErrorIs(t, err, engine.ErrDiskFull)
	used := 2 * int64(s.Stats().StoredBytes)
	require.Greater(t, used, int64(39<<20), "refused too early")
	require.Less(t, used, int64(41<<20), "far into the reserve")
}

// A set larger than what is left is refused, smaller ones are not.
func TestSetLargerThanWhatIsFreeIsRefused(t *testing.T) {
	s := newStoreWith(t, engine.Options{FS: newSpaceFS(reserve + 2<<20), DiskReserve: reserve})
	p := s.log(engine.TopicConfig{SegmentBytes: 1 << 30, MaxMessageBytes: 10 << 20})
	_, err := p.Append(t.Context(), codec.Message{Value: make([]byte, 2<<20)})
	full, ok := errors.AsType[*engine.DiskFullError](err)
	require.True(t, ok, "%v", err)
	require.Greater(t, full.Need, int64(4<<20))
	require.ErrorContains(t, err, "a set that takes")
	_, err = p.Append(t.Context(), codec.Message{Value: make([]byte, 100<<10)})
	require.NoError(t, err)
	require.False(t, s.Metrics().DiskFull)
}

// No system call on the hot path: with room, the file system is asked once.
func TestFreeSpaceIsNotAskedForOnEveryAppend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fs := newSpaceFS(1 << 40)
		s := newStoreWith(t, engine.Options{FS: fs})
		p := s.log(engine.TopicConfig{})
		for range 1000 {
			lead(t, p, t0)
		}
		require.LessOrEqual(t, fs.asked.Load(), int64(2), "no time has passed in here")
		s.sleep(10 * time.Second)
		require.LessOrEqual(t, fs.asked.Load(), int64(13))
		require.GreaterOrEqual(t, fs.asked.Load(), int64(9))
		require.NoError(t, s.Close())
	})
}

// A file system that hangs in its answer holds up neither Close nor reads, and of
// appends only those that have used up what was left; they end with their context.
func TestHangingFileSystemBlocksNobody(t *testing.T) {
	fs := newSpaceFS(reserve + 1<<20)
	hang := make(chan struct{})
	defer close(hang)
	s := newStoreWith(t, engine.Options{FS: fs, DiskReserve: reserve})
	p := s.log(engine.TopicConfig{})
	lead(t, p, t0)
	asked := fs.asked.Load()
	fs.set(func() (int64, error) { <-hang; return 0, errors.New("gone") })
	lead(t, p, t0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for fs.asked.Load() == asked { // until somebody hangs
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	var err error
	for n := 0; err == nil; n++ {
		require.Less(t, n, 100)
		_, err = p.Append(ctx, sized(t0, 100<<10))
	}
	require.ErrorIs(t, err, context.Canceled)
	require.NotEmpty(t, readAll(t, p, 0))
	s.Metrics()
	blocked := make(chan error, 1)
	go func() { _, err := p.Append(t.Context(), sized(t0, 800<<10)); blocked <- err }()
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-blocked, engine.ErrClosed)
	s.opts.FS = vfs.NewMem()
	s.open()
}

// An answer that fails changes nothing, and one that never comes leaves the store
// as it would be without a reserve.
func TestUnknownFreeSpaceRefusesNothing(t *testing.T) {
	fs := newSpaceFS(1 << 40)
	s := newStoreWith(t, engine.Options{FS: fs, DiskReserve: reserve})
	p := s.log(engine.TopicConfig{})
	for _, cause := range []error{errors.New("stale handle"), vfs.ErrUnsupported} {
		fs.set(func() (int64, error) { return 0, cause })
		s.CheckSpace(t)
		lead(t, p, t0)
	}
	require.EqualValues(t, 1<<40, s.Metrics().DiskFree)

	memory := newStore(t) // does not tell
	lead(t, memory.log(engine.TopicConfig{}), t0)
	require.EqualValues(t, -1, memory.Metrics().DiskFree)
}

func TestNoDiskReserveNeverRefuses(t *testing.T) {
	fs := newSpaceFS(0)
	s := newStoreWith(t, engine.Options{FS: fs, DiskReserve: engine.NoDiskReserve})
	s.CheckSpace(t)
	lead(t, s.log(engine.TopicConfig{}), t0)
	require.Zero(t, s.Metrics().DiskFree)
	require.Zero(t, s.Metrics().DiskReserve)
	require.False(t, s.Metrics().DiskFull)

	_, err := engine.Open("x", engine.Options{DiskReserve: -2})
	require.ErrorContains(t, err, "DiskReserve")
}

// The default reserve lets everything in memory become tables.
func TestDefaultReserveHoldsTheWriteBuffers(t *testing.T) {
	fs := newSpaceFS(1 << 40)
	for buffer, want := range map[int64]int64{1 << 20: 64 << 20, 32 << 20: 128 << 20} {
		db, err := engine.Open("store", engine.Options{FS: fs, MemTableBytes: buffer, CacheBytes: 1 << 20})
		require.NoError(t, err)
		require.Equal(t, want, db.Metrics().DiskReserve)
		require.NoError(t, db.Close())
	}
}

// Compaction writes before its space comes back: it waits for some.
func TestCompactionStopsWhenTheDiskIsFull(t *testing.T) {
	s, fs, p := newFullStore(t, engine.TopicConfig{CleanupPolicy: engine.CleanupCompact, SegmentBytes: 500})
	pair := at(t0)
	other := at(t0)
	other.Key = []byte("zz")
	fs.free.Store(1 << 40)
	s.CheckSpace(t)
	for range 10 { // entries of which one message stays must be written anew
		_, err := p.Append(t.Context(), pair, other)
		require.NoError(t, err)
		other.Key = append(other.Key, 'z')
	}
	fs.free.Store(0)
	s.CheckSpace(t)
	_, err := p.Compact(t.Context(), engine.CompactOptions{})
	require.ErrorIs(t, err, engine.ErrDiskFull)
	fs.free.Store(1 << 40)
	s.CheckSpace(t)
	_, err = p.Compact(t.Context(), engine.CompactOptions{})
	require.NoError(t, err)
}

// An append that finds out between its question and the answer that the file system
// does not tell what is free goes on.
func TestAppendsDoNotWaitForAFileSystemThatDoesNotTell(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, engine.AskBlindSpace(ctx))
}
