package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/IBM/sarama"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/examples/gateway/server"
)

// wrapper is a set of one compressed frame with those values.
func wrapper(t *testing.T, c codec.Compression, values ...string) []byte {
	var msgs []codec.Message
	for i, v := range values {
		msgs = append(msgs, codec.Message{Offset: int64(i), Timestamp: t0 + codec.Timestamp(i), TimestampType: codec.CreateTime, Value: []byte(v)})
	}
	frame, _, err := codec.BuildWrapper(nil, c, 1, msgs)
	require.NoError(t, err)
	return codec.AppendFrame(nil, &frame)
}

// WIRE, log-appendtime-both: clients that ignore the wrapper's timestamp see the time of
// append all the same, and the others see what they saw.
func TestRewrittenTimestamps(t *testing.T) {
	for _, c := range []codec.Compression{codec.Gzip, codec.Snappy, codec.LZ4} {
		t.Run(c.String(), func(t *testing.T) {
			g := start(t, server.Options{RewriteTimestamps: true})
			g.topic("t", engine.TopicConfig{TimestampType: codec.LogAppendTime})
			raw := g.dial(t)
			var times []int64
			for range 3 {
				times = append(times, raw.produceTo(2, 1, "t", 0, wrapper(t, c, "a", "b")).LogAppendTime)
			}
			times = append(times, raw.produceTo(2, 1, "t", 0, set("a", "b")).LogAppendTime)

			var fromWire []codec.Message
			for m, err := range codec.Messages(raw.fetch(2, 1, 0, from{"t", 0, 0, 1 << 20})[0].RecordBatches) {
				require.NoError(t, err)
				fromWire = append(fromWire, m)
			}
			require.Len(t, fromWire, 8)

			franz := g.franz(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtStart()}}))
			var records []*kgo.Record
			for len(records) < 8 {
				fetches := franz.PollFetches(withTimeout(t))
				require.NoError(t, fetches.Err())
				records = append(records, fetches.Records()...)
			}
			consumer, err := sarama.NewConsumer([]string{g.address}, saramaConfig())
			require.NoError(t, err)
			defer func() { require.NoError(t, consumer.Close()) }()
			p, err := consumer.ConsumePartition("t", 0, sarama.OffsetOldest)
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Close()) }()
			for i := range 8 {
				want := times[i/2]
				require.EqualValues(t, want, fromWire[i].Timestamp)
				require.Equal(t, codec.LogAppendTime, fromWire[i].TimestampType)
				require.EqualValues(t, i, records[i].Offset)
				require.Equal(t, want, records[i].Timestamp.UnixMilli())
				m := <-p.Messages()
				require.EqualValues(t, i, m.Offset)
				require.Equal(t, want, m.Timestamp.UnixMilli())
				require.Equal(t, records[i].Value, m.Value)
			}
		})
	}
}

// Off by default: bytes go out as they came in. On, it leaves alone what it need not touch.
func TestTimestampsAreNotRewrittenOtherwise(t *testing.T) {
	fetch := func(rewrite bool, kind codec.TimestampType) []byte {
		g := start(t, server.Options{RewriteTimestamps: rewrite})
		g.topic("t", engine.TopicConfig{TimestampType: kind})
		c := g.dial(t)
		require.Zero(t, c.produceTo(2, 1, "t", 0, wrapper(t, codec.Gzip, "a", "b")).ErrorCode)
		return c.fetch(2, 1, 0, from{"t", 0, 0, 1 << 20})[0].RecordBatches
	}
	payload := func(set []byte) []byte {
		frame, _, err := codec.ReadFrame(set)
		require.NoError(t, err)
		return frame.Value
	}
	produced := payload(wrapper(t, codec.Gzip, "a", "b"))
	require.Equal(t, produced, payload(fetch(false, codec.LogAppendTime)))
	require.Equal(t, produced, payload(fetch(true, codec.CreateTime)))
	require.NotEqual(t, produced, payload(fetch(true, codec.LogAppendTime)))
}

// A follower copies the log: it gets the bytes as they are stored.
func TestTimestampsAreNotRewrittenForFollowers(t *testing.T) {
	g := start(t, server.Options{RewriteTimestamps: true})
	g.topic("t", engine.TopicConfig{TimestampType: codec.LogAppendTime})
	c := g.dial(t)
	require.Zero(t, c.produceTo(2, 1, "t", 0, wrapper(t, codec.Gzip, "a", "b")).ErrorCode)
	req := fetchRequest(1, 0, from{"t", 0, 0, 1 << 20})
	req.ReplicaID = 2
	got := fetched(ask[*kmsg.FetchResponse](c, 2, req))[0].RecordBatches
	topic, ok := g.db.Topic("t")
	require.True(t, ok)
	stored, err := topic.Partition(0).Fetch(t.Context(), 0, engine.FetchOptions{})
	require.NoError(t, err)
	require.Equal(t, stored.Set, got)
}
