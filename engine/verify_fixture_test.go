package engine_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// breakable is a store of one log of three segments, [0, 10), [10, 20) and [20, 29), an
// entry and nearly everywhere an index row for each message, that begins at 2.
type breakable struct {
	*store
	p  *engine.Partition
	id keys.Partition
}

func newBreakable(t *testing.T) *breakable {
	t.Helper()
	s := newStore(t)
	p := s.log(engine.TopicConfig{
		SegmentBytes: 1000, IndexIntervalBytes: engine.ExplicitZero, Retention: retention.Policy{MaxAge: ms(int64(hour))},
	})
	for i := range codec.Timestamp(28) {
		ts := t0 + 10*i
		if i%3 == 2 {
			ts -= 25 // out of order: no row
		}
		lead(t, p, ts)
	}
	_, err := p.AppendSet(t.Context(), records(t0+500), engine.AppendOptions{Producer: "worker"})
	require.NoError(t, err)
	require.NoError(t, s.Group("readers").Commit(t.Context(), p, 7, ""))
	_, err = p.DeleteBefore(t.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, []int64{0, 10, 20}, bases(t, p))
	return &breakable{s, p, p.TestKeys()}
}

// breach breaks one invariant.
type breach struct {
	name string
	// do breaks it in the Pebble store underneath.
	do   func(t *testing.T, b *breakable, pdb *pebble.DB)
	want []engine.Finding // without details
	// lossy: to mend it something must be removed; lost are the offsets that cannot be
	// read any more then.
	lossy bool
	lost  []int64
}

// found is what is found of the log.
func found(offset int64, kind engine.FindingKind) []engine.Finding {
	return []engine.Finding{{Topic: "t", Offset: offset, Kind: kind}}
}

func set(t *testing.T, pdb *pebble.DB, key, value []byte) {
	t.Helper()
	require.NoError(t, pdb.Set(key, value, pebble.Sync))
}

// unset deletes a row that is there.
func unset(t *testing.T, pdb *pebble.DB, key []byte) {
	t.Helper()
	row(t, pdb, key)
	require.NoError(t, pdb.Delete(key, pebble.Sync))
}

func row(t *testing.T, pdb *pebble.DB, key []byte) []byte {
	t.Helper()
	value, closer, err := pdb.Get(key)
	require.NoError(t, err, "%x", key)
	defer func() { require.NoError(t, closer.Close()) }()
	return bytes.Clone(value)
}

// flip damages a value.
func flip(t *testing.T, pdb *pebble.DB, key []byte) {
	t.Helper()
	value := row(t, pdb, key)
	value[len(value)/2] ^= 0x10
	set(t, pdb, key, value)
}

// reseg changes a segment's row.
func (b *breakable) reseg(t *testing.T, pdb *pebble.DB, base int64, change func(s *retention.Segment)) {
	t.Helper()
	key := keys.AppendSegment(nil, b.id, base)
	s, err := retention.DecodeSegment(row(t, pdb, key))
	require.NoError(t, err)
	change(&s)
	set(t, pdb, key, retention.AppendSegment(nil, s))
}

// rowKeysOf are the places of the index row of an offset.
func (b *breakable) rowKeysOf(t *testing.T, pdb *pebble.DB, offset int64) (companion, times []byte, r retention.IndexRow) {
	t.Helper()
	companion = keys.AppendLog(nil, b.id.Companion(), offset)
	r, err := codec.ParseIndexRow(companion, row(t, pdb, companion))
	require.NoError(t, err)
	return companion, keys.AppendTimestamp(nil, b.id, r.Base, int64(r.Timestamp)), r
}

// rerow changes an index row in both places.
func (b *breakable) rerow(t *testing.T, pdb *pebble.DB, offset int64, change func(r *retention.IndexRow)) {
	t.Helper()
	companion, times, r := b.rowKeysOf(t, pdb, offset)
	require.NoError(t, pdb.Delete(times, pebble.Sync))
	change(&r)
	times = keys.AppendTimestamp(nil, b.id, r.Base, int64(r.Timestamp))
	set(t, pdb, companion, codec.AppendIndexRow(nil, companion, r))
	set(t, pdb, times, codec.AppendTimestampRow(nil, times, r))
}

// entryOf is a sealed plain entry.
func (b *breakable) entryOf(first int64, timestamps ...codec.Timestamp) (key, value []byte) {
	msgs := records(timestamps...)
	for i := range msgs {
		msgs[i].Offset = first + int64(i)
	}
	key = keys.AppendLog(nil, b.id, first+int64(len(msgs))-1)
	value = codec.AppendPlain(nil, msgs, codec.PlainOptions{Magic: 1, Dense: true})
	codec.Seal(key, value, codec.Stamp{Timestamp: msgs[0].Timestamp, Clock: t0})
	return key, value
}

func (b *breakable) restate(t *testing.T, pdb *pebble.DB, field string, value any) {
	t.Helper()
	key := keys.AppendState(nil, b.id)
	var state map[string]any
	require.NoError(t, msgpack.Unmarshal(row(t, pdb, key), &state))
	state[field] = value
	changed, err := engine.EncodeRow(state)
	require.NoError(t, err)
	set(t, pdb, key, changed)
}

