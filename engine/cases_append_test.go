package engine_test

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// Case V01: both ends of the window are inclusive, and a refused append takes no
// offset.
func TestV01WindowIsInclusiveAndRefusalTakesNoOffset(t *testing.T) {
	s := newStore(t)
	p := s.log(within1s)
	require.EqualValues(t, 0, lead(t, p, t0-1000))
	require.EqualValues(t, 1, lead(t, p, t0+1000))
	refuseMessages(t, p, engine.AppendOptions{}, codec.CodeInvalidTimestamp, at(t0-1001))
	refuseMessages(t, p, engine.AppendOptions{}, codec.CodeInvalidTimestamp, at(t0+1001))
	require.EqualValues(t, 2, lead(t, p, t0))
	require.EqualValues(t, 3, end(t, p))
}

// Case V02: nothing of a refused set leaks into data, index or segment.
func TestV02RefusedSetLeavesNothing(t *testing.T) {
	s := newStore(t)
	p := s.log(within1s)
	refuseMessages(t, p, engine.AppendOptions{}, codec.CodeInvalidTimestamp, records(t0, t0-5000, t0+1)...)
	require.Zero(t, end(t, p))
	requireSearch(t, p, answer{0, none, notFound})
	require.EqualValues(t, 0, lead(t, p, t0+7))
	requireSearch(t, p, answer{0, t0 + 7, 0})
	require.Equal(t, []codec.Timestamp{t0 + 7}, largest(t, p))
}

// Case V04: a message without a timestamp is exempt from the window and is
// never the answer of a search.
func TestV04NoTimestampIsExemptAndNeverFound(t *testing.T) {
	for name, config := range map[string]engine.TopicConfig{"1000 ms": within1s, "unlimited": {}} {
		t.Run(name, func(t *testing.T) {
			searchLog(t, config, func(t *testing.T, _ *store, p *engine.Partition) {
				leadEach(t, p, none, t0)
				require.Equal(t, []codec.Timestamp{none, t0}, timestampsOf(readAll(t, p, 0)))
				pos, err := p.ListOffset(t.Context(), -1, engine.ListOptions{})
				require.NoError(t, err)
				require.EqualValues(t, 2, pos.Offset, "-1 is the sentinel")
			}, answer{0, t0, 1}, answer{-1, t0, 1})
		})
	}
}

// Case V05: LogAppendTime overrides whatever came, the window does not apply and
// the first of the equal timestamps is found.
func TestV05LogAppendTimeOverridesEverything(t *testing.T) {
	config := within1s
	config.TimestampType = codec.LogAppendTime
	searchLog(t, config, func(t *testing.T, _ *store, p *engine.Partition) {
		produce(t, p, plainFrames(5, none, t0+1_000_000_000_000))
		var n int
		for m, err := range codec.Messages(fetchAll(t, p, 0)) { // checks the CRCs
			require.NoError(t, err)
			require.Equal(t, t0, m.Timestamp)
			require.Equal(t, codec.LogAppendTime, m.TimestampType)
			n++
		}
		require.Equal(t, 3, n)
	}, answer{t0, t0, 0}, answer{t0 + 1, none, notFound})
}

// Case V06: the timestamp-type bit of a producer is refused under both types; on
// an inner message it is ignored.
func TestV06TypeBitOfAProducer(t *testing.T) {
	set := frame(codec.Frame{Magic: 1, TimestampType: codec.LogAppendTime, Timestamp: t0, Value: []byte("v")})
	for name, config := range map[string]engine.TopicConfig{"CreateTime": {}, "LogAppendTime": logAppend} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			p := s.log(config)
			refuse(t, p, set, codec.CodeInvalidTimestamp)
			noTime := frame(codec.Frame{Magic: 1, TimestampType: codec.LogAppendTime, Timestamp: none, Value: []byte("v")})
			refuse(t, p, noTime, codec.CodeInvalidTimestamp)
		})
	}
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	wrapper := wrap(t, codec.Gzip, set)
	produce(t, p, wrapper)
	m := readAll(t, p, 0)[0]
	require.Equal(t, t0, m.Timestamp)
	require.Equal(t, codec.CreateTime, m.TimestampType)
}

