package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

func verify(t testing.TB, s *store) engine.Verification {
	t.Helper()
	v, err := s.Verify(t.Context(), nil)
	require.NoError(t, err)
	return v
}

// places are findings without their details.
func places(v engine.Verification) []engine.Finding {
	list := slices.Clone(v.Findings)
	for i := range list {
		list[i].Detail = ""
	}
	return list
}

// DESIGN 10: each invariant that is broken is found, where it is broken, and nothing
// else.
func TestVerifyFindsExactlyWhatIsBroken(t *testing.T) {
	for _, br := range slices.Concat(breaches, rowBreaches) {
		t.Run(br.name, func(t *testing.T) {
			b := newBreakable(t)
			require.Empty(t, verify(t, b.store).Findings)
			b.raw(func(pdb *pebble.DB) { br.do(t, b, pdb) })
			v := verify(t, b.store)
			require.Equal(t, br.want, places(v), "%v", v.Findings)
			require.EqualValues(t, len(br.want), v.Found)
		})
	}
}

func TestVerifyCountsWhatItGoesOver(t *testing.T) {
	b := newBreakable(t)
	v := verify(t, b.store)
	segments, err := b.p.Segments()
	require.NoError(t, err)
	require.True(t, v.Clean())
	require.Equal(t, engine.Verification{
		Topics: 1, Partitions: 1, Segments: 3, Entries: 27, Messages: 27, Bytes: v.Bytes,
		IndexRows: 2 * int64(len(indexRows(t, b.p))), Producers: 1, Offsets: 1, Alarms: 1,
	}, v)
	require.Equal(t, segments[2].StoredBytes/9, v.Bytes/27)
}

// SPEC 10.7: rows of transactions and epochs say what the control messages do.
func TestVerifyFindsTransactionsAndEpochsThatContradictTheLog(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, id keys.Partition, pdb *pebble.DB)
		want []engine.Finding
	}{
		"a transaction without its row": {
			func(t *testing.T, id keys.Partition, pdb *pebble.DB) {
				unset(t, pdb, keys.AppendTransaction(nil, id, 3, 1))
			},
			found(3, engine.BadTransaction),
		},
		"an end marker that is gone": {
			func(t *testing.T, id keys.Partition, pdb *pebble.DB) {
				set(t, pdb, keys.AppendTransaction(nil, id, 2, 1), row(t, pdb, keys.AppendTransaction(nil, id, 3, 1)))
			},
			found(2, engine.BadTransaction),
		},
		"an aborted transaction that was committed": {
			func(t *testing.T, id keys.Partition, pdb *pebble.DB) {
				set(t, pdb, keys.AppendTransaction(nil, id, 3, 1), msgpackOf(t, map[string]any{"v": 1, "id": 7, "a": true}))
			},
			found(3, engine.BadTransaction),
		},
		"an open transaction behind the log": {
			func(t *testing.T, id keys.Partition, pdb *pebble.DB) {
				set(t, pdb, keys.AppendTransaction(nil, id, keys.OpenEnd, 9), msgpackOf(t, map[string]any{"v": 1, "id": 9}))
			},
			found(9, engine.BadTransaction),
		},
		"an epoch behind the log": {
			func(t *testing.T, id keys.Partition, pdb *pebble.DB) {
				set(t, pdb, keys.AppendEpoch(nil, id, 4), epochRow(7))
			},
			found(7, engine.BadEpoch),
		},
		"an epoch that cannot be read": {
			func(t *testing.T, id keys.Partition, pdb *pebble.DB) {
				set(t, pdb, keys.AppendEpoch(nil, id, 4), []byte("?"))
			},
			found(-1, engine.BadEpoch),
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := enrichedLog(t)
			_, err := p.BeginEpoch(t.Context(), 4)
			require.NoError(t, err)
			tx, err := s.Begin(t.Context(), 7)
			require.NoError(t, err)
			_, err = tx.Append(t.Context(), p, kv("k", "v"))
			require.NoError(t, err)
			require.NoError(t, tx.Commit(t.Context()))
			require.EqualValues(t, 4, end(t, p))
			id := p.TestKeys()
			s.raw(func(pdb *pebble.DB) { c.do(t, id, pdb) })
			v := verify(t, s)
			require.Equal(t, c.want, places(v), "%v", v.Findings)
		})
	}
}

