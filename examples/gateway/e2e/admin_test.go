package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// endOffset asks for the end of partition 0, and until the topic is there for its
// metadata, which makes it.
func endOffset(t *testing.T, cl *kgo.Client, topic string) (end int64) {
	t.Helper()
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	_, err := metadata.RequestWith(withTimeout(t), cl)
	require.NoError(t, err)
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic, rt.Partitions = topic, []kmsg.ListOffsetsRequestTopicPartition{p}
	req.Topics = append(req.Topics, rt)
	require.Eventually(t, func() bool {
		resp, err := req.RequestWith(withTimeout(t), cl)
		require.NoError(t, err)
		answer := resp.Topics[0].Partitions[0]
		end = answer.Offset
		return answer.ErrorCode == 0
	}, patience, 10*time.Millisecond)
	return end
}

// createTopic makes a topic whose settings are names and values in turn.
func (g *gateway) createTopic(t *testing.T, topic string, settings ...string) {
	t.Helper()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, 1, 1
	for i := 0; i < len(settings); i += 2 {
		rt.Configs = append(rt.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: settings[i], Value: &settings[i+1]})
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(withTimeout(t), franzGo{}.client(t, g.address))
	require.NoError(t, err)
	require.Zero(t, resp.Topics[0].ErrorCode)
}
