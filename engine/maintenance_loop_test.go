package engine_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/keys"
)

// STYLE: the loop runs in testing/synctest. A store in one bubble must leave
// nothing behind that a store in another cannot use: a process whose tests use
// bubbles would die of it. Two bubbles run one after the other in a process of
// their own.
func TestStoresWorkInBubblesOfTheirOwn(t *testing.T) {
	const child = "CAIRN_TEST_TWO_BUBBLES"
	if os.Getenv(child) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%.600s", out)
		return
	}
	for range 5 {
		synctest.Test(t, func(t *testing.T) { lead(t, newStore(t).log(engine.TopicConfig{}), t0) })
	}
	lead(t, newStore(t).log(engine.TopicConfig{}), t0)
}

// S33, S34: the largest timestamp ever seen and the last append decide, and a
// tick without an append rolls: at the log's end, empty.
func TestS33IdleSegmentRollsWithoutAnAppend(t *testing.T) {
	livesFrom(t, t0+700, engine.TopicConfig{SegmentAge: ms(1000)}, func(t *testing.T, l *life) {
		leadEach(t, l.p, t0+700, t0)
		l.at(t0 + 1700)
		require.Zero(t, l.maintain())
		require.Equal(t, []int64{0}, bases(t, l.p))
		l.at(t0 + 1701)
		require.Equal(t, engine.Maintained{Due: 1, Rolled: 1}, l.maintain())
		l.rest()
		require.Equal(t, []int64{0, 2}, bases(t, l.p))
		require.Equal(t, []codec.Timestamp{t0 + 700, none}, largest(t, l.p))
		requireBounds(t, l.p, 0, 2)
		l.at(t0 + 9e9)
		require.Zero(t, l.maintain(), "an empty segment rolled")
	})
}

// R04: without timestamps the clock of the first append counts.
func TestIdleRollsWithoutTimestamps(t *testing.T) {
	livesFrom(t, t0, engine.TopicConfig{SegmentAge: ms(1000)}, func(t *testing.T, l *life) {
		lead(t, l.p, none)
		l.at(t0 + 900)
		lead(t, l.p, none)
		l.at(t0 + 1000)
		require.Zero(t, l.maintain())
		l.at(t0 + 1001)
		require.Equal(t, 1, l.maintain().Rolled)
	})
}

// S55, S56: a log without traffic expires, its active segment with it, and the
// earliest offset is where it ends.
func TestS55ActiveSegmentExpiresWithoutTraffic(t *testing.T) {
	config := engine.TopicConfig{Retention: maxAge(1000), SegmentAge: 7 * 24 * time.Hour}
	livesFrom(t, t0, config, func(t *testing.T, l *life) {
		lead(t, l.p, t0)
		l.at(t0 + 1000)
		require.Zero(t, l.maintain())
		l.at(t0 + 1001)
		done := l.maintain()
		require.Equal(t, 1, done.Removed.Segments)
		require.Equal(t, 1, done.Rolled)
		l.rest()
		requireBounds(t, l.p, 1, 1)
		requireSentinels(t, l.p, 1, 1)
	})
}

// S57: the clock of the open counts for nothing.
func TestS57RollClockSurvivesAReopen(t *testing.T) {
	s := newStore(t)
	config := engine.TopicConfig{SegmentAge: ms(1000)}
	lead(t, s.log(config), t0)
	s.clock.set(t0 + 900)
	s.reopen()
	s.clock.set(t0 + 1000)
	require.Zero(t, s.maintain())
	s.clock.set(t0 + 1001)
	require.Equal(t, 1, s.maintain().Rolled)
	require.Equal(t, []int64{0, 1}, bases(t, s.log(config)))
}

// S57 by the clock alone: the appends have no timestamps.
func TestS57RollClockOfUntimedAppendsSurvivesAReopen(t *testing.T) {
	s := newStore(t)
	config := engine.TopicConfig{SegmentAge: ms(1000), Retention: maxAge(5000)}
	lead(t, s.log(config), none)
	s.clock.set(t0 + 900)
	s.reopen()
	s.clock.set(t0 + 1001)
	require.Equal(t, 1, s.maintain().Rolled)
	s.clock.set(t0 + 4000)
	s.reopen()
	s.clock.set(t0 + 5000)
	require.Zero(t, s.maintain().Removed.Segments)
	s.clock.set(t0 + 5001)
	require.Equal(t, 1, s.maintain().Removed.Segments)
}

