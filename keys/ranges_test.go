package keys_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/keys"
)

func contains(r keys.Range, key []byte) bool {
	return bytes.Compare(r.Start, key) <= 0 && bytes.Compare(key, r.End) < 0
}

func containing(ranges []keys.Range, key []byte) (n int) {
	for _, r := range ranges {
		if contains(r, key) {
			n++
		}
	}
	return n
}

// within says whether offset is in [from, to) as the row ranges mean it.
func within(offset, from, to int64) bool {
	return offset >= from && (offset < to || to == math.MaxInt64)
}

func TestRowRangesHoldExactlyTheirOffsets(t *testing.T) {
	rng := seeded(t)
	build := map[string]func(p keys.Partition, from, to int64) keys.Range{
		"log": keys.LogRange, "timestamps": keys.TimestampRange, "segments": keys.SegmentRange,
		"transactions": keys.TransactionRange,
	}
	for _, s := range spaces {
		rangeOf, ok := build[s.name]
		if !ok {
			continue
		}
		for range 20_000 {
			bound, r := randomRow(rng), randomRow(rng)
			from, to := bound.offset, pick(rng, boundaryOffsets, rng.Int64())
			if rng.IntN(2) == 0 {
				r.partition = bound.partition
			}
			got := rangeOf(bound.partition, from, to)
			want := r.partition == bound.partition && within(r.offset, from, to)
			require.Equal(t, want, contains(got, s.append(nil, r)), "%s %v [%d, %d) %+v", s.name, bound.partition, from, to, r)
			require.LessOrEqual(t, bytes.Compare(got.Start, got.End), 0, "never inverted")
		}
	}
}

func TestEpochRangeHoldsExactlyItsEpochs(t *testing.T) {
	rng := seeded(t)
	for range 20_000 {
		bound, r := randomRow(rng), randomRow(rng)
		from, to := bound.epoch, pick(rng, boundaryEpochs, rng.Int32())
		if rng.IntN(2) == 0 {
			r.partition = bound.partition
		}
		got := keys.EpochRange(bound.partition, from, to)
		want := r.partition == bound.partition && r.epoch >= from && (r.epoch < to || to == math.MaxInt32)
		require.Equal(t, want, contains(got, keys.AppendEpoch(nil, r.partition, r.epoch)))
		require.LessOrEqual(t, bytes.Compare(got.Start, got.End), 0, "never inverted")
	}
}

func TestRangeFromANegativeOffsetStartsAtZero(t *testing.T) {
	p := keys.Partition{Topic: 1}
	require.Equal(t, keys.LogRange(p, 0, 5), keys.LogRange(p, -7, 5))
	require.Equal(t, keys.EpochRange(p, 0, 5), keys.EpochRange(p, -7, 5))
	empty := keys.LogRange(p, 9, 5)
	require.Equal(t, empty.Start, empty.End)
	empty = keys.LogRange(p, -9, -5)
	require.Equal(t, empty.Start, empty.End)
}

// ofPartition says whether the keys of a space begin with a partition.
func ofPartition(s space) bool {
	return s.first >= 3 && s.first <= 7 || s.name == "producers" || s.name == "transactions"
}

func TestPartitionRangesHoldBothHalvesAndNothingElse(t *testing.T) {
	rng := seeded(t)
	for _, s := range spaces {
		for range 5_000 {
			p, r := randomRow(rng).partition, randomRow(rng)
			switch rng.IntN(3) {
			case 0:
				r.partition = p
			case 1:
				r.partition = p.Companion()
			}
			want := 0
			if ofPartition(s) && (r.partition == p || r.partition == p.Companion()) {
				want = 1
			}
			require.Equal(t, want, containing(keys.PartitionRanges(p), s.append(nil, r)), "%s %v %+v", s.name, p, r)
		}
	}
	p := keys.Partition{Topic: 3, Number: 4}
	require.Equal(t, keys.PartitionRanges(p), keys.PartitionRanges(p.Companion()))
}

func TestTopicRangesHoldTheTopicAndNothingElse(t *testing.T) {
	rng := seeded(t)
	for _, s := range spaces {
		for range 5_000 {
			topic, r := randomRow(rng).partition.Topic, randomRow(rng)
			if rng.IntN(2) == 0 {
				r.partition.Topic = topic
			}
			want := 0
			if ofPartition(s) && r.partition.Topic == topic {
				want = 1
			}
			require.Equal(t, want, containing(keys.TopicRanges(topic), s.append(nil, r)), "%s %d %+v", s.name, topic, r)
		}
	}
}

func TestRangesAreDisjointAndAscending(t *testing.T) {
	p := keys.Partition{Topic: math.MaxUint32, Number: math.MaxInt32}
	for _, ranges := range [][]keys.Range{keys.PartitionRanges(p), keys.TopicRanges(p.Topic)} {
		for i, r := range ranges {
			require.Negative(t, bytes.Compare(r.Start, r.End))
			if i > 0 {
				require.LessOrEqual(t, bytes.Compare(ranges[i-1].End, r.Start), 0)
			}
		}
	}
}

