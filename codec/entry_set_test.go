package codec_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
)

// everything selects all frames of an entry as a reader of magic 1 gets them.
var everything = codec.SetOptions{To: math.MaxInt64, Magic: 1, Limit: math.MaxInt}

// framesOf builds the set of msgs the slow way.
func framesOf(msgs []codec.Message, magic int8) (set []byte) {
	for i := range msgs {
		set = codec.AppendMessageFrame(set, &msgs[i], magic)
	}
	return set
}

func TestAppendSetEqualsTheFramesOfTheMessages(t *testing.T) {
	rng := randomSource(t)
	var scratch codec.Cursor
	for range 1_000 {
		msgs := someMessages(rng, rng.Int64N(1000), rng.IntN(2) == 0)
		magic, logAppend := int8(rng.IntN(2)), rng.IntN(2) == 0
		stamp := codec.Stamp{Timestamp: msgs[0].Timestamp, LogAppend: logAppend}
		key, value := sealPlain(msgs, codec.PlainOptions{Magic: magic}, lastOffset(msgs), stamp)
		e := parse(t, key, value)
		for i := range msgs {
			switch {
			case magic == 0:
				msgs[i].Timestamp, msgs[i].TimestampType = codec.NoTimestamp, codec.NoTimestampType
			case logAppend:
				msgs[i].Timestamp, msgs[i].TimestampType = stamp.Timestamp, codec.LogAppendTime
			}
		}
		o := everything
		o.Scratch = &scratch
		set, more, err := e.AppendSet([]byte("kept"), o)
		require.NoError(t, err)
		require.False(t, more)
		// SPEC 1.6.36: a stored v0 frame stays one for every reader.
		require.Equal(t, append([]byte("kept"), framesOf(msgs, magic)...), set)
		require.Equal(t, e.WireSize(), len(set)-4)

		o.Magic = 0
		set, more, err = e.AppendSet(nil, o)
		require.NoError(t, err)
		require.False(t, more)
		require.Equal(t, framesOf(msgs, 0), set, "SPEC 1.6.34")
	}
}

func TestAppendSetCutsAtFromToAndLimit(t *testing.T) {
	rng := randomSource(t)
	for range 5_000 {
		msgs := someMessages(rng, rng.Int64N(20), true)
		key, value := sealPlain(msgs, codec.PlainOptions{Magic: 1}, lastOffset(msgs), codec.Stamp{Timestamp: msgs[0].Timestamp})
		e := parse(t, key, value)
		magic := int8(rng.IntN(2))
		o := codec.SetOptions{
			From: rng.Int64N(40), To: rng.Int64N(40), Magic: magic,
			Limit: rng.IntN(e.WireSize() + 2), First: rng.IntN(2) == 0,
		}
		var want []byte
		wantMore := false
		for i := range msgs {
			if msgs[i].Offset < o.From || msgs[i].Offset >= o.To {
				continue
			}
			frame := framesOf(msgs[i:i+1], magic)
			if len(want)+len(frame) > o.Limit && (len(want) > 0 || !o.First) {
				wantMore = true
				break
			}
			want = append(want, frame...)
		}
		set, more, err := e.AppendSet(nil, o)
		require.NoError(t, err)
		require.Equal(t, want, append([]byte(nil), set...), "%+v", o)
		require.Equal(t, wantMore, more, "%+v", o)
	}
}

func TestAppendSetCountsOnlyItsOwnGrowth(t *testing.T) {
	key, value := sealPlain([]codec.Message{{Value: []byte("v")}}, codec.PlainOptions{Magic: 1}, 0, codec.Stamp{})
	e := parse(t, key, value)
	o := codec.SetOptions{To: 1, Magic: 1, Limit: e.WireSize()}
	dst := make([]byte, 100)
	set, more, err := e.AppendSet(dst, o)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, set, 100+e.WireSize())

	o.Limit--
	set, more, err = e.AppendSet(dst, o)
	require.NoError(t, err)
	require.True(t, more)
	require.Len(t, set, 100)

	o.Limit = -1
	o.First = true
	set, more, err = e.AppendSet(dst, o)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, set, 100+e.WireSize())
}

