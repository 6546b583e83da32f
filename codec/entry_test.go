package codec_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

// requireEveryFlipDetected changes every byte of key and value, one at a time and
// in several ways, and cuts and extends both.
func requireEveryFlipDetected(t *testing.T, key, value []byte, read func(key, value []byte) error) {
	t.Helper()
	require.NoError(t, read(key, value))
	for name, b := range map[string][]byte{"key": key, "value": value} {
		for i := range b {
			for _, flip := range []byte{0x01, 0x80, 0xff, 0x55} {
				b[i] ^= flip
				require.ErrorIs(t, read(key, value), codec.ErrDamaged, "%s byte %d xor %#x", name, i, flip)
				b[i] ^= flip
			}
		}
	}
	for n := range value {
		require.ErrorIs(t, read(key, value[:n]), codec.ErrDamaged, "cut to %d", n)
	}
	require.ErrorIs(t, read(key, append(bytes.Clone(value), 0)), codec.ErrDamaged)
	require.ErrorIs(t, read(key[:16], value), codec.ErrDamaged)
	require.ErrorIs(t, read(append(bytes.Clone(key), 0), value), codec.ErrDamaged)
}

func TestEveryChangedByteIsDetected(t *testing.T) {
	read := func(key, value []byte) error {
		_, err := codec.ParseEntry(key, value)
		return err
	}
	stamp := codec.Stamp{Timestamp: fixtureTime, Clock: fixtureTime + 1}
	for name, entry := range goldenEntries(t) {
		t.Run(name, func(t *testing.T) {
			requireEveryFlipDetected(t, entry.key, entry.value, read)
		})
	}
	t.Run("large", func(t *testing.T) {
		key, value := sealPlain(benchMessages(20, 100), codec.PlainOptions{Magic: 1, Dense: true}, 99, stamp)
		requireEveryFlipDetected(t, key, value, read)
	})
}

func TestEntryOfAnotherKeyIsRefused(t *testing.T) {
	_, value := sealPlain(make([]codec.Message, 1), codec.PlainOptions{Magic: 1, Dense: true}, 9, codec.Stamp{})
	_, err := codec.ParseEntry(logKey(9), value)
	require.NoError(t, err)
	for _, key := range [][]byte{
		logKey(10),
		keys.AppendLog(nil, fixturePartition.Companion(), 9),
		keys.AppendLog(nil, keys.Partition{Topic: fixturePartition.Topic + 1, Number: fixturePartition.Number}, 9),
		keys.AppendState(nil, fixturePartition),
		nil,
	} {
		_, err := codec.ParseEntry(key, value)
		require.ErrorIs(t, err, codec.ErrDamaged)
	}
}

func TestUnsealedEntryIsRefused(t *testing.T) {
	value := codec.AppendPlain(nil, make([]codec.Message, 1), codec.PlainOptions{Magic: 1, Dense: true})
	_, err := codec.ParseEntry(logKey(0), value)
	require.ErrorIs(t, err, codec.ErrDamaged)
}

func TestUnknownKindsAndAttributesAreNamed(t *testing.T) {
	message := uvarints(1, 0, 0, 0)
	payload := uvarints(1, 0)
	for _, c := range []struct {
		kind, attributes byte
		body             []byte
		says             string
	}{
		{0, 0, message, "unknown entry kind 0"},
		{3, 0, message, "unknown entry kind 3"},
		{255, 0, message, "unknown entry kind 255"},
		{1, 0x80, message, "enriched entry without a receipt time"},
		{1, 0x98, message, "enriched entry without a receipt time"},
		{1, 0x8d, message, "unknown control type 12"},
		{1, 0x8a, uvarints(2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), "control entry of 2 messages"},
		{1, 0x01, message, "unknown attribute bits 0x01"},
		{2, 0x81, payload, "enriched entry without a receipt time"},
		{2, 0x89, uvarints(0, 0, 0), "enriched wrapper entry of unknown messages"},
		{2, 0x89, uvarints(1, 0, 9), "wrapper entry with 9 bytes of tags"},
		{2, 0x21, payload, "unknown attribute bits 0x20"},
		{2, 0x00, payload, "unknown compression 0"},
		{2, 0x04, payload, "unknown compression 4"},
		{2, 0x07, payload, "unknown compression 7"},
		{1, 0x40, message, "entry of 26 bytes"},
		{1, 0x40, append(bytes.Repeat([]byte{0xff}, 8), message...), "delete horizon -1"},
		{2, 0x41, append(bytes.Repeat([]byte{0xff}, 8), payload...), "delete horizon -1"},
		{1, 0x18, message, "timestamp type on magic 0"},
		{2, 0x19, payload, "timestamp type on magic 0"},
	} {
		key, value := sealBody(c.kind, c.attributes, 0, c.body, 9)
		_, err := codec.ParseEntry(key, value)
		require.ErrorIs(t, err, codec.ErrDamaged)
		require.ErrorContains(t, err, c.says)
	}
}

