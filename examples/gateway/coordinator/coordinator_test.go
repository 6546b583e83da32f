package coordinator_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/examples/gateway/coordinator"
)

const (
	session   = 10 * time.Second
	rebalance = time.Minute
)

// inBubble runs a test on a clock that moves when everybody waits.
func inBubble(t *testing.T, f func(t *testing.T, c *coordinator.Coordinator)) {
	synctest.Test(t, func(t *testing.T) { f(t, coordinator.New(coordinator.Options{MaxGroups: 3, MaxMembers: 5})) })
}

func request(member string, protocols ...string) coordinator.Join {
	j := coordinator.Join{Group: "g", Member: member, Session: session, Rebalance: rebalance, ProtocolType: "consumer"}
	for _, p := range protocols {
		j.Protocols = append(j.Protocols, coordinator.Protocol{Name: p, Metadata: []byte("about " + p)})
	}
	if len(protocols) == 0 {
		j.Protocols = []coordinator.Protocol{{Name: "range", Metadata: []byte("meta")}}
	}
	return j
}

// joining is a Join under way.
type joining chan coordinator.Joined

func start(t *testing.T, c *coordinator.Coordinator, j coordinator.Join) joining {
	done := make(joining, 1)
	go func() { done <- c.Join(t.Context(), j) }()
	synctest.Wait()
	return done
}

// waits reports whether the call has not returned.
func (j joining) waits() bool {
	synctest.Wait()
	return len(j) == 0
}

func (j joining) ok(t *testing.T) coordinator.Joined {
	t.Helper()
	require.False(t, j.waits())
	joined := <-j
	require.Equal(t, coordinator.None, joined.Code)
	return joined
}

// beat keeps members alive until a time has passed or one is told to join again.
func beat(c *coordinator.Coordinator, d time.Duration, generation int32, members ...string) coordinator.Code {
	for range d / time.Second {
		for _, m := range members {
			if code := c.Heartbeat("g", m, generation); code != coordinator.None {
				return code
			}
		}
		time.Sleep(time.Second)
	}
	return coordinator.None
}

// two brings a group of two members to stable; the first leads.
func two(t *testing.T, c *coordinator.Coordinator) (leader, follower string) {
	t.Helper()
	first := start(t, c, request("")).ok(t)
	require.Equal(t, coordinator.None, c.Sync(t.Context(), "g", first.Member, 1, nil).Code)
	second := start(t, c, request(""))
	require.True(t, second.waits())
	require.Equal(t, coordinator.RebalanceInProgress, c.Heartbeat("g", first.Member, 1))
	again := start(t, c, request(first.Member)).ok(t)
	other := second.ok(t)
	require.EqualValues(t, 2, again.Generation)
	require.EqualValues(t, 2, other.Generation)
	require.Equal(t, first.Member, other.Leader)
	synced := make(chan coordinator.Synced, 1)
	go func() { synced <- c.Sync(t.Context(), "g", other.Member, 2, nil) }()
	synctest.Wait()
	require.Empty(t, synced, "a follower waits for the leader")
	require.Equal(t, coordinator.RebalanceInProgress, c.Heartbeat("g", first.Member, 2), "in syncing")
	assign := map[string][]byte{first.Member: []byte("p0"), other.Member: []byte("p1")}
	require.Equal(t, coordinator.Synced{Assignment: []byte("p0")}, c.Sync(t.Context(), "g", first.Member, 2, assign))
	require.Equal(t, coordinator.Synced{Assignment: []byte("p1")}, <-synced)
	return first.Member, other.Member
}

func TestLeaderLearnsTheMembersAndFollowersTheAssignment(t *testing.T) {
	inBubble(t, func(t *testing.T, c *coordinator.Coordinator) {
		alone := start(t, c, request("")).ok(t)
		require.EqualValues(t, 1, alone.Generation)
		require.Equal(t, alone.Member, alone.Leader)
		require.Equal(t, "range", alone.Protocol)
		require.Equal(t, []coordinator.Joiner{{ID: alone.Member, Metadata: []byte("meta")}}, alone.Members)
		require.Equal(t, coordinator.None, c.Leave("g", alone.Member))

		leader, follower := two(t, c)
		require.Equal(t, coordinator.None, beat(c, 5*time.Minute, 2, leader, follower))
	})
}

func TestSilentMemberIsOutAfterItsSession(t *testing.T) {
	inBubble(t, func(t *testing.T, c *coordinator.Coordinator) {
		leader, follower := two(t, c)
		began := time.Now()
		require.Equal(t, coordinator.RebalanceInProgress, beat(c, time.Minute, 2, leader))
		require.InDelta(t, session, time.Since(began), float64(time.Second), "as exactly as there are heartbeats")
		joined := start(t, c, request(leader)).ok(t)
		require.Len(t, joined.Members, 1)
		require.Equal(t, coordinator.UnknownMember, c.Heartbeat("g", follower, 2))
		require.Equal(t, coordinator.IllegalGeneration, c.Heartbeat("g", leader, 2))
	})
}

func TestLeavingHandsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, c *coordinator.Coordinator) {
		leader, follower := two(t, c)
		require.Equal(t, coordinator.None, c.Leave("g", leader))
		require.Equal(t, coordinator.UnknownMember, c.Leave("g", leader))
		require.Equal(t, coordinator.RebalanceInProgress, c.Heartbeat("g", follower, 2))
		joined := start(t, c, request(follower)).ok(t)
		require.Equal(t, follower, joined.Leader)
		require.EqualValues(t, 3, joined.Generation)
	})
}

// Who lives but does not join again in time is out.
func TestRebalanceEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, c *coordinator.Coordinator) {
		leader, follower := two(t, c)
		began := time.Now()
		third := start(t, c, request(""))
		again := start(t, c, request(leader))
		for third.waits() {
			require.Equal(t, coordinator.RebalanceInProgress, c.Heartbeat("g", follower, 2))
			time.Sleep(time.Second)
		}
		require.InDelta(t, rebalance, time.Since(began), float64(time.Second))
		require.Len(t, again.ok(t).Members, 2)
		require.Equal(t, coordinator.UnknownMember, c.Heartbeat("g", follower, 2))
	})
}

// A leader that dies before it has assigned anything holds up nobody for longer than its
// session.
func TestLeaderDiesBeforeItsAssignment(t *testing.T) {
	inBubble(t, func(t *testing.T, c *coordinator.Coordinator) {
		leader, follower := two(t, c)
		third := start(t, c, request(""))
		_ = start(t, c, request(leader)).waits()
		start(t, c, request(follower)).ok(t)
		third.ok(t)
		began := time.Now()
		require.Equal(t, coordinator.RebalanceInProgress, c.Sync(t.Context(), "g", follower, 3, nil).Code)
		require.Equal(t, session, time.Since(began))
		require.Equal(t, coordinator.UnknownMember, c.Heartbeat("g", leader, 3))
	})
}

// An answer that was lost is given again; it starts no rebalance.
func TestCallsMayBeTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, c *coordinator.Coordinator) {
		_, follower := two(t, c)
		again := start(t, c, request(follower)).ok(t)
		require.EqualValues(t, 2, again.Generation)
		require.Empty(t, again.Members)
		require.Equal(t, coordinator.Synced{Assignment: []byte("p1")}, c.Sync(t.Context(), "g", follower, 2, nil))

		changed := start(t, c, request(follower, "range", "sticky"))
		require.True(t, changed.waits(), "with something else to say it does")
		twice := start(t, c, request(follower, "range", "sticky"))
		require.True(t, twice.waits())
		require.Equal(t, coordinator.RebalanceInProgress, (<-changed).Code, "the later call gets the answer")
	})
}

func TestLeaderThatJoinsAgainStartsARebalance(t *testing.T) {
	inBubble(t, func(t *testing.T, c *coordinator.Coordinator) {
		leader, follower := two(t, c)
		again := start(t, c, request(leader))
		require.True(t, again.waits())
		start(t, c, request(follower)).ok(t)
		require.Len(t, again.ok(t).Members, 2)
	})
}

func TestProtocolIsOneThatAllKnowAndMostPrefer(t *testing.T) {
	inBubble(t, func(t *testing.T, c *coordinator.Coordinator) {
		first := start(t, c, request("", "a", "b", "c")).ok(t)
		require.Equal(t, "a", first.Protocol)
		second := start(t, c, request("", "c", "b"))
		third := start(t, c, request("", "x", "c"))
		require.Equal(t, coordinator.InconsistentProtocol, c.Join(t.Context(), request("", "x", "a")).Code)
		other := request("", "c")
		other.ProtocolType = "connect"
		require.Equal(t, coordinator.InconsistentProtocol, c.Join(t.Context(), other).Code)
		joined := start(t, c, request(first.Member, "b", "c")).ok(t)
		require.Equal(t, "c", joined.Protocol)
		require.Equal(t, []byte("about c"), joined.Members[1].Metadata)
		require.Equal(t, "c", second.ok(t).Protocol)
		require.Equal(t, "c", third.ok(t).Protocol)
	})
}

