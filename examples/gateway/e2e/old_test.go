package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
)

// Clients of before 0.10 do not ask for versions, send message format 0, and LZ4 with the
// header of then. They read what newer ones wrote, and are read by them.
func TestClientsFromBeforeVersions(t *testing.T) {
	kcat{}.available(t)
	g := start(t, t.TempDir(), retentionOff)
	old := []string{"-X", "api.version.request=false", "-X", "broker.version.fallback=0.9.0"}
	for _, codec := range codecs {
		t.Run("librdkafka/"+codec, func(t *testing.T) {
			var lines strings.Builder
			for i := range 200 {
				fmt.Fprintf(&lines, "old%d\n", i)
			}
			topic := "rdk-" + codec
			output(t, lines.String(), "kcat", append([]string{"-P", "-b", g.address, "-t", topic, "-p", "0", "-z", codec}, old...)...)
			franzGo{}.produce(t, g.address, topic, codec, numbered(200, 100))
			for _, m := range numbered(200, 100) {
				fmt.Fprintln(&lines, *m.Value)
			}
			got := output(t, "", "kcat", append([]string{"-C", "-q", "-b", g.address, "-t", topic, "-p", "0", "-o", "beginning", "-c", "300"}, old...)...)
			require.Equal(t, lines.String(), got)
			for _, consumer := range clients {
				consumer.available(t)
				all := consumer.consume(t, g.address, topic, position{}, 300)
				require.Equal(t, "old199", *all[199].Value, consumer)
				require.Equal(t, numbered(200, 100), all[200:], consumer)
				if consumer == (franzGo{}) {
					require.EqualValues(t, -1, all[199].Timestamp, "format 0 has none")
				}
			}
		})
		t.Run("sarama/"+codec, func(t *testing.T) {
			topic := "sarama-" + codec
			franzGo{}.produce(t, g.address, topic, codec, numbered(0, 100))
			c := saramaGo{}.config()
			c.Version, c.ApiVersionsRequest = sarama.V0_10_0_0, false
			consumer, err := sarama.NewConsumer([]string{g.address}, c)
			require.NoError(t, err)
			defer func() { require.NoError(t, consumer.Close()) }()
			p, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Close()) }()
			require.Equal(t, numbered(0, 100), receive(t, p.Messages(), 100))
		})
	}
}
