package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// response encodes ProduceResponse v2 for partition 0 of topic t.
func response(r engine.Receipt) []byte {
	return codec.AppendProduceResponse(nil, 2, []codec.ProducedTopic{{Name: "t", Partitions: []codec.ProducedPartition{
		{Partition: 0, BaseOffset: r.Offset, Timestamp: r.LogAppendTime},
	}}}, 0)
}

// S23: ProduceResponse v2 carries one timestamp per partition.
func TestS23ProduceResponse(t *testing.T) {
	for name, tc := range map[string]struct {
		config engine.TopicConfig
		tail   string
	}{
		"CreateTime":    {engine.TopicConfig{}, "ffffffffffffffff 00000000"},
		"LogAppendTime": {logAppend, "0000015d3ef79863 00000000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			p := s.log(tc.config)
			p.StartAt(t, 100)
			s.clock.set(t0 + 99)
			r := produce(t, p, entries(t, 0, goldenW))
			require.Equal(t, unhex(t, goldenResponse+tc.tail), response(r))
			require.Len(t, response(r), 37)
			require.Equal(t, 3, r.Count)
		})
	}
}

// S24: under LogAppendTime it is the set's append time, equal to what is stored.
func TestS24ResponseTimestampIsTheSetsAppendTime(t *testing.T) {
	s := newStore(t)
	config := logAppend
	config.Partitions = 2
	first := s.log(config)
	topic, _ := s.Topic("t")
	second := topic.Partition(1)
	for i, p := range []*engine.Partition{first, second} {
		want := t0 + 1 + codec.Timestamp(i)
		s.clock.set(want)
		r := produce(t, p, entries(t, 0, goldenA, goldenA))
		require.Equal(t, want, r.LogAppendTime)
		require.Equal(t, want, r.Timestamp)
		require.Equal(t, []codec.Timestamp{want, want}, timestampsOf(readAll(t, p, 0)))
	}
}

// S25: under CreateTime it is -1; SPEC 2.8.28: on an error and of an empty set
// too.
func TestS25ResponseTimestampIsNoneUnderCreateTime(t *testing.T) {
	s := newStore(t)
	p := s.log(within1s)
	require.Equal(t, none, produce(t, p, entries(t, 0, goldenA)).LogAppendTime)
	r, err := p.Produce(t.Context(), plainFrame(0))
	require.Error(t, err)
	require.Equal(t, engine.Receipt{Offset: -1, Timestamp: none, LogAppendTime: none}, r)
	r, err = p.Produce(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, engine.Receipt{Offset: -1, Timestamp: none, LogAppendTime: none}, r)
}

// S26: a producer's callback gets the response's timestamp, or its own where
// that is -1, and offsets from the base on.
func TestS26CallbackTimestamps(t *testing.T) {
	own := []codec.Timestamp{t0, t0 + 20}
	for name, tc := range map[string]struct {
		config engine.TopicConfig
		want   []codec.Timestamp
	}{
		"CreateTime":    {engine.TopicConfig{}, own},
		"LogAppendTime": {logAppend, []codec.Timestamp{t0 + 99, t0 + 99}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			p := s.log(tc.config)
			p.StartAt(t, 7)
			s.clock.set(t0 + 99)
			r, err := p.Append(t.Context(), records(own...)...)
			require.NoError(t, err)
			stored := readAll(t, p, 7)
			for i, ts := range own {
				require.Equal(t, tc.want[i], r.MessageTimestamp(ts))
				require.Equal(t, tc.want[i], stored[i].Timestamp)
				require.Equal(t, r.Offset+int64(i), stored[i].Offset)
			}
		})
	}
}

// S27: the producer can tell the type from the response.
func TestS27ResponseTellsTheType(t *testing.T) {
	s := newStore(t)
	s.clock.set(t0 + 99)
	created := produce(t, s.named("create", engine.TopicConfig{}), entries(t, 0, goldenA))
	appended := produce(t, s.named("append", logAppend), entries(t, 0, goldenA))
	require.Equal(t, none, created.LogAppendTime)
	require.Equal(t, codec.Timestamp(1500000000099), appended.LogAppendTime)
}