// Case V07: on a compacted topic a null key is refused, inside a wrapper too; an
// empty key and a tombstone are not.
func TestV07NullKeysOnACompactedTopic(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{CleanupPolicy: engine.CleanupCompact})
	keyed := codec.Message{Timestamp: t0, Key: []byte("k"), Value: []byte("v")}
	keyless := codec.Message{Timestamp: t0, Value: []byte("v")}
	for _, c := range []codec.Compression{codec.None, codec.Gzip} {
		refuseMessages(t, p, engine.AppendOptions{Compression: c}, codec.CodeCorruptMessage, keyed, keyless)
	}
	inner := plainFrame(t0)
	nullKey := frame(codec.Frame{Offset: 1, Magic: 1, TimestampType: codec.CreateTime, Timestamp: t0, Value: []byte("v")})
	refuse(t, p, append(inner, nullKey...), codec.CodeCorruptMessage)
	refuse(t, p, wrap(t, codec.Gzip, append(inner, nullKey...)), codec.CodeCorruptMessage)
	require.Zero(t, end(t, p))

	r, err := p.Append(t.Context(), codec.Message{Timestamp: t0, Key: []byte{}, Value: []byte("v")})
	require.NoError(t, err)
	require.EqualValues(t, 0, r.Offset)
	r, err = p.Append(t.Context(), codec.Message{Timestamp: t0, Key: []byte("k")})
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Offset)
	msgs := readAll(t, p, 0)
	require.NotNil(t, msgs[0].Key)
	require.Nil(t, msgs[1].Value)
}

// SPEC 2.4.24: a null value without a key is legal where nothing is compacted.
func TestNullValueWithoutKeyIsLegal(t *testing.T) {
	s := newStore(t)
	produce(t, s.log(engine.TopicConfig{}), entry(t, 0, goldenB))
}

// Case V08: the message limit counts one frame with its 12 bytes, not the set.
func TestV08MessageLimitIsPerFrame(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{MaxMessageBytes: 100, SegmentBytes: 1000})
	lead(t, p, t0)
	refuseMessages(t, p, engine.AppendOptions{}, codec.CodeMessageTooLarge, sized(t0, 101))
	lead(t, p, t0, t0)
	m := sized(t0, 101)
	refuse(t, p, codec.AppendMessageFrame(nil, &m, 1), codec.CodeMessageTooLarge)
	m = sized(t0, 100)
	produce(t, p, codec.AppendMessageFrame(nil, &m, 1))
	require.EqualValues(t, 4, end(t, p))
}

// SPEC 2.1.6: the limit holds for the converted frame too.
func TestV08LimitHoldsAfterConversion(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{MaxMessageBytes: 100})
	m := sized(none, 101)
	refuse(t, p, codec.AppendMessageFrame(nil, &m, 0), codec.CodeMessageTooLarge) // 93 bytes in v0
}

// Case V09: a set that fits no segment is refused, and nothing rolls.
func TestV09SetLargerThanASegment(t *testing.T) {
	s := newStore(t)
	small := s.named("small", engine.TopicConfig{SegmentBytes: 199})
	refuseMessages(t, small, engine.AppendOptions{}, codec.CodeRecordListTooLarge, records(t0, t0)...)
	require.Zero(t, end(t, small))
	lead(t, small, t0)
	refuseMessages(t, small, engine.AppendOptions{}, codec.CodeRecordListTooLarge, records(t0, t0)...)
	require.Equal(t, []int64{0}, bases(t, small))

	exact := s.named("exact", engine.TopicConfig{SegmentBytes: 200})
	lead(t, exact, t0, t0)
	require.Equal(t, []int64{0}, bases(t, exact))
	require.Equal(t, []int64{200}, segmentSizes(t, exact))
}

// producedV10 is the wrapper of case V10, its timestamp a producer's lie.
const producedV10 = "000000000000000200000063088d6f7d01010000000000000000ffffffff0000004d1f8b08000000000000ff636080038979dddf273102198cb176dfa7ff073112418421541e2425a161ce3e17a66606989104228ca06a98406a421f59e7c1d580752683086300f2aaef806c000000"

// Case V10: the stored wrapper's timestamp is the largest inner one, and a search
// answers with the inner message.
func TestV10CompressedCreateTime(t *testing.T) {
	set := unhex(t, producedV10)
	searchLog(t, within1s, func(t *testing.T, s *store, p *engine.Partition) {
		p.StartAt(t, 10)
		produce(t, p, set)
		stored := fetchAll(t, p, 10)
		require.Equal(t, "000000000000000c00000063a4bbf91b01010000015d3ef79801", hex.EncodeToString(stored[:26]))
		require.Equal(t, set[26:], stored[26:])
		require.EqualValues(t, 13, end(t, p))
		require.Zero(t, s.Recompressions())
	}, answer{t0, t0 + 1, 11}, answer{t0 + 1, t0 + 1, 11}, answer{t0 + 2, none, notFound}, answer{t0 - 1, t0 - 1, 10})
}

