package engine_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/keys"
)

// appendNumbered appends a numbered set whose value names it.
func appendNumbered(t testing.TB, p *engine.Partition, producer string, sequence int64) (engine.Receipt, error) {
	t.Helper()
	return p.AppendSet(t.Context(), []codec.Message{text(fmt.Sprint(producer, sequence))},
		engine.AppendOptions{Producer: producer, Sequence: sequence})
}

// requireAppended appends a numbered set that must land at an offset.
func requireAppended(t testing.TB, p *engine.Partition, producer string, sequence, offset int64) {
	t.Helper()
	r, err := appendNumbered(t, p, producer, sequence)
	require.NoError(t, err, "%s %d", producer, sequence)
	require.Equal(t, engine.Receipt{Offset: offset, Count: 1, Timestamp: t0, LogAppendTime: none}, r, "%s %d", producer, sequence)
}

func requireSequenceError(t testing.TB, p *engine.Partition, producer string, sequence, next int64) {
	t.Helper()
	_, err := appendNumbered(t, p, producer, sequence)
	e, ok := errors.AsType[*engine.SequenceError](err)
	require.True(t, ok, "%s %d: %v", producer, sequence, err)
	require.Equal(t, &engine.SequenceError{Topic: p.Topic(), Partition: p.Number(), Producer: producer, Sequence: sequence, Next: next}, e)
	require.Equal(t, sequence < next, e.Duplicate())
}

// A repeated set gets the first receipt and changes nothing, now and after a
// reopen; a gap and what is older than the window are refused.
func TestRepeatedSetGetsItsFirstReceipt(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	for i := range int64(20) {
		requireAppended(t, p, "a", 100+i, 2*i)
		requireAppended(t, p, "b", i, 2*i+1)
	}
	check := func(p *engine.Partition) {
		t.Helper()
		was := stateOf(t, p)
		for i := range int64(20) {
			if i < 20-engine.SequenceWindow {
				requireSequenceError(t, p, "a", 100+i, 120)
				requireSequenceError(t, p, "b", i, 20)
				continue
			}
			requireAppended(t, p, "a", 100+i, 2*i)
			requireAppended(t, p, "b", i, 2*i+1)
		}
		requireSequenceError(t, p, "a", 121, 120)
		requireSequenceError(t, p, "a", 0, 120)
		require.Equal(t, was, stateOf(t, p))
	}
	check(p)
	s.reopen()
	p = s.log(engine.TopicConfig{})
	check(p)
	requireAppended(t, p, "a", 120, 40)
	requireAppended(t, p, "new", 7, 41)
	requireAppended(t, p, "new", 7, 41)
	requireSequenceError(t, p, "new", 6, 8)
}

// A receipt says what the first one did, whatever the repetition holds.
func TestRepeatedReceiptIsTheFirst(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{TimestampType: codec.LogAppendTime})
	o := engine.AppendOptions{Producer: "a", Sequence: 5, Compression: codec.Gzip}
	first, err := p.AppendSet(t.Context(), records(t0, t0+1, t0+2), o)
	require.NoError(t, err)
	require.Equal(t, engine.Receipt{Offset: 0, Count: 3, Timestamp: t0, LogAppendTime: t0}, first)
	for range 2 {
		s.clock.add(1000)
		again, err := p.AppendSet(t.Context(), records(t0), o)
		require.NoError(t, err)
		require.Equal(t, first, again)
		s.reopen()
		p = s.log(engine.TopicConfig{})
	}
	empty, err := p.AppendSet(t.Context(), nil, engine.AppendOptions{Producer: "a", Sequence: 9})
	require.NoError(t, err, "an empty set has no number")
	require.EqualValues(t, -1, empty.Offset)
	_, err = p.AppendSet(t.Context(), records(t0), engine.AppendOptions{Sequence: 9})
	requireCode(t, codec.CodeInvalidRequest, err)
}

// A refused set does not use its number up.
func TestRefusedSetKeepsItsNumber(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{MaxTimestampDifference: ms(10)})
	requireAppended(t, p, "a", 0, 0)
	_, err := p.AppendSet(t.Context(), records(t0+11), engine.AppendOptions{Producer: "a", Sequence: 1})
	requireCode(t, codec.CodeInvalidTimestamp, err)
	requireAppended(t, p, "a", 1, 1)
}

// logGate holds up the syncs of the write-ahead log while it is locked, and makes
// them fail when it is broken.
type logGate struct {
	sync.Mutex
	broken atomic.Bool
	syncs  atomic.Int64 // counted
}

