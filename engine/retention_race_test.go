package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// contest is a log whose tail is cut and grown and whose head expires while
// others look. The timestamp of an offset is always the same, so searches can be
// judged; the value names the generation: how many cuts came before it.
type contest struct {
	p          *engine.Partition
	low, high  int64 // the end moves in [low, high]
	generation int
	mu         sync.Mutex
	cuts       []int64 // cuts[g] began generation g
	// start is the log start at least, rising what it may be already.
	start, rising atomic.Int64
	over          atomic.Bool
}

// shuffled is the timestamp of an offset: rising, but not within ten.
func shuffled(offset int64) codec.Timestamp {
	return codec.Timestamp(offset/10*10 + (offset*7+3)%10)
}

func newContest(t *testing.T, p *engine.Partition, low, high int64) *contest {
	c := &contest{p: p, low: low, high: high, cuts: []int64{0}}
	c.grow(t, high)
	return c
}

func (c *contest) grow(t testing.TB, to int64) {
	for leo := end(t, c.p); leo < to; {
		var set []codec.Message
		for range min(1+leo%4, to-leo) {
			m := sized(shuffled(leo), 40)
			m.Value = fmt.Appendf(nil, "%d", c.generation)
			set = append(set, m)
			leo++
		}
		o := engine.AppendOptions{}
		if leo%3 == 0 {
			o.Compression = codec.Snappy
		}
		_, err := c.p.AppendSet(t.Context(), set, o)
		require.NoError(t, err)
	}
}

func (c *contest) cut(t testing.TB, offset int64) {
	c.mu.Lock()
	c.cuts = append(c.cuts, offset)
	c.generation++
	c.mu.Unlock()
	require.NoError(t, c.p.TruncateTo(t.Context(), offset))
}

// spoiled says whether what was read before offset is of a log that was cut
// below it before what is there now.
func (c *contest) spoiled(before, now int, offset int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for g := before + 1; g <= now; g++ {
		if c.cuts[g] < offset {
			return true
		}
	}
	return false
}

// find is the first offset at or after start whose timestamp is at or after ts.
func find(start int64, ts codec.Timestamp) int64 {
	for offset := start; ; offset++ {
		if shuffled(offset) >= ts {
			return offset
		}
	}
}

// P04: searches that race with truncation and a rising log start answer what was
// true at some instant of the call.
func TestP04SearchesRaceWithTruncationAndRetention(t *testing.T) {
	c := newContest(t, newStore(t).log(engine.TopicConfig{SegmentBytes: 1000, IndexIntervalBytes: 100}), 200, 300)
	c.race(t, func(rng *rand.Rand) {
		ts := codec.Timestamp(rng.Int64N(320))
		before := c.start.Load()
		pos, err := c.p.OffsetFor(ts)
		after := c.rising.Load()
		if !okOrClosed(t, err) {
			return
		}
		first, last := find(before, ts), find(after, ts)
		switch {
		case !pos.Found && first < c.low:
			t.Errorf("S(%d) found nothing, %d is always there", int64(ts), first)
		case pos.Found && (pos.Offset < first || pos.Offset > last || pos.Timestamp != shuffled(pos.Offset) || pos.Timestamp < ts):
			t.Errorf("S(%d) is %+v, want an offset in [%d, %d]; log start %d to %d", int64(ts), pos, first, last, before, after)
		}
	})
}

// P04 for the search of the newest message: it is found, and was in the log.
func TestP04MaxTimestampRacesWithTruncationAndRetention(t *testing.T) {
	c := newContest(t, newStore(t).log(engine.TopicConfig{SegmentBytes: 1000, IndexIntervalBytes: 100}), 200, 300)
	c.race(t, func(*rand.Rand) {
		pos, err := c.p.MaxTimestamp(t.Context())
		if !okOrClosed(t, err) {
			return
		}
		if !pos.Found || pos.Timestamp != shuffled(pos.Offset) || pos.Offset < c.low-20 {
			t.Errorf("newest is %+v", pos)
		}
	})
}

