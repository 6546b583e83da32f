package codec_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
)

func TestCursorGoesFromEntryToEntry(t *testing.T) {
	rng := randomSource(t)
	var c codec.Cursor
	for range 500 {
		msgs := someMessages(rng, rng.Int64N(1000), rng.IntN(2) == 0)
		stamp := codec.Stamp{Timestamp: msgs[0].Timestamp}
		var e codec.Entry
		switch rng.IntN(3) {
		case 0:
			_, e = buildStored(t, compressions[rng.IntN(3)], 1, msgs, stamp)
		case 1: // damage in between
			key, value := sealBody(1, 0, 0, uvarints(2, 0, 0, 0, 9, 0, 0, 0, 0), 9)
			damaged := parse(t, key, value)
			_, err := messagesOf(&damaged)
			require.ErrorIs(t, err, codec.ErrDamaged)
			require.NoError(t, c.Reset(&damaged))
			c.Next(new(codec.Message))
			fallthrough
		default:
			key, value := sealPlain(msgs, codec.PlainOptions{Magic: 1}, lastOffset(msgs), stamp)
			e = parse(t, key, value)
		}
		require.NoError(t, c.Reset(&e))
		for range rng.IntN(3) { // leave some early
			c.Next(new(codec.Message))
		}
		require.NoError(t, c.Reset(&e))
		got, err := drain(&c)
		require.NoError(t, err)
		require.Equal(t, msgs, got)
		require.False(t, c.Next(new(codec.Message)), "the end is final")
	}
}

// Messages that contradict the header they passed ParseEntry with.
func TestCursorFindsWhatParseEntryDoesNot(t *testing.T) {
	for name, c := range map[string]struct {
		attributes byte
		body       []byte
	}{
		"key longer than the entry":      {0, uvarints(1, 0, 200, 0)},
		"key of 64 bits":                 {0, uvarints(1, 0, 1<<64-1, 0)},
		"value longer than the entry":    {0, uvarints(1, 0, 0, 2)},
		"value longer than what is left": {0, append(uvarints(1, 4, 4, 3), "keyv"...)},
		"value of 64 bits":               {0, uvarints(1, 0, 0, 1<<64-1)},
		"bytes left over":                {0, append(uvarints(1, 1, 1, 1), 'x')},
		"second message missing":         {0, append(uvarints(2, 3, 0, 0, 4, 1), "keyzzz"...)},
		"gap beyond the last offset":     {0x20, uvarints(2, 0, 0, 0, 3, 0, 0, 0, 9, 0, 0)},
		"gap of 64 bits":                 {0x20, uvarints(2, 0, 0, 0, 3, 0, 0, 0, 1<<64-1, 0, 0)},
		"gaps short of the last offset":  {0x20, uvarints(2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0)},
		"gap of a single message":        {0x20, uvarints(1, 0, 3, 0, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			key, value := sealBody(1, c.attributes, 0, c.body, 9)
			e := parse(t, key, value)
			msgs, err := messagesOf(&e)
			require.ErrorIs(t, err, codec.ErrDamaged)
			for _, m := range msgs {
				require.GreaterOrEqual(t, m.Offset, e.First)
				require.LessOrEqual(t, m.Offset, e.Last)
			}
		})
	}
}

func TestZeroCursorAndZeroEntryHoldNothing(t *testing.T) {
	var c codec.Cursor
	require.False(t, c.Next(new(codec.Message)))
	require.NoError(t, c.Err())
	require.ErrorIs(t, c.Reset(new(codec.Entry)), codec.ErrDamaged)
	require.False(t, c.Next(new(codec.Message)))
	_, _, err := new(codec.Entry).AppendSet(nil, codec.SetOptions{To: 1, Limit: 1})
	require.ErrorIs(t, err, codec.ErrDamaged)
}

func TestMessagesAliasTheEntryWithoutRoomToGrow(t *testing.T) {
	key, value := sealPlain([]codec.Message{{Key: []byte("key"), Value: []byte{}}}, codec.PlainOptions{Magic: 1}, 0, codec.Stamp{})
	e := parse(t, key, value)
	var c codec.Cursor
	require.NoError(t, c.Reset(&e))
	var m codec.Message
	require.True(t, c.Next(&m))
	_ = append(m.Key, 'x') // must not reach into the entry
	_ = append(m.Value, 'x')
	parse(t, key, value)
	require.NotNil(t, m.Value)
}

func TestWrappersDoNotAllocateOnceTheCursorHasGrown(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector drops pooled decoders at random")
	}
	for _, compression := range compressions {
		_, e := buildStored(t, compression, 1, offsets(benchMessages(100, 100)), codec.Stamp{Timestamp: fixtureTime})
		var c codec.Cursor
		var m codec.Message
		allocs := testing.AllocsPerRun(100, func() {
			if err := c.Reset(&e); err != nil {
				panic(err)
			}
			for c.Next(&m) {
			}
		})
		require.NoError(t, c.Err())
		require.Zero(t, allocs, compression)
	}
}

// offsets numbers msgs from 0 on.
func offsets(msgs []codec.Message) []codec.Message {
	for i := range msgs {
		msgs[i].Offset = int64(i)
	}
	return msgs
}
