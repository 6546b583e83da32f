package engine_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// A v0 or v1 set produced to an enriched topic becomes enriched: the producer's
// timestamp is the sent time, the receipt time is the log's; offsets are as ever.
func TestV1SetsBecomeEnriched(t *testing.T) {
	s, p := enrichedLog(t)
	produce(t, p, entries(t, 0, goldenA))
	produce(t, p, entries(t, 0, goldenW))
	produce(t, p, entries(t, 0, goldenC))
	for range 2 {
		msgs := readAll(t, p, 0)
		require.Equal(t, []int64{0, 1, 2, 3, 4}, offsetsOf(msgs))
		var sent []codec.Timestamp
		for _, m := range msgs {
			require.Equal(t, t0, m.Timestamp)
			sent = append(sent, m.Tags.SentTime())
		}
		require.Equal(t, []codec.Timestamp{t0, t0, t0 + 20, t0 + 10, none}, sent)
		f := fetchEnriched(t, p, 1)[0]
		n, ok := f.Tags.NumMessages()
		require.True(t, ok)
		require.Equal(t, 3, n)
		s.reopen()
		p = s.log(enriched())
	}
}

// What a v1 reader gets of an enriched log: LogAppendTime, no tags, the same offsets;
// a v0 reader no timestamps either.
func TestEnrichedMessagesAreConvertedDown(t *testing.T) { // SPEC 10.7.9, 1.6
	_, p := enrichedLog(t)
	m := kv("k", "plain")
	m.Tags = appTags(t, "host", "h1")
	_, err := p.Append(t.Context(), m)
	require.NoError(t, err)
	_, err = p.AppendSet(t.Context(), []codec.Message{m, kv("k", "inner")}, engine.AppendOptions{Compression: codec.Snappy})
	require.NoError(t, err)
	for format, want := range map[engine.MessageFormat]codec.Message{
		engine.FormatV1: {Timestamp: t0, TimestampType: codec.LogAppendTime},
		engine.FormatV0: {Timestamp: none, TimestampType: codec.NoTimestampType},
	} {
		res, err := p.Fetch(t.Context(), 0, engine.FetchOptions{Format: format})
		require.NoError(t, err)
		var offset int64
		for got, err := range codec.Messages(res.Set) {
			require.NoError(t, err)
			require.Equal(t, offset, got.Offset)
			require.Equal(t, want.Timestamp, got.Timestamp)
			require.Equal(t, want.TimestampType, got.TimestampType)
			require.Nil(t, got.Tags)
			offset++
		}
		require.EqualValues(t, 3, offset)
	}
}

// SPEC 1.6.36: a topic's format is that of new messages; those there keep theirs, and
// every reader gets what it knows.
func TestFormatCanChangeUnderALog(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	lead(t, p, t0+5)
	leadGzip(t, p, t0+6, t0+7)
	s.alter(enriched())
	_, err := p.Append(t.Context(), kv("k", "v"))
	require.NoError(t, err)
	for range 2 {
		require.Equal(t, []codec.Timestamp{t0 + 5, t0 + 6, t0 + 7, t0}, timestampsOf(readAll(t, p, 0)))
		frames := fetchEnriched(t, p, 0)
		require.Len(t, frames, 3)
		require.Equal(t, t0+5, frames[0].Tags.SentTime())
		require.Equal(t, t0, frames[0].Tags.ReceiptTime(), "the clock of the append")
		in, err := codec.InspectEnriched(&frames[1], nil)
		require.NoError(t, err)
		inner := in.AppendMessages(nil, frames[1].Offset)
		require.Equal(t, []int64{1, 2}, offsetsOf(inner))
		require.Equal(t, t0+6, inner[0].Tags.SentTime())
		s.reopen()
		topic, _ := s.Topic("t")
		p = topic.Partition(0)
	}
}

