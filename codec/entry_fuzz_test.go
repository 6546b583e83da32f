package codec_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

// FuzzParseEntry reads any bytes, as they are and under a right checksum, all
// the way to wire frames of both formats.
func FuzzParseEntry(f *testing.F) {
	for _, entry := range goldenEntries(f) {
		f.Add(entry.key, entry.value)
	}
	f.Add(logKey(0), []byte{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if _, err := codec.ParseEntry(key, value); err != nil {
			require.ErrorIs(t, err, codec.ErrDamaged)
		}
		if len(value) < codec.EntryOverhead {
			return
		}
		_, last, err := keys.DecodeLog(key)
		if err != nil {
			return
		}
		body := value[18 : len(value)-4]
		key, value = sealBody(value[0], value[1], codec.Timestamp(int8(value[2])), body, last)
		e, err := codec.ParseEntry(key, value)
		if err != nil {
			require.ErrorIs(t, err, codec.ErrDamaged)
			return
		}
		requireSound(t, &e)
	})
}

// requireSound checks what holds for every entry that parses, damaged or not.
func requireSound(t *testing.T, e *codec.Entry) {
	require.GreaterOrEqual(t, e.First, int64(-1))
	require.LessOrEqual(t, e.First, e.Last)
	require.LessOrEqual(t, e.MaxOffset, e.Last)
	require.GreaterOrEqual(t, e.WireSize(), 0)

	msgs, err := messagesOf(e)
	for _, m := range msgs {
		require.GreaterOrEqual(t, m.Offset, max(e.First, 0))
		require.LessOrEqual(t, m.Offset, e.Last)
	}
	if err != nil {
		require.ErrorIs(t, err, codec.ErrDamaged)
	} else if e.Count > 0 {
		require.Len(t, msgs, e.Count)
	}
	for magic := range int8(2) {
		o := everything
		o.Magic = magic
		set, _, setErr := e.AppendSet(nil, o)
		if setErr != nil {
			require.ErrorIs(t, setErr, codec.ErrDamaged)
		}
		for len(set) > 0 {
			n, err := codec.FrameSize(set)
			require.NoError(t, err)
			require.Positive(t, n)
			set = set[n:]
		}
	}
}

func FuzzPlainRoundTrip(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), int64(fixtureTime), int64(-1), uint16(0), int64(9), uint8(3))
	f.Add([]byte{}, bytes.Repeat([]byte{'v'}, 300), int64(-1<<63), int64(1<<63-1), uint16(500), int64(1<<40), uint8(7))
	f.Fuzz(func(t *testing.T, key, value []byte, first, second int64, gap uint16, offset int64, flags uint8) {
		if offset < 0 || offset > 1<<62 {
			return
		}
		msgs := []codec.Message{
			{Offset: offset, Timestamp: codec.Timestamp(first), Key: key, Value: value},
			{Offset: offset + 1 + int64(gap), Timestamp: codec.Timestamp(second), Value: key},
			{Offset: offset + 2 + 2*int64(gap), Timestamp: codec.Timestamp(first), Key: value},
		}[:1+int(flags>>2)%3]
		options := codec.PlainOptions{Magic: int8(flags & 1)}
		stamp := codec.Stamp{Timestamp: codec.Timestamp(first), Clock: codec.Timestamp(second), LogAppend: flags&2 != 0}
		k, v := sealPlain(msgs, options, lastOffset(msgs), stamp)
		require.Len(t, v, codec.PlainSize(msgs, options))
		e := parse(t, k, v)
		got, err := messagesOf(&e)
		require.NoError(t, err)
		for i := range msgs {
			switch {
			case options.Magic == 0:
				msgs[i].Timestamp, msgs[i].TimestampType = codec.NoTimestamp, codec.NoTimestampType
			case stamp.LogAppend:
				msgs[i].Timestamp, msgs[i].TimestampType = stamp.Timestamp, codec.LogAppendTime
			default:
				msgs[i].TimestampType = codec.CreateTime
			}
			require.Equal(t, msgs[i].Key == nil, got[i].Key == nil)
			require.Equal(t, msgs[i].Value == nil, got[i].Value == nil)
		}
		require.Equal(t, msgs, got)
		require.Equal(t, keyValueBytes(msgs), e.KeyValueBytes)
	})
}

func FuzzIndexRow(f *testing.F) {
	key := indexKey(17)
	f.Add(key, codec.AppendIndexRow(nil, key, codec.IndexRow{Timestamp: fixtureTime, Offset: 17, Base: 10, ScanFrom: 12}))
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		r, err := codec.ParseIndexRow(key, value)
		if err != nil {
			require.ErrorIs(t, err, codec.ErrDamaged)
			return
		}
		require.Equal(t, value, codec.AppendIndexRow(nil, key, r))
	})
}
