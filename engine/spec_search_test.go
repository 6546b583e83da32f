package engine_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// everyEntry gives the time index a row wherever one can be.
var everyEntry = engine.TopicConfig{IndexIntervalBytes: engine.ExplicitZero}

// S28: from the answer on, everything at or after the searched time is consumed.
func TestS28EverythingAfterTheTimeIsConsumed(t *testing.T) {
	searchLog(t, engine.TopicConfig{}, func(t *testing.T, _ *store, p *engine.Partition) {
		leadEach(t, p, t0+10, t0+30, t0+20, t0+40)
	}, answer{t0 + 15, t0 + 30, 1})
}

// S28 at random against a linear scan.
func TestS28AnswersEqualALinearScan(t *testing.T) {
	const seed = 28
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range 10 {
		s := newStore(t)
		config := engine.TopicConfig{IndexIntervalBytes: 1 + random.Int64N(300), SegmentBytes: 400 + random.Int64N(1000)}
		p := s.log(config)
		var log []codec.Timestamp
		for range 60 {
			ts := codec.Timestamp(random.Int64N(50))
			lead(t, p, ts)
			log = append(log, ts)
		}
		for q := range codec.Timestamp(52) {
			want := answer{q, none, notFound}
			for i, ts := range log {
				if ts >= q {
					want = answer{q, ts, int64(i)}
					break
				}
			}
			requireSearch(t, p, want)
		}
		if t.Failed() {
			t.Fatalf("seed %d, round %d, %+v, timestamps %v", seed, round, config, log)
		}
	}
}

// S29: older messages may follow the answer.
func TestS29OlderMessagesMayFollow(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	leadEach(t, p, t0+10, t0+30, t0+20, t0+40)
	pos, err := p.OffsetFor(t0 + 25)
	require.NoError(t, err)
	require.Equal(t, engine.Position{Offset: 1, Timestamp: t0 + 30, Found: true}, pos)
	require.Equal(t, []codec.Timestamp{t0 + 30, t0 + 20, t0 + 40}, timestampsOf(readAll(t, p, 1)))
}

// S59: there are timestamps in the messages and in the index.
func TestS59TimestampsAreInMessagesAndIndex(t *testing.T) {
	s := newStore(t)
	p := s.log(everyEntry)
	leadEach(t, p, t0+10, t0+30, t0+20, t0+40)
	require.Equal(t, []pair{{t0 + 10, 0}, {t0 + 30, 1}, {t0 + 40, 3}}, indexPairs(t, p))
	require.Equal(t, []codec.Timestamp{t0 + 10, t0 + 30, t0 + 20, t0 + 40}, timestampsOf(readAll(t, p, 0)))
}

// C10: of equal timestamps the row names the first, so a search finds it.
func TestC10SearchFindsTheFirstOfEqualTimestamps(t *testing.T) {
	searchLog(t, engine.TopicConfig{}, func(t *testing.T, _ *store, p *engine.Partition) {
		leadEach(t, p, t0, t0)
	}, answer{t0, t0, 0})
}

// C11 replay: the age of replayed messages does not roll.
func TestC11ReplayOfOldMessagesDoesNotRoll(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{SegmentAge: ms(1000)})
	const month = 30 * 24 * hour
	for i := range codec.Timestamp(100) {
		lead(t, p, t0-month+i)
	}
	require.Equal(t, []int64{0}, bases(t, p))
}

// C11 span: a set more than segment.ms newer than the first frame rolls.
func TestC11SpanRollsStrictlyBeyondSegmentAge(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{SegmentAge: ms(1000)})
	leadEach(t, p, t0, t0+1000)
	require.Equal(t, []int64{0}, bases(t, p))
	lead(t, p, t0+1001)
	require.Equal(t, []int64{0, 2}, bases(t, p))
}

// C11 steady: a steadily fed log rolls every segment.ms.
func TestC11SteadyFeedRolls(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{SegmentAge: ms(1000)})
	for i := range codec.Timestamp(44) {
		s.clock.set(t0 + 100*i)
		lead(t, p, t0+100*i)
	}
	require.Equal(t, []int64{0, 11, 22, 33}, bases(t, p))
}

// C19: the frames of a set are handled each for itself.
func TestC19FramesOfASetAreNotMerged(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	r := produce(t, p, append(entry(t, 0, goldenA), entry(t, 0, goldenW)...))
	require.Equal(t, 4, r.Count)
	require.Equal(t, entries(t, 0, goldenA, goldenW), fetchAll(t, p, 0))
	require.Equal(t, []int64{0, 1, 2, 3}, offsetsOf(readAll(t, p, 0)))
	require.Zero(t, s.Recompressions())
}

