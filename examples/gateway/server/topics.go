package server

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// partitionCount is the number of all partitions, for Options.MaxPartitions: those there
// were when the server was made, and what its clients have changed since. The lock is held
// across the store's write, as the store's own lock of the catalog is.
type partitionCount struct {
	sync.Mutex
	n int64
}

func (c *partitionCount) init(db *engine.DB) {
	for _, t := range db.Topics() {
		c.n += int64(t.Partitions())
	}
}

// createTopics makes topics, each for itself; they are on stable storage when it
// answers, so the request's timeout does not matter. The settings are those of SPEC 11 by
// their Kafka names.
func (c *conn) createTopics(req *kmsg.CreateTopicsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	times := make(map[string]int)
	for i := range req.Topics {
		times[req.Topics[i].Topic]++
	}
	for i := range req.Topics {
		asked := &req.Topics[i]
		config, err := topicConfig(asked)
		switch {
		case times[asked.Topic] > 1:
			err = codec.Errorf(codec.CodeInvalidRequest, "topic asked for twice")
		case err == nil:
			_, err = c.server.createTopic(asked.Topic, config, true)
		}
		answer := kmsg.NewCreateTopicsResponseTopic()
		answer.Topic = asked.Topic
		answer.ErrorCode = c.code("create topic", asked.Topic, -1, err)
		resp.Topics = append(resp.Topics, answer)
	}
	return resp, nil
}

// topicConfig returns the settings of a topic to create. Who places the replicas himself
// can only place them here; the number of partitions is then that of places.
func topicConfig(asked *kmsg.CreateTopicsRequestTopic) (engine.TopicConfig, error) {
	partitions := asked.NumPartitions
	switch placed := asked.ReplicaAssignment; {
	case len(placed) > 0 && (partitions != -1 || asked.ReplicationFactor != -1):
		return engine.TopicConfig{}, codec.Errorf(codec.CodeInvalidRequest, "both numbers and places of replicas")
	case len(placed) > 0:
		seen := make(map[int32]bool)
		for _, p := range placed {
			if p.Partition < 0 || int(p.Partition) >= len(placed) || seen[p.Partition] || len(p.Replicas) != 1 || p.Replicas[0] != nodeID {
				return engine.TopicConfig{}, codec.Errorf(codeInvalidAssignment, "partition %d on %v: there is node %d only", p.Partition, p.Replicas, nodeID)
			}
			seen[p.Partition] = true
		}
		partitions = int32(len(placed))
	case partitions < 1:
		return engine.TopicConfig{}, codec.Errorf(codec.CodeInvalidPartitions, "%d partitions", partitions)
	case asked.ReplicationFactor != 1:
		return engine.TopicConfig{}, codec.Errorf(codeInvalidReplication, "replication factor %d: there is one node", asked.ReplicationFactor)
	}
	values := make(map[string]string, len(asked.Configs))
	for _, c := range asked.Configs {
		if c.Value == nil {
			return engine.TopicConfig{}, &engine.ConfigError{Setting: c.Name, Value: "null", Reason: "must have a value"}
		}
		values[c.Name] = *c.Value
	}
	config, err := engine.ParseTopicConfig(values)
	config.Partitions = partitions
	return config, err
}

// createTopic makes a topic; one that is there is an error if it must be new. The bound
// on partitions keeps a client from making the answer to Metadata, and with it every other
// client's start, as large as it likes.
func (s *Server) createTopic(name string, config engine.TopicConfig, mustBeNew bool) (*engine.Topic, error) {
	all := &s.partitions
	all.Lock()
	defer all.Unlock()
	if t, ok := s.db.Topic(name); ok {
		if mustBeNew {
			return nil, engine.ErrTopicExists
		}
		return t, nil
	}
	if config.Partitions == 0 {
		config.Partitions = max(1, s.opts.DefaultPartitions)
	}
	if total := all.n + int64(config.Partitions); total > int64(s.opts.MaxPartitions) {
		return nil, codec.Errorf(codec.CodeInvalidPartitions, "%d partitions in all would be more than %d", total, s.opts.MaxPartitions)
	}
	t, err := s.db.CreateTopic(name, config)
	if err == nil {
		all.n += int64(config.Partitions)
		s.log.Info("topic created", "topic", name, "settings", config.Settings())
	}
	return t, err
}

func (s *Server) deleteTopic(ctx context.Context, name string) error {
	all := &s.partitions
	all.Lock()
	defer all.Unlock()
	t, _ := s.db.Topic(name)
	err := s.db.DeleteTopic(ctx, name)
	if err == nil {
		all.n -= int64(t.Partitions())
		s.log.Info("topic deleted", "topic", name)
	}
	return err
}

// deleteTopics removes topics with all they hold.
func (c *conn) deleteTopics(req *kmsg.DeleteTopicsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	for _, name := range req.TopicNames {
		err := c.server.deleteTopic(c.context(), name)
		answer := kmsg.NewDeleteTopicsResponseTopic()
		answer.Topic = &name
		answer.ErrorCode = c.code("delete topic", name, -1, err)
		resp.Topics = append(resp.Topics, answer)
	}
	return resp, nil
}
