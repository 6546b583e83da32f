package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// retentionOff keeps messages of any age in topics that are made on demand.
const retentionOff = "-retention=-1ms"

// Every client reads back what every client wrote with every codec: offsets, timestamps and
// their type, null apart from empty.
func TestWhatIsWrittenIsRead(t *testing.T) {
	g := start(t, t.TempDir(), retentionOff)
	for _, producer := range clients {
		for _, codec := range codecs {
			t.Run(fmt.Sprintf("%s/%s", producer, codec), func(t *testing.T) {
				producer.available(t)
				topic := fmt.Sprintf("%s-%s", producer, codec)
				written := sample()
				before := time.Now().UnixMilli()
				dated := producer.produce(t, g.address, topic, codec, written)
				after := time.Now().UnixMilli()
				if !dated { // all must agree on what one sees
					for i, m := range (franzGo{}).consume(t, g.address, topic, position{}, len(written)) {
						require.LessOrEqual(t, before, m.Timestamp)
						require.LessOrEqual(t, m.Timestamp, after)
						written[i].Timestamp = m.Timestamp
					}
				}
				for _, consumer := range clients {
					t.Run(consumer.String(), func(t *testing.T) {
						consumer.available(t)
						require.Equal(t, written, consumer.consume(t, g.address, topic, position{}, len(written)))
					})
				}
			})
		}
	}
}

// From the start, from an offset, from a time, as a group that goes on where it was.
func TestConsumersBegin(t *testing.T) {
	g := start(t, t.TempDir(), retentionOff)
	written := numbered(0, 100)
	for _, codec := range codecs {
		franzGo{}.produce(t, g.address, codec, codec, written[:50])
		saramaGo{}.produce(t, g.address, codec, codec, written[50:])
	}
	for _, consumer := range clients {
		for _, codec := range codecs {
			t.Run(fmt.Sprintf("%s/%s", consumer, codec), func(t *testing.T) {
				consumer.available(t)
				consume := func(from position) []message {
					return consumer.consume(t, g.address, codec, from, 100-int(max(from.offset, (from.time-t0+999)/1000)))
				}
				require.Equal(t, written, consume(position{}))
				require.Equal(t, written[30:], consume(position{offset: 30}))
				require.Equal(t, written[99:], consume(position{offset: 99}))
				require.Equal(t, written[60:], consume(position{time: t0 + 60_000}))
				require.Equal(t, written[61:], consume(position{time: t0 + 60_001}))
			})
		}
		t.Run(consumer.String()+"/group", func(t *testing.T) {
			consumer.available(t)
			topic := consumer.String()
			franzGo{}.produce(t, g.address, topic, "gzip", written[:50])
			require.Equal(t, written[:50], consumer.consumeGroup(t, g.address, topic, topic, 50))
			franzGo{}.produce(t, g.address, topic, "lz4", written[50:])
			require.Equal(t, written[50:], consumer.consumeGroup(t, g.address, topic, topic, 50))
		})
	}
}