func TestGroupRangeHoldsOneGroup(t *testing.T) {
	for _, group := range boundaryNames {
		for _, other := range boundaryNames {
			for _, number := range boundaryNumbers {
				key := keys.AppendOffset(nil, other, keys.Partition{Topic: math.MaxUint32, Number: number})
				require.Equal(t, group == other, contains(keys.OffsetGroupRange(group), key), "%q %q", group, other)
			}
		}
	}
}

func TestOffsetTopicRangeHoldsOneTopicOfOneGroup(t *testing.T) {
	rng := seeded(t)
	for range 20_000 {
		bound, r := randomRow(rng), randomRow(rng)
		if rng.IntN(2) == 0 {
			r.name = bound.name
		}
		if rng.IntN(2) == 0 {
			r.partition.Topic = bound.partition.Topic
		}
		want := r.name == bound.name && r.partition.Topic == bound.partition.Topic
		got := keys.OffsetTopicRange(bound.name, bound.partition.Topic)
		require.Equal(t, want, contains(got, keys.AppendOffset(nil, r.name, r.partition)), "%+v %+v", bound, r)
	}
}

func TestProducerRangeHoldsOnePartition(t *testing.T) {
	rng := seeded(t)
	for range 20_000 {
		bound, r := randomRow(rng), randomRow(rng)
		if rng.IntN(2) == 0 {
			r.partition = bound.partition
		}
		want := r.partition == bound.partition
		got := keys.ProducerRange(bound.partition)
		require.Equal(t, want, contains(got, keys.AppendProducer(nil, r.partition, r.name)), "%+v %+v", bound, r)
	}
}

func TestSpaceRangesHoldTheirSpace(t *testing.T) {
	rng := seeded(t)
	ranges := map[string]keys.Range{
		"catalog": keys.CatalogRange(), "state": keys.StatesRange(), "offsets": keys.OffsetsRange(),
	}
	for name, r := range ranges {
		for _, s := range spaces {
			for range 1_000 {
				require.Equal(t, s.name == name, contains(r, s.append(nil, randomRow(rng))))
			}
		}
	}
}

// What is due at or before an instant is one range, whatever the partition.
func TestDueRangeEndsAfterItsInstant(t *testing.T) {
	r := keys.DueRange(100)
	for at, want := range map[int64]bool{0: true, 99: true, 100: true, 101: false, math.MaxInt64: false} {
		for _, number := range boundaryNumbers {
			key := keys.AppendDue(nil, at, keys.Partition{Topic: math.MaxUint32, Number: number})
			in := bytes.Compare(r.Start, key) <= 0 && bytes.Compare(key, r.End) < 0
			require.Equal(t, want, in, "at %d", at)
		}
	}
	none := keys.DueRange(-1)
	require.Equal(t, none.Start, none.End)
	all := keys.DueRange(math.MaxInt64)
	require.Negative(t, bytes.Compare(keys.AppendDue(nil, math.MaxInt64, keys.Partition{}), all.End))
}

// Every key that begins with a partition says so, and a seek to what comes after finds
// the next partition of the space.
func TestDecodePartitionLeadsToTheNextPartition(t *testing.T) {
	rng := seeded(t)
	spaceOf := map[byte]keys.Range{}
	for _, r := range keys.PartitionSpaces() {
		spaceOf[r.Start[0]] = r
	}
	require.Len(t, spaceOf, 7)
	for _, s := range spaces {
		for range 5_000 {
			a, b := randomRow(rng), randomRow(rng)
			key, other := s.append(nil, a), s.append(nil, b)
			p, after, err := keys.DecodePartition(key)
			r, ok := spaceOf[s.first]
			if !ok {
				require.ErrorIs(t, err, keys.ErrMalformed, s.name)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, a.partition, p)
			require.True(t, contains(r, key))
			sameOrBefore := bytes.Compare(other, after) < 0
			fields := func(p keys.Partition) []byte { return keys.AppendState(nil, p) }
			require.Equal(t, bytes.Compare(fields(b.partition), fields(a.partition)) <= 0, sameOrBefore)
		}
	}
	_, _, err := keys.DecodePartition(keys.AppendState(nil, keys.Partition{})[:8])
	require.ErrorIs(t, err, keys.ErrMalformed)
}

func TestRangesOfAlarmsAndSegmentsHoldThemAll(t *testing.T) {
	rng := seeded(t)
	for range 5_000 {
		r := randomRow(rng)
		require.True(t, contains(keys.DuesRange(), keys.AppendDue(nil, max(0, r.time), r.partition)))
		require.True(t, contains(keys.SegmentsRange(), keys.AppendSegment(nil, r.partition, r.offset)))
		require.False(t, contains(keys.SegmentsRange(), keys.AppendState(nil, r.partition)))
		require.False(t, contains(keys.DuesRange(), keys.AppendOffset(nil, r.name, r.partition)))
	}
}
