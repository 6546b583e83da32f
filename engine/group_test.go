package engine_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/keys"
)

// offsetsCommitted is what a group has committed, as topic/partition=offset.
func offsetsCommitted(t testing.TB, s *store, group string) []string {
	t.Helper()
	list, err := s.Group(group).Offsets(t.Context())
	require.NoError(t, err)
	out := []string{}
	for _, c := range list {
		out = append(out, fmt.Sprintf("%s=%d", c.Partition, c.Offset))
	}
	return out
}

func groupNames(t testing.TB, s *store) []string {
	t.Helper()
	names, err := s.Groups(t.Context())
	require.NoError(t, err)
	return names
}

func TestGroupKeepsOffsets(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	z, err := s.EnsureTopic("z", casesConfig(engine.TopicConfig{Partitions: 3})) // the smaller id
	require.NoError(t, err)
	a := s.named("a", engine.TopicConfig{})
	g := s.Group("billing")
	require.Equal(t, "billing", g.Name())
	require.Empty(t, groupNames(t, s))
	require.Empty(t, offsetsCommitted(t, s, "billing"))

	require.NoError(t, g.Commit(ctx, z.Partition(2), 7, "m"))
	require.NoError(t, g.Commit(ctx, z.Partition(0), 3, ""))
	require.NoError(t, g.Commit(ctx, a, 5, ""))
	require.NoError(t, g.Commit(ctx, a, 4, ""), "back")
	require.NoError(t, s.Group("bill").Commit(ctx, a, 1, ""))
	require.NoError(t, s.Group("é\u0301 any name").Commit(ctx, a, 2, ""))
	for range 2 {
		require.Equal(t, []string{"a/0=4", "z/0=3", "z/2=7"}, offsetsCommitted(t, s, "billing"))
		require.Equal(t, []string{"a/0=1"}, offsetsCommitted(t, s, "bill"))
		require.Equal(t, []string{"bill", "billing", "é\u0301 any name"}, groupNames(t, s))
		s.reopen()
	}
	z, _ = s.Topic("z")
	g = s.Group("billing")
	require.NoError(t, g.Forget(ctx, z.Partition(0)))
	require.NoError(t, g.Forget(ctx, z.Partition(1)), "nothing there")
	require.Equal(t, []string{"a/0=4", "z/2=7"}, offsetsCommitted(t, s, "billing"))
	require.NoError(t, g.Delete(ctx))
	require.NoError(t, g.Delete(ctx), "gone already")
	require.Equal(t, []string{"bill", "é\u0301 any name"}, groupNames(t, s))
	require.EqualValues(t, engine.NoOffset, committed(t, s, "billing", s.named("a", engine.TopicConfig{})))
	s.reopen()
	require.Equal(t, []string{"bill", "é\u0301 any name"}, groupNames(t, s))
}

func TestGroupLag(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	leadEach(t, p, t0, t0, t0, t0, t0, t0)
	g := s.Group("g")
	expect := func(offset, next, lag int64) {
		t.Helper()
		c, err := g.Committed(ctx, p)
		require.NoError(t, err)
		require.Equal(t, []int64{offset, next, lag}, []int64{c.Offset, c.Next(), c.Lag()})
		if offset >= 0 {
			list, err := g.Offsets(ctx)
			require.NoError(t, err)
			require.Equal(t, []engine.Committed{c}, list)
		}
	}
	expect(engine.NoOffset, 0, 6)
	require.NoError(t, g.Commit(ctx, p, 2, ""))
	expect(2, 2, 4)
	_, err := p.DeleteBefore(ctx, 4)
	require.NoError(t, err)
	expect(2, 4, 2)
	require.NoError(t, g.Commit(ctx, p, 6, ""))
	expect(6, 6, 0)
	require.NoError(t, p.TruncateTo(ctx, 5))
	expect(6, 6, 0) // beyond the log: who reads there learns of it
	_, err = collect(p, t, 6)
	require.ErrorIs(t, err, engine.ErrOffsetRange)
	require.NoError(t, g.Commit(ctx, p, math.MaxInt64, ""))
	expect(math.MaxInt64, math.MaxInt64, 0)
	require.NoError(t, p.Drop(ctx))
	expect(engine.NoOffset, 0, 0)
}

