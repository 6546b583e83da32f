package keys_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/keys"
)

// S106: the companion's number is the complement of the partition's.
func TestCompanionNumberIsTheComplement(t *testing.T) {
	for _, c := range []struct {
		number, companion int32
		bytes             []byte
	}{
		{0, -1, []byte{0xff, 0xff, 0xff, 0xff}},
		{1, -2, []byte{0xff, 0xff, 0xff, 0xfe}},
		{math.MaxInt32, math.MinInt32, []byte{0x80, 0, 0, 0}},
	} {
		p := keys.Partition{Topic: 9, Number: c.number}
		companion := keys.Partition{Topic: 9, Number: c.companion}
		require.Equal(t, companion, p.Companion())
		require.Equal(t, p, companion.Companion(), "its own inverse")
		require.False(t, p.IsCompanion())
		require.True(t, companion.IsCompanion())
		require.Equal(t, c.bytes, keys.AppendState(nil, companion)[5:])
	}
}

func TestPartitionNamesItself(t *testing.T) {
	p := keys.Partition{Topic: math.MaxUint32, Number: 2}
	require.Equal(t, "4294967295/2", p.String())
	require.Equal(t, "4294967295/-3", p.Companion().String())
}
