package server

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnlog/cairn/engine"
)

// nodeID is the one broker of the cluster.
const nodeID = 0

// metadata names topics and where their partitions are: all here. No topics means
// all of them in version 0; in version 1 null does, and none means none.
func (c *conn) metadata(req *kmsg.MetadataRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	at, err := c.advertised()
	if err != nil {
		return nil, err
	}
	broker := kmsg.NewMetadataResponseBroker()
	broker.NodeID, broker.Host, broker.Port = nodeID, at.host, at.port
	resp.Brokers = []kmsg.MetadataResponseBroker{broker}
	resp.ControllerID = nodeID

	if len(req.Topics) == 0 && (req.Version == 0 || req.Topics == nil) {
		for _, t := range c.server.db.Topics() {
			resp.Topics = append(resp.Topics, describe(t.Name(), t))
		}
		return resp, nil
	}
	asked := make(map[string]bool, len(req.Topics))
	for i := range req.Topics {
		if name := *req.Topics[i].Topic; !asked[name] {
			asked[name] = true
			t, err := c.server.topicOrNew(name)
			answer := describe(name, t)
			answer.ErrorCode = c.code("metadata", name, -1, err)
			resp.Topics = append(resp.Topics, answer)
		}
	}
	return resp, nil
}

// topicOrNew returns a topic, which is made if it may be.
func (s *Server) topicOrNew(name string) (*engine.Topic, error) {
	t, ok := s.db.Topic(name)
	switch {
	case ok:
		return t, nil
	case !s.opts.AutoCreate:
		return nil, engine.ErrUnknownTopic
	}
	return s.createTopic(name, engine.TopicConfig{}, false)
}

func describe(name string, t *engine.Topic) kmsg.MetadataResponseTopic {
	answer := kmsg.NewMetadataResponseTopic()
	answer.Topic = &name
	replicas := []int32{nodeID}
	for i := range t.Partitions() {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.Replicas, p.ISR = i, nodeID, replicas, replicas
		answer.Partitions = append(answer.Partitions, p)
	}
	return answer
}

// advertised is where the client is told to connect to.
func (c *conn) advertised() (address, error) {
	if a := c.server.opts.Advertise; a != "" {
		return splitAddress(a)
	}
	return splitAddress(c.nc.LocalAddr().String())
}
