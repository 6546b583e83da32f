package coordinator

import (
	"context"
	"crypto/rand"
	"sync"
	"time"
)

// Code is an error code of the Kafka protocol.
type Code int16

// The codes of the group protocol.
const (
	None                  Code = 0
	NotAvailable          Code = 15 // the server shuts down, or has too many groups
	IllegalGeneration     Code = 22
	InconsistentProtocol  Code = 23
	InvalidGroup          Code = 24
	UnknownMember         Code = 25
	InvalidSessionTimeout Code = 26
	RebalanceInProgress   Code = 27
	GroupFull             Code = 81
)

// Options bound what clients may ask for. Zero means the default in parentheses.
type Options struct {
	// MinSession and MaxSession bound session timeouts (group.min.session.timeout.ms,
	// 6 s; group.max.session.timeout.ms, 5 min). A rebalance timeout beyond MaxSession
	// is shortened to it.
	MinSession, MaxSession time.Duration
	// MaxGroups bounds the groups that have members (1000), MaxMembers those of one
	// group (1000).
	MaxGroups, MaxMembers int
	// MaxBytes bounds what all members together have the coordinator keep for them:
	// metadata and assignments (64 MiB).
	MaxBytes int
}

func (o Options) withDefaults() Options {
	if o.MinSession == 0 {
		o.MinSession = 6 * time.Second
	}
	if o.MaxSession == 0 {
		o.MaxSession = 5 * time.Minute
	}
	if o.MaxGroups == 0 {
		o.MaxGroups = 1000
	}
	if o.MaxMembers == 0 {
		o.MaxMembers = 1000
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 20
	}
	return o
}

// Coordinator keeps the groups. It is safe for concurrent use.
type Coordinator struct {
	opts Options

	// mu is held for work in memory only; whoever waits does so on a channel of its
	// own.
	mu     sync.Mutex
	groups map[string]*group // those with members
	bytes  int               // of all groups
}

// New returns a Coordinator without groups.
func New(o Options) *Coordinator {
	return &Coordinator{opts: o.withDefaults(), groups: make(map[string]*group)}
}

// Join is a request to be, or stay, a member.
type Join struct {
	Group string
	// Member is the id from the last Joined, empty for a new member.
	Member       string
	Session      time.Duration
	Rebalance    time.Duration // how long to wait for this member to join again
	ProtocolType string
	Protocols    []Protocol // in order of preference
}

// Protocol is a way of assigning partitions, and what a member has to say for it.
type Protocol struct {
	Name     string
	Metadata []byte
}

// Joined is the answer to Join.
type Joined struct {
	Code       Code
	Generation int32
	Protocol   string
	Leader     string
	Member     string
	Members    []Joiner // the leader's only
}

// Joiner is a member as the leader sees it.
type Joiner struct {
	ID       string
	Metadata []byte
}

// Join makes a member of its group and waits until the group's new generation is
// complete, or ctx ends, which is NotAvailable. What j holds is copied.
func (c *Coordinator) Join(ctx context.Context, j Join) Joined {
	reply := make(chan Joined, 1)
	if code := c.join(j, reply); code != None {
		return Joined{Code: code, Generation: -1, Member: j.Member}
	}
	select {
	case joined := <-reply:
		return joined
	case <-ctx.Done():
		return Joined{Code: NotAvailable, Generation: -1, Member: j.Member}
	}
}

func (c *Coordinator) join(j Join, reply chan<- Joined) Code {
	switch {
	case j.Group == "":
		return InvalidGroup
	case j.Session < c.opts.MinSession || j.Session > c.opts.MaxSession:
		return InvalidSessionTimeout
	case j.ProtocolType == "" || len(j.Protocols) == 0:
		return InconsistentProtocol
	}
	j.Rebalance = min(max(j.Rebalance, 0), c.opts.MaxSession)
	c.mu.Lock()
	defer c.mu.Unlock()
	g, ok := c.groups[j.Group]
	switch {
	case !ok && j.Member != "":
		return UnknownMember
	case !ok && len(c.groups) >= c.opts.MaxGroups, c.bytes+size(j.Protocols) > c.opts.MaxBytes:
		return NotAvailable
	case !ok:
		g = newGroup(j.ProtocolType)
	case j.Member == "" && len(g.members) >= c.opts.MaxMembers:
		return GroupFull
	}
	now := time.Now()
	code := g.join(now, j, rand.Text(), reply)
	if code == None {
		c.groups[j.Group] = g
		c.settle(now, j.Group, g)
	}
	return code
}

// settle follows every event: it forgets a group without members and sets the timer
// for the others.
func (c *Coordinator) settle(now time.Time, name string, g *group) {
	if g.timer != nil {
		g.timer.Stop()
	}
	had := g.bytes
	g.measure()
	c.bytes += g.bytes - had
	if len(g.members) == 0 {
		delete(c.groups, name)
		return
	}
	g.timer = time.AfterFunc(g.due().Sub(now), func() {
		_ = c.with(name, func(now time.Time, late *group) Code { // nobody asks for the code
			if late == g {
				g.tick(now)
			}
			return None
		})
	})
}

// with runs an event of a group that has members; for another one it is UnknownMember.
func (c *Coordinator) with(name string, event func(time.Time, *group) Code) Code {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, ok := c.groups[name]
	if !ok {
		return UnknownMember
	}
	now := time.Now()
	code := event(now, g)
	c.settle(now, name, g)
	return code
}

// Synced is the answer to Sync.
type Synced struct {
	Code       Code
	Assignment []byte
}

// Sync returns what the leader has assigned to a member in a generation, and waits for
// it if need be. The leader's call brings the assignments by member id; what it holds
// is copied.
func (c *Coordinator) Sync(ctx context.Context, name, member string, generation int32, assignments map[string][]byte) Synced {
	reply := make(chan Synced, 1)
	code := c.with(name, func(now time.Time, g *group) Code {
		brought := 0
		for _, b := range assignments {
			brought += len(b)
		}
		if c.bytes+brought > c.opts.MaxBytes {
			return NotAvailable
		}
		return g.sync(now, member, generation, assignments, reply)
	})
	if code != None {
		return Synced{Code: code}
	}
	select {
	case synced := <-reply:
		return synced
	case <-ctx.Done():
		return Synced{Code: NotAvailable}
	}
}

// Heartbeat says that a member lives, and learns whether it has to join again.
func (c *Coordinator) Heartbeat(name, member string, generation int32) Code {
	return c.with(name, func(now time.Time, g *group) Code { return g.heartbeat(now, member, generation) })
}

// Leave ends a membership; the others share what it read.
func (c *Coordinator) Leave(name, member string) Code {
	return c.with(name, func(now time.Time, g *group) Code { return g.leave(now, member) })
}

// MayCommit says whether a member may commit offsets for its group now. Who is no
// member, with generation -1 and no id, may while the group has none: a consumer that
// assigns partitions to itself.
func (c *Coordinator) MayCommit(name, member string, generation int32) Code {
	if name == "" {
		return InvalidGroup
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g, ok := c.groups[name]
	switch {
	case !ok && generation >= 0:
		return IllegalGeneration
	case !ok:
		return None
	}
	now := time.Now()
	code := g.commit(now, member, generation)
	c.settle(now, name, g)
	return code
}
