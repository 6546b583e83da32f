package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// S17: under CreateTime a wrapper's messages have their own timestamps.
func TestS17InnerTimestampsAreReadUnderCreateTime(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	produce(t, p, entries(t, 0, goldenW))
	msgs := readAll(t, p, 0)
	require.Equal(t, []codec.Timestamp{t0, t0 + 20, t0 + 10}, timestampsOf(msgs))
	for i, m := range msgs {
		require.Equal(t, codec.CreateTime, m.TimestampType)
		require.Equal(t, string("abc"[i]), string(m.Key))
		require.Equal(t, string("123"[i]), string(m.Value))
	}
}

// S18 is of the superseded revision: an inner timestamp does not decide where
// the wrapper's bit is set.
func TestS18InnerTimestampsAreNotReadUnderLogAppendTime(t *testing.T) {
	_, p := appendedW(t, engine.TopicConfig{})
	require.NotContains(t, timestampsOf(readAll(t, p, 0)), t0)
}

// S19: under LogAppendTime all messages of a wrapper have the wrapper's
// timestamp.
func TestS19WrapperTimestampIsReadUnderLogAppendTime(t *testing.T) {
	_, p := appendedW(t, engine.TopicConfig{})
	msgs := readAll(t, p, 0)
	require.Equal(t, []codec.Timestamp{t0 + 99, t0 + 99, t0 + 99}, timestampsOf(msgs))
	for _, m := range msgs {
		require.Equal(t, codec.LogAppendTime, m.TimestampType)
	}
}

// S20 is of the superseded revision: an inner -1 does not inherit the wrapper's
// timestamp (SPEC C8).
func TestS20InnerNoneStaysNone(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	produce(t, p, gzipFrame(t, none, t0))
	require.Equal(t, []codec.Timestamp{none, t0}, timestampsOf(readAll(t, p, 0)))
}

// S21: an uncompressed message has its own timestamp.
func TestS21UncompressedTimestampIsRead(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	produce(t, p, entries(t, 0, goldenA))
	require.Equal(t, []codec.Timestamp{t0}, timestampsOf(readAll(t, p, 0)))
}

// SPEC 1.5.29, 4.7: a fetch inside a wrapper returns it whole; a read begins at
// the offset.
func TestFetchInsideAWrapperReturnsItWhole(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	produce(t, p, append(entry(t, 0, goldenA), entry(t, 0, goldenW)...))
	for from := int64(1); from <= 3; from++ {
		res, err := p.Fetch(t.Context(), from, engine.FetchOptions{})
		require.NoError(t, err)
		require.Equal(t, entries(t, 1, goldenW), res.Set)
		require.EqualValues(t, 4, res.Next)
		require.Len(t, readAll(t, p, from), int(4-from))
	}
}

// SPEC 1.4.28: a fetch returns whole frames, and the first whatever its size.
func TestFetchReturnsWholeFramesAndAtLeastOne(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	for range 3 {
		produce(t, p, entry(t, 0, goldenA))
	}
	for limit, frames := range map[int]int64{1: 1, 35: 1, 36: 1, 71: 1, 72: 2, 107: 2, 108: 3, 1000: 3} {
		res, err := p.Fetch(t.Context(), 0, engine.FetchOptions{MaxBytes: limit})
		require.NoError(t, err)
		require.Len(t, res.Set, int(frames)*36, "limit %d", limit)
		require.Equal(t, frames, res.Next, "limit %d", limit)
	}
}

// The same inside one stored entry.
func TestFetchLimitCutsBetweenMessagesOfOneSet(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	produce(t, p, append(append(plainFrame(t0), plainFrame(t0)...), plainFrame(t0)...))
	for limit, frames := range map[int]int64{1: 1, 36: 1, 71: 1, 72: 2, 107: 2, 108: 3} {
		res, err := p.Fetch(t.Context(), 0, engine.FetchOptions{MaxBytes: limit})
		require.NoError(t, err)
		require.Len(t, res.Set, int(frames)*36, "limit %d", limit)
		require.Equal(t, frames, res.Next, "limit %d", limit)
	}
}

// SPEC 1.4.25-26: with HardLimit the set is cut inside a frame; the next fetch
// begins at the frame that was cut.
func TestFetchHardLimitCutsInsideAFrame(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	produce(t, p, entry(t, 0, goldenA))
	produce(t, p, entry(t, 0, goldenA))
	whole := fetchAll(t, p, 0)
	for limit := 1; limit <= len(whole); limit++ {
		res, err := p.Fetch(t.Context(), 0, engine.FetchOptions{MaxBytes: limit, HardLimit: true})
		require.NoError(t, err)
		require.Equal(t, whole[:limit], res.Set)
		require.EqualValues(t, limit/36, res.Next, "limit %d", limit)
	}
}

// AppendFetch appends what Fetch returns to the caller's buffer.
func TestAppendFetchExtendsTheCallersBuffer(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	produce(t, p, append(entry(t, 0, goldenA), entry(t, 0, goldenW)...))
	dst := append(make([]byte, 0, 1<<12), "before"...)
	res, err := p.AppendFetch(t.Context(), dst, 0, engine.FetchOptions{})
	require.NoError(t, err)
	require.Equal(t, append([]byte("before"), fetchAll(t, p, 0)...), res.Set)
	require.Same(t, &dst[0], &res.Set[0], "the caller's buffer has room")
	res, err = p.AppendFetch(t.Context(), dst, 4, engine.FetchOptions{})
	require.NoError(t, err)
	require.Equal(t, "before", string(res.Set), "at the end nothing is appended")
	res, err = p.AppendFetch(t.Context(), dst, 0, engine.FetchOptions{MaxBytes: 40, HardLimit: true})
	require.NoError(t, err)
	require.Equal(t, append([]byte("before"), fetchAll(t, p, 0)[:40]...), res.Set)
	require.EqualValues(t, 1, res.Next)
}

// A read may stop at a number of messages and before an offset.
func TestReadBounds(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	lead(t, p, 0, 1, 2, 3)
	leadGzip(t, p, 4, 5, 6, 7)
	for _, tc := range []struct {
		from int64
		o    engine.ReadOptions
		want []int64
	}{
		{0, engine.ReadOptions{MaxMessages: 2}, []int64{0, 1}},
		{3, engine.ReadOptions{MaxMessages: 3}, []int64{3, 4, 5}},
		{2, engine.ReadOptions{Before: 6}, []int64{2, 3, 4, 5}},
		{2, engine.ReadOptions{Before: 6, MaxMessages: 1}, []int64{2}},
		{5, engine.ReadOptions{Before: 5}, []int64{}},
		{5, engine.ReadOptions{Before: 3}, []int64{}},
		{6, engine.ReadOptions{Before: 100}, []int64{6, 7}},
		{8, engine.ReadOptions{}, []int64{}},
	} {
		got := []int64{}
		for m, err := range p.Read(t.Context(), tc.from, tc.o) {
			require.NoError(t, err)
			got = append(got, m.Offset)
		}
		require.Equal(t, tc.want, got, "from %d %+v", tc.from, tc.o)
	}
}
