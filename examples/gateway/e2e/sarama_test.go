package e2e_test

import (
	"context"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
)

type saramaGo struct{}

func (saramaGo) String() string       { return "sarama" }
func (saramaGo) available(*testing.T) {}
func (saramaGo) seesType() bool       { return false }

func (saramaGo) config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V0_10_2_0
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.Flush.MaxMessages = 1000
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	return c
}

func (s saramaGo) produce(t *testing.T, address, topic, codec string, messages []message) bool {
	t.Helper()
	c := s.config()
	c.Producer.Compression = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4,
	}[codec]
	producer, err := sarama.NewSyncProducer([]string{address}, c)
	require.NoError(t, err)
	defer func() { require.NoError(t, producer.Close()) }()
	var batch []*sarama.ProducerMessage
	for _, m := range messages {
		p := &sarama.ProducerMessage{Topic: topic, Timestamp: time.UnixMilli(m.Timestamp)}
		if m.Key != nil {
			p.Key = sarama.StringEncoder(*m.Key)
		}
		if m.Value != nil {
			p.Value = sarama.StringEncoder(*m.Value)
		}
		batch = append(batch, p)
	}
	require.NoError(t, producer.SendMessages(batch))
	return true
}

func fromSarama(m *sarama.ConsumerMessage) message {
	return message{Offset: m.Offset, Timestamp: m.Timestamp.UnixMilli(), Key: textOf(m.Key), Value: textOf(m.Value)}
}

func (s saramaGo) consume(t *testing.T, address, topic string, from position, n int) []message {
	t.Helper()
	client, err := sarama.NewClient([]string{address}, s.config())
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	if from.time != 0 {
		from.offset, err = client.GetOffset(topic, 0, from.time)
		require.NoError(t, err)
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	require.NoError(t, err)
	p, err := consumer.ConsumePartition(topic, 0, from.offset)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	return receive(t, p.Messages(), n)
}

func receive(t *testing.T, messages <-chan *sarama.ConsumerMessage, n int) (got []message) {
	t.Helper()
	ctx := withTimeout(t)
	for len(got) < n {
		select {
		case m := <-messages:
			got = append(got, fromSarama(m))
		case <-ctx.Done():
			t.Fatalf("%d of %d messages", len(got), n)
		}
	}
	return got
}

// member hands on what it reads, and marks it.
type member struct{ messages chan *sarama.ConsumerMessage }

func (member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (member) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (m member) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case msg, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			select {
			case m.messages <- msg:
				s.MarkMessage(msg, "")
			case <-s.Context().Done():
				return nil
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

func (s saramaGo) consumeGroup(t *testing.T, address, topic, group string, n int) []message {
	t.Helper()
	g, err := sarama.NewConsumerGroup([]string{address}, group, s.config())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(withTimeout(t))
	m := member{make(chan *sarama.ConsumerMessage)}
	ended := make(chan error, 1)
	go func() { ended <- g.Consume(ctx, []string{topic}, m) }()
	got := receive(t, m.messages, n)
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, g.Close())
	return got
}
