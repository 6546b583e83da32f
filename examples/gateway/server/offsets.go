package server

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/examples/gateway/coordinator"
)

// maxMetadata bounds what a consumer keeps beside an offset: offset.metadata.max.bytes,
// and the store's own bound. It is looked at here so that one partition's is not
// refused together with the others.
const maxMetadata = 4096

// offsetCommit keeps a group's offsets in the store, all of a request with one sync. The
// request's retention time is not used: Options.GroupExpiry of the store is.
func (c *conn) offsetCommit(req *kmsg.OffsetCommitRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	may := c.server.groups.MayCommit(req.Group, req.MemberID, req.Generation)
	batch := c.server.db.NewBatch()
	var kept []*kmsg.OffsetCommitResponseTopicPartition
	for i := range req.Topics {
		asked := &req.Topics[i]
		topic := kmsg.NewOffsetCommitResponseTopic()
		topic.Topic = asked.Topic
		topic.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(asked.Partitions))
		for j := range asked.Partitions {
			a, answer := &asked.Partitions[j], &topic.Partitions[j]
			answer.Partition = a.Partition
			p := c.server.partition(asked.Topic, a.Partition)
			switch err := checkCommit(p, a); {
			case may != coordinator.None:
				answer.ErrorCode = int16(may)
			case err != nil:
				answer.ErrorCode = c.code("commit", asked.Topic, a.Partition, err)
			default:
				batch.CommitOffset(req.Group, p, a.Offset, text(a.Metadata))
				kept = append(kept, answer)
			}
		}
		resp.Topics = append(resp.Topics, topic)
	}
	if len(kept) == 0 {
		return resp, nil
	}
	_, err := batch.Commit(c.context())
	for _, answer := range kept {
		answer.ErrorCode = int16(engine.KafkaCode(err))
	}
	c.code("commit of group "+req.Group, "", -1, err)
	return resp, nil
}

// checkCommit returns why an offset cannot be kept.
func checkCommit(p *engine.Partition, a *kmsg.OffsetCommitRequestTopicPartition) error {
	switch {
	case a.Offset < 0:
		return codec.Errorf(codec.CodeOffsetOutOfRange, "negative offset %d", a.Offset)
	case len(text(a.Metadata)) > maxMetadata:
		return codec.Errorf(codec.CodeMetadataTooLarge, "metadata of %d bytes is longer than %d", len(text(a.Metadata)), maxMetadata)
	}
	_, err := p.Offsets()
	return err
}

// offsetFetch answers with what a group has committed: -1 where that is nothing, as it is
// for partitions that do not exist.
func (c *conn) offsetFetch(req *kmsg.OffsetFetchRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	group := c.server.db.Group(req.Group)
	for i := range req.Topics {
		topic := kmsg.NewOffsetFetchResponseTopic()
		topic.Topic = req.Topics[i].Topic
		for _, number := range req.Topics[i].Partitions {
			committed, err := group.Committed(c.context(), c.server.partition(topic.Topic, number))
			answer := kmsg.NewOffsetFetchResponseTopicPartition()
			answer.Partition, answer.Offset, answer.Metadata = number, committed.Offset, &committed.Metadata
			if engine.KafkaCode(err) != codec.CodeUnknownPartition {
				answer.ErrorCode = c.code("offset fetch of group "+req.Group, topic.Topic, number, err)
			}
			topic.Partitions = append(topic.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil
}

// text is a string of the protocol that may be null.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
