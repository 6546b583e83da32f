package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/compaction"
	"github.com/cairnlog/cairn/engine"
)

// passes is how many passes the store has run.
func (s *store) passes() int {
	s.t.Helper()
	status, err := s.Maintenance()
	require.NoError(s.t, err)
	return status.Compaction.Passes
}

// C07, C08: the loop compacts a log whose dirty share exceeds the threshold, once,
// and then nothing happens and nothing is due.
func TestLoopCompactsAndGoesIdle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t)
		config := compacting(3)
		config.MinCleanableRatio = 0.5
		p := s.log(config)
		fill(t, p, "a@1 b@2 c@3 a@4 b@5 c@6 |")
		s.sleep(3 * time.Second)
		require.Equal(t, "3:a@4 4:b@5 5:c@6", survivors(t, p))
		require.Equal(t, 1, s.passes())

		fill(t, p, "a@7 b@8 c@9 |") // 300 of 600 bytes are dirty: not more than half
		s.sleep(3 * time.Minute)
		require.Equal(t, 1, s.passes())
		status, err := s.Maintenance()
		require.NoError(t, err)
		require.NoError(t, status.Err)
		require.True(t, status.Next.IsZero(), "%v", status.Next)
		require.Equal(t, engine.CompactionStatus{Passes: 1, Total: status.Compaction.Total}, status.Compaction)
		require.EqualValues(t, 3, status.Compaction.Total.Superseded)

		fill(t, p, "d@10 |") // 400 of 700
		s.sleep(3 * time.Minute)
		require.Equal(t, "6:a@7 7:b@8 8:c@9 9:d@10", survivors(t, p))
		require.Equal(t, 2, s.passes())
		status, err = s.Maintenance()
		require.NoError(t, err)
		require.True(t, status.Next.IsZero(), "%v", status.Next)
	})
}

// C07: the threshold is to be exceeded.
func TestC07DirtyRatioIsStrict(t *testing.T) {
	for ratio, want := range map[float64]int{0.5: 1, 0.49: 2} {
		bubble(t, func(t *testing.T) {
			s := newStore(t)
			config := compacting(3)
			config.MinCleanableRatio = ratio
			p := s.log(config)
			fill(t, p, "a@1 b@2 c@3 |")
			s.sleep(2 * time.Second)
			require.Equal(t, 1, s.passes())
			fill(t, p, "d@4 e@5 f@6 |")
			s.sleep(2 * time.Second)
			require.Equal(t, want, s.passes(), "ratio %v", ratio)
		})
	}
}

// A lag and a tombstone's horizon are alarms: they ring when they are due, in a
// store opened again meanwhile too, and not before.
func TestCompactionAlarms(t *testing.T) {
	for _, reopened := range []bool{false, true} {
		t.Run(fmt.Sprint("reopened=", reopened), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStore(t)
				config := compacting(100)
				config.MinCleanableRatio, config.MinCompactionLag, config.DeleteRetention = 0.5, 100*time.Second, 200*time.Second
				p := s.log(config)
				fill(t, p, fmt.Sprintf("a@%d a@%d- |", t0-1, t0))
				rest := func(d time.Duration) {
					if reopened {
						s.reopen()
						p = s.log(config)
					}
					s.sleep(d)
				}
				rest(99 * time.Second)
				require.Zero(t, s.passes())
				status, err := s.Maintenance()
				require.NoError(t, err)
				require.Equal(t, (t0 + 100_000).Time().UnixMilli(), status.Next.UnixMilli())
				s.sleep(3 * time.Second)
				require.Equal(t, fmt.Sprintf("1:a@%d-", t0), survivors(t, p))
				_, due := p.CleanPoint()
				status, err = s.Maintenance()
				require.NoError(t, err)
				require.Equal(t, due.Time().UnixMilli(), status.Next.UnixMilli())
				rest(190 * time.Second)
				require.Equal(t, fmt.Sprintf("1:a@%d-", t0), survivors(t, p))
				s.sleep(12 * time.Second)
				require.Empty(t, survivors(t, p))
				requireBounds(t, p, 0, 2)
				status, err = s.Maintenance()
				require.NoError(t, err)
				require.True(t, status.Next.IsZero(), "%v", status.Next)
			})
		})
	}
}