// MaybeError implements errorfs.Injector.
func (g *logGate) MaybeError(op errorfs.Op) error {
	if strings.HasSuffix(op.Path, ".log") && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
		g.Lock()
		defer g.Unlock()
		g.syncs.Add(1)
		if g.broken.Load() {
			return errInjected
		}
	}
	return nil
}

// String implements errorfs.Injector.
func (g *logGate) String() string { return "log gate" }

// A repetition is acknowledged only when the first is on stable storage.
func TestRepetitionWaitsForTheFirst(t *testing.T) {
	var gate logGate
	s := newStoreWith(t, engine.Options{FS: errorfs.Wrap(vfs.NewMem(), &gate)})
	p := s.log(engine.TopicConfig{})
	requireAppended(t, p, "a", 0, 0)
	gate.Lock()
	release := sync.OnceFunc(gate.Unlock)
	defer release()
	first, err := p.Submit(t.Context(), records(t0), engine.AppendOptions{Producer: "a", Sequence: 1})
	require.NoError(t, err)
	again, err := p.Submit(t.Context(), records(t0), engine.AppendOptions{Producer: "a", Sequence: 1})
	require.NoError(t, err)
	require.Equal(t, first.Receipt(), again.Receipt())
	waited := make(chan error, 1)
	go func() {
		_, err := again.Wait(t.Context())
		waited <- err
	}()
	batched := make(chan error, 1)
	go func() {
		b := s.NewBatch()
		number(b, p, "a", 1)
		_, err := b.Commit(t.Context())
		batched <- err
	}()
	for range 10_000 {
		runtime.Gosched()
		require.Zero(t, len(waited)+len(batched), "acknowledged before the disk had it")
	}
	release()
	require.NoError(t, <-waited)
	require.NoError(t, <-batched)
	_, err = first.Wait(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, end(t, p))
}

// What a truncation removes may be appended again; what it leaves is still known.
func TestTruncationForgetsWhatItRemoves(t *testing.T) {
	ctx := t.Context()
	fill := func(t *testing.T) (*store, *engine.Partition) {
		s := newStore(t)
		p := s.log(engine.TopicConfig{})
		for i := range int64(20) {
			requireAppended(t, p, "a", i, 2*i)
			requireAppended(t, p, "b", i, 2*i+1)
		}
		return s, p
	}
	for _, reopen := range []bool{false, true} {
		t.Run(fmt.Sprintf("reopen=%v", reopen), func(t *testing.T) {
			s, p := fill(t)
			again := func() {
				if reopen {
					s.reopen()
					p = s.log(engine.TopicConfig{})
				}
			}
			again() // the producers are read by the truncation
			require.NoError(t, p.TruncateTo(ctx, 37))
			again()
			requireAppended(t, p, "b", 17, 35)
			requireAppended(t, p, "a", 18, 36)
			requireSequenceError(t, p, "a", 20, 19)
			requireSequenceError(t, p, "b", 19, 18)
			requireAppended(t, p, "b", 18, 37)
			requireAppended(t, p, "a", 19, 38)

			// 12 is the oldest known of both; a's 11 ends at 23.
			require.NoError(t, p.TruncateTo(ctx, 24))
			again()
			requireSequenceError(t, p, "a", 11, 12)
			requireSequenceError(t, p, "a", 13, 12)
			requireAppended(t, p, "a", 12, 24)
			requireAppended(t, p, "b", 12, 25)

			// Nothing known is left, and where the sequence stood is not known either.
			require.NoError(t, p.TruncateTo(ctx, 3))
			again()
			requireAppended(t, p, "b", 77, 3)
			requireAppended(t, p, "a", 3, 4)
		})
	}
	for name, empty := range map[string]func(p *engine.Partition) error{
		"reset": func(p *engine.Partition) error { return p.ResetTo(ctx, 0) },
		"drop":  func(p *engine.Partition) error { return p.Drop(ctx) },
		"all":   func(p *engine.Partition) error { return p.TruncateTo(ctx, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			s, p := fill(t)
			require.NoError(t, empty(p))
			requireAppended(t, p, "a", 19, 0)
			requireAppended(t, p, "a", 19, 0)
			s.reopen()
			p = s.log(engine.TopicConfig{})
			requireAppended(t, p, "a", 19, 0)
			requireAppended(t, p, "b", 3, 1)
		})
	}
	t.Run("delete topic", func(t *testing.T) {
		s, _ := fill(t)
		require.NoError(t, s.DeleteTopic(ctx, "t"))
		requireAppended(t, s.log(engine.TopicConfig{}), "a", 19, 0)
	})
	t.Run("retention", func(t *testing.T) {
		s, p := fill(t)
		_, err := p.DeleteBefore(ctx, engine.HighWatermark)
		require.NoError(t, err)
		requireAppended(t, p, "a", 19, 38)
		s.reopen()
		p = s.log(engine.TopicConfig{})
		requireAppended(t, p, "a", 19, 38)
		require.NoError(t, p.TruncateTo(ctx, 40)) // all that can be read, none of what was appended
		requireAppended(t, p, "a", 19, 38)
		require.NoError(t, p.TruncateTo(ctx, 38))
		requireAppended(t, p, "b", 18, 37)
		requireAppended(t, p, "a", 18, 36)
		requireAppended(t, p, "a", 19, 38)
		requireAppended(t, p, "b", 19, 39)
	})
	t.Run("within a set", func(t *testing.T) {
		_, p := fill(t)
		o := engine.AppendOptions{Producer: "c"}
		_, err := p.AppendSet(ctx, records(t0, t0, t0), o)
		require.NoError(t, err)
		require.NoError(t, p.TruncateTo(ctx, 42))
		r, err := p.AppendSet(ctx, records(t0, t0, t0), o)
		require.NoError(t, err)
		require.EqualValues(t, 42, r.Offset, "the whole is not there, so it is appended")
	})
}

