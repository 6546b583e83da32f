package server_test

import (
	"encoding/hex"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/examples/gateway/server"
)

func addressOf(b kmsg.MetadataResponseBroker) string {
	return net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
}

// SPEC 2.8.27-28: versions differ in what they carry, the offsets run on.
func TestProduceAnswersWithTheFirstOffset(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{})
	c := g.dial(t)
	next := int64(0)
	for version := range int16(3) {
		for _, acks := range []int16{1, -1} {
			got := c.produceTo(version, acks, "t", 0, set("a", "b"))
			require.Zero(t, got.ErrorCode)
			require.Equal(t, next, got.BaseOffset)
			require.EqualValues(t, -1, got.LogAppendTime)
			next += 2
		}
	}
	got := c.produceTo(2, 1, "t", 0, nil)
	require.Zero(t, got.ErrorCode)
	require.EqualValues(t, -1, got.BaseOffset)
}

func TestProduceAnswersWithLogAppendTime(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{TimestampType: codec.LogAppendTime})
	got := g.dial(t).produceTo(2, 1, "t", 0, set("a"))
	require.Zero(t, got.ErrorCode)
	require.Greater(t, got.LogAppendTime, int64(t0))
}

// SPEC 2.8.30: acks=0 is not answered; the next answer is that of the next request.
func TestProduceWithoutAcksIsNotAnswered(t *testing.T) {
	g := start(t, server.Options{})
	p := g.topic("t", engine.TopicConfig{}).Partition(0)
	c := g.dial(t)
	c.send(2, produceRequest(0, "t", 0, set("a")))
	require.EqualValues(t, 1, c.produceTo(2, 1, "t", 0, set("b")).BaseOffset)

	c.send(2, produceRequest(0, "none", 0, set("a")))
	c.requireClosed()
	offsets, err := p.Offsets()
	require.NoError(t, err)
	require.EqualValues(t, 2, offsets.HighWatermark)
}

func TestProduceRefuses(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{MaxMessageBytes: 1000, SegmentBytes: 1500})
	g.topic("compacted", engine.TopicConfig{CleanupPolicy: engine.CleanupCompact})
	c := g.dial(t)
	large := string(make([]byte, 600))
	for _, bad := range []struct {
		name      string
		acks      int16
		topic     string
		partition int32
		set       []byte
		code      int16
	}{
		{"acks", 2, "t", 0, set("a"), 21},
		{"unknown topic", 1, "none", 0, set("a"), 3},
		{"unknown partition", 1, "t", 1, set("a"), 3},
		{"negative partition", -1, "t", -1, set("a"), 3},
		{"message too large", 1, "t", 0, set(string(make([]byte, 1000))), 10},
		{"set too large", 1, "t", 0, set(large, large, large), 18},
		{"partial message", 1, "t", 0, set("a")[:20], 2},
		{"no key on a compacted topic", 1, "compacted", 0, set("a"), 2},
	} {
		got := c.produceTo(2, bad.acks, bad.topic, bad.partition, bad.set)
		require.Equal(t, bad.code, got.ErrorCode, bad.name)
		require.EqualValues(t, -1, got.BaseOffset, bad.name)
	}
	require.Zero(t, c.produceTo(2, 1, "t", 0, set("a")).BaseOffset, "nothing was appended, the connection stays")
}

// Bad message sets that were made from those of real clients.
func TestProduceRefusesDamagedSetsOfClients(t *testing.T) {
	files, err := filepath.Glob("../../../codec/testdata/vectors/bad-*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{})
	c := g.dial(t)
	for _, file := range files {
		var v struct {
			Hex  string `json:"hex"`
			Code *int16 `json:"expected_produce_error"`
		}
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &v))
		if v.Code == nil {
			continue // its wrapper has an odd offset, which is ignored (SPEC C21)
		}
		bad, err := hex.DecodeString(v.Hex)
		require.NoError(t, err)
		require.Equal(t, *v.Code, c.produceTo(2, -1, "t", 0, bad).ErrorCode, file)
	}
	require.Zero(t, c.produceTo(2, 1, "t", 0, set("a")).BaseOffset)
}

// A request's partitions succeed and fail each for itself, and are answered in order.
func TestProduceToSeveralPartitions(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{Partitions: 40})
	req := kmsg.NewPtrProduceRequest()
	req.Acks = -1
	for i := range int32(80) {
		req.Topics = append(req.Topics, produceRequest(-1, "t", i%60, set("a")).Topics...)
	}
	resp := ask[*kmsg.ProduceResponse](g.dial(t), 2, req)
	require.Len(t, resp.Topics, 80)
	for i, topic := range resp.Topics {
		p := topic.Partitions[0]
		require.EqualValues(t, i%60, p.Partition)
		if i%60 < 40 {
			require.Zero(t, p.ErrorCode)
			continue
		}
		require.EqualValues(t, 3, p.ErrorCode)
	}
}
