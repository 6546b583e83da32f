package server_test

import (
	"encoding/binary"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/examples/gateway/server"
)

// rawFetch sends a fetch of version 0 and returns the body of the response.
func (c *client) rawFetch(req *kmsg.FetchRequest) []byte {
	c.t.Helper()
	c.send(0, req)
	var size [4]byte
	_, err := io.ReadFull(c.nc, size[:])
	require.NoError(c.t, err)
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err = io.ReadFull(c.nc, frame)
	require.NoError(c.t, err)
	return frame[4:] // behind the correlation id
}

// SPEC 5.9: a follower gets the rows of the time index behind each set, if the server
// is told to send them; a consumer never does.
func TestFollowersGetTheTimeIndex(t *testing.T) {
	g := start(t, server.Options{FollowerIndex: true})
	topic := g.topic("t", engine.TopicConfig{Partitions: 2, IndexIntervalBytes: engine.ExplicitZero})
	c := g.dial(t)
	for i, v := range []string{"a", "b", "c"} {
		m := codec.Message{Timestamp: t0 + codec.Timestamp(i), TimestampType: codec.CreateTime, Value: []byte(v)}
		c.produceTo(2, 1, "t", 0, codec.AppendMessageFrame(nil, &m, 1))
	}
	req := fetchRequest(0, 0, from{"t", 0, 1, 1 << 20}, from{"t", 1, 0, 1 << 20})
	req.ReplicaID = 2
	topics, err := codec.ParseFetchResponse(c.rawFetch(req))
	require.NoError(t, err)
	require.Len(t, topics, 2, "one for each partition asked for")
	got := topics[0].Partitions[0]
	require.EqualValues(t, 3, got.HighWatermark)
	require.Equal(t, []string{"b", "c"}, values(t, got.Set))
	r, err := topic.Partition(0).FetchReplica(t.Context(), 1, engine.FetchOptions{})
	require.NoError(t, err)
	require.Equal(t, r.Rows, got.Rows)
	require.Len(t, got.Rows, 3, "those of the segment that the follower is in")
	require.Empty(t, topics[1].Partitions[0].Rows)
	require.Empty(t, topics[1].Partitions[0].Set)

	req.ReplicaID = -1
	consumer := c.rawFetch(req)
	_, err = codec.ParseFetchResponse(consumer)
	require.Error(t, err, "the protocol's own response has no rows")
	require.Equal(t, []string{"b", "c"}, values(t, c.fetch(2, 0, 0, from{"t", 0, 1, 1 << 20})[0].RecordBatches))
}

// Without the option a follower gets what the protocol says.
func TestFollowersGetNoIndexUnlessAsked(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{})
	c := g.dial(t)
	c.produceTo(2, 1, "t", 0, set("a"))
	req := fetchRequest(0, 0, from{"t", 0, 0, 1 << 20})
	req.ReplicaID = 2
	resp := ask[*kmsg.FetchResponse](c, 2, req)
	require.Equal(t, []string{"a"}, values(t, fetched(resp)[0].RecordBatches))
}
