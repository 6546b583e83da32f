package e2e_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

type franzGo struct{}

func (franzGo) String() string       { return "franz-go" }
func (franzGo) available(*testing.T) {}
func (franzGo) seesType() bool       { return true }

func withTimeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func (franzGo) client(t *testing.T, address string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(address), kgo.MaxVersions(kversion.V0_10_2()), kgo.DisableIdempotentWrite(),
		kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func (f franzGo) produce(t *testing.T, address, topic, codec string, messages []message) bool {
	t.Helper()
	compression := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(),
	}[codec]
	cl := f.client(t, address, kgo.ProducerBatchCompression(compression))
	var records []*kgo.Record
	for _, m := range messages {
		records = append(records, &kgo.Record{Topic: topic, Key: bytesOf(m.Key), Value: bytesOf(m.Value), Timestamp: time.UnixMilli(m.Timestamp)})
	}
	require.NoError(t, cl.ProduceSync(withTimeout(t), records...).FirstErr())
	return true
}

func (f franzGo) consume(t *testing.T, address, topic string, from position, n int) []message {
	t.Helper()
	offset := kgo.NewOffset().At(from.offset)
	if from.time != 0 {
		offset = kgo.NewOffset().AfterMilli(from.time)
	}
	cl := f.client(t, address, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: offset}}))
	return f.poll(t, cl, n)
}

func (franzGo) poll(t *testing.T, cl *kgo.Client, n int) (got []message) {
	t.Helper()
	ctx := withTimeout(t)
	for len(got) < n {
		fetches := cl.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			got = append(got, message{
				Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), AppendTime: r.Attrs.TimestampType() == 1,
				Key: textOf(r.Key), Value: textOf(r.Value),
			})
		})
	}
	return got
}

func (f franzGo) consumeGroup(t *testing.T, address, topic, group string, n int) []message {
	t.Helper()
	cl := f.client(t, address, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	got := f.poll(t, cl, n)
	require.NoError(t, cl.CommitUncommittedOffsets(withTimeout(t)))
	cl.Close()
	return got
}

func bytesOf(s *string) []byte {
	if s == nil {
		return nil
	}
	return append([]byte{}, *s...)
}

func textOf(b []byte) *string {
	if b == nil {
		return nil
	}
	s := string(b)
	return &s
}