// C19: two wrappers whose offsets happen to run on stay two wrappers.
func TestC19WrappersThatRunOnAreNotMerged(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	p.StartAt(t, 50)
	produce(t, p, append(entry(t, 2, goldenW), entry(t, 5, goldenW)...))
	require.Equal(t, entries(t, 50, goldenW, goldenW), fetchAll(t, p, 50))
}

// C20: inner CRCs are checked before anything is rewritten.
func TestC20CorruptInnerCRCIsRefusedWhereARewriteIsDue(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	var inner []byte
	for i := range int64(3) {
		f := frame(codec.Frame{Offset: 2 * i, Magic: 1, TimestampType: codec.CreateTime, Timestamp: t0, Value: []byte("v")})
		if i == 1 {
			f[len(f)-1] ^= 1
		}
		inner = append(inner, f...)
	}
	refuse(t, p, wrap(t, codec.Gzip, inner), codec.CodeCorruptMessage)
	require.Zero(t, s.Recompressions())
}

// C20: and where none is.
func TestC20CorruptInnerCRCIsRefusedWhereBytesWouldStay(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	inner := plainFrame(t0)
	inner[len(inner)-1] ^= 1
	refuse(t, p, wrap(t, codec.Snappy, inner), codec.CodeCorruptMessage)
}

// C22: relative offsets with gaps are assigned anew, which recompresses.
func TestC22GapsInRelativeOffsetsAreClosed(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	p.StartAt(t, 10)
	r := produce(t, p, gzipFrameAt(t, []int64{0, 2, 5}, []codec.Timestamp{t0, t0 + 20, t0 + 10}))
	require.Equal(t, engine.Receipt{Offset: 10, Count: 3, Timestamp: t0 + 20, LogAppendTime: none}, r)
	f, _, err := codec.ReadFrame(fetchAll(t, p, 10))
	require.NoError(t, err)
	require.EqualValues(t, 12, f.Offset)
	require.Equal(t, t0+20, f.Timestamp)
	inner, err := codec.InspectWrapper(&f, nil)
	require.NoError(t, err)
	require.True(t, inner.Contiguous)
	require.Equal(t, []int64{10, 11, 12}, offsetsOf(readAll(t, p, 10)))
	require.EqualValues(t, 1, s.Recompressions())
}

// C34: a segment without timestamps does not end a search.
func TestC34SearchGoesOnAfterASegmentWithoutTimestamps(t *testing.T) {
	searchLog(t, engine.TopicConfig{}, func(t *testing.T, s *store, p *engine.Partition) {
		s.alter(engine.TopicConfig{MessageFormat: engine.FormatV0})
		leadEach(t, p, t0, t0, t0)
		require.NoError(t, p.Roll(t.Context()))
		s.alter(engine.TopicConfig{})
		leadEach(t, p, t0, t0)
	}, answer{t0 - 1, t0, 3}, answer{t0, t0, 3}, answer{t0 + 1, none, notFound})
}

// indexEvery100 appends eight frames of 36 bytes under an index interval of 100.
func indexEvery100(t *testing.T) (*store, *engine.Partition) {
	t.Helper()
	s := newStore(t)
	p := s.log(engine.TopicConfig{IndexIntervalBytes: 100})
	for i := range codec.Timestamp(8) {
		produce(t, p, plainFrame(t0+i))
	}
	return s, p
}

// SPEC 5.2.5 and 5.2.7: rows come after the interval, and with the first
// timestamp.
func TestIndexRowsComeAfterTheInterval(t *testing.T) {
	_, p := indexEvery100(t)
	require.Equal(t, []pair{{t0, 0}, {t0 + 3, 3}, {t0 + 6, 6}}, indexPairs(t, p))
}

// SPEC 5.2.6: closing writes the row of the largest timestamp.
func TestClosingWritesTheLastIndexRow(t *testing.T) {
	s, _ := indexEvery100(t)
	s.reopen()
	p := s.log(engine.TopicConfig{IndexIntervalBytes: 100})
	require.Equal(t, []pair{{t0, 0}, {t0 + 3, 3}, {t0 + 6, 6}, {t0 + 7, 7}}, indexPairs(t, p))
}

// SPEC 5.2.6: so does rolling.
func TestRollingWritesTheLastIndexRow(t *testing.T) {
	_, p := indexEvery100(t)
	require.NoError(t, p.Roll(t.Context()))
	require.Equal(t, []pair{{t0, 0}, {t0 + 3, 3}, {t0 + 6, 6}, {t0 + 7, 7}}, indexPairs(t, p))
	require.Equal(t, []int64{0, 8}, bases(t, p))
}

