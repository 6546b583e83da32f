package engine_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/keys"
)

// A deleted topic is gone: its handles refuse everything, old ones and new ones,
// and its name is free.
func TestDeletedTopicRefusesEverything(t *testing.T) {
	s := newStore(t)
	topic, err := s.EnsureTopic("t", casesConfig(engine.TopicConfig{Partitions: 3}))
	require.NoError(t, err)
	used := topic.Partition(0)
	leadEach(t, used, 1, 2, 3)
	require.NoError(t, s.DeleteTopic(t.Context(), "t"))
	for name, p := range map[string]*engine.Partition{"used": used, "unused": topic.Partition(1)} {
		ctx := t.Context()
		_, appendErr := p.Append(ctx, records(1)...)
		_, produceErr := p.Produce(ctx, plainFrames(1))
		_, submitErr := p.Submit(ctx, records(1), engine.AppendOptions{})
		_, readErr := collect(p, t, 0)
		_, fetchErr := p.Fetch(ctx, 0, engine.FetchOptions{})
		_, offsetsErr := p.Offsets()
		_, searchErr := p.OffsetFor(0)
		_, listErr := p.ListOffset(ctx, engine.Earliest, engine.ListOptions{})
		_, newestErr := p.MaxTimestamp(ctx)
		_, segmentsErr := p.Segments()
		_, retainErr := p.Retain(ctx, engine.RetainOptions{})
		_, deleteErr := p.DeleteBefore(ctx, 0)
		for i, err := range []error{
			appendErr, produceErr, submitErr, readErr, fetchErr, offsetsErr, searchErr, listErr, newestErr, segmentsErr,
			retainErr, deleteErr, p.Roll(ctx), p.TruncateTo(ctx, 0), p.ResetTo(ctx, 0), p.Drop(ctx), p.Await(ctx, 9),
		} {
			require.ErrorIs(t, err, engine.ErrUnknownTopic, "%s, %d", name, i)
			requireCode(t, codec.CodeUnknownPartition, err)
		}
	}
	require.ErrorIs(t, s.DeleteTopic(t.Context(), "t"), engine.ErrUnknownTopic)
	require.Error(t, s.AlterTopic("t", engine.TopicConfig{}))
	require.Empty(t, s.Topics())

	p := s.log(engine.TopicConfig{})
	requireBounds(t, p, 0, 0)
	require.Zero(t, lead(t, p, 9))
	require.Len(t, readAll(t, p, 0), 1)
	s.reopen()
	require.Len(t, readAll(t, s.log(engine.TopicConfig{}), 0), 1)
}

// Nothing of a deleted topic is left in Pebble but alarms, and those are gone
// once they have rung; a new topic of the name gets none of them.
func TestStrayAlarmsOfADeletedTopicAreHarmless(t *testing.T) {
	s := newStore(t)
	config := engine.TopicConfig{Retention: maxAge(1000), SegmentAge: ms(100)}
	p := s.log(config)
	leadEach(t, p, t0, t0)
	old := p.TestKeys()
	require.NoError(t, s.DeleteTopic(t.Context(), "t"))
	p = s.log(config)
	require.NotEqual(t, old.Topic, p.TestKeys().Topic)
	lead(t, p, t0+5000)
	s.raw(func(pdb *pebble.DB) {
		r := rowsOf(t, pdb, old)
		require.Empty(t, r.log)
		require.Empty(t, r.companion)
		require.Empty(t, r.segments)
		require.False(t, r.state)
		require.Len(t, r.alarms, 1)
	})
	s.clock.set(t0 + 2000)
	done := s.maintain()
	require.Zero(t, done.Removed)
	requireBounds(t, s.log(config), 0, 1)
	s.raw(func(pdb *pebble.DB) { require.Empty(t, rowsOf(t, pdb, old).alarms) })
	require.Equal(t, engine.Maintained{}, s.maintain())
}

// A follow that waits on a topic ends when the topic is deleted.
func TestDeleteTopicEndsFollows(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	lead(t, p, 1)
	ended := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		for m, err := range p.Follow(t.Context(), 0, engine.ReadOptions{}) {
			if err != nil {
				ended <- err
				return
			}
			_ = m
			close(started)
		}
		ended <- nil
	}()
	<-started
	require.NoError(t, s.DeleteTopic(t.Context(), "t"))
	require.ErrorIs(t, <-ended, engine.ErrUnknownTopic)
}

// A read that goes on after the topic is deleted yields the rest or says that it
// cannot: it does not end as if the log ended there. A scan takes a new iterator
// after five seconds.
func TestReadAcrossDeleteTopicIsWholeOrFails(t *testing.T) {
	readAcross(t, func(s *store, _ *engine.Partition) { require.NoError(t, s.DeleteTopic(t.Context(), "t")) },
		func(err error) { require.ErrorIs(t, err, engine.ErrUnknownTopic) })
}