// A log that is appended to, cut, retained and compacted meanwhile is verified as it was
// when the verification began: there is nothing to find.
func TestVerifyFindsNothingOfWhatGoesOnMeanwhile(t *testing.T) {
	for name, durability := range map[string]engine.Durability{"synced": engine.SyncAlways, "unsynced": engine.SyncNever} {
		t.Run(name, func(t *testing.T) {
			s := newStoreWith(t, engine.Options{Durability: durability})
			var running sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			for i, change := range []func(p *engine.Partition, n int64) error{
				func(p *engine.Partition, n int64) error { return p.TruncateTo(ctx, n*9/10) },
				func(p *engine.Partition, n int64) error { _, err := p.DeleteBefore(ctx, n/2); return err },
				func(p *engine.Partition, n int64) error {
					_, err := p.Compact(ctx, engine.CompactOptions{})
					return err
				},
				func(p *engine.Partition, n int64) error { _, err := p.Retain(ctx, engine.RetainOptions{}); return err },
				func(p *engine.Partition, n int64) error { return p.Drop(ctx) },
			} {
				config := compacting(6)
				config.IndexIntervalBytes = 100
				config.CleanupPolicy = engine.CleanupCompactDelete
				config.Retention.MaxBytes = 5000
				p := s.named(string(rune('a'+i)), config)
				step := func(n int64) error {
					for j := range int64(20) {
						m := keyedAt(n*20 + j)
						m.Timestamp -= codec.Timestamp(j % 7 * 11)
						o := engine.AppendOptions{Compression: codec.Compression(j % 4)}
						if _, err := p.AppendSet(ctx, []codec.Message{m, keyedAt(n)}, o); err != nil {
							return err
						}
					}
					offsets, err := p.Offsets()
					if err != nil {
						return err
					}
					return change(p, offsets.HighWatermark)
				}
				running.Go(func() {
					for n := int64(0); ctx.Err() == nil; n++ {
						if err := step(n); err != nil && ctx.Err() == nil && !errors.Is(err, engine.ErrOffsetRange) {
							t.Errorf("%s: %v", p, err)
							return
						}
					}
				})
			}
			for range rounds(t, 40) {
				v, err := s.Verify(ctx, nil)
				require.NoError(t, err)
				require.Empty(t, v.Findings)
			}
			cancel()
			running.Wait()
		})
	}
}

// SPEC 9, compaction's package comment: what stands when a pass is interrupted, in the
// middle of segments that are to be joined, is whole.
func TestVerifyFindsNothingInTheMiddleOfACompaction(t *testing.T) {
	s := newStore(t)
	config := compacting(3000)
	config.IndexIntervalBytes = 100
	p := s.log(config)
	for i := range int64(800) {
		m := keyedAt(i)
		m.Timestamp -= codec.Timestamp(i % 7 * 11)
		m.Value = make([]byte, 3000)
		if i%2 == 0 {
			m.Key = fmt.Append(nil, "only ", i)
		}
		_, err := p.Append(t.Context(), m)
		require.NoError(t, err)
	}
	for range 3 {
		s.interruptCompaction(p)
		require.Empty(t, verify(t, s).Findings)
		s.reopen()
		require.Empty(t, verify(t, s).Findings)
		p = s.log(config)
	}
	r, err := p.Compact(t.Context(), engine.CompactOptions{})
	require.NoError(t, err)
	require.NotZero(t, r.Superseded, "the passes before were interrupted")
	require.Empty(t, verify(t, s).Findings)
}

// An alarm for at once is ahead of a clock that is set back then: not a finding.
func TestVerifyAllowsForAClockThatWasSetBack(t *testing.T) {
	s := newStore(t)
	lead(t, s.log(engine.TopicConfig{}), t0)
	s.clock.add(5000)
	s.alter(engine.TopicConfig{SegmentAge: ms(1)}) // makes the log due
	s.clock.add(-4000)
	require.Empty(t, verify(t, s).Findings)
}

// So is one for a log that is due at the end of time.
func TestVerifyAllowsForAnAlarmBeforeTheEndOfTime(t *testing.T) {
	s := newStore(t)
	lead(t, s.log(engine.TopicConfig{}), math.MaxInt64-hour-1)
	s.alter(engine.TopicConfig{Retention: retention.Policy{MaxAge: ms(int64(hour))}})
	require.NotZero(t, verify(t, s).Alarms)
	require.Empty(t, verify(t, s).Findings)
}

func TestVerifyReportsProgressAndEnds(t *testing.T) {
	b := newBreakable(t)
	var last engine.VerifyProgress
	calls := 0
	v, err := b.Verify(t.Context(), func(at engine.VerifyProgress) {
		require.GreaterOrEqual(t, at.Done, last.Done)
		last, calls = at, calls+1
	})
	require.NoError(t, err)
	require.Equal(t, last.Total, last.Done)
	require.Equal(t, v.Messages, last.Messages)
	require.Equal(t, "t/0", last.Partition)
	require.GreaterOrEqual(t, calls, 2)

	ctx, cancel := context.WithCancel(t.Context())
	_, err = b.Verify(ctx, func(engine.VerifyProgress) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, b.OpenIterators())
	require.Zero(t, b.OpenViews())
}

// Close does not wait for a verification, and leaves nothing open.
func TestCloseEndsAVerification(t *testing.T) {
	b := newBreakable(t)
	_, err := b.Verify(t.Context(), func(engine.VerifyProgress) { require.NoError(t, b.Close()) })
	require.ErrorIs(t, err, engine.ErrClosed)
	_, err = b.Verify(t.Context(), nil)
	require.ErrorIs(t, err, engine.ErrClosed)
}

// The list of findings is bounded, their number is not.
func TestVerifyBoundsItsFindings(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	for range engine.MaxFindings + 5 {
		lead(t, p, t0)
	}
	id := p.TestKeys()
	s.raw(func(pdb *pebble.DB) {
		batch := pdb.NewBatch()
		for i := range int64(engine.MaxFindings + 5) {
			require.NoError(t, batch.Set(logKey(id, i), []byte("?"), nil))
		}
		require.NoError(t, batch.Commit(pebble.Sync))
	})
	v := verify(t, s)
	require.Len(t, v.Findings, engine.MaxFindings)
	require.EqualValues(t, engine.MaxFindings+5, v.Found)
	require.False(t, v.Clean())
}