// SPEC 2.7.26: which offset the index names for one appended set.
func TestIndexedOffsetOfASet(t *testing.T) {
	for name, tc := range map[string]struct {
		config engine.TopicConfig
		set    []byte
		want   pair
	}{
		"CreateTime uncompressed: first of the largest": {engine.TopicConfig{}, plainFrames(t0, t0+9, t0+4, t0+9), pair{t0 + 9, 1}},
		"CreateTime compressed: last of the wrapper":    {engine.TopicConfig{}, gzipFrame(t, t0, t0+9, t0+4), pair{t0 + 9, 2}},
		"LogAppendTime uncompressed: first of the set":  {logAppend, plainFrames(5, 6, 7), pair{t0, 0}},
		"LogAppendTime compressed: last of the wrapper": {logAppend, gzipFrame(t, 5, 6, 7), pair{t0, 2}},
		"without timestamps: none":                      {engine.TopicConfig{}, plainFrames(none, none), pair{none, -1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			p := s.log(tc.config)
			produce(t, p, tc.set)
			segments, err := p.Segments()
			require.NoError(t, err)
			require.Equal(t, tc.want, pair{segments[0].MaxTimestamp, segments[0].MaxOffset})
			if tc.want.offset >= 0 {
				require.Equal(t, []pair{tc.want}, indexPairs(t, p))
			} else {
				require.Empty(t, indexPairs(t, p)) // SPEC 5.5.18
			}
		})
	}
}

// SPEC 8.7: the sentinels carry no timestamp.
func TestListOffsetSentinels(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	p.StartAt(t, 3)
	lead(t, p, t0, t0)
	for _, o := range []engine.ListOptions{{}, {Replica: true}} {
		pos, err := p.ListOffset(t.Context(), engine.Earliest, o)
		require.NoError(t, err)
		require.Equal(t, engine.Position{Offset: 3, Timestamp: none, Found: true}, pos)
		pos, err = p.ListOffset(t.Context(), engine.Latest, o)
		require.NoError(t, err)
		require.Equal(t, engine.Position{Offset: 5, Timestamp: none, Found: true}, pos)
	}
}

// SPEC 8.9: a search on a v0-format topic is error 43, a sentinel is not.
func TestListOffsetOfAV0Topic(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{MessageFormat: engine.FormatV0})
	lead(t, p, t0)
	_, err := p.ListOffset(t.Context(), t0, engine.ListOptions{})
	requireCode(t, codec.CodeUnsupportedForFormat, err)
	require.ErrorIs(t, err, engine.ErrFormat)
	pos, err := p.ListOffset(t.Context(), engine.Latest, engine.ListOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 1, pos.Offset)
}

// SPEC 8.10: a timestamp below the sentinels is error 42.
func TestListOffsetBelowTheSentinels(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	for _, ts := range []codec.Timestamp{-3, math.MinInt64} {
		_, err := p.ListOffset(t.Context(), ts, engine.ListOptions{})
		requireCode(t, codec.CodeInvalidRequest, err)
		_, err = p.ListOffsetsV0(t.Context(), ts, 1, engine.ListOptions{})
		requireCode(t, codec.CodeInvalidRequest, err)
	}
}

// SPEC 8.1-6: ListOffsets v0 answers with segment bases by append time.
func TestListOffsetsV0(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{SegmentBytes: 200})
	for i := range codec.Timestamp(5) { // segments 0-1, 2-3, 4; message times are ignored
		s.clock.set(t0 + 10*i)
		lead(t, p, 5)
	}
	s.clock.set(t0 + 100)
	for _, tc := range []struct {
		ts    codec.Timestamp
		limit int
		want  []int64
	}{
		{engine.Latest, 1, []int64{5}},
		{engine.Latest, 10, []int64{5, 4, 2, 0}},
		{engine.Latest, 0, nil},
		{engine.Earliest, 10, []int64{0}},
		{t0 + 9, 10, nil},
		{t0 + 10, 10, []int64{0}},
		{t0 + 29, 10, []int64{0}},
		{t0 + 30, 10, []int64{2, 0}},
		{t0 + 40, 10, []int64{4, 2, 0}},
		{t0 + 99, 10, []int64{4, 2, 0}},
		{t0 + 100, 10, []int64{5, 4, 2, 0}},
		{t0 + 100, 2, []int64{5, 4}},
	} {
		got, err := p.ListOffsetsV0(t.Context(), tc.ts, tc.limit, engine.ListOptions{})
		require.NoError(t, err)
		require.Equal(t, tc.want, got, "ListOffsetsV0(%d, %d)", int64(tc.ts), tc.limit)
	}
}

// SPEC 8.1: an empty last segment is a base, and the log end is not added.
func TestListOffsetsV0OfAnEmptyLastSegment(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	got, err := p.ListOffsetsV0(t.Context(), engine.Latest, 5, engine.ListOptions{})
	require.NoError(t, err)
	require.Equal(t, []int64{0}, got)
	lead(t, p, t0, t0)
	require.NoError(t, p.Roll(t.Context()))
	got, err = p.ListOffsetsV0(t.Context(), engine.Latest, 5, engine.ListOptions{})
	require.NoError(t, err)
	require.Equal(t, []int64{2, 0}, got)
}
