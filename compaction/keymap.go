package compaction

import (
	"crypto/sha256"
	"hash/maphash"
	"math"
	"math/bits"
)

// offsetMap knows the newest offset of every key it was given, in a table of
// fixed size with open addressing. Offsets are stored relative to a base in 32
// bits, which makes a slot half a cache line.
type offsetMap struct {
	slots    []slot
	base     int64
	used     int
	capacity int
	seed     maphash.Seed
}

type slot struct {
	next uint32 // offset - base + 1; 0 in a free slot
	key  keyID
}

const (
	slotBytes = 32
	// The share of slots in use at most. A search for a key that is not there
	// looks at 13 slots on average at 4/5, at 50 at Kafka's 9/10.
	loadNumerator, loadDenominator = 4, 5
	// minSlots is the least table, one key.
	minSlots = 2
)

// keyID stands for a key: its length and bytes where they fit, else longKey and
// its SHA-256, cut. See the package comment.
type keyID [28]byte

const longKey = 0xff

func idOf(key []byte) (id keyID) {
	if len(key) < len(id) {
		id[0] = byte(len(key))
		copy(id[1:], key)
		return id
	}
	sum := sha256.Sum256(key)
	id[0] = longKey
	copy(id[1:], sum[:])
	return id
}

// newOffsetMap returns a map of at most size bytes for messages from base on, of
// which there are at most n.
func newOffsetMap(size, base, n int64) *offsetMap {
	slots := max(size/slotBytes, minSlots)
	if n <= slots/loadDenominator*loadNumerator {
		slots = max(n*loadDenominator/loadNumerator+1, minSlots)
	}
	return &offsetMap{
		slots:    make([]slot, slots),
		base:     base,
		capacity: int(slots * loadNumerator / loadDenominator),
		seed:     maphash.MakeSeed(),
	}
}

// lookup is a key and where the search for it begins.
type lookup struct {
	at uint64
	id keyID
}

func (m *offsetMap) lookup(key []byte) lookup {
	l := lookup{id: idOf(key)}
	l.at, _ = bits.Mul64(maphash.Bytes(m.seed, l.id[:]), uint64(len(m.slots)))
	return l
}

// find returns the slot of a key, or the free one where it belongs.
func (m *offsetMap) find(l *lookup) *slot {
	for at := l.at; ; {
		s := &m.slots[at]
		if s.next == 0 || s.key == l.id {
			return s
		}
		if at++; at == uint64(len(m.slots)) {
			at = 0
		}
	}
}

// set notes the offset of a key, not below base and greater than those before. It
// is false, and nothing is noted, when there is no room.
func (m *offsetMap) set(l *lookup, offset int64) bool {
	s := m.find(l)
	if offset-m.base >= math.MaxUint32 || s.next == 0 && m.used == m.capacity {
		return false
	}
	if s.next == 0 {
		s.key = l.id
		m.used++
	}
	s.next = uint32(offset-m.base) + 1
	return true
}

// get returns the newest offset of a key, -1 for one that is not in the map.
func (m *offsetMap) get(l *lookup) int64 {
	s := m.find(l)
	if s.next == 0 {
		return -1
	}
	return m.base + int64(s.next) - 1
}