// Case V13: under LogAppendTime the payload stays and its timestamps are
// overridden on read.
func TestV13CompressedLogAppendTime(t *testing.T) {
	set := unhex(t, producedV10)
	searchLog(t, logAppend, func(t *testing.T, s *store, p *engine.Partition) {
		p.StartAt(t, 10)
		s.clock.set(t0 + 777)
		produce(t, p, set)
		stored := fetchAll(t, p, 10)
		require.Equal(t, "000000000000000c00000063107b074201090000015d3ef79b09", hex.EncodeToString(stored[:26]))
		require.Equal(t, set[26:], stored[26:])
		require.Equal(t, []codec.Timestamp{t0 + 777, t0 + 777, t0 + 777}, timestampsOf(readAll(t, p, 10)))
		require.Zero(t, s.Recompressions())
	}, answer{t0 + 777, t0 + 777, 10}, answer{t0 + 778, none, notFound})
}

// Case V14, SPEC 7.2.12: an empty set succeeds and does nothing.
func TestV14EmptySetDoesNothing(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{SegmentAge: ms(int64(hour))})
	lead(t, p, t0)
	s.clock.add(10 * hour)
	was := stateOf(t, p)
	empty := engine.Receipt{Offset: -1, Timestamp: none, LogAppendTime: none}
	for name, do := range map[string]func() (engine.Receipt, error){
		"no messages":  func() (engine.Receipt, error) { return p.Append(t.Context()) },
		"nil set":      func() (engine.Receipt, error) { return p.Produce(t.Context(), nil) },
		"zero bytes":   func() (engine.Receipt, error) { return p.Produce(t.Context(), []byte{}) },
		"nil messages": func() (engine.Receipt, error) { return p.AppendSet(t.Context(), nil, engine.AppendOptions{}) },
		"empty, gzip": func() (engine.Receipt, error) {
			return p.AppendSet(t.Context(), nil, engine.AppendOptions{Compression: codec.Gzip})
		},
		"empty, submit": func() (engine.Receipt, error) { return submitted(t, p) },
	} {
		r, err := do()
		require.NoError(t, err, name)
		require.Equal(t, empty, r, name)
		require.Equal(t, was, stateOf(t, p), name)
	}
}

func submitted(t *testing.T, p *engine.Partition, msgs ...codec.Message) (engine.Receipt, error) {
	t.Helper()
	pending, err := p.Submit(t.Context(), msgs, engine.AppendOptions{})
	require.NoError(t, err)
	return pending.Wait(t.Context())
}

// typesChanged is the log of case V17: its topic's type changes under it.
func typesChanged(t *testing.T, config engine.TopicConfig) *store {
	t.Helper()
	s := newStore(t)
	p := s.log(config)
	for i, ts := range []codec.Timestamp{1, 5, 2, 7} {
		config := engine.TopicConfig{}
		if i%2 == 0 {
			config = logAppend
		}
		s.alter(config)
		s.clock.set(t0 + 5*codec.Timestamp(i))
		lead(t, p, ts)
	}
	return s
}

// Case V17: the timestamp type may change on a live topic; messages keep theirs,
// over a reopen too.
func TestV17TimestampTypeMayChange(t *testing.T) {
	s := typesChanged(t, engine.TopicConfig{})
	for range 2 {
		msgs := readAll(t, s.log(engine.TopicConfig{}), 0)
		require.Equal(t, []codec.Timestamp{t0, 5, t0 + 10, 7}, timestampsOf(msgs))
		for i, want := range []codec.TimestampType{codec.LogAppendTime, codec.CreateTime, codec.LogAppendTime, codec.CreateTime} {
			require.Equal(t, want, msgs[i].TimestampType)
		}
		s.reopen()
	}
}

// Case V17: a search crosses the types.
func TestV17SearchAcrossTimestampTypes(t *testing.T) {
	eachInterval(t, engine.TopicConfig{}, func(t *testing.T, config engine.TopicConfig) {
		s := typesChanged(t, config)
		for range 2 {
			requireSearch(t, s.log(config), answer{0, t0, 0}, answer{6, t0, 0}, answer{t0 + 1, t0 + 10, 2})
			s.reopen()
		}
	})
}
