package keys

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// The spaces, each the first byte of its keys.
const (
	spaceMeta byte = 1 + iota
	spaceCatalog
	spaceLog
	spaceTimestamps
	spaceSegments
	spaceState
	spaceEpochs
	spaceOffsets
	spaceDue
	spaceProducers
	spaceTransactions
)

// partitionSpaces are the spaces whose fields start with a partition.
var partitionSpaces = [...]byte{spaceLog, spaceTimestamps, spaceSegments, spaceState, spaceEpochs, spaceProducers,
	spaceTransactions}

// partitionSize is the length of a space byte and a partition.
const partitionSize = 1 + 4 + 4

// ErrMalformed says that bytes are not a key of the space they were read as.
var ErrMalformed = errors.New("malformed key")

// malformedShown is how much of a malformed key its error prints.
const malformedShown = 64

func malformed(space string, key []byte) error {
	return fmt.Errorf("%w: %x is not a key of %s", ErrMalformed, key[:min(len(key), malformedShown)], space)
}

// Partition names one partition of a topic by the topic's number. A negative
// Number is a companion: the partition that holds the time index of another.
type Partition struct {
	Topic  uint32
	Number int32
}

// Companion returns the other half of the pair: the companion of a partition,
// the partition of a companion. Numbers are bitwise complements, so it is its
// own inverse (SPEC 5.8, S106).
func (p Partition) Companion() Partition { return Partition{p.Topic, ^p.Number} }

// IsCompanion reports whether p holds a time index rather than messages.
func (p Partition) IsCompanion() bool { return p.Number < 0 }

// String returns topic and number, as in 7/0 and its companion 7/-1.
func (p Partition) String() string {
	return strconv.FormatUint(uint64(p.Topic), 10) + "/" + strconv.FormatInt(int64(p.Number), 10)
}

func appendPartition(dst []byte, space byte, p Partition) []byte {
	dst = append(dst, space)
	dst = binary.BigEndian.AppendUint32(dst, p.Topic)
	return binary.BigEndian.AppendUint32(dst, uint32(p.Number))
}

// appendRow appends a key whose field after the partition is an offset or a base.
func appendRow(dst []byte, space byte, p Partition, offset int64) []byte {
	return binary.BigEndian.AppendUint64(appendPartition(dst, space, p), uint64(offset))
}

// readPartition reads the four plus four bytes at the head of fields.
func readPartition(fields []byte) Partition {
	return Partition{
		Topic:  binary.BigEndian.Uint32(fields),
		Number: int32(binary.BigEndian.Uint32(fields[4:])),
	}
}

// DecodePartition returns the partition, or companion, that a key of one of the
// PartitionSpaces belongs to, and the first key of that space behind all of it. The
// rest of key is not looked at. The error is an ErrMalformed.
func DecodePartition(key []byte) (p Partition, after []byte, err error) {
	if len(key) < partitionSize || !slices.Contains(partitionSpaces[:], key[0]) {
		return Partition{}, nil, malformed("a partition", key)
	}
	return readPartition(key[1:]), successor(key[:partitionSize]), nil
}

// decodeRow takes apart the first 17 bytes of a key of exactly size bytes.
func decodeRow(key []byte, space byte, size int) (p Partition, offset int64, ok bool) {
	if len(key) != size || key[0] != space {
		return Partition{}, 0, false
	}
	offset = int64(binary.BigEndian.Uint64(key[partitionSize:]))
	if offset < 0 {
		return Partition{}, 0, false
	}
	return readPartition(key[1:]), offset, true
}
