package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/examples/gateway/server"
)

func (c *client) create(topics ...kmsg.CreateTopicsRequestTopic) (codes []int16) {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = topics
	resp := ask[*kmsg.CreateTopicsResponse](c, 0, req)
	for i, topic := range resp.Topics {
		require.Equal(c.t, topics[i].Topic, topic.Topic)
		codes = append(codes, topic.ErrorCode)
	}
	return codes
}

// spec is a topic to create; settings are names and values in turn.
func spec(name string, partitions int32, replication int16, settings ...string) kmsg.CreateTopicsRequestTopic {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, replication
	for i := 0; i < len(settings); i += 2 {
		topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: settings[i], Value: &settings[i+1]})
	}
	return topic
}

func placed(name string, partitions int32, replication int16, nodes ...int32) kmsg.CreateTopicsRequestTopic {
	topic := spec(name, partitions, replication)
	for i, node := range nodes {
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: int32(i), Replicas: []int32{node}})
	}
	return topic
}

// SPEC 11: settings by their Kafka names.
func TestCreateTopicsWithSettings(t *testing.T) {
	g := start(t, server.Options{})
	c := g.dial(t)
	require.Equal(t, []int16{0, 0}, c.create(
		spec("a", 3, 1, "message.timestamp.type", "LogAppendTime", "retention.ms", "60000", "cleanup.policy", "compact,delete"),
		placed("b", -1, -1, 0, 0)))
	a, ok := g.db.Topic("a")
	require.True(t, ok)
	require.EqualValues(t, 3, a.Partitions())
	require.Equal(t, codec.LogAppendTime, a.Config().TimestampType)
	require.Equal(t, time.Minute, a.Config().Retention.MaxAge)
	require.Equal(t, "compact,delete", a.Config().CleanupPolicy.String())
	b, ok := g.db.Topic("b")
	require.True(t, ok)
	require.EqualValues(t, 2, b.Partitions())
}

func TestCreateTopicsRefuses(t *testing.T) {
	g := start(t, server.Options{MaxPartitions: 10})
	c := g.dial(t)
	null := spec("null", 1, 1)
	null.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms"}}
	twice := placed("twice", -1, -1, 0, 0)
	twice.ReplicaAssignment[1].Partition = 0
	for _, bad := range []struct {
		topic kmsg.CreateTopicsRequestTopic
		code  int16
	}{
		{spec("no/name", 1, 1), 17},
		{spec("none", 0, 1), 37},
		{spec("many", 11, 1), 37},
		{spec("huge", 1<<31-1, 1), 37},
		{spec("copies", 1, 2), 38},
		{placed("elsewhere", -1, -1, 0, 1), 39},
		{twice, 39},
		{placed("both", 2, 1, 0, 0), 42},
		{spec("setting", 1, 1, "no.such.setting", "1"), 40},
		{spec("value", 1, 1, "retention.ms", "soon"), 40},
		{null, 40},
	} {
		require.Equal(t, []int16{bad.code}, c.create(bad.topic), bad.topic.Topic)
	}
	require.Equal(t, []int16{42, 42, 0}, c.create(spec("a", 1, 1), spec("a", 1, 1), spec("b", 1, 1)))
	require.Equal(t, []int16{36}, c.create(spec("b", 1, 1)))
	require.Len(t, g.db.Topics(), 1)
}

func TestDeleteTopics(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{})
	c := g.dial(t)
	c.produceTo(2, 1, "t", 0, set("a"))
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = []string{"t", "none"}
	resp := ask[*kmsg.DeleteTopicsResponse](c, 0, req)
	require.Zero(t, resp.Topics[0].ErrorCode)
	require.EqualValues(t, 3, resp.Topics[1].ErrorCode)
	require.EqualValues(t, 3, c.produceTo(2, 1, "t", 0, set("a")).ErrorCode)
	require.Equal(t, []int16{0}, c.create(spec("t", 1, 1)))
	require.Zero(t, c.produceTo(2, 1, "t", 0, set("a")).BaseOffset, "nothing of the old one is left")
}

func TestAutoCreateUsesTheDefaultNumber(t *testing.T) {
	g := start(t, server.Options{AutoCreate: true, DefaultPartitions: 4, MaxPartitions: 9})
	for i, code := range []int16{0, 0, 37} {
		name := fmt.Sprint("t", i)
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
		require.Equal(t, code, ask[*kmsg.MetadataResponse](g.dial(t), 0, req).Topics[0].ErrorCode)
	}
	for _, topic := range g.db.Topics() {
		require.EqualValues(t, 4, topic.Partitions())
	}
}

// The bound is on what there is: what was there before the server, and not what is deleted.
func TestPartitionsAreBoundedInAll(t *testing.T) {
	dir := t.TempDir()
	t.Run("before", func(t *testing.T) { startOn(t, dir, server.Options{}).topic("old", engine.TopicConfig{Partitions: 6}) })
	g := startOn(t, dir, server.Options{MaxPartitions: 10})
	c := g.dial(t)
	require.Equal(t, []int16{37, 0, 37}, c.create(spec("a", 5, 1), spec("b", 4, 1), spec("c", 1, 1)))
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = []string{"old"}
	require.Zero(t, ask[*kmsg.DeleteTopicsResponse](c, 0, req).Topics[0].ErrorCode)
	require.Equal(t, []int16{37, 0}, c.create(spec("a", 7, 1), spec("c", 6, 1)))
}