func TestGroupReset(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	p, q := s.named("p", engine.TopicConfig{}), s.named("q", engine.TopicConfig{})
	leadEach(t, p, t0, t0+10, t0+20)
	leadEach(t, q, t0+15)
	g := s.Group("g")
	list, err := g.Reset(ctx, engine.Latest)
	require.NoError(t, err, "a group without offsets")
	require.Empty(t, list)
	list, err = g.Reset(ctx, engine.Latest, q, p)
	require.NoError(t, err)
	require.Equal(t, q, list[0].Partition)
	require.Equal(t, []string{"p/0=3", "q/0=1"}, offsetsCommitted(t, s, "g"))
	for ts, want := range map[codec.Timestamp][]string{
		engine.Earliest: {"p/0=0", "q/0=0"},
		t0 + 5:          {"p/0=1", "q/0=0"},
		t0 + 16:         {"p/0=2", "q/0=1"},
		t0 + 99:         {"p/0=3", "q/0=1"},
	} {
		_, err = g.Reset(ctx, ts)
		require.NoError(t, err)
		require.Equal(t, want, offsetsCommitted(t, s, "g"), "%d", ts)
	}
	_, err = g.Reset(ctx, engine.Latest)
	require.NoError(t, err)
	_, err = g.Reset(ctx, -3, p)
	requireCode(t, codec.CodeInvalidRequest, err)
	_, err = g.Reset(ctx, engine.Earliest, p, nil)
	require.ErrorIs(t, err, engine.ErrUnknownTopic)
	require.Equal(t, []string{"p/0=3", "q/0=1"}, offsetsCommitted(t, s, "g"), "all or none")
}

// Offsets of a deleted topic are gone, and a new topic of the name has none.
func TestDeletedTopicTakesItsOffsetsAlong(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	p, q := s.named("p", engine.TopicConfig{}), s.named("q", engine.TopicConfig{})
	for _, g := range []string{"only p", "both"} {
		require.NoError(t, s.Group(g).Commit(ctx, p, 1, ""))
	}
	require.NoError(t, s.Group("both").Commit(ctx, q, 2, ""))
	topic := p.TestKeys().Topic
	require.NoError(t, s.DeleteTopic(ctx, "p"))
	for range 2 {
		require.Equal(t, []string{"both"}, groupNames(t, s))
		require.Equal(t, []string{"q/0=2"}, offsetsCommitted(t, s, "both"))
		require.EqualValues(t, engine.NoOffset, committed(t, s, "only p", s.named("p", engine.TopicConfig{})))
		s.reopen()
	}
	require.ErrorIs(t, s.Group("both").Commit(ctx, p, 1, ""), engine.ErrUnknownTopic, "a handle of before")
	s.raw(func(pdb *pebble.DB) {
		require.Empty(t, rowKeys(t, pdb, keys.OffsetTopicRange("only p", topic)))
		require.Empty(t, rowKeys(t, pdb, keys.OffsetTopicRange("both", topic)))
	})
}

func rowKeys(t testing.TB, pdb *pebble.DB, r keys.Range) (list []string) {
	t.Helper()
	it, err := pdb.NewIter(&pebble.IterOptions{LowerBound: r.Start, UpperBound: r.End})
	require.NoError(t, err)
	for ok := it.First(); ok; ok = it.Next() {
		list = append(list, string(it.Key()))
	}
	require.NoError(t, it.Close())
	return list
}

func TestIdleGroupsExpire(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	p, q := s.named("p", engine.TopicConfig{}), s.named("q", engine.TopicConfig{})
	commit := func(group string, p *engine.Partition) {
		t.Helper()
		require.NoError(t, s.Group(group).Commit(ctx, p, 1, ""))
	}
	commit("old", p)
	commit("busy", p)
	commit("gone", q)
	s.clock.add(1000)
	commit("busy", q)
	commit("new", p)
	// A commit that the deletion of its topic overtook leaves a row behind.
	orphan := keys.AppendOffset(nil, "busy", keys.Partition{Topic: 999})
	s.raw(func(pdb *pebble.DB) { require.NoError(t, pdb.Set(orphan, nil, pebble.Sync)) })
	require.Equal(t, []string{"p/0=1", "q/0=1"}, offsetsCommitted(t, s, "busy"))

	expired, err := s.ExpireGroups(ctx, ms(1000))
	require.NoError(t, err)
	require.Empty(t, expired, "not longer than that")
	s.raw(func(pdb *pebble.DB) { require.Empty(t, rowKeys(t, pdb, keys.OffsetTopicRange("busy", 999))) })
	expired, err = s.ExpireGroups(ctx, ms(999))
	require.NoError(t, err)
	require.Equal(t, []string{"gone", "old"}, expired)
	require.Equal(t, []string{"busy", "new"}, groupNames(t, s))
	require.Equal(t, []string{"p/0=1", "q/0=1"}, offsetsCommitted(t, s, "busy"), "a group expires as a whole")
	s.reopen()
	require.Equal(t, []string{"busy", "new"}, groupNames(t, s))
	s.clock.add(1)
	expired, err = s.ExpireGroups(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"busy", "new"}, expired)
	_, err = s.ExpireGroups(ctx, -1)
	requireCode(t, codec.CodeInvalidRequest, err)
}

