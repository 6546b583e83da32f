package engine_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// An append that was submitted before Close is made durable by it.
func TestPendingAppendsOutliveClose(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	var pending []*engine.Pending
	for range 20 {
		w, err := p.Submit(t.Context(), records(t0), engine.AppendOptions{})
		require.NoError(t, err)
		pending = append(pending, w)
	}
	require.NoError(t, s.Close())
	for i, w := range pending {
		r, err := w.Wait(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, i, r.Offset)
	}
	s.open()
	require.EqualValues(t, 20, end(t, s.log(engine.TopicConfig{})))
}

// A caller may reuse its buffers as soon as an append has returned, Submit too.
func TestBuffersMayBeReused(t *testing.T) {
	key, value := []byte("key-0"), []byte("value-0")
	scribble := func() { copy(key, "xxxxx"); copy(value, "yyyyyyy") }
	restore := func() { copy(key, "key-0"); copy(value, "value-0") }
	for name, c := range map[string]codec.Compression{"plain": codec.None, "gzip": codec.Gzip, "snappy": codec.Snappy, "lz4": codec.LZ4} {
		t.Run(name, func(t *testing.T) {
			gate := newSyncGate(vfs.NewMem())
			s := newStoreWith(t, engine.Options{FS: gate})
			p := s.log(engine.TopicConfig{})
			_, release := gate.hold()
			restore()
			msgs := []codec.Message{{Timestamp: t0, Key: key, Value: value}}
			pending, err := p.Submit(t.Context(), msgs, engine.AppendOptions{Compression: c})
			require.NoError(t, err)
			scribble()
			msgs[0] = codec.Message{}
			release()
			_, err = pending.Wait(t.Context())
			require.NoError(t, err)

			restore()
			set := frame(codec.Frame{Magic: 1, TimestampType: codec.CreateTime, Timestamp: t0, Key: key, Value: value})
			if c != codec.None {
				set = wrap(t, c, set)
			}
			produce(t, p, set)
			for i := range set {
				set[i] = 0xaa
			}
			scribble()
			for _, m := range readAll(t, p, 0) {
				require.Equal(t, "key-0", string(m.Key))
				require.Equal(t, "value-0", string(m.Value))
			}
			require.Len(t, readAll(t, p, 0), 2)
		})
	}
}

// syncGate is a file system whose write-ahead log can be held in a sync.
type syncGate struct {
	vfs.FS
	mu      sync.Mutex
	held    chan struct{}
	entered chan struct{}
}

func newSyncGate(inner vfs.FS) *syncGate {
	g := &syncGate{}
	g.FS = errorfs.Wrap(inner, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			if strings.HasSuffix(op.Path, ".log") {
				g.pass()
			}
		}
		return nil
	}))
	return g
}

func (g *syncGate) pass() {
	g.mu.Lock()
	held, entered := g.held, g.entered
	g.entered = nil
	g.mu.Unlock()
	if held == nil {
		return
	}
	if entered != nil {
		close(entered)
	}
	<-held
}

// hold makes syncs wait until release is called; entered is closed when the first
// of them waits.
func (g *syncGate) hold() (entered <-chan struct{}, release func()) {
	held, first := make(chan struct{}), make(chan struct{})
	g.mu.Lock()
	g.held, g.entered = held, first
	g.mu.Unlock()
	return first, sync.OnceFunc(func() {
		g.mu.Lock()
		g.held = nil
		g.mu.Unlock()
		close(held)
	})
}

// A canceled context refuses an append before it begins.
func TestCanceledContextRefusesAppends(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	lead(t, p, t0)
	was := stateOf(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.Append(ctx, at(t0))
	require.ErrorIs(t, err, context.Canceled)
	_, err = p.Submit(ctx, records(t0), engine.AppendOptions{})
	require.ErrorIs(t, err, context.Canceled)
	_, err = p.Produce(ctx, plainFrame(t0))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, p.Roll(ctx), context.Canceled)
	for _, err := range p.Read(ctx, 0, engine.ReadOptions{}) {
		require.ErrorIs(t, err, context.Canceled)
	}
	_, err = p.Fetch(ctx, 0, engine.FetchOptions{})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, p.Await(ctx, 1), context.Canceled)
	require.Equal(t, was, stateOf(t, p))
}

