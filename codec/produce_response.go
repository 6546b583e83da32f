package codec

import "encoding/binary"

// ProducedTopic is one topic of a ProduceResponse.
type ProducedTopic struct {
	Name       string
	Partitions []ProducedPartition
}

// ProducedPartition is what a produce request came to on one partition.
type ProducedPartition struct {
	Partition int32
	Error     Code
	// BaseOffset is the first offset assigned; -1 on an error or an empty set.
	BaseOffset int64
	// Timestamp is the LogAppendTime of the set; -1 under CreateTime and on an
	// error (SPEC 2.8.28).
	Timestamp Timestamp
}

// AppendProduceResponse appends the body of a ProduceResponse, version 0 to 2
// (SPEC 2.8.27): version 1 adds the throttle time in milliseconds, version 2 the
// timestamps.
func AppendProduceResponse(dst []byte, version int16, topics []ProducedTopic, throttle int32) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(topics)))
	for _, t := range topics {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(t.Name)))
		dst = append(dst, t.Name...)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(t.Partitions)))
		for _, p := range t.Partitions {
			dst = binary.BigEndian.AppendUint32(dst, uint32(p.Partition))
			dst = binary.BigEndian.AppendUint16(dst, uint16(p.Error))
			dst = binary.BigEndian.AppendUint64(dst, uint64(p.BaseOffset))
			if version >= 2 {
				dst = binary.BigEndian.AppendUint64(dst, uint64(p.Timestamp))
			}
		}
	}
	if version >= 1 {
		dst = binary.BigEndian.AppendUint32(dst, uint32(throttle))
	}
	return dst
}
