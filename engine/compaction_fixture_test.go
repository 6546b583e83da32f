package engine_test

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// compacting is a compacted topic with segments of n standard records, which the
// store does not compact by itself.
func compacting(n int64) engine.TopicConfig {
	return engine.TopicConfig{SegmentBytes: 100 * n, CleanupPolicy: engine.CleanupCompact, MinCleanableRatio: 1}
}

// keyed reads key@timestamp, a tombstone with a trailing -: a@10, a@20-. Other
// than tombstones they are standard records of 100 bytes on the wire. Without a
// key it is null.
func keyed(t testing.TB, text string) (msgs []codec.Message) {
	t.Helper()
	for field := range strings.FieldsSeq(text) {
		key, at, ok := strings.Cut(field, "@")
		require.True(t, ok, text)
		at, dead := strings.CutSuffix(at, "-")
		ts, err := strconv.ParseInt(at, 10, 64)
		require.NoError(t, err)
		m := codec.Message{Timestamp: codec.Timestamp(ts), TimestampType: codec.CreateTime}
		if key != "" {
			m.Key = []byte(key)
		}
		if !dead {
			m.Value = bytes.Repeat([]byte{'v'}, 100-codec.MessageOverhead-len(key))
		}
		msgs = append(msgs, m)
	}
	return msgs
}

// fill appends messages, each as a set, and rolls at each |.
func fill(t testing.TB, p *engine.Partition, text string) {
	t.Helper()
	for i, part := range strings.Split(text, "|") {
		if i > 0 {
			require.NoError(t, p.Roll(t.Context()))
		}
		for _, m := range keyed(t, part) {
			_, err := p.Append(t.Context(), m)
			require.NoError(t, err)
		}
	}
}

// pack appends messages as one set.
func pack(t testing.TB, p *engine.Partition, c codec.Compression, text string) {
	t.Helper()
	_, err := p.AppendSet(t.Context(), keyed(t, text), engine.AppendOptions{Compression: c})
	require.NoError(t, err)
}

// survivors writes a log as offset:key@timestamp.
func survivors(t testing.TB, p *engine.Partition) string {
	t.Helper()
	return describe(left(t, p))
}

func describe(msgs []codec.Message) string {
	words := make([]string, len(msgs))
	for i, m := range msgs {
		words[i] = fmt.Sprintf("%d:%s@%d", m.Offset, m.Key, int64(m.Timestamp))
		if m.Value == nil {
			words[i] += "-"
		}
	}
	return strings.Join(words, " ")
}

// compacted runs compaction by hand, after a dry run that must promise the same
// and change nothing.
func compacted(t testing.TB, p *engine.Partition) engine.CompactResult {
	t.Helper()
	was := stateOf(t, p)
	planned, err := p.Compact(t.Context(), engine.CompactOptions{DryRun: true})
	require.NoError(t, err)
	require.Equal(t, was, stateOf(t, p), "a dry run changed something")
	done, err := p.Compact(t.Context(), engine.CompactOptions{})
	require.NoError(t, err)
	planned.Before.DiskBytes, done.Before.DiskBytes = 0, 0 // an estimate of tables that Pebble moves meanwhile
	require.Equal(t, planned.Before, done.Before)
	require.Zero(t, planned.Steps)
	if done.Passes <= 1 {
		same := done
		same.Steps, same.BytesWritten, same.CleanPoint = 0, 0, planned.CleanPoint
		same.After.DiskBytes = 0
		require.Equal(t, planned, same, "the dry run promised something else")
	}
	now := stateOf(t, p)
	require.Equal(t, was.offsets, now.offsets, "compaction moved a border")
	return done
}

// exact checks that the rows of a closed store say of every segment what its
// entries are, and that nothing else is left: see requireSound.
func exact(t testing.TB, pdb *pebble.DB, p *engine.Partition, offsets engine.Offsets) {
	t.Helper()
	id := p.TestKeys()
	r := rowsOf(t, pdb, id)
	requireSound(t, r, offsets)
	sums := make([]retention.Segment, len(r.segments))
	for i := range sums {
		sums[i] = retention.NewSegment(r.segments[i].Base)
	}
	each(t, pdb, keys.LogRange(id, 0, math.MaxInt64), func(key, value []byte) {
		e, err := codec.ParseEntry(key, value)
		require.NoError(t, err)
		i := len(sums) - 1
		for i > 0 && sums[i].Base > e.Last {
			i--
		}
		sums[i].Add(retention.AppendedOf(&e, len(value)), 1)
	})
	for i, s := range r.segments {
		if s.Base < offsets.Start { // DeleteBefore does not count what is left
			continue
		}
		require.Equal(t, [4]int64{sums[i].Bytes, sums[i].StoredBytes, sums[i].Messages, sums[i].Entries},
			[4]int64{s.Bytes, s.StoredBytes, s.Messages, s.Entries}, "segment %d", s.Base)
		require.LessOrEqual(t, sums[i].MaxTimestamp, s.MaxTimestamp, "segment %d", s.Base)
	}
}

// exactAfterwards closes the store, audits the rows of a partition and opens the
// store again.
func (s *store) exactAfterwards(p *engine.Partition) {
	s.t.Helper()
	offsets, err := p.Offsets()
	require.NoError(s.t, err)
	s.raw(func(pdb *pebble.DB) { exact(s.t, pdb, p, offsets) })
}

// requireSearchesAgree asks for every timestamp in a range and for the newest, and
// compares with the messages.
func requireSearchesAgree(t testing.TB, p *engine.Partition, from, to codec.Timestamp) {
	t.Helper()
	msgs := left(t, p)
	find := func(match func(codec.Message) bool) engine.Position {
		for _, m := range msgs {
			if match(m) {
				return engine.Position{Offset: m.Offset, Timestamp: m.Timestamp, Found: true}
			}
		}
		return engine.Position{Offset: end(t, p), Timestamp: none}
	}
	newest := none
	for _, m := range msgs {
		newest = max(newest, m.Timestamp)
	}
	want := find(func(m codec.Message) bool { return m.Timestamp == newest && newest >= 0 })
	got, err := p.MaxTimestamp(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, got, "MaxTimestamp")
	for ts := max(from, 0); ts <= to; ts++ {
		want := find(func(m codec.Message) bool { return m.Timestamp >= ts })
		got, err := p.OffsetFor(ts)
		require.NoError(t, err)
		require.Equal(t, want, got, "OffsetFor %d", int64(ts))
	}
}

// left returns what a log holds.
func left(t testing.TB, p *engine.Partition) []codec.Message {
	t.Helper()
	offsets, err := p.Offsets()
	require.NoError(t, err)
	return readAll(t, p, offsets.Start)
}