// S58: a copy of the store, opened elsewhere and later, goes by the times of the
// appends.
func TestS58CopyOfAStoreKeepsItsClocks(t *testing.T) {
	s := newStore(t)
	config := engine.TopicConfig{SegmentAge: ms(1000), Retention: maxAge(1000)}
	for _, name := range []string{"timed", "untimed"} {
		ts := t0
		if name == "untimed" {
			ts = none
		}
		lead(t, s.named(name, config), ts)
	}
	require.NoError(t, s.Close())
	elsewhere := vfs.NewMem()
	ok, err := vfs.Clone(s.opts.FS, elsewhere, s.dir, s.dir)
	require.NoError(t, err)
	require.True(t, ok)
	copied := newStoreWith(t, engine.Options{FS: elsewhere, Now: func() time.Time { return (t0 + 5000).Time() }})
	done, err := copied.MaintainOnce(t.Context(), (t0 + 5000).Time())
	require.NoError(t, err)
	require.Equal(t, 2, done.Removed.Segments)
	for _, name := range []string{"timed", "untimed"} {
		requireBounds(t, copied.named(name, config), 1, 1)
	}
	s.open()
}

// The loop itself, on a store that nobody uses: rolls at the idle time, expires
// at the retention time, not a second early and at most a tick late.
func TestLoopRollsAndExpiresWithoutTraffic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t)
		config := engine.TopicConfig{SegmentAge: 10 * time.Second, Retention: maxAge(60_000)}
		p := s.log(config)
		leadEach(t, p, t0, t0)
		s.sleep(10 * time.Second)
		require.Equal(t, []int64{0}, bases(t, p))
		s.sleep(2 * time.Second)
		require.Equal(t, []int64{0, 2}, bases(t, p))
		s.sleep(48 * time.Second)
		requireBounds(t, p, 0, 2)
		s.sleep(2 * time.Second)
		requireBounds(t, p, 2, 2)
		status, err := s.Maintenance()
		require.NoError(t, err)
		require.NoError(t, status.Err)
		require.True(t, status.Next.IsZero(), "%v", status.Next)
		require.Equal(t, 1, status.Total.Rolled)
		require.Equal(t, 1, status.Total.Removed.Segments)
	})
}

// The loop after a reopening, with partitions that nobody opened.
func TestLoopServesPartitionsThatAreNotOpen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t)
		config := engine.TopicConfig{Partitions: 40, Retention: maxAge(5000), SegmentAge: engine.Forever}
		topic, err := s.EnsureTopic("t", config)
		require.NoError(t, err)
		for n := range int32(40) {
			leadEach(t, topic.Partition(n), t0+codec.Timestamp(n%2)*1e6, none)
		}
		s.reopen()
		s.sleep(7 * time.Second)
		topic, _ = s.Topic("t")
		for n := range int32(40) {
			want := int64(2 - n%2*2) // odd ones are from the future
			requireBounds(t, topic.Partition(n), want, 2)
		}
	})
}

// A tick leaves nothing running and Close ends the loop at once.
func TestCloseJoinsTheLoop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t)
		s.sleep(3 * time.Second)
		require.NoError(t, s.Close())
		status, err := s.Maintenance()
		require.ErrorIs(t, err, engine.ErrClosed)
		last := status.LastRun
		require.False(t, last.IsZero())
		s.sleep(5 * time.Second)
		status, _ = s.Maintenance()
		require.Equal(t, last, status.LastRun)
		_, err = s.MaintainOnce(t.Context(), s.clock.Now())
		require.ErrorIs(t, err, engine.ErrClosed)
	})
}

