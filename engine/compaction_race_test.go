package engine_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// keyedAt returns the message that a compacted log holds at an offset: one of a
// few keys, with a timestamp that grows with the offset.
func keyedAt(offset int64) codec.Message {
	return codec.Message{
		Offset: offset, Timestamp: t0 + codec.Timestamp(offset), TimestampType: codec.CreateTime,
		Key: fmt.Append(nil, "k", offset%7), Value: fmt.Append(nil, "value of ", offset),
	}
}

// Appends, reads, fetches and searches while passes run one after another and
// segments are joined under them: what is read is what was appended, in order; of
// each key the newest is there; a search for a timestamp that the log reached is
// answered, by the first message that is left.
func TestReadersRaceWithCompaction(t *testing.T) {
	s := newStore(t)
	config := compacting(6)
	config.IndexIntervalBytes = 100
	p := s.log(config)
	var acked atomic.Int64
	var over atomic.Bool
	var running sync.WaitGroup
	loop := func(f func() error) {
		running.Go(func() {
			for !over.Load() && !t.Failed() {
				if err := f(); err != nil {
					t.Errorf("%v", err)
				}
			}
		})
	}
	loop(func() error {
		msgs := []codec.Message{keyedAt(acked.Load()), keyedAt(acked.Load() + 1), keyedAt(acked.Load() + 2)}
		_, err := p.AppendSet(t.Context(), msgs, engine.AppendOptions{Compression: codec.Compression(acked.Load() % 4)})
		acked.Add(3)
		return err
	})
	loop(func() error {
		_, err := p.Compact(t.Context(), engine.CompactOptions{})
		return err
	})
	loop(func() error {
		reached, last := acked.Load(), int64(-1)
		newest := map[string]int64{}
		for m, err := range p.Read(t.Context(), 0, engine.ReadOptions{}) {
			if err != nil {
				return err
			}
			want := keyedAt(m.Offset)
			if m.Offset <= last || string(m.Value) != string(want.Value) || m.Timestamp != want.Timestamp {
				return fmt.Errorf("%d after %d: %s at %d", m.Offset, last, m.Value, int64(m.Timestamp))
			}
			last = m.Offset
			newest[string(m.Key)] = m.Offset
		}
		later := acked.Load() + 3
		for offset := max(0, reached-7); offset < reached; offset++ {
			// It may be gone for one that was appended after the read began.
			if key := string(keyedAt(offset).Key); newest[key] < offset && offset+7 >= later {
				return fmt.Errorf("%s at %d is lost: newest at %d of %d", key, offset, newest[key], reached)
			}
		}
		return nil
	})
	n := codec.Timestamp(0)
	loop(func() error {
		reached := codec.Timestamp(acked.Load())
		if reached == 0 {
			return nil
		}
		n = (n*1_103_515_245 + 12_345) & (1<<31 - 1)
		ts := t0 + n%reached
		pos, err := p.OffsetFor(ts)
		if err == nil && (!pos.Found || pos.Timestamp < ts || pos.Timestamp != t0+codec.Timestamp(pos.Offset)) {
			err = fmt.Errorf("search for %d below %d: %+v", int64(ts-t0), reached, pos)
		}
		return err
	})
	loop(func() error {
		reached := acked.Load()
		pos, err := p.MaxTimestamp(t.Context())
		if err == nil && reached > 0 && (!pos.Found || pos.Offset < reached-1) {
			err = fmt.Errorf("newest of %d: %+v", reached, pos)
		}
		return err
	})
	for i := range rounds(t, 200) {
		res, err := p.Fetch(t.Context(), min(int64(i), acked.Load()), engine.FetchOptions{MaxBytes: 2000})
		require.NoError(t, err)
		for m, err := range codec.Messages(res.Set) {
			require.NoError(t, err)
			require.Equal(t, string(keyedAt(m.Offset).Value), string(m.Value))
		}
		time.Sleep(time.Millisecond)
	}
	over.Store(true)
	running.Wait()
	fill(t, p, "|")
	_, err := p.Compact(t.Context(), engine.CompactOptions{})
	require.NoError(t, err)
	require.Len(t, readAll(t, p, 0), 7)
	s.exactAfterwards(p)
}

