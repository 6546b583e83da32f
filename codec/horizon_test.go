package codec_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
)

func acceptAll(*codec.Message) bool { return true }

// SPEC 9.7: the horizon is the only thing that changes, for every layout.
func TestHorizonChangesNothingElse(t *testing.T) {
	for name, entry := range goldenEntries(t) {
		t.Run(name, func(t *testing.T) {
			before := parse(t, entry.key, entry.value)
			for _, h := range []codec.Timestamp{0, fixtureTime, 1<<63 - 1} {
				value := codec.AppendHorizon([]byte("kept"), entry.key, entry.value, h)
				require.Equal(t, "kept", string(value[:4]))
				after := parse(t, entry.key, value[4:])
				require.Equal(t, h, after.Horizon)
				require.Equal(t, before.WireSize(), after.WireSize())
				want, err := messagesOf(&before)
				require.NoError(t, err)
				got, err := messagesOf(&after)
				require.NoError(t, err)
				require.Equal(t, want, got)
				after.Horizon = before.Horizon
				require.Equal(t, before, after)
				again := codec.AppendHorizon(nil, entry.key, value[4:], h)
				require.Equal(t, value[4:], again, "a horizon replaces the one before")
			}
		})
	}
}

func TestFilterKeepsHorizonWithTombstones(t *testing.T) {
	msgs := []codec.Message{
		{Offset: 10, Timestamp: 5, Key: []byte("a"), Value: []byte("v")},
		{Offset: 11, Timestamp: 9, Key: []byte("b")},
		{Offset: 12, Timestamp: 7, Key: []byte("c"), Value: []byte{}},
	}
	key, plain := sealPlain(msgs, codec.PlainOptions{Magic: 1}, 12, codec.Stamp{Timestamp: 5})
	f, _, err := codec.BuildWrapper(nil, codec.Gzip, 1, msgs)
	require.NoError(t, err)
	_, wrapper := sealWrapper(codec.StoredWrapper{Compression: codec.Gzip, Magic: 1, Count: 3, Span: 2, Payload: f.Value}, 12,
		codec.Stamp{Timestamp: 9})
	for name, value := range map[string][]byte{"plain": plain, "wrapper": wrapper} {
		t.Run(name, func(t *testing.T) {
			e := parse(t, key, codec.AppendHorizon(nil, key, value, 1234))
			var c codec.Cursor
			filter := func(keep func(*codec.Message) bool) (codec.Filtered, codec.Entry) {
				f, err := e.Filter(&c, keep)
				require.NoError(t, err)
				if f.Value == nil {
					return f, codec.Entry{}
				}
				k := logKey(f.Last)
				codec.Seal(k, f.Value, f.Stamp)
				return f, parse(t, k, f.Value)
			}
			all, _ := filter(acceptAll)
			require.Equal(t, codec.Filtered{Kept: 3, Tombstones: 1}, all)

			f, left := filter(func(m *codec.Message) bool { return m.Offset != 10 })
			require.Equal(t, 1, f.Tombstones)
			require.EqualValues(t, 1234, left.Horizon)

			f, left = filter(func(m *codec.Message) bool { return m.Offset != 11 })
			require.Zero(t, f.Tombstones)
			require.Equal(t, codec.NoTimestamp, left.Horizon, "no tombstone is left to delete")
			require.EqualValues(t, 7, left.MaxTimestamp)
			require.EqualValues(t, 12, left.Last)
		})
	}
}

// keep is a decision with side effects for some callers.
func TestFilterAsksOnceForEachMessageInOrder(t *testing.T) {
	rng := randomSource(t)
	var c codec.Cursor
	for range 300 {
		msgs := someMessages(rng, rng.Int64N(1000), rng.IntN(2) == 0)
		_, wrapper := buildStored(t, codec.Snappy, 1, msgs, codec.Stamp{Timestamp: fixtureTime})
		key, value := sealPlain(msgs, codec.PlainOptions{Magic: 1}, lastOffset(msgs), codec.Stamp{Timestamp: msgs[0].Timestamp})
		plain := parse(t, key, value)
		for _, e := range []codec.Entry{plain, wrapper} {
			var asked []int64
			var kept []codec.Message
			f, err := e.Filter(&c, func(m *codec.Message) bool {
				ok := rng.IntN(2) == 0
				if ok {
					kept = append(kept, msgs[len(asked)])
				}
				asked = append(asked, m.Offset)
				return ok
			})
			require.NoError(t, err)
			require.Len(t, asked, len(msgs))
			require.IsIncreasing(t, append([]int64{-1}, asked...))
			require.Equal(t, len(kept), f.Kept)
			require.Equal(t, len(msgs), f.Kept+f.Dropped)
			if f.Value == nil {
				continue
			}
			k := logKey(f.Last)
			codec.Seal(k, f.Value, f.Stamp)
			left := parse(t, k, f.Value)
			got, err := messagesOf(&left)
			require.NoError(t, err)
			require.Equal(t, kept, got)
		}
	}
}

func TestFilterOfAnUntouchedEntryDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	key, value := sealPlain(benchMessages(160, 100), codec.PlainOptions{Magic: 1, Dense: true}, 159, codec.Stamp{})
	e := parse(t, key, value)
	var c codec.Cursor
	require.Zero(t, testing.AllocsPerRun(10, func() {
		if _, err := e.Filter(&c, acceptAll); err != nil {
			t.Fatal(err)
		}
	}))
}