// MaintainOnce goes by the time it is given, not by the store's clock.
func TestMaintainOnceGoesByItsArgument(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{Retention: maxAge(1000)})
	lead(t, p, t0)
	done, err := s.MaintainOnce(t.Context(), (t0 + 1000).Time())
	require.NoError(t, err)
	require.Zero(t, done)
	done, err = s.MaintainOnce(t.Context(), (t0 + 1001).Time())
	require.NoError(t, err)
	require.Equal(t, 1, done.Removed.Segments)
}

// MaintainOnce serves partitions that nobody opened since the store was.
func TestMaintainOnceServesUnopenedPartitions(t *testing.T) {
	s := newStore(t)
	config := engine.TopicConfig{Partitions: 600, Retention: maxAge(1000)}
	topic, err := s.EnsureTopic("t", config)
	require.NoError(t, err)
	for n := range int32(600) {
		lead(t, topic.Partition(n), t0+codec.Timestamp(n%3))
	}
	for i := range codec.Timestamp(3) {
		s.reopen()
		s.clock.set(t0 + 1001 + i)
		done := s.maintain()
		require.Equal(t, 200, done.Due, "at %d", i)
		require.Equal(t, 200, done.Removed.Segments)
		require.EqualValues(t, 200, done.Removed.Messages)
		require.EqualValues(t, 20_000, done.Removed.WireBytes)
	}
	require.Zero(t, s.maintain())
	status, err := s.Maintenance()
	require.NoError(t, err)
	require.True(t, status.Next.IsZero())
}

// The dead line of an idle partition is known without opening it.
func TestMaintenanceTellsWhatIsNext(t *testing.T) {
	s := newStore(t)
	status, err := s.Maintenance()
	require.NoError(t, err)
	require.True(t, status.Next.IsZero())
	lead(t, s.named("a", engine.TopicConfig{Retention: maxAge(5000)}), t0)
	lead(t, s.named("b", engine.TopicConfig{Retention: maxAge(1000)}), t0)
	s.reopen()
	status, err = s.Maintenance()
	require.NoError(t, err)
	require.Equal(t, (t0 + 1001).Time().UnixMilli(), status.Next.UnixMilli())
}

// New settings make things due: shorter retention, size retention, a shorter
// segment.ms; of open partitions and of unopened ones.
func TestAlterTopicMakesThingsDue(t *testing.T) {
	for name, altered := range map[string]engine.TopicConfig{
		"retention.ms":    {Retention: maxAge(1000)},
		"retention.bytes": {Retention: maxBytes(0)},
		"segment.ms":      {SegmentAge: ms(1000)},
	} {
		for _, reopened := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := newStore(t)
				lead(t, s.log(engine.TopicConfig{}), t0)
				s.clock.set(t0 + 5000)
				require.Zero(t, s.maintain())
				if reopened {
					s.reopen()
				}
				s.alter(altered)
				done := s.maintain()
				require.Equal(t, 1, done.Rolled)
				require.Equal(t, name != "segment.ms", done.Removed.Segments == 1)
				require.Zero(t, s.maintain())
			})
		}
	}
}

// New settings that come before they matter: the alarm is set for then.
func TestAlterTopicMovesTheAlarm(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{Retention: maxAge(1e9)})
	lead(t, p, t0)
	s.alter(engine.TopicConfig{Retention: maxAge(1000)})
	require.Zero(t, s.maintain().Removed.Segments)
	s.reopen()
	s.clock.set(t0 + 1001)
	require.Equal(t, 1, s.maintain().Removed.Segments)
}

// AlterTopic while an append is under way that begins the partition.
func TestAlterTopicDuringTheFirstAppend(t *testing.T) {
	for range 200 {
		s := newStore(t)
		p := s.log(engine.TopicConfig{})
		pending, err := p.Submit(t.Context(), records(t0), engine.AppendOptions{})
		require.NoError(t, err)
		s.alter(engine.TopicConfig{Retention: maxAge(1000)})
		_, err = pending.Wait(t.Context())
		require.NoError(t, err)
		s.clock.set(t0 + 1001)
		require.Equal(t, 1, s.maintain().Removed.Segments)
	}
}