func TestRefusals(t *testing.T) {
	inBubble(t, func(t *testing.T, c *coordinator.Coordinator) {
		for code, change := range map[coordinator.Code]func(*coordinator.Join){
			coordinator.InvalidGroup:          func(j *coordinator.Join) { j.Group = "" },
			coordinator.InvalidSessionTimeout: func(j *coordinator.Join) { j.Session = 6*time.Second - 1 },
			coordinator.InconsistentProtocol:  func(j *coordinator.Join) { j.Protocols = nil },
			coordinator.UnknownMember:         func(j *coordinator.Join) { j.Member = "nobody" },
		} {
			j := request("")
			change(&j)
			require.Equal(t, code, c.Join(t.Context(), j).Code)
		}
		long := request("")
		long.Session = 5*time.Minute + 1
		require.Equal(t, coordinator.InvalidSessionTimeout, c.Join(t.Context(), long).Code)
		require.Equal(t, coordinator.UnknownMember, c.Heartbeat("g", "nobody", 1))
		require.Equal(t, coordinator.UnknownMember, c.Leave("g", "nobody"))
		require.Equal(t, coordinator.UnknownMember, c.Sync(t.Context(), "g", "nobody", 1, nil).Code)

		leader, _ := two(t, c)
		require.Equal(t, coordinator.IllegalGeneration, c.Sync(t.Context(), "g", leader, 1, nil).Code)
		require.Equal(t, coordinator.UnknownMember, c.Join(t.Context(), request("nobody")).Code)
	})
}

func TestCommitsAreTheMembersOfTheGeneration(t *testing.T) {
	inBubble(t, func(t *testing.T, c *coordinator.Coordinator) {
		require.Equal(t, coordinator.InvalidGroup, c.MayCommit("", "", -1))
		require.Equal(t, coordinator.None, c.MayCommit("g", "", -1), "a consumer without a group")
		require.Equal(t, coordinator.IllegalGeneration, c.MayCommit("g", "old", 3))
		leader, follower := two(t, c)
		require.Equal(t, coordinator.None, c.MayCommit("g", leader, 2))
		require.Equal(t, coordinator.UnknownMember, c.MayCommit("g", "", -1))
		require.Equal(t, coordinator.IllegalGeneration, c.MayCommit("g", leader, 1))
		again := start(t, c, request(leader))
		require.Equal(t, coordinator.None, c.MayCommit("g", follower, 2), "before it joins again it may say what it has read")
		start(t, c, request(follower)).ok(t)
		again.ok(t)
		require.Equal(t, coordinator.RebalanceInProgress, c.MayCommit("g", follower, 3))
	})
}

func TestGroupsAndMembersAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, c *coordinator.Coordinator) {
		var all []joining
		for range 5 {
			all = append(all, start(t, c, request("")))
		}
		require.Equal(t, coordinator.GroupFull, c.Join(t.Context(), request("")).Code)
		for i := range 3 {
			j := request("")
			j.Group = fmt.Sprint("other", i)
			code := coordinator.None
			if i == 2 {
				code = coordinator.NotAvailable
			}
			require.Equal(t, code, c.Join(t.Context(), j).Code)
		}
		time.Sleep(2 * rebalance)
		for _, j := range all {
			j.ok(t)
		}
		time.Sleep(2 * rebalance) // everybody is silent: the groups are gone
		for i := range 3 {
			j := request("")
			j.Group = fmt.Sprint("later", i)
			require.Equal(t, coordinator.None, c.Join(t.Context(), j).Code)
		}
	})
}

// What members have kept for them is bounded together, and given back as they go.
func TestBytesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := coordinator.New(coordinator.Options{MaxBytes: 10_000})
		large := request("")
		large.Protocols[0].Metadata = make([]byte, 6000)
		for range 3 {
			joined := start(t, c, large).ok(t)
			require.Equal(t, coordinator.NotAvailable, c.Join(t.Context(), large).Code)
			assign := map[string][]byte{joined.Member: make([]byte, 5000)}
			require.Equal(t, coordinator.NotAvailable, c.Sync(t.Context(), "g", joined.Member, joined.Generation, assign).Code)
			assign[joined.Member] = assign[joined.Member][:3000]
			require.Equal(t, coordinator.None, c.Sync(t.Context(), "g", joined.Member, joined.Generation, assign).Code)
			require.Equal(t, coordinator.None, c.Leave("g", joined.Member))
		}
	})
}

func TestWaitsEndWithTheirContext(t *testing.T) {
	inBubble(t, func(t *testing.T, c *coordinator.Coordinator) {
		two(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Equal(t, coordinator.NotAvailable, c.Join(ctx, request("")).Code)
	})
}

// Members come, go, die and stay away at random; whenever the group is left alone for long
// enough, those who live have one generation and share one assignment.
func TestGroupsComeToRest(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *coordinator.Coordinator) { churn(t, c, seed) })
		})
	}
}