// SPEC 9.4: of several logs the dirtiest goes first.
func TestDirtiestLogGoesFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var logged bytes.Buffer
		s := newStoreWith(t, engine.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		release := s.HoldCompaction()
		config := compacting(10)
		var names []string
		for i, clean := range []int{3, 1, 4, 2} {
			name := fmt.Sprint("clean", clean)
			config.MinCleanableRatio = 1
			p := s.named(name, config)
			for n := range clean {
				fill(t, p, fmt.Sprintf("x%d@%d |", n, i))
			}
			release()
			compacted(t, p)
			release = s.HoldCompaction()
			fill(t, p, "a@1 a@2 |")
			config.MinCleanableRatio = 0.1
			require.NoError(t, s.AlterTopic(name, casesConfig(config)))
			names = append(names, name)
		}
		synctest.Wait() // events are logged in a goroutine of their own
		logged.Reset()
		s.sleep(2 * time.Second)
		status, err := s.Maintenance()
		require.NoError(t, err)
		require.Equal(t, 4, status.Compaction.Waiting)
		release()
		s.sleep(2 * time.Second)
		synctest.Wait()
		var order []string
		for line := range strings.Lines(logged.String()) {
			if _, after, ok := strings.Cut(line, "msg=compaction partition="); ok {
				name, _, _ := strings.Cut(after, "/")
				order = append(order, name)
			}
		}
		require.Equal(t, []string{"clean1", "clean2", "clean3", "clean4"}, order, "of %v", names)
	})
}

// A map too small is no reason to leave the rest: passes follow at once, whatever
// the ratio is by then.
func TestLoopGoesOnWhenTheMapIsFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStoreWith(t, engine.Options{})
		require.NoError(t, s.Close())
		s.opts.CompactionMapBytes = 1
		s.open()
		config := compacting(2)
		config.MinCleanableRatio = 0.9
		p := s.log(config)
		fill(t, p, "a@1 b@2 a@3 b@4 c@5 a@6 |")
		s.sleep(2 * time.Second)
		require.Equal(t, "3:b@4 4:c@5 5:a@6", survivors(t, p))
		require.Greater(t, s.passes(), 3)
	})
}

// C14 by itself: a policy that becomes compact makes the log due.
func TestAlterTopicMakesCompactionDue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t)
		p := s.log(engine.TopicConfig{})
		fill(t, p, "@1 a@2 a@3 |")
		s.sleep(2 * time.Second)
		require.Zero(t, s.passes())
		config := compacting(100)
		config.MinCleanableRatio = engine.CleanAlways
		s.reopen()
		s.alter(config)
		s.sleep(2 * time.Second)
		require.Equal(t, "2:a@3", survivors(t, s.log(config)))
	})
}

// damage flips a byte in the stored entry that ends at an offset.
func (s *store) damage(p *engine.Partition, offset int64) {
	s.t.Helper()
	id := p.TestKeys()
	s.raw(func(pdb *pebble.DB) {
		key := logKey(id, offset)
		value, closer, err := pdb.Get(key)
		require.NoError(s.t, err)
		bad := bytes.Clone(value)
		require.NoError(s.t, closer.Close())
		bad[len(bad)-1] ^= 1
		require.NoError(s.t, pdb.Set(key, bad, pebble.Sync))
	})
}

// K09: a damaged entry ends a pass with its place. Nothing of it is copied,
// nothing that may depend on it is dropped; the loop reports it, tries again ever
// more rarely, and compacts what is sound.
func TestK09DamagedEntryEndsThePass(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore(t)
		config := compacting(2)
		p, good := s.named("bad", config), s.named("good", config)
		for _, q := range []*engine.Partition{p, good} {
			fill(t, q, "a@1 b@2 a@3 b@4 a@5 b@6 |")
		}
		s.damage(p, 3)
		p, good = s.named("bad", config), s.named("good", config)
		_, err := p.Compact(t.Context(), engine.CompactOptions{})
		requireDamaged(t, err)
		_, err = p.Compact(t.Context(), engine.CompactOptions{DryRun: true})
		requireDamaged(t, err)
		got, err := collect(p, t, 0)
		requireDamaged(t, err)
		require.Equal(t, "0:a@1 1:b@2 2:a@3", describe(got), "as before")
		got, err = collect(p, t, 4)
		require.NoError(t, err)
		require.Equal(t, "4:a@5 5:b@6", describe(got))

		config.MinCleanableRatio = 0.5
		for _, name := range []string{"bad", "good"} {
			require.NoError(t, s.AlterTopic(name, casesConfig(config)))
		}
		s.sleep(3 * time.Second)
		require.Equal(t, "4:a@5 5:b@6", survivors(t, good))
		status, err := s.Maintenance()
		require.NoError(t, err)
		requireDamaged(t, status.Err)
		before := s.passes()
		s.sleep(10 * time.Minute)
		require.Less(t, s.passes()-before, 5, "it is tried too often")
		require.Greater(t, s.passes(), before)

		require.NoError(t, p.TruncateTo(t.Context(), 2)) // the damage is gone
		fill(t, p, "a@7 b@8 |")
		s.sleep(time.Hour)
		require.Equal(t, "2:a@7 3:b@8", survivors(t, p))
		status, err = s.Maintenance()
		require.NoError(t, err)
		require.NoError(t, status.Err)
	})
}

