package keys

import "encoding/binary"

// LogSize is the length of a log key.
const LogSize = partitionSize + 8

const (
	timestampSize = partitionSize + 8 + 8
	segmentSize   = partitionSize + 8
	epochSize     = partitionSize + 4
)

// signBit turns the order of signed numbers into that of unsigned ones.
const signBit = 1 << 63

// AppendLog appends the key of the entry, or in a companion the time-index row,
// that ends at offset. offset must not be negative.
func AppendLog(dst []byte, p Partition, offset int64) []byte {
	return appendRow(dst, spaceLog, p, offset)
}

// PutLogOffset overwrites the offset of a key made by AppendLog, in place.
func PutLogOffset(key []byte, offset int64) {
	binary.BigEndian.PutUint64(key[partitionSize:LogSize], uint64(offset))
}

// DecodeLog takes a key of AppendLog apart. The error is an ErrMalformed.
func DecodeLog(key []byte) (Partition, int64, error) {
	p, offset, ok := decodeRow(key, spaceLog, LogSize)
	if !ok {
		return Partition{}, 0, malformed("log", key)
	}
	return p, offset, nil
}

// AppendTimestamp appends the key of one row of the timestamps of the segment
// that starts at base. ts is in milliseconds and may be negative; base must not.
func AppendTimestamp(dst []byte, p Partition, base, ts int64) []byte {
	return binary.BigEndian.AppendUint64(appendRow(dst, spaceTimestamps, p, base), uint64(ts)^signBit)
}

// DecodeTimestamp takes a key of AppendTimestamp apart. The error is an
// ErrMalformed.
func DecodeTimestamp(key []byte) (p Partition, base, ts int64, err error) {
	p, base, ok := decodeRow(key, spaceTimestamps, timestampSize)
	if !ok {
		return Partition{}, 0, 0, malformed("timestamps", key)
	}
	return p, base, int64(binary.BigEndian.Uint64(key[segmentSize:]) ^ signBit), nil
}

// AppendSegment appends the key of the manifest row of the segment that starts
// at base, which must not be negative.
func AppendSegment(dst []byte, p Partition, base int64) []byte {
	return appendRow(dst, spaceSegments, p, base)
}

// DecodeSegment takes a key of AppendSegment apart. The error is an
// ErrMalformed.
func DecodeSegment(key []byte) (p Partition, base int64, err error) {
	p, base, ok := decodeRow(key, spaceSegments, segmentSize)
	if !ok {
		return Partition{}, 0, malformed("segments", key)
	}
	return p, base, nil
}

// AppendState appends the key of the state of a partition.
func AppendState(dst []byte, p Partition) []byte {
	return appendPartition(dst, spaceState, p)
}

// DecodeState takes a key of AppendState apart. The error is an ErrMalformed.
func DecodeState(key []byte) (Partition, error) {
	if len(key) != partitionSize || key[0] != spaceState {
		return Partition{}, malformed("state", key)
	}
	return readPartition(key[1:]), nil
}

// AppendEpoch appends the key of the start of a leader epoch, which must not be
// negative.
func AppendEpoch(dst []byte, p Partition, epoch int32) []byte {
	return binary.BigEndian.AppendUint32(appendPartition(dst, spaceEpochs, p), uint32(epoch))
}

// DecodeEpoch takes a key of AppendEpoch apart. The error is an ErrMalformed.
func DecodeEpoch(key []byte) (p Partition, epoch int32, err error) {
	if len(key) != epochSize || key[0] != spaceEpochs {
		return Partition{}, 0, malformed("epochs", key)
	}
	epoch = int32(binary.BigEndian.Uint32(key[partitionSize:]))
	if epoch < 0 {
		return Partition{}, 0, malformed("epochs", key)
	}
	return readPartition(key[1:]), epoch, nil
}
