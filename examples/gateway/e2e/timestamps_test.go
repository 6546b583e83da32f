package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// With the log's timestamps, rewritten, every client shows the time of append, and as such
// if it shows the type.
func TestEveryClientShowsTheTimeOfAppend(t *testing.T) {
	g := start(t, t.TempDir(), "-rewrite-timestamps")
	for _, producer := range clients {
		for _, codec := range codecs {
			t.Run(fmt.Sprintf("%s/%s", producer, codec), func(t *testing.T) {
				producer.available(t)
				topic := fmt.Sprintf("%s-%s", producer, codec)
				g.createTopic(t, topic, "message.timestamp.type", "LogAppendTime")
				written := sample()
				before := time.Now().UnixMilli()
				producer.produce(t, g.address, topic, codec, written)
				after := time.Now().UnixMilli()
				for i, m := range (franzGo{}).consume(t, g.address, topic, position{}, len(written)) {
					require.LessOrEqual(t, before, m.Timestamp)
					require.LessOrEqual(t, m.Timestamp, after)
					written[i].Timestamp = m.Timestamp
				}
				for _, consumer := range clients {
					t.Run(consumer.String(), func(t *testing.T) {
						consumer.available(t)
						for i := range written {
							written[i].AppendTime = consumer.seesType()
						}
						require.Equal(t, written, consumer.consume(t, g.address, topic, position{}, len(written)))
					})
				}
			})
		}
	}
}

// A client that copies one gateway to another keeps the timestamps, offsets and all:
// the producer's, and where the first log has its own, those.
func TestMirrorKeepsTimestamps(t *testing.T) {
	for _, kind := range []string{"CreateTime", "LogAppendTime"} {
		for _, codec := range codecs {
			t.Run(kind+"/"+codec, func(t *testing.T) {
				source := start(t, t.TempDir(), retentionOff, "-rewrite-timestamps")
				mirror := start(t, t.TempDir(), retentionOff)
				source.createTopic(t, "t", "message.timestamp.type", kind)
				franzGo{}.produce(t, source.address, "t", codec, sample())

				from := franzGo{}.client(t, source.address, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtStart()}}))
				to := franzGo{}.client(t, mirror.address)
				for n := 0; n < len(sample()); {
					fetches := from.PollFetches(withTimeout(t))
					require.NoError(t, fetches.Err())
					for _, r := range fetches.Records() {
						n++
						copied := &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
						require.NoError(t, to.ProduceSync(withTimeout(t), copied).FirstErr())
						require.Equal(t, r.Offset, copied.Offset)
					}
				}
				want := franzGo{}.consume(t, source.address, "t", position{}, len(sample()))
				got := franzGo{}.consume(t, mirror.address, "t", position{}, len(sample()))
				for i := range want {
					require.Equal(t, kind == "LogAppendTime", want[i].AppendTime)
					want[i].AppendTime = false // there it is the producer's
				}
				require.Equal(t, want, got)
			})
		}
	}
}
