package server

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// consumer is the replica_id of a client that is no broker.
const consumer = -1

// listOffsets answers with offsets for times (SPEC 8): version 0 with the bases of
// segments, version 1 with the first message at or after a time.
func (c *conn) listOffsets(req *kmsg.ListOffsetsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	opts := engine.ListOptions{Replica: req.ReplicaID != consumer}
	type partition struct {
		topic  string
		number int32
	}
	seen := make(map[partition]int)
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			seen[partition{t.Topic, p.Partition}]++
		}
	}
	for i := range req.Topics {
		asked := &req.Topics[i]
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = asked.Topic
		for j := range asked.Partitions {
			a := &asked.Partitions[j]
			answer := kmsg.NewListOffsetsResponseTopicPartition()
			answer.Partition = a.Partition
			var err error
			switch p := c.server.partition(asked.Topic, a.Partition); {
			case req.Version == 0:
				answer.OldStyleOffsets, err = p.ListOffsetsV0(c.context(), codec.Timestamp(a.Timestamp), int(a.MaxNumOffsets), opts)
			case seen[partition{asked.Topic, a.Partition}] > 1: // SPEC 2.9
				err = codec.Errorf(codec.CodeInvalidRequest, "partition asked for twice")
			default:
				var pos engine.Position
				pos, err = p.ListOffset(c.context(), codec.Timestamp(a.Timestamp), opts)
				answer.Offset, answer.Timestamp = pos.Offset, int64(pos.Timestamp)
			}
			if answer.ErrorCode = c.code("list offsets", asked.Topic, a.Partition, err); err != nil {
				answer.Offset, answer.Timestamp = -1, -1
			}
			topic.Partitions = append(topic.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil
}
