package codec_test

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

func indexKey(offset int64) []byte {
	return keys.AppendLog(nil, fixturePartition.Companion(), offset)
}

func TestIndexRowReadsBackAsItWasWritten(t *testing.T) {
	for _, r := range []codec.IndexRow{
		{},
		{Timestamp: fixtureTime, Offset: 17, Base: 10, ScanFrom: 12},
		{Timestamp: codec.NoTimestamp, Offset: 1},
		{Timestamp: math.MaxInt64, Offset: math.MaxInt64, Base: math.MaxInt64, ScanFrom: math.MaxInt64},
		{Timestamp: math.MinInt64},
	} {
		key := indexKey(r.Offset)
		value := codec.AppendIndexRow([]byte("kept"), key, r)
		require.Equal(t, "kept", string(value[:4]))
		got, err := codec.ParseIndexRow(key, value[4:])
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
}

func TestEveryChangedByteOfAnIndexRowIsDetected(t *testing.T) {
	key := indexKey(17)
	value := codec.AppendIndexRow(nil, key, codec.IndexRow{Timestamp: fixtureTime, Offset: 17, Base: 10, ScanFrom: 12})
	requireEveryFlipDetected(t, key, value, func(key, value []byte) error {
		_, err := codec.ParseIndexRow(key, value)
		return err
	})
}

func TestIndexRowAndEntryAreNotMixedUp(t *testing.T) {
	key := indexKey(17)
	row := codec.AppendIndexRow(nil, key, codec.IndexRow{Offset: 17})
	_, err := codec.ParseEntry(key, row)
	require.ErrorIs(t, err, codec.ErrDamaged)

	// Right checksums, wrong content.
	for _, c := range []struct {
		at   int
		b    byte
		says string
	}{
		{0, 1, "unknown index row kind 1"},
		{9, 0x80, "base"},
		{17, 0x80, "scan start"},
	} {
		value := codec.AppendIndexRow(nil, key, codec.IndexRow{Offset: 17})
		value[c.at] = c.b
		table := crc32.MakeTable(crc32.Castagnoli)
		sum := crc32.Update(crc32.Checksum(value[:25], table), table, key)
		binary.BigEndian.PutUint32(value[25:], sum)
		_, err := codec.ParseIndexRow(key, value)
		require.ErrorIs(t, err, codec.ErrDamaged)
		require.ErrorContains(t, err, c.says)
	}
}

func TestIndexRowsDoNotAllocate(t *testing.T) {
	key := indexKey(17)
	var value []byte
	require.Zero(t, testing.AllocsPerRun(100, func() {
		value = codec.AppendIndexRow(value[:0], key, codec.IndexRow{Offset: 17})
		if _, err := codec.ParseIndexRow(key, value); err != nil {
			panic(err)
		}
	}))
}
