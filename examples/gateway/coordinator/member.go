package coordinator

import (
	"bytes"
	"slices"
	"time"
)

// member is one of a group.
type member struct {
	id                 string
	seq                int
	session, rebalance time.Duration
	protocols          []Protocol
	assignment         []byte
	expires            time.Time // unless it waits

	// joining and syncing are where the answer to a call that waits goes; they have
	// room for it. At most one is set.
	joining chan<- Joined
	syncing chan<- Synced
}

func (m *member) alive(now time.Time) { m.expires = now.Add(m.session) }

func (m *member) waiting() bool { return m.joining != nil || m.syncing != nil }

func (m *member) answerJoin(j Joined) {
	if m.joining != nil {
		m.joining <- j
		m.joining = nil
	}
}

func (m *member) answerSync(s Synced) {
	if m.syncing != nil {
		m.syncing <- s
		m.syncing = nil
	}
}

func (m *member) metadata(protocol string) []byte {
	if i := m.index(protocol); i >= 0 {
		return m.protocols[i].Metadata
	}
	return nil
}

// index returns the place of a protocol in the member's order of preference.
func (m *member) index(protocol string) int {
	return slices.IndexFunc(m.protocols, func(p Protocol) bool { return p.Name == protocol })
}

// same reports whether the member has joined with these protocols.
func (m *member) same(protocols []Protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// size is what protocols take in memory, about.
func size(protocols []Protocol) int {
	n := 0
	for _, p := range protocols {
		n += 48 + len(p.Name) + len(p.Metadata)
	}
	return n
}

// clone copies protocols out of a request's buffer.
func clone(protocols []Protocol) []Protocol {
	own := slices.Clone(protocols)
	for i := range own {
		own[i].Metadata = bytes.Clone(own[i].Metadata)
	}
	return own
}

// supports reports whether one of the protocols is known to all members but one, who
// is about to bring them.
func (g *group) supports(protocols []Protocol, but string) bool {
	return slices.ContainsFunc(protocols, func(p Protocol) bool {
		for _, m := range g.members {
			if m.id != but && m.index(p.Name) < 0 {
				return false
			}
		}
		return true
	})
}

// choose returns the protocol that most members prefer among those known to all; of
// several the one that the first member likes best.
func (g *group) choose() string {
	members := g.inOrder()
	votes := make(map[string]int)
	common := func(p Protocol) bool {
		return !slices.ContainsFunc(members, func(m *member) bool { return m.index(p.Name) < 0 })
	}
	for _, m := range members {
		if i := slices.IndexFunc(m.protocols, common); i >= 0 {
			votes[m.protocols[i].Name]++
		}
	}
	best := ""
	for _, p := range members[0].protocols {
		if votes[p.Name] > votes[best] {
			best = p.Name
		}
	}
	return best
}
