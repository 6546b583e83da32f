package engine_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

var (
	logAppend = engine.TopicConfig{TimestampType: codec.LogAppendTime}
	within1s  = engine.TopicConfig{MaxTimestampDifference: ms(1000)}
)

// S1: a user may set the timestamp when producing.
func TestS1TimestampOfTheUserIsStored(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	_, err := p.Append(t.Context(), codec.Message{Timestamp: t0, Key: []byte("k"), Value: []byte("v")})
	require.NoError(t, err)
	require.Equal(t, entries(t, 0, goldenA), fetchAll(t, p, 0))
}

// S1, SPEC 2.2.9: an append without a timestamp takes the clock.
func TestS1TimestampIsTheClockWhereTheUserGivesNone(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	s.clock.set(t0 + 3)
	r, err := p.Append(t.Context(), codec.Message{Key: []byte("k"), Value: []byte("v")})
	require.NoError(t, err)
	require.Equal(t, engine.Receipt{Offset: 0, Count: 1, Timestamp: t0 + 3, LogAppendTime: none}, r)
	m := readAll(t, p, 0)[0]
	require.Equal(t, t0+3, m.Timestamp)
	require.Equal(t, codec.CreateTime, m.TimestampType)
}

// S2: the leader replaces the timestamp by its clock under LogAppendTime.
func TestS2LogAppendTimeReplacesTheTimestamp(t *testing.T) {
	s := newStore(t)
	p := s.log(logAppend)
	s.clock.set(t0 + 5)
	produce(t, p, entries(t, 0, goldenA))
	require.Equal(t, entries(t, 0, goldenD), fetchAll(t, p, 0))
	m := readAll(t, p, 0)[0]
	require.Equal(t, t0+5, m.Timestamp)
	require.Equal(t, codec.LogAppendTime, m.TimestampType)
}

// appendedW is W appended on a LogAppendTime topic at T+99: S3 and what follows
// from it.
func appendedW(t *testing.T, config engine.TopicConfig) (*store, *engine.Partition) {
	t.Helper()
	s := newStore(t)
	config.TimestampType = codec.LogAppendTime
	p := s.log(config)
	s.clock.set(t0 + 99)
	produce(t, p, entries(t, 0, goldenW))
	return s, p
}

// S3: the wrapper's timestamp becomes the server's time.
func TestS3WrapperTimestampIsTheClock(t *testing.T) {
	_, p := appendedW(t, engine.TopicConfig{})
	f, _, err := codec.ReadFrame(fetchAll(t, p, 0))
	require.NoError(t, err)
	require.Equal(t, t0+99, f.Timestamp)
}

// S4 is of the superseded revision: inner timestamps other than -1 are no reason
// to refuse.
func TestS4InnerTimestampsAreNotRequiredToBeNone(t *testing.T) {
	_, p := appendedW(t, engine.TopicConfig{})
	require.EqualValues(t, 3, end(t, p))
}

// S5: the wrapper's timestamp-type bit becomes 1.
func TestS5WrapperBitIsSet(t *testing.T) {
	_, p := appendedW(t, engine.TopicConfig{})
	require.Equal(t, entries(t, 0, goldenWAppend), fetchAll(t, p, 0))
}

// S6: inner timestamps are ignored, however far from the clock.
func TestS6InnerTimestampsAreIgnored(t *testing.T) {
	appendedW(t, engine.TopicConfig{MaxTimestampDifference: 1})
}

// S6, SPEC 2.3.18: inner timestamps are not validated, negative ones neither.
func TestS6NegativeInnerTimestampsAreIgnored(t *testing.T) {
	s := newStore(t)
	p := s.log(logAppend)
	r, err := p.Produce(t.Context(), gzipFrame(t, -5, t0))
	require.NoError(t, err)
	require.Equal(t, t0, r.LogAppendTime)
	require.Equal(t, []codec.Timestamp{t0, t0}, timestampsOf(readAll(t, p, 0)))
}

// S7 is of the superseded revision: nothing is overwritten inside the wrapper.
func TestS7PayloadIsNotRecompressed(t *testing.T) {
	s, p := appendedW(t, engine.TopicConfig{})
	f, _, err := codec.ReadFrame(fetchAll(t, p, 0))
	require.NoError(t, err)
	require.Equal(t, unhex(t, goldenPayload), f.Value)
	require.Zero(t, s.Recompressions())
}

