package server

import (
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// produceAtOnce is how many partitions of one request are appended to at a time:
// their sets share the waits for the disk.
const produceAtOnce = 16

// produce appends a message set to each partition, each for itself (SPEC 2.1). The
// store answers when a set is as durable as Options.Durability says; it is its own
// only replica, so acks=1 and acks=-1 are one. acks=0 is not answered, and a failure
// then ends the connection (SPEC 2.8.30).
func (c *conn) produce(req *kmsg.ProduceRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	answers := make([]*kmsg.ProduceResponseTopicPartition, 0, len(req.Topics))
	for i := range req.Topics {
		asked := &req.Topics[i]
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic = asked.Topic
		topic.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(asked.Partitions))
		for j := range topic.Partitions {
			topic.Partitions[j] = kmsg.NewProduceResponseTopicPartition()
			answers = append(answers, &topic.Partitions[j])
		}
		resp.Topics = append(resp.Topics, topic)
	}
	c.appendSets(req, answers)
	if req.Acks != 0 {
		return resp, nil
	}
	for _, a := range answers {
		if a.ErrorCode != 0 {
			return nil, fmt.Errorf("%w: acks=0 and partition %d got error %d", errHangUp, a.Partition, a.ErrorCode)
		}
	}
	return nil, nil
}

// appendSets fills in the answers, one for each partition of the request in order.
func (c *conn) appendSets(req *kmsg.ProduceRequest, answers []*kmsg.ProduceResponseTopicPartition) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, produceAtOnce)
	n := 0
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p, answer := &t.Partitions[j], answers[n]
			n++
			if len(answers) == 1 {
				c.appendSet(req.Acks, t.Topic, p, answer)
				return
			}
			slots <- struct{}{}
			wg.Go(func() {
				c.appendSet(req.Acks, t.Topic, p, answer)
				<-slots
			})
		}
	}
	wg.Wait()
}

func (c *conn) appendSet(acks int16, topic string, p *kmsg.ProduceRequestTopicPartition, answer *kmsg.ProduceResponseTopicPartition) {
	answer.Partition = p.Partition
	receipt := engine.Receipt{Offset: -1, LogAppendTime: codec.NoTimestamp}
	var err error
	if acks < -1 || acks > 1 {
		err = codec.Errorf(codeInvalidAcks, "acks %d", acks)
	} else {
		receipt, err = c.server.partition(topic, p.Partition).Produce(c.context(), p.Records)
	}
	answer.ErrorCode = c.code("produce", topic, p.Partition, err)
	answer.BaseOffset, answer.LogAppendTime = receipt.Offset, int64(receipt.LogAppendTime)
}
