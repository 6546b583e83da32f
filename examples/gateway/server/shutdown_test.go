package server_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/examples/gateway/server"
)

// Everything acknowledged before and during the shutdown is there after it.
func TestShutdownLosesNothingAcknowledged(t *testing.T) {
	dir := t.TempDir()
	acked := make([]int, 8)
	t.Run("first", func(t *testing.T) {
		g := startOn(t, dir, server.Options{})
		g.topic("t", engine.TopicConfig{Partitions: int32(len(acked))})
		var wg sync.WaitGroup
		busy := make(chan struct{}, len(acked))
		for i := range acked {
			c := g.dial(t)
			wg.Go(func() {
				for {
					if _, err := c.nc.Write(c.encode(2, produceRequest(1, "t", int32(i), set("a")))); err != nil {
						return
					}
					if resp, err := c.receive(&kmsg.ProduceRequest{Version: 2}); err != nil || resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode != 0 {
						return
					}
					if acked[i]++; acked[i] == 20 {
						busy <- struct{}{}
					}
				}
			})
		}
		for range acked {
			<-busy
		}
		g.stop()
		wg.Wait()
	})
	g := startOn(t, dir, server.Options{})
	topic, ok := g.db.Topic("t")
	require.True(t, ok)
	for i, n := range acked {
		offsets, err := topic.Partition(int32(i)).Offsets()
		require.NoError(t, err)
		require.GreaterOrEqual(t, offsets.HighWatermark, int64(n))
	}
}

// A fetch that waits is answered, a silent connection closed, and both at once.
func TestShutdownEndsWaits(t *testing.T) {
	g := start(t, server.Options{})
	g.topic("t", engine.TopicConfig{})
	idle, waiting := g.dial(t), g.dial(t)
	ask[*kmsg.ApiVersionsResponse](idle, 0, kmsg.NewPtrApiVersionsRequest())
	req := fetchRequest(1000, patience, from{"t", 0, 0, 1000})
	waiting.send(2, req)
	g.dial(t).produceTo(2, 1, "t", 0, set("a"))
	require.Eventually(t, func() bool { return g.server.Stats().Requests == 3 }, patience, time.Millisecond)
	began := time.Now()
	g.stop()
	require.Less(t, time.Since(began), patience/2)
	resp, err := waiting.receive(req)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, values(t, fetched(resp.(*kmsg.FetchResponse))[0].RecordBatches))
	idle.requireClosed()
	waiting.requireClosed()
	_, err = net.Dial("tcp", g.address)
	require.Error(t, err)
}

// One that does not take its answer is cut off when the time is over.
func TestShutdownDoesNotWaitForEver(t *testing.T) {
	g := start(t, server.Options{TransferTimeout: time.Hour})
	g.topic("t", engine.TopicConfig{})
	c := g.dial(t)
	c.produceTo(2, 1, "t", 0, set(string(make([]byte, 900_000))))
	request := c.encode(2, fetchRequest(1, 0, from{"t", 0, 0, 1 << 20}))
	var err error
	for err == nil { // until both sides' buffers are full and the server does not read on
		require.NoError(t, c.nc.SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
		_, err = c.nc.Write(request)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, g.server.Shutdown(ctx), context.DeadlineExceeded)
}
