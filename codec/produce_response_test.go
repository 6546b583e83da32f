package codec_test

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
)

// S23: ProduceResponse v2 carries one timestamp a partition; vectors PR-CT and
// PR-LAT of SPEC 13. Versions 0 and 1 lack it (SPEC 2.8.27).
func TestProduceResponseBytes(t *testing.T) {
	produced := func(ts codec.Timestamp) []codec.ProducedTopic {
		return []codec.ProducedTopic{{Name: "t", Partitions: []codec.ProducedPartition{{BaseOffset: 100, Timestamp: ts}}}}
	}
	const head = "000000010001740000000100000000" + "0000" + "0000000000000064"
	for _, c := range []struct {
		name    string
		version int16
		ts      codec.Timestamp
		want    string
	}{
		{"v2 CreateTime", 2, codec.NoTimestamp, head + "ffffffffffffffff" + "00000000"},
		{"v2 LogAppendTime", 2, 1500000000099, head + "0000015d3ef79863" + "00000000"},
		{"v1", 1, 1500000000099, head + "00000000"},
		{"v0", 0, 1500000000099, head},
	} {
		got := codec.AppendProduceResponse(nil, c.version, produced(c.ts), 0)
		require.Equal(t, c.want, hex.EncodeToString(got), c.name)
	}
}