// S8: LogAppendTime has no recompression penalty.
func TestS8ThousandWrappersAreNeverRecompressed(t *testing.T) {
	s := newStore(t)
	p := s.log(logAppend)
	set := entries(t, 0, goldenW)
	for range 1000 {
		produce(t, p, set)
	}
	require.Zero(t, s.Recompressions())
	require.EqualValues(t, 3000, end(t, p))
}

// S9: uncompressed messages of a set all get the clock.
func TestS9UncompressedTimestampsAreOverwritten(t *testing.T) {
	s := newStore(t)
	p := s.log(logAppend)
	s.clock.set(t0 + 5)
	produce(t, p, append(entry(t, 0, goldenA), entry(t, 0, goldenA)...))
	require.Equal(t, entries(t, 0, goldenD, goldenD), fetchAll(t, p, 0))
}

// S10: a CreateTime within the difference is accepted, both ends included.
func TestS10DifferenceIsInclusive(t *testing.T) {
	s := newStore(t)
	p := s.log(within1s)
	produce(t, p, plainFrame(t0-1000))
	produce(t, p, plainFrame(t0+1000))
	require.Equal(t, []codec.Timestamp{t0 - 1000, t0 + 1000}, timestampsOf(readAll(t, p, 0)))
}

// S11: the wrapper's timestamp becomes the largest inner one, its offset the
// last message's; the payload stays.
func TestS11WrapperTimestampIsTheLargestInner(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	p.StartAt(t, 100)
	produce(t, p, entries(t, 0, goldenWZero))
	require.Equal(t, entries(t, 100, goldenW), fetchAll(t, p, 100))
	require.Zero(t, s.Recompressions())
}

// S12: one timestamp beyond the difference rejects the entire batch.
func TestS12OneBadTimestampRejectsTheWholeSet(t *testing.T) {
	s := newStore(t)
	p := s.log(within1s)
	refuse(t, p, plainFrames(t0, t0+1001), codec.CodeInvalidTimestamp)
	refuse(t, p, plainFrames(t0-1001, t0), codec.CodeInvalidTimestamp)
	require.Zero(t, end(t, p))
	require.Empty(t, indexRows(t, p))
	refuseMessages(t, p, engine.AppendOptions{}, codec.CodeInvalidTimestamp, records(t0, t0+1001)...)
}

// S12, SPEC 2.2.15: of a compressed set every inner timestamp counts, and the
// wrapper's own does not.
func TestS12OneBadInnerTimestampRejectsTheWholeSet(t *testing.T) {
	s := newStore(t)
	p := s.log(within1s)
	refuse(t, p, gzipFrame(t, t0, t0+1001), codec.CodeInvalidTimestamp)
	refuse(t, p, append(plainFrame(t0), gzipFrame(t, t0-1001)...), codec.CodeInvalidTimestamp)
	refuseMessages(t, p, engine.AppendOptions{Compression: codec.LZ4}, codec.CodeInvalidTimestamp, records(t0, t0+1001)...)
	produce(t, p, gzipFrame(t, t0, t0+1000)) // wrapper timestamp 0
}

// S13: the limit is configurable.
func TestS13LimitIsConfigurable(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{MaxTimestampDifference: ms(1001)})
	produce(t, p, plainFrames(t0, t0+1001))
	require.EqualValues(t, 2, end(t, p))
}

// S15: under CreateTime the wrapper's timestamp is always the largest inner one.
func TestS15WrapperTimestampIsAlwaysTheLargestInner(t *testing.T) {
	const seed = 15
	random := rand.New(rand.NewPCG(seed, 0))
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	for range 200 {
		timestamps := make([]codec.Timestamp, 1+random.IntN(8))
		want := none
		for i := range timestamps {
			timestamps[i] = codec.Timestamp(random.Int64N(40) - 1)
			want = max(want, timestamps[i])
		}
		r := produce(t, p, gzipFrame(t, timestamps...))
		f, _, err := codec.ReadFrame(fetchAll(t, p, r.Offset))
		require.NoError(t, err)
		require.Equal(t, want, f.Timestamp, "seed %d, inner %v", seed, timestamps)
		require.Equal(t, want, r.Timestamp)
	}
}

// S22: both settings are per topic.
func TestS22SettingsArePerTopic(t *testing.T) {
	s := newStore(t)
	a := s.named("a", logAppend)
	b := s.named("b", engine.TopicConfig{MaxTimestampDifference: ms(10)})
	s.clock.set(t0 + 500)
	produce(t, a, entries(t, 0, goldenA))
	require.Equal(t, []codec.Timestamp{t0 + 500}, timestampsOf(readAll(t, a, 0)))
	refuse(t, b, entries(t, 0, goldenA), codec.CodeInvalidTimestamp)
}