func requireDamaged(t testing.TB, err error) {
	t.Helper()
	bad, ok := errors.AsType[*engine.CorruptionError](err)
	require.True(t, ok, "%v", err)
	require.ErrorIs(t, err, engine.ErrCorrupt)
	require.Equal(t, "bad", bad.Topic)
	require.EqualValues(t, 3, bad.Offset)
}

// large fills a log with n sets of incompressible wrappers of which a pass drops
// half the messages: many steps.
func large(t testing.TB, p *engine.Partition, n int) {
	t.Helper()
	for i := range n {
		msgs := keyed(t, fmt.Sprintf("a@%d b%d@%d", i, i, i))
		for j := range msgs {
			msgs[j].Value = noise(40<<10, 2*i+j)
		}
		_, err := p.AppendSet(t.Context(), msgs, engine.AppendOptions{Compression: codec.Gzip})
		require.NoError(t, err)
	}
	fill(t, p, "|")
}

var largeConfig = engine.TopicConfig{CleanupPolicy: engine.CleanupCompact, MinCleanableRatio: 1, SegmentBytes: 64 << 20}

// Close does not wait for a pass, of the loop or of a caller.
func TestCloseAbortsAPass(t *testing.T) {
	t.Run("on demand", func(t *testing.T) {
		s := newStore(t)
		p := s.log(largeConfig)
		large(t, p, 30)
		closed := make(chan error, 1)
		n := 0
		_, err := p.Compact(t.Context(), engine.CompactOptions{Progress: func(compaction.Progress) {
			if n++; n == 3 {
				go func() { closed <- s.Close() }()
				for {
					if _, err := p.Offsets(); errors.Is(err, engine.ErrClosed) {
						break
					}
				}
			}
		}})
		require.ErrorIs(t, err, engine.ErrClosed)
		require.NoError(t, <-closed)
		s.open()
		p = s.log(largeConfig)
		finish(t, p)
		s.exactAfterwards(p)
	})
	t.Run("background", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			clock := newWallClock(t0)
			var slow atomic.Bool
			s := newStoreWith(t, engine.Options{Now: func() time.Time {
				if slow.Load() { // a pass asks for the time at every entry
					time.Sleep(time.Millisecond)
				}
				return clock.Now()
			}})
			s.clock = clock
			p := s.log(largeConfig)
			large(t, p, 30)
			config := largeConfig
			config.MinCleanableRatio = 0.1
			release := s.HoldCompaction()
			s.alter(config)
			s.sleep(2 * time.Second)
			slow.Store(true)
			release()
			for steps := int64(0); steps == 0; {
				time.Sleep(time.Millisecond)
				status, err := s.Maintenance()
				require.NoError(t, err)
				steps = status.Compaction.Progress.Stats.Steps
			}
			slow.Store(false)
			require.NoError(t, s.Close())
			s.open()
			require.Zero(t, s.passes())
			s.clock.add(120_000)
			time.Sleep(2 * time.Minute) // the alarm of a pass that was under way is still there
			synctest.Wait()
			require.Equal(t, 1, s.passes())
		})
	})
}

