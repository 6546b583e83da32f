package server_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/examples/gateway/server"
)

// franz is a client of franz-go at the level of 0.10.
func (g *gateway) franz(opts ...kgo.Opt) *kgo.Client {
	g.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(g.address), kgo.MaxVersions(kversion.V0_10_0()), kgo.DisableIdempotentWrite(),
	}, opts...)...)
	require.NoError(g.t, err)
	g.t.Cleanup(cl.Close)
	return cl
}

// saramaConfig is for a client of sarama at the level of 0.10.
func saramaConfig() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V0_10_2_0
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	return c
}

func withTimeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestFranzGoProducesAndConsumes(t *testing.T) {
	g := start(t, server.Options{AutoCreate: true})
	ctx := withTimeout(t)
	producer := g.franz(kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	written := time.UnixMilli(time.Now().UnixMilli())
	for i := range 100 {
		r := producer.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: fmt.Append(nil, i), Timestamp: written})
		require.NoError(t, r.FirstErr())
	}
	consumer := g.franz(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtStart()}}))
	for n := 0; n < 100; {
		fetches := consumer.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			require.EqualValues(t, n, r.Offset)
			require.Equal(t, fmt.Sprint(n), string(r.Value))
			require.True(t, written.Equal(r.Timestamp))
			n++
		})
	}
}

func TestSaramaProducesAndConsumes(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{})
	producer, err := sarama.NewSyncProducer([]string{g.address}, saramaConfig())
	require.NoError(t, err)
	defer func() { require.NoError(t, producer.Close()) }()
	written := time.UnixMilli(int64(t0))
	for i := range 100 {
		_, offset, err := producer.SendMessage(&sarama.ProducerMessage{Topic: "t", Value: sarama.StringEncoder(fmt.Sprint(i)), Timestamp: written})
		require.NoError(t, err)
		require.EqualValues(t, i, offset)
	}
	consumer, err := sarama.NewConsumer([]string{g.address}, saramaConfig())
	require.NoError(t, err)
	defer func() { require.NoError(t, consumer.Close()) }()
	p, err := consumer.ConsumePartition("t", 0, sarama.OffsetOldest)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	for i := range 100 {
		select {
		case m := <-p.Messages():
			require.EqualValues(t, i, m.Offset)
			require.Equal(t, fmt.Sprint(i), string(m.Value))
			require.True(t, written.Equal(m.Timestamp))
		case <-withTimeout(t).Done():
			t.Fatal("no message")
		}
	}
}