// A partition remembers a bounded number of producers: those whose sets are the
// newest.
func TestProducersAreBounded(t *testing.T) {
	s := newStoreWith(t, engine.Options{Durability: engine.SyncNever})
	p := s.log(engine.TopicConfig{})
	for i := range int64(engine.MaxProducers) {
		requireAppended(t, p, fmt.Sprint("p", i), 5, i)
	}
	requireAppended(t, p, "p0", 6, engine.MaxProducers)  // used again
	requireAppended(t, p, "p1", 5, 1)                    // a repetition is no use
	requireAppended(t, p, "x", 9, engine.MaxProducers+1) // takes the place of p1
	for _, reopen := range []bool{false, true} {
		if reopen {
			s.reopen()
			p = s.log(engine.TopicConfig{})
		}
		requireAppended(t, p, "p0", 6, engine.MaxProducers)
		requireAppended(t, p, "p2", 5, 2)
		requireAppended(t, p, "x", 9, engine.MaxProducers+1)
	}
	requireAppended(t, p, "p1", 5, engine.MaxProducers+2) // takes the place of p2
	requireAppended(t, p, "p2", 5, engine.MaxProducers+3)
	requireAppended(t, p, "p4", 5, 4)
}

// A batch whose sets were all committed before changes nothing at all.
func TestRepeatedBatchChangesNothing(t *testing.T) {
	s := newStore(t)
	a, b := s.named("a", engine.TopicConfig{}), s.named("b", engine.TopicConfig{})
	batch := s.NewBatch()
	fill := func() {
		number(batch, a, "x", 3)
		number(batch, a, "x", 4)
		number(batch, b, "x", 0)
		batch.Expect(a, 0)
		batch.CommitOffset("g", a, 10, "")
	}
	fill()
	first, err := batch.Commit(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Group("g").Commit(t.Context(), a, 20, ""))
	was := []logState{stateOf(t, a), stateOf(t, b)}
	for range 2 {
		fill()
		again, err := batch.Commit(t.Context())
		require.NoError(t, err)
		require.Equal(t, first, again)
		require.Equal(t, was, []logState{stateOf(t, a), stateOf(t, b)})
		require.EqualValues(t, 20, committed(t, s, "g", a))
		s.reopen()
		a, b = s.named("a", engine.TopicConfig{}), s.named("b", engine.TopicConfig{})
		batch = s.NewBatch()
	}

	// Where only some are repeated the others happen.
	batch.Append(b, text("plain"))
	number(batch, a, "x", 4)
	number(batch, a, "x", 5)
	batch.AppendSet(a, []codec.Message{sized(t0, 50_000)}, engine.AppendOptions{})
	batch.CommitOffset("g", a, 30, "")
	receipts, err := batch.Commit(t.Context())
	require.NoError(t, err)
	for i, want := range []int64{1, 1, 2, 3} {
		require.EqualValues(t, want, receipts[i].Offset)
	}
	require.EqualValues(t, 4, end(t, a))
	require.EqualValues(t, 30, committed(t, s, "g", a))
	require.Equal(t, []string{string(at(t0).Value), "plain"}, values(t, b))
	number(batch, a, "x", 5)
	number(batch, a, "y", 0) // a single fresh one, its bytes unmoved
	receipts, err = batch.Commit(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, receipts[0].Offset)
	require.EqualValues(t, 4, receipts[1].Offset)
	require.Len(t, readAll(t, a, 0), 5)
}