// P07, P08: Close while passes, appends, retention, truncation, policies and
// deletions of topics race. Every call ends, with a result or with ErrClosed, the
// log start never falls, nothing is there below it, and what comes back is sound.
func TestP07CloseWhileCompacting(t *testing.T) {
	for range rounds(t, 8) {
		closeWhileCompacting(t)
	}
}

func closeWhileCompacting(t *testing.T) {
	t.Helper()
	s := newStore(t)
	config := compacting(4)
	config.CleanupPolicy, config.MinCleanableRatio = engine.CleanupCompactDelete, 0.1
	config.Retention = limits(60, 4000)
	p, other := s.named("a", config), s.named("b", config)
	ctx := t.Context()
	var running sync.WaitGroup
	var acked, start atomic.Int64
	loop := func(f func(i int) error) {
		running.Go(func() {
			for i := 0; ; i++ {
				err := f(i)
				if errors.Is(err, engine.ErrClosed) {
					return
				}
				if err != nil && !errors.Is(err, engine.ErrOffsetRange) && !errors.Is(err, engine.ErrUnknownTopic) &&
					engine.KafkaCode(err) != codec.CodePolicyViolation {
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	compactions := func(p *engine.Partition) func(int) error {
		return func(int) error { _, err := p.Compact(ctx, engine.CompactOptions{}); return err }
	}
	loop(func(i int) error {
		r, err := p.Append(ctx, keyed(t, fmt.Sprintf("a%d@%d b%d@%d", i%5, int64(s.clock.read()), i%3, i))...)
		if err == nil {
			acked.Store(r.Offset + 2)
		}
		s.clock.add(1)
		return err
	})
	loop(compactions(p))
	loop(compactions(other))
	loop(func(int) error { _, err := p.Retain(ctx, engine.RetainOptions{}); return err })
	loop(func(int) error { _, err := s.MaintainOnce(ctx, s.clock.Now()); return err })
	loop(func(int) error { _, err := s.Maintenance(); return err })
	loop(func(int) error {
		o, err := p.Offsets()
		if err == nil && o.Start < start.Swap(o.Start) {
			t.Errorf("the log start fell to %d", o.Start)
		}
		if err == nil {
			_, err = collect(p, t, o.Start)
		}
		return err
	})
	loop(func(i int) error { _, err := p.OffsetFor(t0 + codec.Timestamp(i)); return err })
	loop(func(i int) error {
		_, err := other.Append(ctx, keyed(t, fmt.Sprintf("a%d@5 c@%d", i%9, i))...)
		return err
	})
	loop(func(i int) error { return other.TruncateTo(ctx, int64(i%17)) })
	loop(func(i int) error {
		if i%5 == 0 {
			return other.ResetTo(ctx, int64(i))
		}
		return other.Roll(ctx)
	})
	loop(func(i int) error {
		name := fmt.Sprint("x", i%2)
		topic, err := s.EnsureTopic(name, config)
		if err != nil {
			return err
		}
		dropped := topic.Partition(0)
		_, err = dropped.Append(ctx, keyed(t, "a@1 b@2 a@3 b@4")...)
		if err == nil {
			err = dropped.Roll(ctx)
		}
		if err == nil {
			running.Go(func() { _, _ = dropped.Compact(ctx, engine.CompactOptions{}) })
			err = s.DeleteTopic(ctx, name)
		}
		return err
	})
	for acked.Load() < 150 && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	running.Wait()
	require.Zero(t, s.OpenIterators())
	s.open()
	for _, name := range []string{"a", "b"} {
		p := s.named(name, config)
		o, err := p.Offsets()
		require.NoError(t, err)
		if name == "a" {
			require.GreaterOrEqual(t, o.End, acked.Load())
			require.GreaterOrEqual(t, o.Start, start.Load())
		}
		_, err = collect(p, t, o.Start)
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
}
