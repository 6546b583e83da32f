package retention_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// The T of SPEC 13, and its gzip wrapper W as a leader stores it at offset 102.
const (
	followerT    codec.Timestamp = 1_500_000_000_000
	followerW                    = "00000000000000660000006" + "49bb8cd5001010000015d3ef79814ffffffff0000004e1f8b08000000000002ff63608003896f2abf3d19810cc658bbef3340228c8920c2102a0f9292f83e2d5f04ae4604c44802114650354c2035db7d935fc1d5708118c920c21800a4b395b26c000000"
	anyPartition                 = 7
)

// follow accounts for an entry as a follower stores it and returns what the
// segment takes of it.
func follow(t *testing.T, s *retention.Segment, value []byte, last int64, ts codec.Timestamp) {
	t.Helper()
	key := keys.AppendLog(nil, keys.Partition{Topic: anyPartition}, last)
	codec.Seal(key, value, codec.Stamp{Timestamp: ts, Clock: followerT})
	e, err := codec.ParseEntry(key, value)
	require.NoError(t, err)
	s.Add(retention.AppendedOf(&e, len(value)), 4096)
}

// S14: on a follower the wrapper's own timestamp feeds the time index. The payload
// is cut off after its header here: nothing could have inflated it.
func TestS14WrapperTimestampFeedsTheIndexWithoutInflating(t *testing.T) {
	raw, err := hex.DecodeString(strings.TrimSpace(followerW))
	require.NoError(t, err)
	f, n, err := codec.ReadFrame(raw)
	require.NoError(t, err)
	require.Len(t, raw, n)
	require.Equal(t, followerT+20, f.Timestamp)

	s := retention.NewSegment(100)
	value := codec.AppendStoredWrapper(nil, codec.StoredWrapper{Compression: f.Compression, Magic: f.Magic, Payload: f.Value[:4]})
	follow(t, &s, value, f.Offset, f.Timestamp)
	require.Equal(t, followerT+20, s.IndexedTimestamp)
	require.Equal(t, followerT+20, s.MaxTimestamp)
	require.EqualValues(t, 102, s.MaxOffset)
	_, more := s.ClosingRow()
	require.False(t, more, "the first row is the closing one: [(T+20, 102)]")
}

// S16: the message timestamp of uncompressed messages feeds it: T, T+9, T+4 at
// offsets 0 to 2 close with (T+9, 1).
func TestS16MessageTimestampFeedsTheIndex(t *testing.T) {
	s := retention.NewSegment(0)
	for offset, ts := range []codec.Timestamp{followerT, followerT + 9, followerT + 4} {
		m := codec.Message{Timestamp: ts, Key: []byte("k"), Value: []byte("v")}
		value := codec.AppendPlain(nil, []codec.Message{m}, codec.PlainOptions{Magic: 1, Dense: true})
		follow(t, &s, value, int64(offset), ts)
	}
	row, ok := s.ClosingRow()
	require.True(t, ok)
	require.Equal(t, followerT+9, row.Timestamp)
	require.EqualValues(t, 1, row.Offset)
}
