package keys

import (
	"encoding/binary"
	"math"
)

// Range is the keys k with Start <= k < End, the form in which Pebble takes
// bounds. A range made here is never inverted; it is empty when Start equals End.
// Its bytes belong to the caller.
type Range struct{ Start, End []byte }

// LogRange returns the log of p from offset from up to, not including, to;
// math.MaxInt64 for to is the end of the partition. A negative from is 0.
func LogRange(p Partition, from, to int64) Range { return rowRange(spaceLog, p, from, to) }

// TimestampRange returns the timestamps of the segments of p whose base is in
// [baseFrom, baseTo); math.MaxInt64 for baseTo is the end of the partition.
func TimestampRange(p Partition, baseFrom, baseTo int64) Range {
	return rowRange(spaceTimestamps, p, baseFrom, baseTo)
}

// SegmentRange returns the manifest rows of the segments of p whose base is in
// [baseFrom, baseTo); math.MaxInt64 for baseTo is the end of the partition.
func SegmentRange(p Partition, baseFrom, baseTo int64) Range {
	return rowRange(spaceSegments, p, baseFrom, baseTo)
}

// EpochRange returns the epochs of p in [from, to); math.MaxInt32 for to is the
// end of the partition.
func EpochRange(p Partition, from, to int32) Range {
	from = max(from, 0)
	r := Range{Start: AppendEpoch(nil, p, from)}
	if to == math.MaxInt32 {
		r.End = successor(r.Start[:partitionSize])
	} else {
		r.End = AppendEpoch(nil, p, max(from, to))
	}
	return r
}

// PartitionRanges returns everything of a partition and of its companion, in key
// order: log, timestamps, segments, state, epochs, producers and transactions. Committed consumer offsets
// are not among it: they are ordered by group.
func PartitionRanges(p Partition) []Range {
	if p.IsCompanion() {
		p = p.Companion()
	}
	ranges := make([]Range, 0, 2*len(partitionSpaces))
	for _, space := range partitionSpaces {
		ranges = append(ranges,
			prefixRange(appendPartition(nil, space, p)),
			prefixRange(appendPartition(nil, space, p.Companion())))
	}
	return ranges
}

// TopicRanges returns everything of all partitions of a topic and of their
// companions, in key order, and as PartitionRanges without consumer offsets.
func TopicRanges(topic uint32) []Range {
	ranges := make([]Range, 0, len(partitionSpaces))
	for _, space := range partitionSpaces {
		ranges = append(ranges, prefixRange(binary.BigEndian.AppendUint32([]byte{space}, topic)))
	}
	return ranges
}

// PartitionSpaces returns the spaces whose keys start with a partition, in key order;
// see DecodePartition.
func PartitionSpaces() []Range {
	ranges := make([]Range, 0, len(partitionSpaces))
	for _, space := range partitionSpaces {
		ranges = append(ranges, prefixRange([]byte{space}))
	}
	return ranges
}

// OffsetGroupRange returns all committed offsets of one consumer group.
func OffsetGroupRange(group string) Range { return prefixRange(appendGroup(nil, group)) }

// OffsetTopicRange returns the offsets that one consumer group committed for the
// partitions of a topic.
func OffsetTopicRange(group string, topic uint32) Range {
	return prefixRange(binary.BigEndian.AppendUint32(appendGroup(nil, group), topic))
}

// ProducerRange returns the producers of a partition.
func ProducerRange(p Partition) Range { return prefixRange(appendPartition(nil, spaceProducers, p)) }

// TransactionRange returns the transactions of p whose end marker is in [from, to);
// math.MaxInt64 for to is the end of the partition, with the open ones, which are
// from OpenEnd on.
func TransactionRange(p Partition, from, to int64) Range {
	return rowRange(spaceTransactions, p, from, to)
}

// TransactionsRange returns the transactions of all partitions.
func TransactionsRange() Range { return prefixRange([]byte{spaceTransactions}) }

// CatalogRange returns the rows of all topics.
func CatalogRange() Range { return prefixRange([]byte{spaceCatalog}) }

// SegmentsRange returns the manifest rows of all partitions.
func SegmentsRange() Range { return prefixRange([]byte{spaceSegments}) }

// DuesRange returns the alarms of all partitions.
func DuesRange() Range { return prefixRange([]byte{spaceDue}) }

// StatesRange returns the states of all partitions.
func StatesRange() Range { return prefixRange([]byte{spaceState}) }

// OffsetsRange returns the committed offsets of all consumer groups.
func OffsetsRange() Range { return prefixRange([]byte{spaceOffsets}) }

func rowRange(space byte, p Partition, from, to int64) Range {
	from = max(from, 0)
	r := Range{Start: appendRow(nil, space, p, from)}
	if to == math.MaxInt64 {
		r.End = successor(r.Start[:partitionSize])
	} else {
		r.End = appendRow(nil, space, p, max(from, to))
	}
	return r
}

func prefixRange(prefix []byte) Range { return Range{Start: prefix, End: successor(prefix)} }

// successor returns the smallest key greater than every key that starts with
// prefix. There always is one, since a space byte is never 0xff.
func successor(prefix []byte) []byte {
	i := len(prefix) - 1
	for prefix[i] == 0xff {
		i--
	}
	end := append([]byte(nil), prefix[:i+1]...)
	end[i]++
	return end
}