// P05, issue 3: reads and fetches that race with truncation and a rising log
// start yield a piece of one log, or end with an out-of-range error.
func TestP05ReadsRaceWithTruncationAndRetention(t *testing.T) {
	c := newContest(t, newStore(t).log(engine.TopicConfig{SegmentBytes: 1000}), 200, 300)
	c.race(t, func(rng *rand.Rand) {
		from := max(c.start.Load(), rng.Int64N(c.high))
		want, generation := from, -1
		for m, err := range c.p.Read(t.Context(), from, engine.ReadOptions{}) {
			if err != nil {
				requireRaceError(t, err)
				return
			}
			generation = c.judge(t, "read", m, want, generation)
			want++
		}
		res, err := c.p.Fetch(t.Context(), from, engine.FetchOptions{MaxBytes: 1 + rng.IntN(4000)})
		if err != nil {
			requireRaceError(t, err)
			return
		}
		want, generation = from, -1
		for m, err := range codec.Messages(res.Set) {
			require.NoError(t, err)
			if m.Offset < from {
				continue
			}
			generation = c.judge(t, "fetch", m, want, generation)
			want++
		}
		if res.Next != want && res.Next > from {
			t.Errorf("fetch of %d read to %d and says next %d", from, want, res.Next)
		}
	})
}

// P05 for a follow: what it yields is the log, and once a cut took back what it
// yielded it fails.
func TestP05FollowsRaceWithTruncationAndRetention(t *testing.T) {
	c := newContest(t, newStore(t).log(engine.TopicConfig{SegmentBytes: 1000}), 200, 300)
	c.race(t, func(rng *rand.Rand) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		want := max(c.start.Load(), rng.Int64N(c.high))
		generation := -1
		for m, err := range c.p.Follow(ctx, want, engine.ReadOptions{MaxMessages: 300}) {
			if errors.Is(err, context.DeadlineExceeded) {
				return
			}
			if err != nil {
				requireRaceError(t, err)
				return
			}
			generation = c.judge(t, "follow", m, want, generation)
			want++
		}
	})
}

// Offsets that race with truncation and a reset are in order.
func TestOffsetsRaceWithTruncation(t *testing.T) {
	c := newContest(t, newStore(t).log(engine.TopicConfig{SegmentBytes: 1000}), 200, 300)
	c.race(t, func(*rand.Rand) {
		o, err := c.p.Offsets()
		if okOrClosed(t, err) && (o.Start > o.HighWatermark || o.HighWatermark > o.End) {
			t.Errorf("log start <= high watermark <= end does not hold: %+v", o)
		}
	})
}

func (c *contest) judge(t testing.TB, who string, m codec.Message, want int64, before int) int {
	var generation int
	if _, err := fmt.Sscan(string(m.Value), &generation); err != nil {
		t.Errorf("%s: value %q", who, m.Value)
	}
	if m.Offset != want || m.Timestamp != shuffled(m.Offset) {
		t.Errorf("%s: offset %d at %d, want offset %d", who, m.Offset, int64(m.Timestamp), want)
	}
	if before >= 0 && (generation < before || c.spoiled(before, generation, m.Offset)) {
		t.Errorf("%s: offset %d is of generation %d, the one before of %d: no log ever was so", who, m.Offset, generation, before)
	}
	return generation
}

func requireRaceError(t testing.TB, err error) {
	if !errors.Is(err, engine.ErrOffsetRange) {
		t.Errorf("%v", err)
	}
}

func okOrClosed(t testing.TB, err error) bool {
	if err != nil {
		t.Errorf("%v", err)
	}
	return err == nil
}

// race has two goroutines look while the log is cut, grown and its head deleted.
func (c *contest) race(t *testing.T, look func(rng *rand.Rand)) {
	t.Helper()
	rng := seeded(t)
	var lookers sync.WaitGroup
	for range 2 {
		own := rand.New(rand.NewPCG(rng.Uint64(), 1))
		lookers.Go(func() {
			for !c.over.Load() && !t.Failed() {
				look(own)
			}
		})
	}
	defer func() {
		c.over.Store(true)
		lookers.Wait()
	}()
	for n := range rounds(t, 150) {
		if t.Failed() {
			return
		}
		c.cut(t, c.low+rng.Int64N(c.high-c.low))
		c.grow(t, c.high)
		if n%5 == 0 && c.start.Load() < c.low-50 {
			c.rising.Add(rng.Int64N(3))
			start, err := c.p.DeleteBefore(t.Context(), c.rising.Load())
			require.NoError(t, err)
			c.start.Store(start)
		}
	}
}

