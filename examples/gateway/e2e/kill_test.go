package e2e_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kill -9 between an acknowledgement and the read: whoever wrote, everyone reads it from the
// next process.
func TestKilledAfterTheAcknowledgement(t *testing.T) {
	dir := t.TempDir()
	for _, producer := range clients {
		t.Run(producer.String(), func(t *testing.T) {
			producer.available(t)
			written := sample()
			g := start(t, dir, retentionOff)
			dated := producer.produce(t, g.address, producer.String(), "lz4", written)
			g.kill()

			g = start(t, dir, retentionOff)
			for _, consumer := range clients {
				t.Run(consumer.String(), func(t *testing.T) {
					consumer.available(t)
					got := consumer.consume(t, g.address, producer.String(), position{}, len(written))
					for i := range got {
						if !dated {
							got[i].Timestamp = written[i].Timestamp
						}
					}
					require.Equal(t, written, got)
				})
			}
			g.stop()
		})
	}
}

// kill -9 in the middle of writing, again and again: what was acknowledged is there, in
// order, and what a group committed too.
func TestKilledInTheMiddle(t *testing.T) {
	const writers = 4
	dir := t.TempDir()
	var acked [writers]atomic.Int64 // messages
	for round := range 5 {
		g := start(t, dir, retentionOff)
		var wg sync.WaitGroup
		var busy atomic.Int64
		for w := range writers {
			topic := fmt.Sprint("t", w)
			cl := franzGo{}.client(t, g.address, kgo.RecordRetries(0), kgo.ProduceRequestTimeout(time.Second), kgo.RetryTimeout(time.Second))
			next := g.end(t, topic)
			require.GreaterOrEqual(t, next, acked[w].Load(), "round %d: acknowledged messages are gone", round)
			wg.Go(func() {
				for i := next; ; i++ {
					r := &kgo.Record{Topic: topic, Value: fmt.Append(nil, i), Timestamp: time.UnixMilli(t0 + i)}
					if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
						return
					}
					acked[w].Store(r.Offset + 1)
					busy.Add(1)
				}
			})
		}
		require.Eventually(t, func() bool { return busy.Load() > 200 }, patience, time.Millisecond)
		g.kill()
		wg.Wait()
	}
	g := start(t, dir, retentionOff)
	for w := range writers {
		n := acked[w].Load()
		for i, m := range (franzGo{}).consume(t, g.address, fmt.Sprint("t", w), position{}, int(n)) {
			require.Equal(t, fmt.Sprint(i), *m.Value)
		}
	}
}

// end is the offset after the last message, by which the topic is made.
func (g *gateway) end(t *testing.T, topic string) int64 {
	t.Helper()
	cl := franzGo{}.client(t, g.address)
	require.NoError(t, cl.Ping(withTimeout(t)))
	return endOffset(t, cl, topic)
}
