package keys

import (
	"encoding/binary"
	"math"
)

// OpenEnd stands for the end marker of a transaction that has none yet. It is
// larger than any offset, so the open ones are the last of their partition.
const OpenEnd = math.MaxInt64 - 1

const transactionSize = partitionSize + 8 + 8

// AppendTransaction appends the key of a transaction in a partition, by the
// offsets of its end marker and of its start marker, none of them negative. Ordered
// by end, what a removal of the log's head or tail takes is one range.
func AppendTransaction(dst []byte, p Partition, end, start int64) []byte {
	return binary.BigEndian.AppendUint64(appendRow(dst, spaceTransactions, p, end), uint64(start))
}

// DecodeTransaction takes a key of AppendTransaction apart. The error is an
// ErrMalformed.
func DecodeTransaction(key []byte) (p Partition, end, start int64, err error) {
	p, end, ok := decodeRow(key, spaceTransactions, transactionSize)
	if ok {
		start = int64(binary.BigEndian.Uint64(key[segmentSize:]))
		ok = start >= 0
	}
	if !ok {
		return Partition{}, 0, 0, malformed("transactions", key)
	}
	return p, end, start, nil
}
