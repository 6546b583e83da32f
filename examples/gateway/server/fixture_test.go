package server_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/examples/gateway/server"
)

const t0 = codec.Timestamp(1_500_000_000_000)

// patience ends a test that hangs.
const patience = 20 * time.Second

// gateway is a server of a store of its own on the loopback interface.
type gateway struct {
	t       *testing.T
	db      *engine.DB
	server  *server.Server
	address string
}

// start runs a gateway. Its topics keep messages of any age.
func start(t *testing.T, o server.Options) *gateway { return startOn(t, t.TempDir(), o) }

func startOn(t *testing.T, dir string, o server.Options) *gateway {
	t.Helper()
	db, err := engine.Open(dir, engine.Options{Defaults: engine.TopicConfig{CleanupPolicy: engine.CleanupDelete}}.SmallMemory())
	require.NoError(t, err)
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := server.New(db, o)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := &gateway{t: t, db: db, server: s, address: l.Addr().String()}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		g.stop()
		require.ErrorIs(t, <-served, server.ErrClosed)
		require.NoError(t, db.Close())
	})
	return g
}

func (g *gateway) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(g.t, g.server.Shutdown(ctx))
}

// topic creates a topic whose old messages stay.
func (g *gateway) topic(name string, config engine.TopicConfig) *engine.Topic {
	g.t.Helper()
	config.Retention.MaxAge = engine.Forever
	topic, err := g.db.CreateTopic(name, config)
	require.NoError(g.t, err)
	return topic
}

// client is a raw connection that speaks the protocol.
type client struct {
	t  *testing.T
	nc net.Conn
	n  int32
}

func (g *gateway) dial(t *testing.T) *client {
	t.Helper()
	nc, err := net.Dial("tcp", g.address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(patience)))
	return &client{t: t, nc: nc}
}

// ask sends a request and returns the answer to it.
func ask[R kmsg.Response](c *client, version int16, req kmsg.Request) R {
	c.t.Helper()
	c.send(version, req)
	resp, err := c.receive(req)
	require.NoError(c.t, err)
	return resp.(R)
}

func (c *client) send(version int16, req kmsg.Request) {
	c.t.Helper()
	_, err := c.nc.Write(c.encode(version, req))
	require.NoError(c.t, err)
}

func (c *client) encode(version int16, req kmsg.Request) []byte {
	req.SetVersion(version)
	c.n++
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, c.n)
}

// receive reads the answer to the last request sent.
func (c *client) receive(req kmsg.Request) (kmsg.Response, error) {
	c.t.Helper()
	var head [8]byte
	if _, err := io.ReadFull(c.nc, head[:]); err != nil {
		return nil, err
	}
	require.EqualValues(c.t, c.n, binary.BigEndian.Uint32(head[4:]), "correlation id")
	body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	if _, err := io.ReadFull(c.nc, body); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	return resp, resp.ReadFrom(body)
}

// requireClosed reads on until the server has closed the connection without a word.
func (c *client) requireClosed() {
	c.t.Helper()
	n, err := c.nc.Read(make([]byte, 1))
	require.Zero(c.t, n)
	var timeout net.Error
	require.Error(c.t, err)
	require.False(c.t, errors.As(err, &timeout) && timeout.Timeout(), "the server keeps the connection")
}

// requireAlive has the server answer on a new connection.
func (g *gateway) requireAlive() {
	g.t.Helper()
	resp := ask[*kmsg.ApiVersionsResponse](g.dial(g.t), 0, kmsg.NewPtrApiVersionsRequest())
	require.Zero(g.t, resp.ErrorCode)
}

// produceTo sends one set to one partition.
func (c *client) produceTo(version, acks int16, topic string, partition int32, set []byte) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	resp := ask[*kmsg.ProduceResponse](c, version, produceRequest(acks, topic, partition, set))
	require.Len(c.t, resp.Topics, 1)
	require.Len(c.t, resp.Topics[0].Partitions, 1)
	require.Equal(c.t, partition, resp.Topics[0].Partitions[0].Partition)
	return resp.Topics[0].Partitions[0]
}

func produceRequest(acks int16, topic string, partition int32, set []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks = acks
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, set
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.Partitions = topic, []kmsg.ProduceRequestTopicPartition{p}
	req.Topics = []kmsg.ProduceRequestTopic{rt}
	return req
}

// set is a message set of plain frames with those values, a millisecond apart.
func set(values ...string) []byte {
	var b []byte
	for i, v := range values {
		m := codec.Message{Timestamp: t0 + codec.Timestamp(i), TimestampType: codec.CreateTime, Value: []byte(v)}
		b = codec.AppendMessageFrame(b, &m, 1)
	}
	return b
}

// from is a partition to fetch.
type from struct {
	topic     string
	partition int32
	offset    int64
	max       int32
}

func fetchRequest(minBytes int32, maxWait time.Duration, parts ...from) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = -1
	req.MinBytes, req.MaxWaitMillis = minBytes, int32(maxWait.Milliseconds())
	for _, f := range parts {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = f.partition, f.offset, f.max
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic, rt.Partitions = f.topic, []kmsg.FetchRequestTopicPartition{p}
		req.Topics = append(req.Topics, rt)
	}
	return req
}

// fetched are the partitions of a response in order.
func fetched(resp *kmsg.FetchResponse) (parts []kmsg.FetchResponseTopicPartition) {
	for _, t := range resp.Topics {
		parts = append(parts, t.Partitions...)
	}
	return parts
}

// values reads a message set.
func values(t *testing.T, set []byte) (got []string) {
	t.Helper()
	for m, err := range codec.Messages(set) {
		require.NoError(t, err)
		got = append(got, string(m.Value))
	}
	return got
}