// S36: CreateTime timestamps may go backwards; the index keeps the largest.
func TestS36TimestampsMayGoBackwards(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	require.EqualValues(t, 0, lead(t, p, t0))
	require.EqualValues(t, 1, lead(t, p, t0-5))
	require.Equal(t, []codec.Timestamp{t0}, largest(t, p))
	require.NoError(t, p.Roll(t.Context()))
	require.Equal(t, []pair{{t0, 0}}, indexPairs(t, p))
}

// S38: the threshold bounds how far a stored timestamp is from its append clock.
func TestS38StoredTimestampsAreWithinTheThreshold(t *testing.T) {
	const seed = 38
	random := rand.New(rand.NewPCG(seed, 0))
	s := newStore(t)
	p := s.log(within1s)
	for i := range 300 {
		now := t0 + codec.Timestamp(random.Int64N(5000))
		ts := now + codec.Timestamp(random.Int64N(2400)-1200)
		s.clock.set(now)
		_, err := p.Append(t.Context(), at(ts))
		if ts-now > 1000 || now-ts > 1000 {
			requireCode(t, codec.CodeInvalidTimestamp, err)
		} else {
			require.NoError(t, err, "seed %d, append %d", seed, i)
		}
	}
}

// S39: without a threshold every non-negative timestamp is accepted, and no
// negative one but -1 (SPEC C18, 2.2.14).
func TestS39DefaultThresholdAcceptsEveryTimestamp(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	produce(t, p, plainFrame(0))
	produce(t, p, plainFrame(math.MaxInt64))
	for _, ts := range []codec.Timestamp{-2, math.MinInt64, math.MinInt64 + t0} {
		refuse(t, p, plainFrame(ts), codec.CodeInvalidTimestamp, ts)
		refuse(t, p, gzipFrame(t, t0, ts), codec.CodeInvalidTimestamp, ts)
		refuseMessages(t, p, engine.AppendOptions{}, codec.CodeInvalidTimestamp, at(ts))
	}
	require.Equal(t, []codec.Timestamp{0, math.MaxInt64}, timestampsOf(readAll(t, p, 0)))
}

// SPEC 2.2.14: the difference does not overflow under a threshold.
func TestThresholdDoesNotOverflow(t *testing.T) {
	s := newStore(t)
	p := s.log(within1s)
	for _, ts := range []codec.Timestamp{math.MinInt64 + t0, math.MinInt64, math.MaxInt64, 0} {
		refuse(t, p, plainFrame(ts), codec.CodeInvalidTimestamp, ts)
	}
}

// SPEC 2.2.12: a threshold of 0 accepts the clock alone, and no timestamp.
func TestThresholdZeroAcceptsOnlyTheClock(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{MaxTimestampDifference: 1}) // 0 ms
	produce(t, p, plainFrame(t0))
	produce(t, p, plainFrame(none))
	refuse(t, p, plainFrame(t0+1), codec.CodeInvalidTimestamp)
	refuse(t, p, plainFrame(t0-1), codec.CodeInvalidTimestamp)
}

// S40: a threshold does not apply to messages without a timestamp (SPEC C17).
func TestS40NoTimestampIsExemptFromTheThreshold(t *testing.T) {
	s := newStore(t)
	p := s.log(within1s)
	produce(t, p, plainFrame(none))
	produce(t, p, gzipFrame(t, none, none))
	require.Equal(t, []codec.Timestamp{none, none, none}, timestampsOf(readAll(t, p, 0)))
}

// S41: LogAppendTime topics carry the log append time, of v0 input too.
func TestS41V0InputGetsTheLogAppendTime(t *testing.T) {
	s := newStore(t)
	p := s.log(logAppend)
	s.clock.set(t0 + 5)
	produce(t, p, entries(t, 0, goldenC))
	require.Equal(t, entries(t, 0, goldenD), fetchAll(t, p, 0))
	m := readAll(t, p, 0)[0]
	require.Equal(t, codec.LogAppendTime, m.TimestampType)
}

// S50: wrappers with relative offsets are never recompressed.
func TestS50HundredWrappersKeepTheirPayload(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	var want []byte
	for i := range int64(100) {
		produce(t, p, entries(t, 0, goldenW))
		want = append(want, entry(t, 3*i+2, goldenW)...)
	}
	require.Equal(t, want, fetchAll(t, p, 0))
	require.Zero(t, s.Recompressions())
}