// A context that ends while an append waits for the disk ends the wait; the
// append may survive, and here does.
func TestCancelWhileWaitingForTheDisk(t *testing.T) {
	gate := newSyncGate(vfs.NewMem())
	s := newStoreWith(t, engine.Options{FS: gate})
	p := s.log(engine.TopicConfig{})
	entered, release := gate.hold()
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error)
	go func() { _, err := p.Append(ctx, at(t0)); errs <- err }()
	<-entered
	cancel()
	require.ErrorIs(t, <-errs, context.Canceled)
	offsets, err := p.Offsets()
	require.NoError(t, err)
	require.Equal(t, engine.Offsets{End: 1}, offsets)
	release()
	require.NoError(t, p.Await(t.Context(), 0))
	require.Len(t, readAll(t, p, 0), 1)
}

// Submit assigns offsets in the order of the calls and does not wait; Wait may
// be repeated, also after a context ended it.
func TestSubmitKeepsOrderAndWaitMayBeRepeated(t *testing.T) {
	gate := newSyncGate(vfs.NewMem())
	s := newStoreWith(t, engine.Options{FS: gate})
	p := s.log(engine.TopicConfig{})
	_, release := gate.hold()
	defer release()
	var pending []*engine.Pending
	for i := range 5 {
		w, err := p.Submit(t.Context(), records(t0, t0), engine.AppendOptions{})
		require.NoError(t, err)
		require.EqualValues(t, 2*i, w.Receipt().Offset)
		pending = append(pending, w)
	}
	offsets, err := p.Offsets()
	require.NoError(t, err)
	require.Equal(t, engine.Offsets{End: 10}, offsets, "nothing is readable before it is durable")
	require.Empty(t, readAll(t, p, 0))
	requireSearch(t, p, answer{0, none, notFound})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = pending[4].Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
	release()
	for i := range pending {
		w := pending[len(pending)-1-i] // in any order
		for range 2 {
			r, err := w.Wait(t.Context())
			require.NoError(t, err)
			require.Equal(t, w.Receipt(), r)
		}
	}
	require.Len(t, readAll(t, p, 0), 10)
}

// SPEC 8.4, 8.7: what is appended and not yet durable is for replicas alone.
func TestListOffsetsBeyondTheHighWatermark(t *testing.T) {
	gate := newSyncGate(vfs.NewMem())
	s := newStoreWith(t, engine.Options{FS: gate})
	p := s.log(engine.TopicConfig{SegmentBytes: 100})
	lead(t, p, t0)
	_, release := gate.hold()
	defer release()
	for range 2 {
		_, err := p.Submit(t.Context(), records(t0), engine.AppendOptions{})
		require.NoError(t, err)
	}
	for replica, latest := range map[bool]int64{false: 1, true: 3} {
		pos, err := p.ListOffset(t.Context(), engine.Latest, engine.ListOptions{Replica: replica})
		require.NoError(t, err)
		require.Equal(t, latest, pos.Offset)
	}
	for limit, want := range map[int][]int64{1: {1}, 2: {1}, 3: {1, 1}, 4: {1, 1, 0}, 10: {1, 1, 0}} {
		got, err := p.ListOffsetsV0(t.Context(), engine.Latest, limit, engine.ListOptions{})
		require.NoError(t, err)
		require.Equal(t, want, got, "limit %d", limit)
	}
	got, err := p.ListOffsetsV0(t.Context(), engine.Latest, 3, engine.ListOptions{Replica: true})
	require.NoError(t, err)
	require.Equal(t, []int64{3, 2, 1}, got)
}

