package coordinator

import (
	"bytes"
	"maps"
	"slices"
	"time"
)

type state uint8

const (
	preparing state = iota
	syncing
	stable
)

// group is the state machine of one group. Its methods are the events; the
// coordinator's lock is held.
//
// Invariants: in preparing, joining is set for those who have joined; in syncing,
// syncing is set for those who wait for the leader, who does not; in stable nobody
// waits.
type group struct {
	state        state
	generation   int32
	protocolType string
	protocol     string
	leader       string
	members      map[string]*member
	joins        int       // counts them, for an order among members
	deadline     time.Time // of preparing
	timer        *time.Timer
	bytes        int // kept for the members, as of the last event
}

func newGroup(protocolType string) *group {
	return &group{state: stable, protocolType: protocolType, members: make(map[string]*member)}
}

// join adds a member or renews one. Its reply comes when the generation is complete.
func (g *group) join(now time.Time, j Join, newID string, reply chan<- Joined) Code {
	m, known := g.members[j.Member]
	switch {
	case j.Member != "" && !known:
		return UnknownMember
	case j.ProtocolType != g.protocolType || !g.supports(j.Protocols, j.Member):
		return InconsistentProtocol
	case known && g.state != preparing && m.same(j.Protocols) && !(g.state == stable && m.id == g.leader):
		// The answer was lost on its way. A leader who asks again in stable wants the
		// partitions assigned anew.
		m.alive(now)
		reply <- g.joined(m)
		return None
	}
	if !known {
		m = &member{id: "member-" + newID, seq: g.joins}
		g.joins++
		g.members[m.id] = m
	}
	m.session, m.rebalance, m.protocols = j.Session, j.Rebalance, clone(j.Protocols)
	if g.state != preparing {
		g.prepare(now)
	}
	m.answerJoin(Joined{Code: RebalanceInProgress, Generation: -1, Member: m.id}) // of a call before this one
	m.joining = reply
	m.alive(now)
	g.completeIfAll(now)
	return None
}

// prepare begins a rebalance.
func (g *group) prepare(now time.Time) {
	wait := time.Duration(0)
	for _, m := range g.members {
		wait = max(wait, m.rebalance)
		if m.syncing != nil {
			m.answerSync(Synced{Code: RebalanceInProgress})
			m.alive(now)
		}
	}
	g.state, g.deadline = preparing, now.Add(wait)
}

func (g *group) completeIfAll(now time.Time) {
	for _, m := range g.members {
		if m.joining == nil {
			return
		}
	}
	g.complete(now)
}

// complete makes a generation of those who have joined.
func (g *group) complete(now time.Time) {
	maps.DeleteFunc(g.members, func(_ string, m *member) bool { return m.joining == nil })
	if len(g.members) == 0 {
		return
	}
	g.state = syncing
	g.generation++
	g.protocol = g.choose()
	if _, in := g.members[g.leader]; !in {
		g.leader = g.inOrder()[0].id
	}
	for _, m := range g.members {
		m.assignment = nil
		m.alive(now)
		m.answerJoin(g.joined(m))
	}
}

// joined is what a member learns of the generation.
func (g *group) joined(m *member) Joined {
	answer := Joined{Generation: g.generation, Protocol: g.protocol, Leader: g.leader, Member: m.id}
	if m.id == g.leader {
		for _, other := range g.inOrder() {
			answer.Members = append(answer.Members, Joiner{other.id, other.metadata(g.protocol)})
		}
	}
	return answer
}

func (g *group) sync(now time.Time, id string, generation int32, assignments map[string][]byte, reply chan<- Synced) Code {
	m, code := g.current(now, id, generation)
	switch {
	case code != None:
		return code
	case g.state == preparing:
		return RebalanceInProgress
	case g.state == stable:
		reply <- Synced{Assignment: m.assignment}
		return None
	}
	m.answerSync(Synced{Code: RebalanceInProgress}) // of a call before this one
	m.syncing = reply
	if id != g.leader {
		return None
	}
	g.state = stable
	for _, m := range g.members {
		m.assignment = bytes.Clone(assignments[m.id])
		m.alive(now)
		m.answerSync(Synced{Assignment: m.assignment})
	}
	return None
}

func (g *group) heartbeat(now time.Time, id string, generation int32) Code {
	_, code := g.current(now, id, generation)
	if code == None && g.state != stable {
		return RebalanceInProgress
	}
	return code
}

func (g *group) commit(now time.Time, id string, generation int32) Code {
	_, code := g.current(now, id, generation)
	if code == None && g.state == syncing {
		return RebalanceInProgress
	}
	return code
}

// current returns the member, which has shown that it lives, if the generation is
// that of now.
func (g *group) current(now time.Time, id string, generation int32) (*member, Code) {
	m, ok := g.members[id]
	if !ok {
		return nil, UnknownMember
	}
	if generation != g.generation {
		return nil, IllegalGeneration
	}
	m.alive(now)
	return m, None
}

func (g *group) leave(now time.Time, id string) Code {
	m, ok := g.members[id]
	if !ok {
		return UnknownMember
	}
	m.answerJoin(Joined{Code: UnknownMember, Generation: -1, Member: id})
	m.answerSync(Synced{Code: UnknownMember})
	g.remove(now, m)
	return None
}

// remove takes a member out; what it read goes to the others.
func (g *group) remove(now time.Time, m *member) {
	delete(g.members, m.id)
	if g.state != preparing {
		g.prepare(now)
	}
	g.completeIfAll(now)
}

// tick does what is due.
func (g *group) tick(now time.Time) {
	for _, m := range g.inOrder() {
		if !m.waiting() && !m.expires.After(now) {
			g.remove(now, m)
		}
	}
	if g.state == preparing && !g.deadline.After(now) {
		g.complete(now)
	}
}

// due is when tick has something to do next.
func (g *group) due() time.Time {
	var first time.Time
	earlier := func(t time.Time) {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	if g.state == preparing {
		earlier(g.deadline)
	}
	for _, m := range g.members {
		if !m.waiting() {
			earlier(m.expires)
		}
	}
	return first
}

// measure counts what is kept for the members.
func (g *group) measure() {
	g.bytes = 0
	for _, m := range g.members {
		g.bytes += size(m.protocols) + len(m.assignment)
	}
}

// inOrder returns the members, the one that joined first first.
func (g *group) inOrder() []*member {
	return slices.SortedFunc(maps.Values(g.members), func(a, b *member) int { return a.seq - b.seq })
}