// The error of a canceled context comes back as it is, and what was done stands.
func TestCanceledCompactionStands(t *testing.T) {
	s := newStore(t)
	p := s.log(largeConfig)
	large(t, p, 30)
	before := newestOf(readAll(t, p, 0))
	s.interruptCompaction(p)
	left := readAll(t, p, 0)
	require.Less(t, len(left), 60)
	require.Greater(t, len(left), 31)
	require.Equal(t, before, newestOf(left))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.Compact(ctx, engine.CompactOptions{})
	require.ErrorIs(t, err, context.Canceled)
	finish(t, p)
	s.exactAfterwards(p)
}

// finish compacts a large log to its end.
func finish(t testing.TB, p *engine.Partition) {
	t.Helper()
	_, err := p.Compact(t.Context(), engine.CompactOptions{})
	require.NoError(t, err)
	require.Len(t, readAll(t, p, 0), 31)
}

// A failed store never hangs a pass: it ends with ErrFailed, reads go on, Close
// returns.
func TestFailedStoreEndsAPass(t *testing.T) {
	for _, background := range []bool{false, true} {
		t.Run(fmt.Sprint("background=", background), func(t *testing.T) {
			fs := newFaultyFS(vfs.NewMem(), walFaults["write"]...)
			s := newStoreWith(t, engine.Options{FS: fs})
			p := s.log(largeConfig)
			large(t, p, 30)
			if background {
				config := largeConfig
				config.MinCleanableRatio = 0.1
				release := s.HoldCompaction()
				s.alter(config)
				_, err := s.MaintainOnce(t.Context(), s.clock.Now())
				require.NoError(t, err)
				fs.armed.Store(true)
				release()
				_, err = p.Append(t.Context(), codec.Message{Key: []byte("x")})
				require.ErrorIs(t, err, engine.ErrFailed)
			} else {
				fs.armed.Store(true)
				_, err := p.Compact(t.Context(), engine.CompactOptions{})
				require.ErrorIs(t, err, engine.ErrFailed)
			}
			_, err := p.Compact(t.Context(), engine.CompactOptions{})
			require.ErrorIs(t, err, engine.ErrFailed)
			fs.armed.Store(false)
			s.reopen()
			finish(t, s.log(largeConfig))
		})
	}
}

// The space that compaction frees comes back to the disk by itself, and Compact
// reports it.
func TestCompactionGivesSpaceBack(t *testing.T) {
	s := newStore(t)
	p := s.log(largeConfig)
	large(t, p, 60)
	s.reopen() // into tables
	p = s.log(largeConfig)
	r, err := p.Compact(t.Context(), engine.CompactOptions{})
	require.NoError(t, err)
	require.Greater(t, r.Before.DiskBytes, uint64(60*80<<10)*9/10)
	require.Less(t, r.After.DiskBytes, r.Before.DiskBytes*6/10)
	require.Less(t, float64(r.After.DiskBytes), 1.1*float64(r.After.StoredBytes))
}

// A partition row from before compaction was kept has no clean point and no
// tombstones that are due.
func TestOldStateRowsDecode(t *testing.T) {
	s := newStore(t)
	p := s.log(compacting(1))
	p.StartAt(t, 5)
	requireBounds(t, p, 5, 5)
	point, due := p.CleanPoint()
	require.Zero(t, point)
	require.Equal(t, none, due)
	fill(t, p, "a@1 a@2- |")
	compacted(t, p)
	require.Equal(t, "6:a@2-", survivors(t, p))
}

// P08: a log dropped between two steps of a pass stays dropped, and takes new
// messages from offset 0: the pass ends and writes nothing of the old log.
func TestDropBetweenStepsOfAPass(t *testing.T) {
	s := newStore(t)
	p := s.log(largeConfig)
	large(t, p, 30)
	dropped := false
	r, err := p.Compact(t.Context(), engine.CompactOptions{Progress: func(at compaction.Progress) {
		if at.Stats.Steps > 0 && !dropped {
			dropped = true
			require.NoError(t, p.Drop(t.Context()))
			fill(t, p, "a@1 b@2")
		}
	}})
	require.NoError(t, err)
	require.True(t, dropped)
	require.True(t, r.Overtaken)
	require.Equal(t, "0:a@1 1:b@2", survivors(t, p))
	requireBounds(t, p, 0, 2)
	s.exactAfterwards(p)
	fill(t, s.log(largeConfig), "a@3 |")
	compacted(t, s.log(largeConfig))
	require.Equal(t, "1:b@2 2:a@3", survivors(t, s.log(largeConfig)))
}