// SPEC 1.5.29-30: a wrapper is whole or absent, by its last offset.
func TestAppendSetKeepsWrappersWhole(t *testing.T) {
	msgs := offsets(benchMessages(5, 100)) // offsets 0 to 4
	f, e := buildStored(t, codec.LZ4, 1, msgs, codec.Stamp{Timestamp: fixtureTime, LogAppend: true})
	f.Timestamp, f.TimestampType = fixtureTime, codec.LogAppendTime
	frame := codec.AppendFrame(nil, &f)
	size := len(frame)
	for _, c := range []struct {
		name      string
		o         codec.SetOptions
		set, more bool
	}{
		{"all", codec.SetOptions{From: 0, To: 5, Limit: size}, true, false},
		{"read inside", codec.SetOptions{From: 4, To: 5, Limit: size}, true, false},
		{"read behind", codec.SetOptions{From: 5, To: 9, Limit: size}, false, false},
		{"high watermark inside", codec.SetOptions{From: 0, To: 4, Limit: size, First: true}, false, false},
		{"too large", codec.SetOptions{From: 0, To: 5, Limit: size - 1}, false, true},
		{"too large but first", codec.SetOptions{From: 0, To: 5, Limit: size - 1, First: true}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Magic = 1
			set, more, err := e.AppendSet(nil, c.o)
			require.NoError(t, err)
			require.Equal(t, c.more, more)
			if c.set {
				require.Equal(t, frame, set)
			} else {
				require.Empty(t, set)
			}
		})
	}
}

// SPEC 1.6.34-35: timestamps go, offsets become absolute, the codec stays.
func TestWrapperIsConvertedDown(t *testing.T) {
	rng := randomSource(t)
	for _, c := range compressions {
		msgs := someMessages(rng, 1000, false)
		_, e := buildStored(t, c, 1, msgs, codec.Stamp{Timestamp: fixtureTime})
		o := everything
		o.Magic = 0
		set, more, err := e.AppendSet(nil, o)
		require.NoError(t, err)
		require.False(t, more)

		f, n, err := codec.ReadFrame(set)
		require.NoError(t, err)
		require.Len(t, set, n)
		require.Zero(t, f.Magic)
		require.Equal(t, c, f.Compression)
		require.Equal(t, e.Last, f.Offset)
		i := 0
		for m, err := range codec.Messages(set) {
			require.NoError(t, err)
			want := msgs[i]
			want.Timestamp, want.TimestampType = codec.NoTimestamp, codec.NoTimestampType
			require.Equal(t, want, m)
			i++
		}
		require.Equal(t, len(msgs), i)
	}
}

// SPEC 1.6.36: a stored v0 wrapper goes out byte for byte, to every reader.
func TestMagic0WrapperIsNotConverted(t *testing.T) {
	msgs := someMessages(randomSource(t), 1000, true)
	f, e := buildStored(t, codec.LZ4, 0, msgs, codec.Stamp{})
	for magic := range int8(2) {
		o := everything
		o.Magic = magic
		set, _, err := e.AppendSet(nil, o)
		require.NoError(t, err)
		require.Equal(t, codec.AppendFrame(nil, &f), set)
	}
}

func TestAppendSetOfDamageEndsWithWholeFrames(t *testing.T) {
	body := append(uvarints(2, 3, 0, 0, 0, 2), 'a') // one message of value "a"
	body = append(body, uvarints(0, 0, 99)...)      // one whose value is not there
	key, value := sealBody(1, 0, 0, append(body, "bb"...), 9)
	e := parse(t, key, value)
	set, _, err := e.AppendSet(nil, everything)
	require.ErrorIs(t, err, codec.ErrDamaged)
	size, err := codec.FrameSize(set)
	require.NoError(t, err)
	require.Len(t, set, size)
}

func TestAppendSetDoesNotAllocate(t *testing.T) {
	key, value := benchEntry(benchMessages(100, 100))
	plain := parse(t, key, value)
	_, wrapper := buildStored(t, codec.Snappy, 1, offsets(benchMessages(100, 100)), codec.Stamp{})
	for _, e := range []codec.Entry{plain, wrapper} {
		var c codec.Cursor
		set := make([]byte, 0, 2*e.WireSize())
		o := everything
		o.Scratch = &c
		allocs := testing.AllocsPerRun(100, func() {
			var err error
			if set, _, err = e.AppendSet(set[:0], o); err != nil {
				panic(err)
			}
		})
		require.Zero(t, allocs, e.Kind)
	}
}