// Bodies with a right checksum that no encoder makes: none panics, allocates by
// what it claims, or gives an offset below zero.
func TestHostileBodiesAreRefused(t *testing.T) {
	const huge = math.MaxUint64
	for name, c := range map[string]struct {
		kind, attributes byte
		body             []byte
		last             int64
	}{
		"plain: empty":                         {1, 0, nil, 9},
		"plain: only a count":                  {1, 0, uvarints(1), 9},
		"plain: no messages":                   {1, 0, uvarints(0, 0, 0, 0), 9},
		"plain: huge count":                    {1, 0, uvarints(huge, 0, 0, 0, 0, 0, 0), 9},
		"plain: count of 63 bits":              {1, 0, uvarints(1<<63-1, 0, 0, 0, 0, 0, 0), 9},
		"plain: count beyond the bytes":        {1, 0, uvarints(3, 0, 0, 0, 0, 0, 0, 0, 0, 0), 9},
		"plain: huge bytes":                    {1, 0, uvarints(1, huge, 0, 0), 9},
		"plain: bytes beyond the body":         {1, 0, uvarints(1, 1, 0, 0), 9},
		"plain: more messages than offsets":    {1, 0, uvarints(2, 0, 0, 0, 0, 0, 0, 0, 0), 0},
		"plain: span below the count":          {1, 0x20, uvarints(2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), 9},
		"plain: span beyond the offset":        {1, 0x20, uvarints(2, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0), 9},
		"plain: huge span":                     {1, 0x20, uvarints(2, 0, 0, 0, huge, 0, 0, 0, 0, 0, 0), 9},
		"plain: largest beyond the span":       {1, 0, uvarints(2, 0, 0, 2, 0, 0, 0, 0, 0), 9},
		"plain: uvarint without end":           {1, 0, bytes.Repeat([]byte{0x80}, 5), 9},
		"plain: uvarint of eleven bytes":       {1, 0, append(bytes.Repeat([]byte{0x80}, 10), 1, 0, 0), 9},
		"wrapper: empty":                       {2, 1, nil, 9},
		"wrapper: only a count":                {2, 1, uvarints(1), 9},
		"wrapper: huge count":                  {2, 1, uvarints(huge, 0), 9},
		"wrapper: span below the count":        {2, 1, uvarints(3, 1), 9},
		"wrapper: span beyond the offset":      {2, 1, uvarints(3, 10), 9},
		"wrapper: huge span":                   {2, 1, uvarints(3, huge), 9},
		"wrapper: span of an unknown count":    {2, 1, uvarints(0, 1), 9},
		"wrapper: count beyond any compressed": {2, 1, uvarints(1<<31, 1<<31), math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			key, value := sealBody(c.kind, c.attributes, 0, c.body, c.last)
			_, err := codec.ParseEntry(key, value)
			require.ErrorIs(t, err, codec.ErrDamaged)
		})
	}
}

func TestEntryAtTheLargestOffset(t *testing.T) {
	key, value := sealPlain(make([]codec.Message, 3), codec.PlainOptions{Magic: 1, Dense: true}, math.MaxInt64, codec.Stamp{})
	e := parse(t, key, value)
	got, err := messagesOf(&e)
	require.NoError(t, err)
	require.EqualValues(t, math.MaxInt64-2, e.First)
	require.EqualValues(t, math.MaxInt64, got[2].Offset)
}

func TestKindsNameThemselves(t *testing.T) {
	require.Equal(t, "plain wrapper kind 9", fmt.Sprint(codec.KindPlain, " ", codec.KindWrapper, " ", codec.Kind(9)))
}
