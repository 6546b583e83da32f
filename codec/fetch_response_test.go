package codec_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
)

// goldenAEntry is A of SPEC 13 as an entry at offset 0.
const goldenAEntry = "0000000000000000 00000018 bf070c1c 01 00 0000015d3ef79800 00000001 6b 00000001 76"

func fetchedA(t testing.TB, rows ...codec.FetchedRow) []codec.FetchedTopic {
	return []codec.FetchedTopic{{Name: "t", Partitions: []codec.FetchedPartition{
		{Partition: 0, HighWatermark: 1, Set: unhex(t, goldenAEntry), Rows: rows},
	}}}
}

func TestFetchResponsesAreTheGoldenBytes(t *testing.T) { // SPEC 5.9, 13: FR-F, FR-C; S114
	follower := unhex(t, "00000001 0001 74 00000001 00000000 0000 0000000000000001 00000024"+goldenAEntry+"00000001 0000015d3ef79807 00000000")
	consumer := unhex(t, "00000001 0001 74 00000001 00000000 0000 0000000000000001 00000024"+goldenAEntry+"00000000")
	require.Len(t, follower, 81)
	require.Len(t, consumer, 69)
	for _, c := range []struct {
		topics []codec.FetchedTopic
		bytes  []byte
	}{
		{fetchedA(t, codec.FetchedRow{Timestamp: fixtureTime + 7}), follower},
		{fetchedA(t), consumer},
	} {
		require.Equal(t, c.bytes, codec.AppendFetchResponse(nil, c.topics))
		got, err := codec.ParseFetchResponse(c.bytes)
		require.NoError(t, err)
		require.Equal(t, c.topics, got)
	}
}

func TestFetchResponsesThatAreRefused(t *testing.T) {
	good := codec.AppendFetchResponse(nil, fetchedA(t, codec.FetchedRow{Timestamp: fixtureTime, Relative: 5}))
	for i := range good {
		_, err := codec.ParseFetchResponse(good[:i])
		require.ErrorIs(t, err, codec.ErrCorruptMessage, i)
	}
	negative := slices.Clone(good)
	negative[len(negative)-4] = 0x80
	for _, b := range [][]byte{append(slices.Clone(good), 0), negative, unhex(t, "7fffffff"), unhex(t, "ffffffff")} {
		_, err := codec.ParseFetchResponse(b)
		require.ErrorIs(t, err, codec.ErrCorruptMessage)
	}
}

func FuzzParseFetchResponse(f *testing.F) {
	f.Add(codec.AppendFetchResponse(nil, fetchedA(f, codec.FetchedRow{Timestamp: fixtureTime, Relative: 5})))
	f.Add(codec.AppendFetchResponse(nil, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		topics, err := codec.ParseFetchResponse(b)
		if err != nil {
			require.ErrorIs(t, err, codec.ErrCorruptMessage)
			return
		}
		require.Equal(t, b, codec.AppendFetchResponse(nil, topics))
	})
}
