package e2e_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Garbage, huge lengths, half requests that never end, answers that nobody takes, and far
// more connections than there is room for: who behaves does not notice.
func TestHostileClientsHurtNobody(t *testing.T) {
	g := start(t, t.TempDir(), retentionOff, "-max-connections", "100", "-transfer-timeout", "500ms")
	written := numbered(0, 300)
	franzGo{}.produce(t, g.address, "large", "none", []message{{Value: &[]string{string(make([]byte, 900_000))}[0]}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	var garbled, halves, unread atomic.Int64 // connections so far
	for range 4 {
		wg.Go(func() { repeat(ctx, g.address, &garbled, garbage) })
		wg.Go(func() { repeat(ctx, g.address, &halves, halfRequest) })
	}
	wg.Go(func() { repeat(ctx, g.address, &unread, neverReads) })
	for round := 0; garbled.Load() < 100 || halves.Load() < 8 || unread.Load() < 3; round++ {
		for _, c := range []kafkaClient{franzGo{}, saramaGo{}} {
			topic := fmt.Sprintf("%s-%d", c, round)
			c.produce(t, g.address, topic, "gzip", written)
			require.Equal(t, written, c.consume(t, g.address, topic, position{}, len(written)))
		}
	}
	franzGo{}.produce(t, g.address, "kept", "gzip", written)
	cancel()
	wg.Wait()

	// Now nobody behaves: thousands of connections, then room again.
	var all []net.Conn
	for range 3000 {
		nc, err := net.Dial("tcp", g.address)
		require.NoError(t, err)
		all = append(all, nc)
	}
	for _, nc := range all {
		require.NoError(t, nc.Close())
	}
	require.Eventually(t, func() bool {
		nc, err := net.Dial("tcp", g.address)
		require.NoError(t, err)
		defer func() { _ = nc.Close() }()
		return answers(nc)
	}, patience, 10*time.Millisecond)
	require.Equal(t, written, franzGo{}.consume(t, g.address, "kept", position{}, len(written)))
	g.stop()
}

// repeat runs a client that misbehaves until ctx ends, on connections of its own, and
// counts them.
func repeat(ctx context.Context, address string, count *atomic.Int64, misbehave func(context.Context, net.Conn)) {
	for ; ctx.Err() == nil; count.Add(1) {
		nc, err := net.Dial("tcp", address)
		if err != nil {
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = nc.Close() }) // error ignored: it misbehaves
		misbehave(ctx, nc)
		if stop() {
			_ = nc.Close() // error ignored: it misbehaves
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func garbage(_ context.Context, nc net.Conn) {
	b := make([]byte, 4096)
	_, _ = rand.Read(b)  // error ignored: it never fails
	_, _ = nc.Write(b)   // error ignored: it is refused
	_, _ = nc.Read(b[:]) // error ignored: it waits for the end
}

// halfRequest claims 16 MiB, sends a little and stays.
func halfRequest(_ context.Context, nc net.Conn) {
	_, _ = nc.Write(append([]byte{1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1}, make([]byte, 1000)...)) // error ignored: it is cut off
	_, _ = nc.Read(make([]byte, 1))                                                            // error ignored: until then
}

// neverReads asks for the large message again and again.
func neverReads(ctx context.Context, nc net.Conn) {
	request := []byte{
		0, 0, 0, 60, 0, 1, 0, 2, 0, 0, 0, 1, 0, 4, 'e', 'v', 'i', 'l',
		0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, // no replica, no wait, no minimum, one topic
		0, 5, 'l', 'a', 'r', 'g', 'e', 0, 0, 0, 1, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, // from 0, up to 1 MiB
	}
	request[3] = byte(len(request) - 4)
	for ctx.Err() == nil {
		if _, err := nc.Write(request); err != nil {
			return
		}
	}
}

// answers has the server answer ApiVersions 0.
func answers(nc net.Conn) bool {
	_ = nc.SetDeadline(time.Now().Add(5 * time.Second)) // error ignored: the read will fail too
	_, err := nc.Write([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff})
	if err == nil {
		_, err = nc.Read(make([]byte, 1))
	}
	return err == nil
}