// Many that retry the same numbered sets at once append each once.
func TestConcurrentRetriesAppendOnce(t *testing.T) {
	s := newStore(t)
	p, q := s.named("p", engine.TopicConfig{}), s.named("q", engine.TopicConfig{})
	const sets, writers = 60, 4
	receipts := make([][]engine.Receipt, writers)
	var wg sync.WaitGroup
	var turn [sets]sync.WaitGroup
	for i := range turn {
		turn[i].Add(writers)
	}
	for w := range writers {
		wg.Go(func() {
			for i := range int64(sets) {
				var r engine.Receipt
				var err error
				if w%2 == 0 {
					r, err = p.AppendSet(t.Context(), records(t0), engine.AppendOptions{Producer: "a", Sequence: i})
				} else {
					b := s.NewBatch()
					if w == 3 { // both orders of filling: locks are in key order
						b.Append(q, at(t0))
					}
					number(b, p, "a", i)
					var list []engine.Receipt
					if list, err = b.Commit(t.Context()); err == nil {
						r = list[len(list)-1]
					}
				}
				if err != nil {
					t.Error(err)
				}
				receipts[w] = append(receipts[w], r)
				turn[i].Done()
				turn[i].Wait()
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, sets, end(t, p))
	require.EqualValues(t, sets, end(t, q))
	for w := range writers {
		require.Equal(t, receipts[0], receipts[w])
	}
}

// The rows are on disk already: their bytes may not change.
func TestProducerAndOffsetRowsAreTheGoldenBytes(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	for i := range int64(engine.SequenceWindow + 1) {
		requireAppended(t, p, "a", i, i)
	}
	require.NoError(t, s.Group("g").Commit(t.Context(), p, 7, "note"))
	require.NoError(t, s.Group("h").Commit(t.Context(), p, 0, ""))
	var sets strings.Builder // offset, count, timestamp, no log append time
	for i := range engine.SequenceWindow {
		fmt.Fprintf(&sets, "94%02x01cf0000015d3ef79800ff", i+1)
	}
	want := map[string]string{
		string(keys.AppendProducer(nil, p.TestKeys(), "a")): "85a17601a16c08a16509a16201a17398" + sets.String(),
		string(keys.AppendOffset(nil, "g", p.TestKeys())):   "84a17601a16f07a174cf0000015d3ef79800a16da46e6f7465",
		string(keys.AppendOffset(nil, "h", p.TestKeys())):   "83a17601a16f00a174cf0000015d3ef79800",
	}
	s.raw(func(pdb *pebble.DB) {
		for key, digits := range want {
			value, closer, err := pdb.Get([]byte(key))
			require.NoError(t, err)
			require.Equal(t, digits, fmt.Sprintf("%x", value))
			require.NoError(t, closer.Close())
		}
	})
}

// A damaged producer row is reported where it is, and only there.
func TestDamagedProducerIsReported(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	requireAppended(t, p, "a", 0, 0)
	for value, want := range map[string]error{
		"": engine.ErrCorrupt, "\xc1": engine.ErrCorrupt, "\x82\xa1v\x01\xa1e\xff": engine.ErrCorrupt,
		"\x82\xa1v\x09\xa1l\x01": engine.ErrNewerFormat,
	} {
		key := keys.AppendProducer(nil, p.TestKeys(), "a")
		s.raw(func(pdb *pebble.DB) { require.NoError(t, pdb.Set(key, []byte(value), pebble.Sync)) })
		p = s.log(engine.TopicConfig{})
		_, err := appendNumbered(t, p, "a", 0)
		require.ErrorIs(t, err, want)
		lead(t, p, t0)
		require.NotEmpty(t, readAll(t, p, 0))
	}
}

// Two cuts, the first of which takes just the window: the second reaches sets
// whose receipts are forgotten, so the producer begins anew.
func TestSecondTruncationForgetsAnEmptyWindow(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	last := int64(engine.SequenceWindow + 2)
	for n := range last + 1 { // one message each: sets below 3 are out of the window
		requireAppended(t, p, "a", n, n)
	}
	require.NoError(t, p.TruncateTo(t.Context(), 3))
	require.NoError(t, p.TruncateTo(t.Context(), 1))
	requireAppended(t, p, "a", 0, 1)
}