// P05: a reader of a segment that retention removes reads on from what it has or
// is told; nothing stays open.
func TestP05ReaderOfARemovedSegment(t *testing.T) {
	s := newStore(t)
	p := s.log(expiring(2, maxAge(1000)))
	for i := range codec.Timestamp(20) {
		lead(t, p, t0+i)
	}
	s.clock.set(t0 + 1010)
	var got []int64
	for m, err := range p.Read(t.Context(), 0, engine.ReadOptions{}) {
		require.NoError(t, err)
		if m.Offset == 3 {
			require.Equal(t, 5, retained(t, p).Segments)
			require.Equal(t, 1, s.OpenIterators())
		}
		got = append(got, m.Offset)
	}
	require.Len(t, got, 20, "the snapshot is whole")
	require.Zero(t, s.OpenIterators())
	for m, err := range p.Read(t.Context(), 10, engine.ReadOptions{}) {
		require.NoError(t, err)
		s.clock.set(2 * t0)
		_ = retained(t, p)
		_ = m
		break
	}
	require.Zero(t, s.OpenIterators())
	require.NoError(t, s.Close())
}

// P07: Close while everything runs. Every call ends, with a result or with
// ErrClosed; a second Close is nil; what comes back is a prefix.
func TestP07CloseWhileRemovalsRun(t *testing.T) {
	for range rounds(t, 10) {
		closeRace(t)
	}
}

func closeRace(t *testing.T) {
	t.Helper()
	s := newStore(t)
	config := expiring(5, limits(50, 3000))
	p, other := s.named("a", config), s.named("b", config)
	var running sync.WaitGroup
	var acked atomic.Int64
	loop := func(f func(i int) error) {
		running.Go(func() {
			for i := 0; ; i++ {
				err := f(i)
				if errors.Is(err, engine.ErrClosed) {
					return
				}
				if err != nil && !errors.Is(err, engine.ErrOffsetRange) && !errors.Is(err, engine.ErrUnknownTopic) {
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	ctx := t.Context()
	loop(func(int) error {
		r, err := p.Append(ctx, records(s.clock.read())...)
		if err == nil {
			acked.Store(r.Offset + 1)
		}
		s.clock.add(1)
		return err
	})
	loop(func(int) error {
		o, err := p.Offsets()
		if err == nil {
			_, err = collect(p, t, o.Start)
		}
		return err
	})
	loop(func(int) error {
		o, err := p.Offsets()
		if err != nil {
			return err
		}
		for _, err = range p.Follow(ctx, o.Start, engine.ReadOptions{MaxMessages: 10}) {
			if err != nil {
				return err
			}
		}
		return nil
	})
	loop(func(i int) error { _, err := p.OffsetFor(t0 + codec.Timestamp(i)); return err })
	loop(func(int) error { _, err := p.Retain(ctx, engine.RetainOptions{}); return err })
	loop(func(int) error { _, err := s.MaintainOnce(ctx, s.clock.Now()); return err })
	loop(func(int) error { _, err := other.Append(ctx, records(t0)...); return err })
	loop(func(i int) error { return other.TruncateTo(ctx, int64(i%7)) })
	loop(func(int) error { _, err := other.DeleteBefore(ctx, engine.HighWatermark); return err })
	loop(func(i int) error {
		name := fmt.Sprint("x", i%3)
		topic, err := s.EnsureTopic(name, config)
		if err == nil {
			_, err = topic.Partition(0).Append(ctx, records(t0)...)
		}
		if err == nil {
			err = s.DeleteTopic(ctx, name)
		}
		return err
	})
	for acked.Load() < 100 {
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	running.Wait()
	s.open()
	p = s.named("a", config)
	o, err := p.Offsets()
	require.NoError(t, err)
	require.GreaterOrEqual(t, o.End, acked.Load())
	for i, m := range readAll(t, p, o.Start) {
		require.Equal(t, o.Start+int64(i), m.Offset)
	}
	require.NoError(t, s.Close())
}