// deadTopic and deadPartition do not exist.
var deadTopic = keys.Partition{Topic: 99}

// offsetsBut are the offsets of the log without some.
func offsetsBut(lost ...int64) (list []int64) {
	gone := make(map[int64]bool)
	for _, o := range lost {
		gone[o] = true
	}
	for o := int64(2); o < 29; o++ {
		if !gone[o] {
			list = append(list, o)
		}
	}
	return list
}

func (b *breakable) deadPartition() keys.Partition {
	return keys.Partition{Topic: b.id.Topic, Number: 5}
}

func orphan(topic string, number int32) []engine.Finding {
	return []engine.Finding{{Topic: topic, Partition: number, Offset: -1, Kind: engine.OrphanRows}}
}

// msgpackOf encodes a row.
func msgpackOf(t *testing.T, v any) []byte {
	t.Helper()
	value, err := engine.EncodeRow(v)
	require.NoError(t, err)
	return value
}

// breaches are those of entries, segments and what cannot be rebuilt.
var breaches = []breach{
	{name: "a flipped bit of an entry", lossy: true, lost: []int64{12}, want: found(12, engine.DamagedEntry),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) { flip(t, pdb, logKey(b.id, 12)) }},
	{name: "a flipped bit of the last entry", lossy: true, lost: []int64{28}, want: found(28, engine.DamagedEntry),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) { flip(t, pdb, logKey(b.id, 28)) }},
	{name: "an entry that is not one", lossy: true, lost: []int64{5}, want: found(5, engine.DamagedEntry),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) { set(t, pdb, logKey(b.id, 5), []byte("?")) }},
	{name: "an entry that overlaps", lossy: true, lost: []int64{14}, want: found(14, engine.MisplacedEntry),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			key, value := b.entryOf(13, t0+130, t0+115)
			set(t, pdb, key, value)
		}},
	{name: "an entry below the log start", lossy: true, want: found(1, engine.MisplacedEntry),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			key, value := b.entryOf(1, t0+10)
			set(t, pdb, key, value)
		}},
	{name: "a missing entry", lossy: true, lost: []int64{13}, want: found(13, engine.MissingOffsets),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) { unset(t, pdb, logKey(b.id, 13)) }},
	{name: "the last entry of a segment is missing", lossy: true, lost: []int64{19}, want: found(19, engine.MissingOffsets),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) { unset(t, pdb, logKey(b.id, 19)) }},
	{name: "the last entry of the log is missing", lossy: true, lost: []int64{28}, want: found(28, engine.MissingOffsets),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) { unset(t, pdb, logKey(b.id, 28)) }},
	{name: "a key of no length", lossy: true, want: []engine.Finding{{Partition: -1, Offset: -1, Kind: engine.MalformedRow}},
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			set(t, pdb, append(logKey(b.id, 30), 0), []byte("x"))
		}},

	{name: "a producer that cannot be read", lossy: true, want: found(-1, engine.BadProducer),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			set(t, pdb, keys.AppendProducer(nil, b.id, "worker"), []byte{0xc1})
		}},
	{name: "a producer ahead of the log", lossy: true, want: found(-1, engine.BadProducer),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			set(t, pdb, keys.AppendProducer(nil, b.id, "other"), msgpackOf(t, map[string]any{"v": 1, "l": 0, "e": 40, "b": -1}))
		}},
	{name: "a consumer offset that cannot be read", lossy: true, want: found(-1, engine.BadConsumerOffset),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			set(t, pdb, keys.AppendOffset(nil, "readers", b.id), []byte{0xc1})
		}},
	{name: "a negative consumer offset", lossy: true, want: found(-1, engine.BadConsumerOffset),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			set(t, pdb, keys.AppendOffset(nil, "readers", b.id), msgpackOf(t, map[string]any{"v": 1, "o": -3, "t": 1}))
		}},

	{name: "a segment that counts too much", want: found(10, engine.BadSegment),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			b.reseg(t, pdb, 10, func(s *retention.Segment) { s.Messages++ })
		}},
	{name: "a segment that counts too little where its head is gone", want: found(0, engine.BadSegment),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			b.reseg(t, pdb, 0, func(s *retention.Segment) { s.Bytes = 700 })
		}},
	{name: "a segment with a smaller timestamp", want: found(20, engine.BadSegment),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			b.reseg(t, pdb, 20, func(s *retention.Segment) { s.FirstTimestamp-- })
		}},
	{name: "a segment row that cannot be read", want: found(10, engine.BadSegment),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			set(t, pdb, keys.AppendSegment(nil, b.id, 10), []byte{0xc1})
		}},
	{name: "the active segment's row cannot be read", want: found(20, engine.BadSegment),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			set(t, pdb, keys.AppendSegment(nil, b.id, 20), []byte{0xc1})
		}},
	{name: "the first segment has no row", want: found(0, engine.BadSegment),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) { unset(t, pdb, keys.AppendSegment(nil, b.id, 0)) }},
	{name: "a segment has no row", want: found(10, engine.BadSegment),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) { unset(t, pdb, keys.AppendSegment(nil, b.id, 10)) }},
	{name: "a segment that is not sealed", want: found(0, engine.BadSegment),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			b.reseg(t, pdb, 0, func(s *retention.Segment) { s.Sealed = false })
		}},
	{name: "a segment that a search skips the end of", want: found(20, engine.BadSegment),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			last := logKey(b.id, 28) // the newest message, at rest in no row
			value := row(t, pdb, last)
			b.reseg(t, pdb, 20, func(s *retention.Segment) {
				companion, times, r := b.rowKeysOf(t, pdb, 28)
				unset(t, pdb, companion)
				unset(t, pdb, times)
				s.IndexRows--
				s.IndexedTimestamp = t0 + 270
				require.Equal(t, t0+500, r.Timestamp)
			})
			set(t, pdb, last, value)
		}},

	{name: "the log ends behind its entries", want: found(33, engine.BadEnd),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			b.reseg(t, pdb, 20, func(s *retention.Segment) { s.End = 33 })
		}},
}

