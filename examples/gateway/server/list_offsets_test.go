package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/examples/gateway/server"
)

func (c *client) listOffsets(version int16, parts ...kmsg.ListOffsetsRequestTopicPartition) []kmsg.ListOffsetsResponseTopicPartition {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic, rt.Partitions = "t", parts
	req.Topics = append(req.Topics, rt)
	return ask[*kmsg.ListOffsetsResponse](c, version, req).Topics[0].Partitions
}

func at(partition int32, time int64) kmsg.ListOffsetsRequestTopicPartition {
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.MaxNumOffsets = partition, time, 10
	return p
}

// SPEC 8: version 1 finds messages.
func TestListOffsetsFindsMessages(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{})
	c := g.dial(t)
	c.produceTo(2, 1, "t", 0, set("a", "b", "c"))
	for _, q := range []struct {
		time, offset, timestamp int64
		code                    int16
	}{
		{-2, 0, -1, 0}, {-1, 3, -1, 0}, {int64(t0) + 1, 1, int64(t0) + 1, 0}, {0, 0, int64(t0), 0},
		{int64(t0) + 3, -1, -1, 0}, {-3, -1, -1, 42},
	} {
		got := c.listOffsets(1, at(0, q.time))[0]
		require.Equal(t, q.code, got.ErrorCode, q.time)
		require.Equal(t, q.offset, got.Offset, q.time)
		require.Equal(t, q.timestamp, got.Timestamp, q.time)
	}
	require.EqualValues(t, 3, c.listOffsets(1, at(7, -1))[0].ErrorCode)
}

// SPEC 2.9: a partition twice in one request is error 42, the others are answered.
func TestListOffsetsRefusesDuplicates(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{Partitions: 2})
	got := g.dial(t).listOffsets(1, at(0, -1), at(1, -1), at(0, -2))
	require.EqualValues(t, 42, got[0].ErrorCode)
	require.Zero(t, got[1].ErrorCode)
	require.Zero(t, got[1].Offset)
	require.EqualValues(t, 42, got[2].ErrorCode)
}

// SPEC 8.1-6: version 0 answers with bases of segments.
func TestListOffsetsVersion0(t *testing.T) {
	g := start(t, server.Options{})
	p := g.topic("t", engine.TopicConfig{}).Partition(0)
	c := g.dial(t)
	c.produceTo(2, 1, "t", 0, set("a", "b"))
	require.NoError(t, p.Roll(t.Context()))
	c.produceTo(2, 1, "t", 0, set("c"))
	require.Equal(t, []int64{3, 2, 0}, c.listOffsets(0, at(0, -1))[0].OldStyleOffsets)
	require.Equal(t, []int64{0}, c.listOffsets(0, at(0, -2))[0].OldStyleOffsets)
	few := at(0, -1)
	few.MaxNumOffsets = 1
	require.Equal(t, []int64{3}, c.listOffsets(0, few)[0].OldStyleOffsets)
	few.MaxNumOffsets = -1
	require.EqualValues(t, 42, c.listOffsets(0, few)[0].ErrorCode)
}

// SPEC 2.9: a search by time in format 0 is error 43.
func TestListOffsetsOfFormat0(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{MessageFormat: engine.FormatV0})
	require.EqualValues(t, 43, g.dial(t).listOffsets(1, at(0, 5))[0].ErrorCode)
}