func TestMaintenanceExpiresGroups(t *testing.T) {
	for _, expiry := range []time.Duration{0, time.Hour} {
		t.Run(expiry.String(), func(t *testing.T) {
			clock := newWallClock(t0)
			s := newStoreWith(t, engine.Options{GroupExpiry: expiry, Now: clock.Now})
			p := s.log(engine.TopicConfig{})
			require.NoError(t, s.Group("g").Commit(t.Context(), p, 1, ""))
			_, err := s.MaintainOnce(t.Context(), clock.Now())
			require.NoError(t, err)
			require.Equal(t, []string{"g"}, groupNames(t, s))
			done, err := s.MaintainOnce(t.Context(), clock.Now().Add(time.Hour+time.Millisecond))
			require.NoError(t, err)
			if expiry == 0 {
				require.Zero(t, done.Groups)
				require.Equal(t, []string{"g"}, groupNames(t, s), "never")
				return
			}
			require.Equal(t, 1, done.Groups)
			require.Empty(t, groupNames(t, s))
			status, err := s.Maintenance()
			require.NoError(t, err)
			require.Equal(t, 1, status.Total.Groups)
		})
	}
	_, err := engine.Open("x", engine.Options{GroupExpiry: -1})
	require.ErrorContains(t, err, "GroupExpiry")
}

// A group that commits while idle groups are looked for stays.
func TestExpirySparesWhoCommitsMeanwhile(t *testing.T) {
	s := newStoreWith(t, engine.Options{Durability: engine.SyncNever})
	p := s.log(engine.TopicConfig{})
	ctx := t.Context()
	for i := range int64(500) {
		s.clock.add(1000) // what was committed before is idle
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := s.ExpireGroups(ctx, ms(999)); err != nil {
				t.Error(err)
			}
		})
		for range i % 10 {
			runtime.Gosched()
		}
		require.NoError(t, s.Group("g").Commit(ctx, p, i, ""))
		wg.Wait()
		require.Equal(t, i, committed(t, s, "g", p))
	}
}

func TestGroupMisuse(t *testing.T) {
	ctx := t.Context()
	s, other := newStore(t), newStore(t)
	p := s.log(engine.TopicConfig{})
	for _, name := range []string{"", strings.Repeat("x", 256), "a\x00b", "a\nb", "\xff"} {
		g := s.Group(name)
		requireCode(t, codec.CodeInvalidGroup, g.Commit(ctx, p, 0, ""))
		_, err := g.Committed(ctx, p)
		requireCode(t, codec.CodeInvalidGroup, err)
		_, err = g.Offsets(ctx)
		requireCode(t, codec.CodeInvalidGroup, err)
		_, err = g.Reset(ctx, engine.Latest, p)
		requireCode(t, codec.CodeInvalidGroup, err)
		requireCode(t, codec.CodeInvalidGroup, g.Delete(ctx))
		requireCode(t, codec.CodeInvalidGroup, g.Forget(ctx, p))
	}
	g := s.Group(strings.Repeat("x", 255))
	require.NoError(t, g.Commit(ctx, p, 0, strings.Repeat("m", 4096)))
	for _, bad := range []*engine.Partition{nil, {}, other.log(engine.TopicConfig{})} {
		require.Error(t, g.Commit(ctx, bad, 0, ""))
		_, err := g.Committed(ctx, bad)
		require.Error(t, err)
		_, err = g.Reset(ctx, engine.Latest, bad)
		require.Error(t, err)
		require.Error(t, g.Forget(ctx, bad))
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, g.Commit(canceled, p, 0, ""), context.Canceled)
	_, err := g.Offsets(canceled)
	require.ErrorIs(t, err, context.Canceled)

	require.NoError(t, s.Close())
	var none *engine.Group
	var db *engine.DB
	for _, g := range []*engine.Group{g, none, {}, db.Group("g")} {
		require.ErrorIs(t, g.Commit(ctx, p, 0, ""), engine.ErrClosed)
		_, err := g.Committed(ctx, p)
		require.ErrorIs(t, err, engine.ErrClosed)
		_, err = g.Offsets(ctx)
		require.ErrorIs(t, err, engine.ErrClosed)
		_, err = g.Reset(ctx, engine.Latest)
		require.ErrorIs(t, err, engine.ErrClosed)
		require.ErrorIs(t, g.Delete(ctx), engine.ErrClosed)
		require.ErrorIs(t, g.Forget(ctx, p), engine.ErrClosed)
		_ = g.Name()
	}
	for _, db := range []*engine.DB{s.DB, nil, {}} {
		_, err = db.Groups(ctx)
		require.ErrorIs(t, err, engine.ErrClosed)
		_, err = db.ExpireGroups(ctx, 0)
		require.ErrorIs(t, err, engine.ErrClosed)
	}
	s.open()
}
