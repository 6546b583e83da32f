package codec_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

// fixtureTime is the T of the fixtures (SPEC 0.2).
const fixtureTime codec.Timestamp = 1_500_000_000_000

var fixturePartition = keys.Partition{Topic: 7, Number: 3}

// randomSource returns a source of randomness whose seed a failing test prints.
func randomSource(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func logKey(last int64) []byte { return keys.AppendLog(nil, fixturePartition, last) }

// sealPlain returns key and value of a plain entry of msgs whose last offset is
// last.
func sealPlain(msgs []codec.Message, o codec.PlainOptions, last int64, s codec.Stamp) (key, value []byte) {
	key = logKey(last)
	value = codec.AppendPlain(nil, msgs, o)
	codec.Seal(key, value, s)
	return key, value
}

func sealWrapper(w codec.StoredWrapper, last int64, s codec.Stamp) (key, value []byte) {
	key = logKey(last)
	value = codec.AppendStoredWrapper(nil, w)
	codec.Seal(key, value, s)
	return key, value
}

// sealBody returns an entry with any header and body and a right checksum: what
// a checksum cannot protect from. With attribute bit 6 the first bytes of the body
// are the delete horizon.
func sealBody(kind, attributes byte, ts codec.Timestamp, body []byte, last int64) (key, value []byte) {
	key = logKey(last)
	value = append([]byte{kind, attributes}, make([]byte, 16)...)
	binary.BigEndian.PutUint64(value[2:], uint64(ts))
	if attributes&0x40 != 0 && len(body) >= 8 {
		value, body = append(value, body[:8]...), body[8:]
	}
	sum := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
	sum = crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), value)
	sum = crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), key)
	return key, binary.BigEndian.AppendUint32(append(value, body...), sum)
}

func uvarints(values ...uint64) (b []byte) {
	for _, v := range values {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

func parse(t testing.TB, key, value []byte) codec.Entry {
	t.Helper()
	e, err := codec.ParseEntry(key, value)
	require.NoError(t, err)
	return e
}

// messagesOf returns copies of the messages of e.
func messagesOf(e *codec.Entry) ([]codec.Message, error) {
	var c codec.Cursor
	if err := c.Reset(e); err != nil {
		return nil, err
	}
	return drain(&c)
}

func drain(c *codec.Cursor) (msgs []codec.Message, err error) {
	var m codec.Message
	for c.Next(&m) {
		m.Key, m.Value, m.Tags = bytes.Clone(m.Key), bytes.Clone(m.Value), bytes.Clone(m.Tags)
		msgs = append(msgs, m)
	}
	return msgs, c.Err()
}

// maxOf is SPEC 2.7 for plain messages of CreateTime, in the words of the spec.
func maxOf(msgs []codec.Message) (codec.Timestamp, int64) {
	ts, offset := codec.NoTimestamp, int64(-1)
	for _, m := range msgs {
		if m.Timestamp > ts {
			ts, offset = m.Timestamp, m.Offset
		}
	}
	return ts, offset
}

func keyValueBytes(msgs []codec.Message) (n int) {
	for _, m := range msgs {
		n += len(m.Key) + len(m.Value)
	}
	return n
}

func randomField(rng *rand.Rand) []byte {
	switch rng.IntN(8) {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return bytes.Repeat([]byte{'x'}, 120+rng.IntN(20)) // around one byte of length
	case 3:
		return bytes.Repeat([]byte{'y'}, 16_370+rng.IntN(30)) // around two
	default:
		return bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(30))
	}
}

func randomTimestamp(rng *rand.Rand) codec.Timestamp {
	switch rng.IntN(6) {
	case 0:
		return []codec.Timestamp{-1, 0, 1, math.MaxInt64, math.MinInt64, -2}[rng.IntN(6)]
	case 1:
		return codec.Timestamp(rng.Uint64())
	default:
		return fixtureTime + codec.Timestamp(rng.IntN(200)-100)
	}
}

// someMessages returns up to 20 messages from offset first on, dense or with
// gaps, as CreateTime.
func someMessages(rng *rand.Rand, first int64, dense bool) []codec.Message {
	msgs := make([]codec.Message, 1+rng.IntN(20))
	for i := range msgs {
		msgs[i] = codec.Message{
			Offset:        first,
			Timestamp:     randomTimestamp(rng),
			TimestampType: codec.CreateTime,
			Key:           randomField(rng),
			Value:         randomField(rng),
		}
		first++
		if !dense && rng.IntN(2) == 0 {
			first += int64(1) << rng.IntN(40)
		}
	}
	return msgs
}

func lastOffset(msgs []codec.Message) int64 { return msgs[len(msgs)-1].Offset }
