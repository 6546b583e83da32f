package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/examples/gateway/server"
)

// WIRE: the first tries of librdkafka, sarama (v3), franz-go and kafkajs.
func TestApiVersionsNamesWhatIsServed(t *testing.T) {
	g := start(t, server.Options{})
	for version := range int16(4) {
		c := g.dial(t)
		resp := ask[*kmsg.ApiVersionsResponse](c, version, kmsg.NewPtrApiVersionsRequest())
		require.Zero(t, resp.ErrorCode)
		got := make(map[kmsg.Key][2]int16)
		for _, k := range resp.ApiKeys {
			got[kmsg.Key(k.ApiKey)] = [2]int16{k.MinVersion, k.MaxVersion}
		}
		require.Equal(t, served, got)
	}
}

// WIRE, minimum API table.
var served = map[kmsg.Key][2]int16{
	kmsg.Produce: {0, 2}, kmsg.Fetch: {0, 2}, kmsg.ListOffsets: {0, 1}, kmsg.Metadata: {0, 1}, kmsg.ApiVersions: {0, 3},
	kmsg.FindCoordinator: {0, 0}, kmsg.JoinGroup: {0, 1}, kmsg.SyncGroup: {0, 0}, kmsg.Heartbeat: {0, 0}, kmsg.LeaveGroup: {0, 0},
	kmsg.OffsetCommit: {2, 2}, kmsg.OffsetFetch: {1, 1},
	kmsg.CreateTopics: {0, 0}, kmsg.DeleteTopics: {0, 0},
}

// WIRE: above the maximum the answer is error 35 in the form of version 0, and the
// connection stays.
func TestApiVersionsAboveOursKeepsTheConnection(t *testing.T) {
	g := start(t, server.Options{})
	c := g.dial(t)
	for _, version := range []int16{4, 5, 99, -1} {
		c.send(version, kmsg.NewPtrApiVersionsRequest())
		old := kmsg.NewPtrApiVersionsRequest()
		resp, err := c.receive(old)
		require.NoError(t, err)
		require.EqualValues(t, 35, resp.(*kmsg.ApiVersionsResponse).ErrorCode)
		require.Len(t, resp.(*kmsg.ApiVersionsResponse).ApiKeys, len(served))
	}
	require.Zero(t, ask[*kmsg.ApiVersionsResponse](c, 3, kmsg.NewPtrApiVersionsRequest()).ErrorCode)
}

// Kafka closes the connection of a client that uses what was not offered.
func TestOtherApisAndVersionsEndTheConnection(t *testing.T) {
	g := start(t, server.Options{})
	for _, c := range []struct {
		version int16
		req     kmsg.Request
	}{
		{3, kmsg.NewPtrProduceRequest()}, {3, kmsg.NewPtrFetchRequest()}, {2, kmsg.NewPtrMetadataRequest()},
		{-1, kmsg.NewPtrMetadataRequest()}, {0, kmsg.NewPtrInitProducerIDRequest()},
	} {
		client := g.dial(t)
		client.send(c.version, c.req)
		client.requireClosed()
	}
	g.requireAlive()
}

func names(resp *kmsg.MetadataResponse) (all []string) {
	for _, topic := range resp.Topics {
		all = append(all, *topic.Topic)
	}
	return all
}

// WIRE: in version 0 no topics means all, in version 1 null does.
func TestMetadataNamesTopics(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("a", engine.TopicConfig{Partitions: 3})
	g.topic("b", engine.TopicConfig{})
	c := g.dial(t)
	all := func(version int16, topics []kmsg.MetadataRequestTopic) *kmsg.MetadataResponse {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = topics
		return ask[*kmsg.MetadataResponse](c, version, req)
	}
	require.Equal(t, []string{"a", "b"}, names(all(0, []kmsg.MetadataRequestTopic{})))
	require.Equal(t, []string{"a", "b"}, names(all(1, nil)))
	require.Empty(t, names(all(1, []kmsg.MetadataRequestTopic{})))

	resp := all(1, nil)
	require.Len(t, resp.Brokers, 1)
	require.Equal(t, g.address, addressOf(resp.Brokers[0]))
	require.Equal(t, resp.Brokers[0].NodeID, resp.ControllerID)
	require.Len(t, resp.Topics[0].Partitions, 3)
	for i, p := range resp.Topics[0].Partitions {
		require.EqualValues(t, i, p.Partition)
		require.Zero(t, p.ErrorCode)
		require.Equal(t, []int32{p.Leader}, p.Replicas)
		require.Equal(t, []int32{p.Leader}, p.ISR)
	}
}

func TestMetadataCreatesTopicsOnlyIfAllowed(t *testing.T) {
	asks := func(g *gateway, name string) int16 {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
		resp := ask[*kmsg.MetadataResponse](g.dial(t), 1, req)
		require.Equal(t, []string{name}, names(resp))
		return resp.Topics[0].ErrorCode
	}
	closed := start(t, server.Options{})
	require.EqualValues(t, 3, asks(closed, "new"))
	require.Empty(t, closed.db.Topics())

	open := start(t, server.Options{AutoCreate: true, MaxPartitions: 2})
	require.Zero(t, asks(open, "new"))
	require.Zero(t, asks(open, "new"))
	require.EqualValues(t, 17, asks(open, "no/name"))
	require.Zero(t, asks(open, "other"))
	require.EqualValues(t, 37, asks(open, "one-too-many"))
	require.Len(t, open.db.Topics(), 2)
}

func TestAdvertisedAddress(t *testing.T) {
	g := start(t, server.Options{Advertise: "kafka.example:19092"})
	resp := ask[*kmsg.MetadataResponse](g.dial(t), 1, kmsg.NewPtrMetadataRequest())
	require.Equal(t, "kafka.example:19092", addressOf(resp.Brokers[0]))
	for _, bad := range []string{"nowhere", "host:", ":9092", "host:99999"} {
		_, err := server.New(nil, server.Options{Advertise: bad})
		require.ErrorContains(t, err, "Advertise")
	}
}