// The same for the other removals.
func TestReadAcrossRemovalsIsWholeOrFails(t *testing.T) {
	for name, remove := range map[string]func(p *engine.Partition) error{
		"retention":     func(p *engine.Partition) error { _, err := p.Retain(t.Context(), engine.RetainOptions{}); return err },
		"delete before": func(p *engine.Partition) error { _, err := p.DeleteBefore(t.Context(), 5); return err },
		"truncate":      func(p *engine.Partition) error { return p.TruncateTo(t.Context(), 2) },
		"reset":         func(p *engine.Partition) error { return p.ResetTo(t.Context(), 0) },
		"drop":          func(p *engine.Partition) error { return p.Drop(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			readAcross(t, func(_ *store, p *engine.Partition) { require.NoError(t, remove(p)) },
				func(err error) { requireOvertaken(t, err) })
		})
	}
}

// readAcross reads a log of six entries, removes after the first message and
// reads on: with the iterator it has, and with a new one.
func readAcross(t *testing.T, remove func(s *store, p *engine.Partition), fails func(error)) {
	t.Helper()
	for _, pause := range []codec.Timestamp{0, 5001} {
		s := newStore(t)
		p := s.log(expiring(2, maxAge(1000)))
		leadEach(t, p, 1, 2, 3, 4, 5, 6)
		s.clock.set(t0 + 100)
		var got []int64
		var failed error
		for m, err := range p.Read(t.Context(), 0, engine.ReadOptions{}) {
			if err != nil {
				failed = err
				break
			}
			got = append(got, m.Offset)
			if len(got) == 1 {
				remove(s, p)
				s.clock.add(pause)
			}
		}
		if failed != nil {
			fails(failed)
		} else {
			require.Equal(t, []int64{0, 1, 2, 3, 4, 5}, got, "pause %d", pause)
		}
		require.Zero(t, s.OpenIterators())
	}
}

// A follow fails once it yielded what a truncation took back, and not before.
// When it is cut here its snapshot reaches to offset 3.
func TestFollowAcrossTruncation(t *testing.T) {
	for cut, fails := range map[int64]bool{4: false, 3: true, 2: true, 0: true} {
		s := newStore(t)
		p := s.log(engine.TopicConfig{})
		leadEach(t, p, 0, 1, 2, 3)
		var got []int64
		var failed error
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // a follow that hangs fails
		for m, err := range p.Follow(ctx, 0, engine.ReadOptions{Before: 6}) {
			if err != nil {
				failed = err
				break
			}
			got = append(got, m.Offset)
			if len(got) == 3 && m.Offset == 2 && end(t, p) == 4 {
				truncate(t, p, cut)
				for end(t, p) < 6 {
					lead(t, p, 9)
				}
			}
		}
		cancel()
		if fails {
			requireOvertaken(t, failed)
			continue
		}
		require.NoError(t, failed, "cut at %d, got %v", cut, got)
		require.Equal(t, []int64{0, 1, 2, 3, 4, 5}, got, "cut at %d", cut)
	}
}

// Drop forgets everything of a partition and nothing of its neighbours.
func TestDropForgetsThePartition(t *testing.T) {
	s := newStore(t)
	config := casesConfig(engine.TopicConfig{Partitions: 3, Retention: maxAge(1000), SegmentBytes: 200})
	topic, err := s.EnsureTopic("t", config)
	require.NoError(t, err)
	for n := range int32(3) {
		leadEach(t, topic.Partition(n), t0, t0, t0)
	}
	p := topic.Partition(1)
	require.NoError(t, p.Drop(t.Context()))
	requireBounds(t, p, 0, 0)
	requireSearch(t, p, answer{0, none, notFound})
	requireNewest(t, p, engine.Position{Timestamp: none})
	id := p.TestKeys()
	s.raw(func(pdb *pebble.DB) { require.Equal(t, rows{}, rowsOf(t, pdb, id)) })
	topic, _ = s.Topic("t")
	requireBounds(t, topic.Partition(0), 0, 3)
	requireBounds(t, topic.Partition(1), 0, 0)
	requireBounds(t, topic.Partition(2), 0, 3)
	s.clock.set(t0 + 1001)
	require.Equal(t, 2, s.maintain().Due)
	require.Zero(t, lead(t, topic.Partition(1), t0))
	require.Equal(t, 1, s.maintain().Removed.Segments)
	s.reopen()
	topic, _ = s.Topic("t")
	requireBounds(t, topic.Partition(1), 1, 1)
}