func TestSentTimeOfTheGoAPI(t *testing.T) {
	_, p := enrichedLog(t)
	m := kv("k", "v")
	m.Timestamp, m.TimestampType = t0-100, codec.CreateTime
	withTags := m
	withTags.Tags = appTags(t, "a", "b")
	both, err := codec.NewTags(t0 - 7)
	require.NoError(t, err)
	explicit := m
	explicit.Tags = both
	_, err = p.Append(t.Context(), m, withTags, explicit, kv("k", "unset"))
	require.NoError(t, err)
	var sent []codec.Timestamp
	for _, got := range readAll(t, p, 0) {
		require.Equal(t, t0, got.Timestamp)
		sent = append(sent, got.Tags.SentTime())
	}
	require.Equal(t, []codec.Timestamp{t0 - 100, t0 - 100, t0 - 7, none}, sent, "tags that say a sent time win")
	require.Nil(t, m.Tags, "the caller's messages are as they were")
}

// Enriched logs under random sets: every reader agrees with what was appended, sizes
// are exact, and what is rebuilt after a reopen is what was there.
func TestEnrichedLogsRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	config := enriched()
	config.SegmentBytes = 4000
	s := newStore(t)
	p := s.log(config)
	var want []codec.Message
	for range rounds(t, 60) {
		var msgs []codec.Message
		for range 1 + rng.IntN(6) {
			m := codec.Message{Value: make([]byte, rng.IntN(60))}
			if rng.IntN(3) > 0 {
				m.Key = []byte{'k'}
			}
			if rng.IntN(2) == 0 {
				m.Tags = appTags(t, "a", string(rune('a'+rng.IntN(26))))
			}
			msgs = append(msgs, m)
		}
		o := engine.AppendOptions{Compression: codec.Compression(rng.IntN(4))}
		_, err := p.AppendSet(t.Context(), msgs, o)
		require.NoError(t, err)
		want = append(want, msgs...)
		if rng.IntN(10) == 0 {
			s.reopen()
			p = s.log(config)
		}
	}
	got := readAll(t, p, 0)
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i].Tags, got[i].Tags)
		require.Equal(t, want[i].Value, got[i].Value)
		require.EqualValues(t, i, got[i].Offset)
	}
	var wire int64
	for _, size := range segmentSizes(t, p) {
		wire += size
	}
	require.EqualValues(t, len(enrichedSet(fetchEnriched(t, p, 0)...)), wire, "segments count the bytes of the wire")
	cut := rng.Int64N(int64(len(want)))
	require.NoError(t, p.TruncateTo(t.Context(), cut))
	require.Len(t, readAll(t, p, 0), int(cut))
	s.reopen()
	require.Len(t, readAll(t, s.log(config), 0), int(cut))
}

// Fetches of enriched frames are whole frames, at least one, and come to the end
// whatever their limit.
func TestEnrichedFetchWithLimits(t *testing.T) {
	_, p := enrichedLog(t)
	for i := range 20 {
		o := engine.AppendOptions{Compression: codec.Compression(i % 4)}
		_, err := p.AppendSet(t.Context(), []codec.Message{kv("k", "one"), kv("k", "two"), kv("k", "three")}, o)
		require.NoError(t, err)
	}
	for _, limit := range []int{1, 60, 200, 1000} {
		var offsets []int64
		for from := int64(0); from < 60; {
			res, err := p.Fetch(t.Context(), from, engine.FetchOptions{Format: engine.FormatEnriched, MaxBytes: limit})
			require.NoError(t, err)
			require.Greater(t, res.Next, from)
			first := true
			for set := res.Set; len(set) > 0; first = false {
				f, n, err := codec.ReadEnrichedFrame(set)
				require.NoError(t, err)
				require.NotZero(t, n)
				if f.Compression() == codec.None {
					offsets = append(offsets, f.Offset)
				} else {
					offsets = append(offsets, f.Offset, f.Offset+1, f.Offset+2)
				}
				require.True(t, first || len(res.Set) <= limit)
				set = set[n:]
			}
			from = res.Next
		}
		require.Len(t, offsets, 60, limit)
		for i, offset := range offsets {
			require.EqualValues(t, i, offset)
		}
	}
}