// Under SyncNever an append does not wait for the disk and can be read at once;
// Sync waits.
func TestSyncNeverDoesNotWaitForTheDisk(t *testing.T) {
	gate := newSyncGate(vfs.NewMem())
	s := newStoreWith(t, engine.Options{FS: gate, Durability: engine.SyncNever})
	p := s.log(engine.TopicConfig{})
	entered, release := gate.hold()
	defer release()
	for i := range int64(10) {
		require.Equal(t, i, lead(t, p, t0))
		require.Len(t, readAll(t, p, 0), int(i)+1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	synced := make(chan error, 1)
	go func() { synced <- s.Sync(ctx) }()
	<-entered
	cancel()
	require.ErrorIs(t, <-synced, context.Canceled)
	release()
	require.NoError(t, s.Sync(t.Context()))
}

// An append that does not fit MaxQueuedBytes waits for the disk, until its
// context ends; one larger than the whole queue passes alone.
func TestQueueHoldsWritersBack(t *testing.T) {
	gate := newSyncGate(vfs.NewMem())
	s := newStore(t)
	s.opts.FS = gate
	require.NoError(t, s.Close())
	s.opts.MaxQueuedBytes = 1000
	s.open()
	p := s.log(engine.TopicConfig{})
	_, release := gate.hold()
	defer release()
	big, err := p.Submit(t.Context(), records(make([]codec.Timestamp, 30)...), engine.AppendOptions{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = p.Submit(ctx, records(t0), engine.AppendOptions{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	offsets, err := p.Offsets()
	require.NoError(t, err)
	require.EqualValues(t, 30, offsets.End, "the append that gave up took no offset")
	release()
	_, err = big.Wait(t.Context())
	require.NoError(t, err)
	lead(t, p, t0)
}

// Close wakes an append that waits for the queue.
func TestCloseWakesWritersHeldBack(t *testing.T) {
	gate := newSyncGate(vfs.NewMem())
	s := newStoreWith(t, engine.Options{FS: gate})
	require.NoError(t, s.Close())
	s.opts.MaxQueuedBytes = 1000
	s.open()
	p := s.log(engine.TopicConfig{})
	_, release := gate.hold()
	defer release()
	_, err := p.Submit(t.Context(), records(make([]codec.Timestamp, 30)...), engine.AppendOptions{})
	require.NoError(t, err)
	errs, closed := make(chan error, 1), make(chan error, 1)
	go func() { _, err := p.Append(context.Background(), at(t0)); errs <- err }()
	go func() { closed <- s.Close() }()
	require.ErrorIs(t, <-errs, engine.ErrClosed)
	release()
	require.NoError(t, <-closed)
}

// follower runs Follow in a goroutine.
type follower struct {
	offsets chan int64
	ended   chan error
}

func follow(ctx context.Context, p *engine.Partition, from int64) *follower {
	f := &follower{make(chan int64), make(chan error, 1)}
	go func() {
		var last error
		for m, err := range p.Follow(ctx, from, engine.ReadOptions{}) {
			if last = err; err == nil {
				f.offsets <- m.Offset
			}
		}
		f.ended <- last
	}()
	return f
}

// Follow yields what there is and then what is appended.
func TestFollowIsWokenByAppends(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{SegmentBytes: 400})
	lead(t, p, t0, t0)
	ctx, cancel := context.WithCancel(t.Context())
	f := follow(ctx, p, 1)
	require.EqualValues(t, 1, <-f.offsets)
	for i := range int64(20) {
		lead(t, p, t0)
		require.Equal(t, i+2, <-f.offsets)
	}
	cancel()
	require.ErrorIs(t, <-f.ended, context.Canceled)
	require.Zero(t, s.OpenIterators())
}

// Close ends followers that wait, with ErrClosed.
func TestCloseEndsFollow(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	lead(t, p, t0)
	f := follow(context.Background(), p, 0)
	require.EqualValues(t, 0, <-f.offsets)
	g := follow(context.Background(), p, 1)
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-f.ended, engine.ErrClosed)
	require.ErrorIs(t, <-g.ended, engine.ErrClosed)
}

// Follow ends by its bounds.
func TestFollowBounds(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	lead(t, p, t0, t0, t0)
	for _, o := range []engine.ReadOptions{{MaxMessages: 2}, {Before: 2}} {
		var got []int64
		for m, err := range p.Follow(t.Context(), 0, o) {
			require.NoError(t, err)
			got = append(got, m.Offset)
		}
		require.Equal(t, []int64{0, 1}, got)
	}
}

// A follower at the end of a log does nothing until there is something: no timer
// of its own wakes it, and an append does at once.
func TestIdleFollowDoesNotPoll(t *testing.T) {
	if inChild(t, "bubble") == "" {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		db, err := engine.Open("store", engine.Options{FS: vfs.NewMem()}.SmallMemory())
		require.NoError(t, err)
		topic, err := db.EnsureTopic("t", engine.TopicConfig{})
		require.NoError(t, err)
		p := topic.Partition(0)
		ctx, cancel := context.WithCancel(t.Context())
		f := follow(ctx, p, 0)
		synctest.Wait()
		lead(t, p, t0)
		require.EqualValues(t, 0, <-f.offsets)
		synctest.Wait()
		require.Zero(t, db.OpenIterators(), "a waiting follower holds no iterator")
		time.Sleep(10 * time.Minute) // of the bubble
		lead(t, p, t0)
		require.EqualValues(t, 1, <-f.offsets)
		cancel()
		require.ErrorIs(t, <-f.ended, context.Canceled)
		require.NoError(t, db.Close())
	})
}

// A store that lived in a synctest bubble leaves nothing behind that another
// store trips over. In a process of its own, as tripping ends the process.
func TestStoresAreIndependentOfBubbles(t *testing.T) {
	if inChild(t, "bubble") == "" {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		for range 50 {
			lead(t, s.log(engine.TopicConfig{}), t0)
		}
		require.NoError(t, s.Close())
	})
	s := newStore(t)
	for range 50 {
		lead(t, s.log(engine.TopicConfig{}), t0)
	}
}

// Leaving the loop of a read releases its iterator, whatever the way out.
func TestLeavingAReadReleasesItsIterator(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	lead(t, p, t0, t0)
	leadGzip(t, p, t0, t0)
	seq := p.Read(t.Context(), 0, engine.ReadOptions{})
	require.Zero(t, s.OpenIterators(), "nothing is opened before the loop")
	for range seq {
		require.Equal(t, 1, s.OpenIterators())
		break
	}
	require.Zero(t, s.OpenIterators())
	func() {
		defer func() { require.Equal(t, "out", recover()) }()
		for range seq {
			panic("out")
		}
	}()
	require.Zero(t, s.OpenIterators())
	for range p.Follow(t.Context(), 3, engine.ReadOptions{}) { // error ignored: the loop is left by its body
		break
	}
	for range p.TimeIndex(t.Context()) {
		break
	}
	require.Zero(t, s.OpenIterators())
	n := 0
	for range seq { // restartable
		n++
	}
	require.Equal(t, 4, n)
	require.Zero(t, s.OpenIterators())
}

// The loop body may use the log it reads: no lock is held across a yield, and
// the read ends where the log ended when it began.
func TestLoopBodyMayUseTheLog(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	lead(t, p, t0, t0, t0)
	n := 0
	for m, err := range p.Read(t.Context(), 0, engine.ReadOptions{}) {
		require.NoError(t, err)
		lead(t, p, t0)
		_, err = p.OffsetFor(t0)
		require.NoError(t, err)
		require.Equal(t, []int64{m.Offset}, offsetsOf(readAll(t, p, m.Offset))[:1])
		n++
	}
	require.Equal(t, 3, n)
	require.EqualValues(t, 6, end(t, p))
}

// Close in the middle of a read ends it with ErrClosed; the message in hand
// stays valid.
func TestCloseInTheMiddleOfARead(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	for i := range 10 {
		_, err := p.Append(t.Context(), codec.Message{Value: bytes.Repeat([]byte{byte(i)}, 50)})
		require.NoError(t, err)
	}
	var last error
	var n int
	for m, err := range p.Read(t.Context(), 0, engine.ReadOptions{}) {
		if last = err; err != nil {
			require.Equal(t, codec.Message{}, m)
			continue
		}
		if n++; n == 3 {
			require.NoError(t, s.Close())
			require.Equal(t, bytes.Repeat([]byte{2}, 50), m.Value)
		}
	}
	require.Equal(t, 3, n)
	require.ErrorIs(t, last, engine.ErrClosed)
}
