package server

import (
	"log/slog"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// The error codes of the protocol that the server gives itself; the engine's come
// with its errors.
const (
	codeInvalidAcks        = 21
	codeUnsupportedVersion = 35
	codeInvalidReplication = 38
	codeInvalidAssignment  = 39
)

// maxLogged is how many errors of one request are logged each for itself: a request may
// have 100,000.
const maxLogged = 10

// code returns the protocol's code of an error and logs what an operator should know
// of: a client's own mistakes at Info, everything else at Error.
func (c *conn) code(op, topic string, partition int32, err error) int16 {
	code := engine.KafkaCode(err)
	level := slog.LevelInfo
	switch code {
	case codec.CodeNone:
		return 0
	case codec.CodeUnknown, codec.CodeKafkaStorage:
		level = slog.LevelError
	case codec.CodeOffsetOutOfRange, codec.CodeUnknownPartition:
		level = slog.LevelDebug // part of how clients find their way
	}
	c.server.stats.refusals.Add(1)
	if c.refusals.Add(1) > maxLogged && level < slog.LevelError {
		return int16(code)
	}
	c.log.Log(c.context(), level, "refused", "op", op, "topic", topic, "partition", partition, "code", int(code), "err", err)
	return int16(code)
}

// partition returns the handle on a partition; one that does not exist refuses every
// use with code 3.
func (s *Server) partition(topic string, number int32) *engine.Partition {
	t, _ := s.db.Topic(topic)
	return t.Partition(number)
}