// The store's defaults are settings too: opened with others, things are due.
func TestOtherDefaultsMakeThingsDue(t *testing.T) {
	s := newStoreWith(t, engine.Options{Defaults: engine.TopicConfig{Retention: maxAge(1e9)}})
	topic, err := s.EnsureTopic("t", engine.TopicConfig{})
	require.NoError(t, err)
	lead(t, topic.Partition(0), t0)
	s.clock.set(t0 + 5000)
	require.Zero(t, s.maintain().Removed.Segments)
	s.opts.Defaults.Retention = maxAge(1000)
	s.reopen()
	require.Equal(t, 1, s.maintain().Removed.Segments)

	topic, _ = s.Topic("t")
	lead(t, topic.Partition(0), t0+5000)
	s.opts.Defaults.Retention = maxAge(100)
	s.reopen()
	s.clock.set(t0 + 5101)
	require.Equal(t, 1, s.maintain().Removed.Segments)
}

// One damaged partition does not keep the others from their maintenance; the
// error names it, is in the status and the log, and comes again after a minute,
// not at every tick.
func TestMaintenanceErrorsAreReportedAndBackOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var logged bytes.Buffer
		s := newStoreWith(t, engine.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		config := engine.TopicConfig{Retention: maxAge(5000)}
		bad, good := s.named("bad", config), s.named("good", config)
		lead(t, bad, t0)
		lead(t, good, t0)
		id := bad.TestKeys()
		s.raw(func(pdb *pebble.DB) {
			require.NoError(t, pdb.Set(keys.AppendSegment(nil, id, 0), []byte("not a row"), pebble.Sync))
		})
		s.sleep(7 * time.Second)
		requireBounds(t, s.named("good", config), 1, 1)
		status, err := s.Maintenance()
		require.NoError(t, err)
		synctest.Wait() // events are logged in a goroutine of their own
		require.Equal(t, 1, bytes.Count(logged.Bytes(), []byte("level=ERROR")), "%s", logged.Bytes())
		require.Contains(t, logged.String(), "bad/0")
		require.Equal(t, t0.Time().Add(66*time.Second).UnixMilli(), status.Next.UnixMilli())
		s.sleep(50 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, bytes.Count(logged.Bytes(), []byte("level=ERROR")))
		s.sleep(12 * time.Second)
		synctest.Wait()
		require.Equal(t, 2, bytes.Count(logged.Bytes(), []byte("level=ERROR")))
		s.clock.add(100_000)
		_, err = s.MaintainOnce(t.Context(), s.clock.Now())
		damage, ok := errors.AsType[*engine.CorruptionError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "bad", damage.Topic)
		status, _ = s.Maintenance()
		require.ErrorIs(t, status.Err, engine.ErrCorrupt)
	})
}

// "Errors surface on the next call": the run after one that found damage is
// clean, and the status must still say what could not be done.
func TestMaintenanceStatusKeepsTheErrorUntilTheRetry(t *testing.T) {
	s := newStore(t)
	p := s.named("bad", engine.TopicConfig{Retention: maxAge(1000)})
	lead(t, p, t0)
	id := p.TestKeys()
	s.raw(func(pdb *pebble.DB) {
		require.NoError(t, pdb.Set(keys.AppendSegment(nil, id, 0), []byte("not a row"), pebble.Sync))
	})
	s.clock.set(t0 + 1001)
	_, err := s.MaintainOnce(t.Context(), s.clock.Now())
	require.ErrorIs(t, err, engine.ErrCorrupt)
	s.clock.add(1000)
	require.Zero(t, s.maintain())
	status, err := s.Maintenance()
	require.NoError(t, err)
	require.ErrorIs(t, status.Err, engine.ErrCorrupt, "forgotten after one tick, the retry is 59 s away")
}

// A canceled run stops between batches and what it left is due at the next.
func TestCanceledMaintenanceGoesOnLater(t *testing.T) {
	s := newStore(t)
	lead(t, s.log(engine.TopicConfig{Retention: maxAge(1000)}), t0)
	s.clock.set(t0 + 1001)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.MaintainOnce(ctx, s.clock.Now())
	require.ErrorIs(t, err, context.Canceled)
	s.maintain()
	requireBounds(t, s.log(engine.TopicConfig{}), 1, 1)
}
