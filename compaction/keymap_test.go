package compaction // the map has no other way to be seen: what it holds, not what a pass makes of it

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestSlotIsHalfACacheLine(t *testing.T) {
	require.EqualValues(t, slotBytes, unsafe.Sizeof(slot{}))
}

// C15: short keys are whole, long ones their digest, and no long key equals a
// short one, not even the bytes of its digest.
func TestKeysAreExactOrWide(t *testing.T) {
	long := bytes.Repeat([]byte{'k'}, 28)
	sum := sha256.Sum256(long)
	seen := map[keyID][]byte{}
	for _, key := range [][]byte{
		{}, {0}, {0, 0}, []byte("a"), []byte("a\x00"), long[:27], append(bytes.Clone(long[:26]), 0), long, long[:26],
		append(bytes.Clone(long), 'k'), sum[:27], sum[:], {longKey},
	} {
		id := idOf(key)
		require.NotContains(t, seen, id, "%q", key)
		seen[id] = key
	}
	id := idOf(long)
	require.Equal(t, append([]byte{longKey}, sum[:27]...), id[:])
}

func look(m *offsetMap, key []byte) *lookup {
	l := m.lookup(key)
	return &l
}

func TestMapAgreesWithGoMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := int64(1 + rng.IntN(2000))
		m := newOffsetMap(int64(rng.IntN(64<<10)), 1000, n)
		want := map[string]int64{}
		full := false
		for offset := int64(1000); offset < 1000+n; offset++ {
			key := bytes.Repeat([]byte{byte(rng.IntN(256))}, rng.IntN(40))
			_, known := want[string(key)]
			ok := m.set(look(m, key), offset)
			require.Equal(t, known || len(want) < m.capacity, ok)
			if full = full || !ok; ok {
				want[string(key)] = offset
			}
		}
		require.Equal(t, len(want), m.used)
		for key, offset := range want {
			require.Equal(t, offset, m.get(look(m, []byte(key))))
		}
		require.EqualValues(t, -1, m.get(look(m, []byte("another"))))
		if full {
			require.Equal(t, m.capacity, m.used)
		}
	}
}

// The table is what was asked for, at least one key, and no more than n messages
// can fill.
func TestMapSize(t *testing.T) {
	for _, c := range []struct{ size, n, slots, capacity int64 }{
		{0, 100, 2, 1},
		{64, 100, 2, 1},
		{1 << 20, 1 << 40, 1 << 15, 1 << 15 * 4 / 5},
		{1 << 20, 1, 2, 1},
		{1 << 20, 1000, 1251, 1000},
		{math.MaxInt64, 10, 13, 10},
	} {
		m := newOffsetMap(c.size, 0, c.n)
		require.EqualValues(t, c.slots, len(m.slots), "%+v", c)
		require.EqualValues(t, c.capacity, m.capacity, "%+v", c)
	}
	for n := int64(1); n < 3000; n++ {
		require.GreaterOrEqual(t, int64(newOffsetMap(1<<30, 0, n).capacity), n)
	}
}

// Offsets are kept in 32 bits: the map is full where they end.
func TestMapEndsWhereOffsetsDo(t *testing.T) {
	m := newOffsetMap(1<<10, 5, 1<<40)
	require.True(t, m.set(look(m, []byte("a")), 5))
	require.True(t, m.set(look(m, []byte("b")), 5+math.MaxUint32-1))
	require.EqualValues(t, 5+math.MaxUint32-1, m.get(look(m, []byte("b"))))
	require.False(t, m.set(look(m, []byte("a")), 5+math.MaxUint32))
	require.EqualValues(t, 5, m.get(look(m, []byte("a"))))
}

func BenchmarkMap(b *testing.B) {
	const n = 1 << 20
	m := newOffsetMap(1<<30, 0, n)
	key := []byte("customer00000000")
	for i := range int64(n) {
		binary.BigEndian.PutUint64(key[8:], uint64(i)*0x9e3779b97f4a7c15)
		m.set(look(m, key), i)
	}
	i := uint64(0)
	for b.Loop() {
		binary.BigEndian.PutUint64(key[8:], i*0x9e3779b97f4a7c15)
		if m.get(look(m, key)) < 0 {
			b.Fatal(i)
		}
		i = (i + 7919) % n
	}
}
