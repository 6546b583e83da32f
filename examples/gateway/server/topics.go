package server

import (
	"sync"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// creating keeps clients that create topics at the same time from going over
// Options.MaxPartitions together.
type creating struct{ sync.Mutex }

// createTopic makes a topic unless it is there. The bound on partitions keeps a client
// from making the answer to Metadata, and with it every other client's start, as large
// as it likes.
func (s *Server) createTopic(name string, config engine.TopicConfig) (*engine.Topic, error) {
	s.creating.Lock()
	defer s.creating.Unlock()
	total := max(1, int64(config.Partitions))
	for _, t := range s.db.Topics() {
		total += int64(t.Partitions())
	}
	if total > int64(s.opts.MaxPartitions) {
		return nil, codec.Errorf(codec.CodeInvalidPartitions, "%d partitions in all would be more than %d", total, s.opts.MaxPartitions)
	}
	t, err := s.db.EnsureTopic(name, config)
	if err == nil {
		s.log.Info("topic created", "topic", name, "partitions", t.Partitions())
	}
	return t, err
}
