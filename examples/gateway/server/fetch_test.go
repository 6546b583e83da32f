package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/examples/gateway/server"
)

func (c *client) fetch(version int16, minBytes int32, maxWait time.Duration, parts ...from) []kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	return fetched(ask[*kmsg.FetchResponse](c, version, fetchRequest(minBytes, maxWait, parts...)))
}

func TestFetchReturnsMessages(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{})
	c := g.dial(t)
	c.produceTo(2, 1, "t", 0, set("a", "b", "c"))
	for version := range int16(3) {
		got := c.fetch(version, 1, 0, from{"t", 0, 1, 1 << 20})[0]
		require.Zero(t, got.ErrorCode)
		require.EqualValues(t, 3, got.HighWatermark)
		require.Equal(t, []string{"b", "c"}, values(t, got.RecordBatches))
		frame, _, err := codec.ReadFrame(got.RecordBatches)
		require.NoError(t, err)
		require.EqualValues(t, min(version/2, 1), frame.Magic, "SPEC 1.6.35: v0 and v1 readers know format 0 only")
	}
}

func TestFetchErrors(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{})
	c := g.dial(t)
	c.produceTo(2, 1, "t", 0, set("a"))
	began := time.Now()
	got := c.fetch(2, 1, patience, from{"t", 0, 2, 100}, from{"t", 0, -1, 100}, from{"none", 0, 0, 100}, from{"t", 1, 0, 100})
	for i, code := range []int16{1, 1, 3, 3} {
		require.Equal(t, code, got[i].ErrorCode)
		require.EqualValues(t, -1, got[i].HighWatermark)
		require.Equal(t, []byte{}, got[i].RecordBatches)
	}
	require.Less(t, time.Since(began), patience/2, "an error is not waited for")
}

// WIRE: an answer before max_wait is over makes clients spin; a null set breaks them.
func TestFetchWaitsAtTheEndForMaxWait(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{})
	began := time.Now()
	got := g.dial(t).fetch(2, 1, 300*time.Millisecond, from{"t", 0, 0, 100})[0]
	require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)
	require.Zero(t, got.ErrorCode)
	require.Zero(t, got.HighWatermark)
	require.Equal(t, []byte{}, got.RecordBatches)
}

// The wait ends with the append that makes min_bytes, whichever partition it goes to,
// and the answer has everything.
func TestFetchIsWokenByAppends(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{Partitions: 2})
	reader, writer := g.dial(t), g.dial(t)
	one := len(set("12345678"))
	req := fetchRequest(int32(3*one), patience, from{"t", 0, 0, 1 << 20}, from{"t", 1, 0, 1 << 20})
	reader.send(2, req)
	writer.produceTo(2, 1, "t", 0, set("12345678"))
	writer.produceTo(2, 1, "t", 1, set("abcdefgh"))
	require.NoError(t, reader.nc.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := reader.receive(req)
	require.Error(t, err, "two of three messages are there")
	require.NoError(t, reader.nc.SetReadDeadline(time.Now().Add(patience)))
	began := time.Now()
	writer.produceTo(2, 1, "t", 0, set("90123456"))
	resp, err := reader.receive(req)
	require.NoError(t, err)
	require.Less(t, time.Since(began), patience/2)
	got := fetched(resp.(*kmsg.FetchResponse))
	require.Equal(t, []string{"12345678", "90123456"}, values(t, got[0].RecordBatches))
	require.Equal(t, []string{"abcdefgh"}, values(t, got[1].RecordBatches))
	require.EqualValues(t, 2, got[0].HighWatermark)
}

func TestFetchEndsWithItsTopic(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{})
	c := g.dial(t)
	req := fetchRequest(1, patience, from{"t", 0, 0, 100})
	c.send(2, req)
	time.AfterFunc(20*time.Millisecond, func() { _ = g.db.DeleteTopic(t.Context(), "t") })
	resp, err := c.receive(req)
	require.NoError(t, err)
	require.EqualValues(t, 3, fetched(resp.(*kmsg.FetchResponse))[0].ErrorCode)
}

// WIRE: the first message is whole however small the limit, what follows is whole
// messages within it.
func TestFetchKeepsThePartitionLimit(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{})
	c := g.dial(t)
	one := int32(len(set("a")))
	c.produceTo(2, 1, "t", 0, set("a", "b", "c", "d"))
	for max, want := range map[int32][]string{0: {"a"}, 1: {"a"}, one - 1: {"a"}, 2*one - 1: {"a"}, 2 * one: {"a", "b"}, 100 * one: {"a", "b", "c", "d"}, -1: {"a"}} {
		got := c.fetch(2, 1, 0, from{"t", 0, 0, max})[0]
		require.Equal(t, want, values(t, got.RecordBatches), "max_bytes %d", max)
	}
	began := time.Now()
	c.fetch(2, 1<<20, patience, from{"t", 0, 0, 2 * one})
	require.Less(t, time.Since(began), patience/2, "more than the limit cannot be waited for")
}

// A limit that is reached during the wait is kept as well.
func TestFetchKeepsThePartitionLimitWhileItWaits(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{})
	reader, writer := g.dial(t), g.dial(t)
	one := int32(len(set("a")))
	writer.produceTo(2, 1, "t", 0, set("a"))
	req := fetchRequest(1<<20, patience, from{"t", 0, 0, 3*one - 1})
	reader.send(2, req)
	for _, v := range []string{"b", "c", "d"} {
		writer.produceTo(2, 1, "t", 0, set(v))
	}
	resp, err := reader.receive(req)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, values(t, fetched(resp.(*kmsg.FetchResponse))[0].RecordBatches))
}

// The response has a limit over all partitions, and those it leaves out have their
// turn.
func TestFetchKeepsTheResponseLimit(t *testing.T) {
	g := start(t, server.Options{MaxResponseBytes: 2500})
	g.topic("t", engine.TopicConfig{Partitions: 5})
	c := g.dial(t)
	var parts []from
	for i := range int32(5) {
		c.produceTo(2, 1, "t", i, set(strings.Repeat(fmt.Sprint(i), 966)))
		parts = append(parts, from{"t", i, 0, 1 << 20})
	}
	seen := make(map[int]int)
	for range 5 {
		total := 0
		for i, p := range c.fetch(2, 1, patience, parts...) {
			require.Zero(t, p.ErrorCode)
			require.EqualValues(t, 1, p.HighWatermark)
			total += len(p.RecordBatches)
			if len(p.RecordBatches) > 0 {
				seen[i]++
			}
		}
		require.LessOrEqual(t, total, 3000, "the limit, and the message that reaches it is whole")
		require.GreaterOrEqual(t, total, 2000)
	}
	require.Len(t, seen, 5)
}

// SPEC 1.5.29: a fetch from inside a wrapper returns all of it.
func TestFetchFromInsideAWrapper(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{})
	c := g.dial(t)
	msgs := []codec.Message{
		{Offset: 0, Timestamp: t0, TimestampType: codec.CreateTime, Value: []byte("a")},
		{Offset: 1, Timestamp: t0, TimestampType: codec.CreateTime, Value: []byte("b")},
	}
	frame, _, err := codec.BuildWrapper(nil, codec.Gzip, 1, msgs)
	require.NoError(t, err)
	c.produceTo(2, 1, "t", 0, codec.AppendFrame(nil, &frame))
	got := c.fetch(2, 1, 0, from{"t", 0, 1, 1 << 20})[0]
	require.Equal(t, []string{"a", "b"}, values(t, got.RecordBatches))
}