// Dropped and used again before a crash or a reopening.
func TestDropAndAppendAgain(t *testing.T) {
	livesFrom(t, t0, expiring(2, maxAge(-1)), func(t *testing.T, l *life) {
		leadEach(t, l.p, 7, 8, 9)
		deleteBefore(t, l.p, 2)
		require.NoError(t, l.p.Drop(t.Context()))
		require.Zero(t, lead(t, l.p, 4))
		l.rest()
		requireBounds(t, l.p, 0, 1)
		requireSearch(t, l.p, answer{0, 4, 0}, answer{5, none, notFound})
		l.soundAfterwards(l.p)
	})
}

// Pending appends when their topic is deleted end one way or the other.
func TestDeleteTopicWithAppendsUnderWay(t *testing.T) {
	for range 30 {
		s := newStore(t)
		p := s.log(engine.TopicConfig{})
		var pending []*engine.Pending
		for range 50 {
			w, err := p.Submit(t.Context(), records(1), engine.AppendOptions{})
			require.NoError(t, err)
			pending = append(pending, w)
		}
		require.NoError(t, s.DeleteTopic(t.Context(), "t"))
		for _, w := range pending {
			if _, err := w.Wait(t.Context()); err != nil {
				require.ErrorIs(t, err, engine.ErrUnknownTopic)
			}
		}
		id := p.TestKeys()
		s.raw(func(pdb *pebble.DB) {
			r := rowsOf(t, pdb, id)
			r.alarms = nil
			require.Equal(t, rows{}, r)
		})
	}
}

// The space of a deleted topic and of expired segments comes back while nobody
// does anything: within a flush delay and a compaction.
func TestSpaceComesBackByItself(t *testing.T) {
	for name, remove := range map[string]func(ctx context.Context, s *store, p *engine.Partition) error{
		"topic": func(ctx context.Context, s *store, _ *engine.Partition) error { return s.DeleteTopic(ctx, "t") },
		"retention": func(ctx context.Context, _ *store, p *engine.Partition) error {
			_, err := p.Retain(ctx, engine.RetainOptions{})
			return err
		},
		"drop": func(ctx context.Context, _ *store, p *engine.Partition) error { return p.Drop(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStore(t)
				p := s.log(engine.TopicConfig{SegmentBytes: 4 << 20, Retention: maxAge(1000)})
				rng := seeded(t)
				value := make([]byte, 64<<10)
				for range 400 {
					for i := range value {
						value[i] = byte(rng.Uint32())
					}
					_, err := p.Append(t.Context(), codec.Message{Timestamp: 1, Value: value})
					require.NoError(t, err)
				}
				before := diskBytes(t, s)
				require.Greater(t, before, int64(24<<20))
				require.NoError(t, remove(t.Context(), s, p))
				time.Sleep(30 * time.Second)
				after := diskBytes(t, s)
				t.Logf("%d MiB, then %d MiB", before>>20, after>>20)
				require.Less(t, after, before/2, "write-ahead logs are recycled, tables must go")
				require.Zero(t, tableBytes(t, s))
			})
		})
	}
}

func diskBytes(t testing.TB, s *store) (sum int64) {
	t.Helper()
	return filesMatching(t, s, func(string) bool { return true })
}

// tableBytes sums the tables above a MiB: those that held messages.
func tableBytes(t testing.TB, s *store) (sum int64) {
	t.Helper()
	return filesMatching(t, s, func(name string) bool { return len(name) > 4 && name[len(name)-4:] == ".sst" }) >> 20
}

func filesMatching(t testing.TB, s *store, match func(string) bool) (sum int64) {
	t.Helper()
	names, err := s.opts.FS.List(s.dir)
	require.NoError(t, err)
	for _, name := range names {
		info, err := s.opts.FS.Stat(s.opts.FS.PathJoin(s.dir, name))
		if err == nil && match(name) {
			sum += info.Size()
		}
	}
	return sum
}

// Alarms of partitions that never existed, or are malformed, do no harm.
func TestAlarmsOfUnknownPartitions(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{Partitions: 2, Retention: maxAge(1000)})
	lead(t, p, t0)
	id := p.TestKeys()
	s.raw(func(pdb *pebble.DB) {
		for _, q := range []keys.Partition{{Topic: 99, Number: 0}, {Topic: id.Topic, Number: 77}, {Topic: id.Topic, Number: 1}} {
			require.NoError(t, pdb.Set(keys.AppendDue(nil, 5, q), nil, pebble.Sync))
		}
	})
	s.clock.set(t0 + 1001)
	require.Equal(t, 1, s.maintain().Removed.Segments)
	s.clock.set(math.MaxInt64 / 4)
	require.Zero(t, s.maintain().Due)
}
