package server_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/examples/gateway/server"
)

// write sends bytes that may be refused in the middle.
func (c *client) write(b []byte) { _, _ = c.nc.Write(b) }

// head is how a request begins that claims a length.
func head(size int32, key kmsg.Key, version int16) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(size))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	return append(b, 0, 0, 0, 1, 0xff, 0xff) // correlation id, no client id
}

func TestWhatIsNoRequestEndsTheConnection(t *testing.T) {
	g := start(t, server.Options{MaxRequestBytes: 2 << 20})
	for name, bytes := range map[string][]byte{
		"another protocol":        []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"zeros":                   make([]byte, 64),
		"negative length":         head(-1, kmsg.Metadata, 0),
		"length beyond the limit": head(2<<20+1, kmsg.Produce, 2),
		"beyond that of the rest": head(1<<20+1, kmsg.Metadata, 0),
		"huge length":             head(1<<31-1, kmsg.Produce, 2),
		"length of half a header": head(5, kmsg.Produce, 2),
		"body missing":            head(10, kmsg.Produce, 2),
		"client id cut short":     append(binary.BigEndian.AppendUint32(nil, 10), 0, 3, 0, 0, 0, 0, 0, 1, 0, 9),
	} {
		t.Run(name, func(t *testing.T) {
			c := g.dial(t)
			c.write(bytes)
			c.requireClosed()
		})
	}
	g.requireAlive()
}

// A request may claim arrays of any length in few bytes. None is made before the
// bytes are there for it.
func TestArraysCostNoMoreThanTheRequest(t *testing.T) {
	g := start(t, server.Options{})
	body := append(head(0, kmsg.Produce, 2), 0, 1, 0, 0, 0, 0)
	body = binary.BigEndian.AppendUint32(body, 5<<20) // topics, of at least 2 bytes each for the decoder
	body = append(body, make([]byte, 12<<20)...)
	binary.BigEndian.PutUint32(body, uint32(len(body)-4))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 5 {
		c := g.dial(t)
		c.write(body)
		c.requireClosed()
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(5*4*len(body)))
	g.requireAlive()
}

// What a client claims it does not get: memory is taken as bytes come.
func TestHalfRequestsCostWhatTheySent(t *testing.T) {
	g := start(t, server.Options{})
	g.requireAlive()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		g.dial(t).write(head(16<<20, kmsg.Produce, 2))
	}
	g.requireAlive()
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100*200<<10))
}

func TestHalfRequestIsGivenUp(t *testing.T) {
	g := start(t, server.Options{TransferTimeout: 50 * time.Millisecond})
	c := g.dial(t)
	c.write(head(1000, kmsg.Produce, 2))
	c.requireClosed()
}

func TestSilentConnectionIsClosed(t *testing.T) {
	g := start(t, server.Options{IdleTimeout: 50 * time.Millisecond})
	c := g.dial(t)
	require.Zero(t, ask[*kmsg.ApiVersionsResponse](c, 0, kmsg.NewPtrApiVersionsRequest()).ErrorCode)
	c.requireClosed()
}

// A client that does not take its answer is cut off, and holds up nobody.
func TestClientThatDoesNotReadIsCutOff(t *testing.T) {
	g := start(t, server.Options{TransferTimeout: 100 * time.Millisecond})
	g.topic("t", engine.TopicConfig{})
	c := g.dial(t)
	c.produceTo(2, 1, "t", 0, set(string(make([]byte, 900_000))))
	request := c.encode(2, fetchRequest(1, 0, from{"t", 0, 0, 1 << 20}))
	require.Eventually(t, func() bool { // more answers than the socket's buffers hold
		_, err := c.nc.Write(request)
		return err != nil
	}, patience, time.Millisecond)
	g.requireAlive()
}

func TestConnectionsBeyondTheLimitAreClosed(t *testing.T) {
	g := start(t, server.Options{MaxConnections: 5})
	var in []*client
	for range 5 {
		c := g.dial(t)
		ask[*kmsg.ApiVersionsResponse](c, 0, kmsg.NewPtrApiVersionsRequest())
		in = append(in, c)
	}
	for range 2000 {
		nc, err := net.Dial("tcp", g.address)
		require.NoError(t, err)
		require.NoError(t, nc.SetDeadline(time.Now().Add(patience)))
		_, err = io.ReadFull(nc, make([]byte, 1))
		require.Error(t, err)
		require.NoError(t, nc.Close())
	}
	require.Equal(t, uint64(2000), g.server.Stats().Refused)
	require.Equal(t, 5, g.server.Stats().Connections)
	for _, c := range in {
		require.Zero(t, ask[*kmsg.ApiVersionsResponse](c, 0, kmsg.NewPtrApiVersionsRequest()).ErrorCode)
	}
	require.NoError(t, in[0].nc.Close())
	require.Eventually(t, func() bool { // there is room again
		nc, err := net.Dial("tcp", g.address)
		require.NoError(t, err)
		defer func() { _ = nc.Close() }()
		c := &client{t: t, nc: nc}
		_, err = nc.Write(c.encode(0, kmsg.NewPtrApiVersionsRequest()))
		require.NoError(t, err)
		_, err = c.receive(kmsg.NewPtrApiVersionsRequest())
		return err == nil
	}, patience, time.Millisecond)
}

// Answers come in the order of the requests, however many were sent ahead.
func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{})
	c := g.dial(t)
	var all []byte
	for range 100 {
		all = append(all, c.encode(2, produceRequest(1, "t", 0, set("a")))...)
	}
	c.write(all)
	c.n = 0
	for i := range 100 {
		c.n++
		resp, err := c.receive(&kmsg.ProduceRequest{Version: 2})
		require.NoError(t, err)
		require.EqualValues(t, i, resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].BaseOffset)
	}
}

// A request with many mistakes does not fill the log.
func TestErrorsOfOneRequestAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	g := start(t, server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	c := g.dial(t)
	req := kmsg.NewPtrCreateTopicsRequest()
	for i := range 5000 {
		req.Topics = append(req.Topics, spec(fmt.Sprint("bad/", i), 1, 1))
	}
	resp := ask[*kmsg.CreateTopicsResponse](c, 0, req)
	require.Len(t, resp.Topics, 5000)
	require.EqualValues(t, 17, resp.Topics[4999].ErrorCode)
	g.stop()
	require.Equal(t, 10, strings.Count(log.String(), "msg=refused "))
	require.Contains(t, log.String(), "errors=5000")
	require.Equal(t, uint64(5000), g.server.Stats().Refusals)
}
