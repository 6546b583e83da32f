package keys_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/keys"
)

// seeded returns a source of randomness whose seed a failing test prints.
func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func compareFields(a, b []any) int {
	for i := range a {
		var c int
		switch x := a[i].(type) {
		case string:
			c = strings.Compare(x, b[i].(string))
		case uint64:
			c = cmp.Compare(x, b[i].(uint64))
		case int64:
			c = cmp.Compare(x, b[i].(int64))
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

func TestByteOrderIsFieldOrder(t *testing.T) {
	rng := seeded(t)
	for _, s := range spaces {
		for range 20_000 {
			a, b := randomRow(rng), randomRow(rng)
			if rng.IntN(2) == 0 {
				b.partition.Topic, b.name = a.partition.Topic, a.name
			}
			if rng.IntN(2) == 0 {
				b.partition, b.offset = a.partition, a.offset
			}
			want := compareFields(s.fields(a), s.fields(b))
			got := bytes.Compare(s.append(nil, a), s.append(nil, b))
			require.Equal(t, want, got, "%s: %+v and %+v", s.name, a, b)
		}
	}
}

func TestSpacesAreInOrderAndApart(t *testing.T) {
	rng := seeded(t)
	for range 10_000 {
		i, j := rng.IntN(len(spaces)), rng.IntN(len(spaces))
		a, b := spaces[i].append(nil, randomRow(rng)), spaces[j].append(nil, randomRow(rng))
		if i != j {
			require.Equal(t, cmp.Compare(i, j), bytes.Compare(a, b))
		}
	}
}

func TestDecodeUndoesAppend(t *testing.T) {
	rng := seeded(t)
	for _, s := range spaces {
		for range 5_000 {
			r := randomRow(rng)
			key := s.append([]byte("kept"), r)
			require.True(t, bytes.HasPrefix(key, []byte("kept")), "append leaves dst alone")
			decoded, err := s.decode(key[4:])
			require.NoError(t, err)
			require.Equal(t, s.fields(r), s.fields(decoded), s.name)
			require.Equal(t, s.first, key[4], s.name)
		}
	}
}

func TestPutLogOffsetEqualsAppendLog(t *testing.T) {
	p := keys.Partition{Topic: 5, Number: -1}
	key := keys.AppendLog(nil, p, 0)
	require.Len(t, key, keys.LogSize)
	for _, offset := range boundaryOffsets {
		keys.PutLogOffset(key, offset)
		require.Equal(t, keys.AppendLog(nil, p, offset), key)
	}
}

func TestDecodeRefusesOtherBytes(t *testing.T) {
	negative := func(key []byte, at int) []byte {
		key[at] |= 0x80
		return key
	}
	p := keys.Partition{Topic: 1, Number: 2}
	malformed := map[string][][]byte{
		"log":        {negative(keys.AppendLog(nil, p, 3), 9)},
		"timestamps": {negative(keys.AppendTimestamp(nil, p, 3, 4), 9)},
		"segments":   {negative(keys.AppendSegment(nil, p, 3), 9)},
		"epochs":     {negative(keys.AppendEpoch(nil, p, 3), 9)},
		"offsets": {
			{8},
			{8, 'g'},
			{8, 'g', 0},
			{8, 'g', 0, 2, 0, 0, 0, 1, 0, 0, 0, 2}, // neither end nor zero
			{8, 'g', 0, 0xff, 0, 0, 0, 1, 0, 0, 0, 2},   // never ends
			{8, 'g', 0, 1, 0, 0, 0, 1, 0, 0, 0},         // short
			{8, 'g', 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 255}, // long
		},
	}
	malformed["producers"] = [][]byte{keys.AppendProducer(nil, p, "")[:8]}
	for i, s := range spaces {
		key := s.append(nil, row{name: "name", partition: p, offset: 3, time: 4, epoch: 5})
		malformed[s.name] = append(malformed[s.name], nil, []byte{}, []byte{0xff},
			spaces[(i+1)%len(spaces)].append(nil, row{name: "other", partition: p}))
		if s.name != "meta" && s.name != "catalog" && s.name != "producers" { // the rest of those keys is a name
			malformed[s.name] = append(malformed[s.name], key[:len(key)-1], append(bytes.Clone(key), 0))
		}
		for _, bad := range malformed[s.name] {
			t.Run(fmt.Sprintf("%s/%x", s.name, bad), func(t *testing.T) {
				r, err := s.decode(bad)
				require.ErrorIs(t, err, keys.ErrMalformed)
				require.ErrorContains(t, err, s.name)
				require.Zero(t, r)
			})
		}
	}
}

func TestMalformedErrorIsShort(t *testing.T) {
	_, _, err := keys.DecodeLog(make([]byte, 1<<20))
	require.ErrorIs(t, err, keys.ErrMalformed)
	require.Less(t, len(err.Error()), 200)
}

func TestLogKeysDoNotAllocate(t *testing.T) {
	key := make([]byte, 0, keys.LogSize)
	p := keys.Partition{Topic: 1, Number: 2}
	allocs := testing.AllocsPerRun(100, func() {
		key = keys.AppendLog(key[:0], p, 7)
		keys.PutLogOffset(key, 8)
		if _, offset, err := keys.DecodeLog(key); err != nil || offset != 8 {
			panic("log key does not round trip")
		}
	})
	require.Zero(t, allocs)
}

func BenchmarkAppendLog(b *testing.B) {
	key := make([]byte, 0, keys.LogSize)
	b.ReportAllocs()
	for b.Loop() {
		key = keys.AppendLog(key[:0], keys.Partition{Topic: 1, Number: 2}, 3)
	}
}