// rowBreaches are those of the index and of rows beside the log.
var rowBreaches = []breach{
	{name: "an index row is in the companion alone", want: found(13, engine.BadIndex),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			_, times, _ := b.rowKeysOf(t, pdb, 13)
			unset(t, pdb, times)
		}},
	{name: "an index row is not in the companion", want: found(13, engine.BadIndex),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			companion, _, _ := b.rowKeysOf(t, pdb, 13)
			unset(t, pdb, companion)
		}},
	{name: "an index row is missing", want: found(10, engine.BadIndex),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			companion, times, _ := b.rowKeysOf(t, pdb, 13)
			unset(t, pdb, companion)
			unset(t, pdb, times)
		}},
	{name: "an index row of the wrong timestamp", want: found(13, engine.BadIndex),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			b.rerow(t, pdb, 13, func(r *retention.IndexRow) { r.Timestamp++ })
		}},
	{name: "an index row that skips a message", want: found(25, engine.BadIndex),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			b.rerow(t, pdb, 25, func(r *retention.IndexRow) { r.ScanFrom = 26 })
		}},
	{name: "a damaged index row in the companion", want: found(16, engine.BadIndex),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			companion, _, _ := b.rowKeysOf(t, pdb, 16)
			flip(t, pdb, companion)
		}},
	{name: "a damaged index row by timestamp", want: found(10, engine.BadIndex),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			_, times, _ := b.rowKeysOf(t, pdb, 16)
			flip(t, pdb, times)
		}},
	{name: "an index row of no segment", want: found(15, engine.BadIndex),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			key := keys.AppendTimestamp(nil, b.id, 15, int64(t0))
			set(t, pdb, key, codec.AppendTimestampRow(nil, key, retention.IndexRow{Timestamp: t0, Offset: 15, Base: 15, ScanFrom: 15}))
		}},

	{name: "a state that cannot be read", want: found(-1, engine.BadState),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			set(t, pdb, keys.AppendState(nil, b.id), []byte{0xc1})
		}},
	{name: "a state with an epoch too many", want: found(-1, engine.BadState),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) { b.restate(t, pdb, "ep", 3) }},
	{name: "no alarm", want: found(-1, engine.BadAlarm),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			for _, key := range rowKeys(t, pdb, keys.DuesRange()) {
				unset(t, pdb, []byte(key))
			}
		}},
	{name: "a late alarm", want: found(-1, engine.BadAlarm),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			for _, key := range rowKeys(t, pdb, keys.DuesRange()) {
				unset(t, pdb, []byte(key))
			}
			set(t, pdb, keys.AppendDue(nil, int64(t0+3*hour), b.id), nil)
		}},
	{name: "rows of a topic that does not exist", want: orphan("", 0),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			set(t, pdb, keys.AppendSegment(nil, deadTopic, 0), retention.AppendSegment(nil, retention.NewSegment(0)))
		}},
	{name: "index rows of a partition that does not exist", want: orphan("t", 5),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			key := keys.AppendLog(nil, b.deadPartition().Companion(), 0)
			set(t, pdb, key, codec.AppendIndexRow(nil, key, retention.IndexRow{Timestamp: 1}))
		}},
	{name: "entries of a topic that does not exist", lossy: true, want: orphan("", 0),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			key := keys.AppendLog(nil, deadTopic, 3)
			set(t, pdb, key, row(t, pdb, logKey(b.id, 3)))
		}},
	{name: "a consumer offset of a topic that does not exist", want: orphan("", 0),
		do: func(t *testing.T, b *breakable, pdb *pebble.DB) {
			set(t, pdb, keys.AppendOffset(nil, "readers", deadTopic), row(t, pdb, keys.AppendOffset(nil, "readers", b.id)))
		}},
}

// epochRow is the value of a leader epoch's row.
func epochRow(start int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(start)) }
