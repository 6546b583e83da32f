package keys_test

import (
	"math"
	"math/rand/v2"

	"github.com/cairnlog/cairn/keys"
)

// row holds the fields of a key of any space; each space uses some of them.
type row struct {
	name         string
	partition    keys.Partition
	offset, time int64
	epoch        int32
	start        int64 // of a transaction
}

// space ties the functions of one space together for the tests of them all.
type space struct {
	name   string
	first  byte
	append func(dst []byte, r row) []byte
	decode func(key []byte) (row, error)
	// fields returns what a key of r is ordered by: byte strings and numbers.
	fields func(r row) []any
}

func partitionFields(r row, rest ...any) []any {
	return append([]any{uint64(r.partition.Topic), uint64(uint32(r.partition.Number))}, rest...)
}

var spaces = []space{
	{
		"meta", 1,
		func(dst []byte, r row) []byte { return keys.AppendMeta(dst, r.name) },
		func(key []byte) (r row, err error) { r.name, err = keys.DecodeMeta(key); return },
		func(r row) []any { return []any{r.name} },
	},
	{
		"catalog", 2,
		func(dst []byte, r row) []byte { return keys.AppendCatalog(dst, r.name) },
		func(key []byte) (r row, err error) { r.name, err = keys.DecodeCatalog(key); return },
		func(r row) []any { return []any{r.name} },
	},
	{
		"log", 3,
		func(dst []byte, r row) []byte { return keys.AppendLog(dst, r.partition, r.offset) },
		func(key []byte) (r row, err error) { r.partition, r.offset, err = keys.DecodeLog(key); return },
		func(r row) []any { return partitionFields(r, uint64(r.offset)) },
	},
	{
		"timestamps", 4,
		func(dst []byte, r row) []byte { return keys.AppendTimestamp(dst, r.partition, r.offset, r.time) },
		func(key []byte) (r row, err error) {
			r.partition, r.offset, r.time, err = keys.DecodeTimestamp(key)
			return
		},
		func(r row) []any { return partitionFields(r, uint64(r.offset), r.time) },
	},
	{
		"segments", 5,
		func(dst []byte, r row) []byte { return keys.AppendSegment(dst, r.partition, r.offset) },
		func(key []byte) (r row, err error) { r.partition, r.offset, err = keys.DecodeSegment(key); return },
		func(r row) []any { return partitionFields(r, uint64(r.offset)) },
	},
	{
		"state", 6,
		func(dst []byte, r row) []byte { return keys.AppendState(dst, r.partition) },
		func(key []byte) (r row, err error) { r.partition, err = keys.DecodeState(key); return },
		func(r row) []any { return partitionFields(r) },
	},
	{
		"epochs", 7,
		func(dst []byte, r row) []byte { return keys.AppendEpoch(dst, r.partition, r.epoch) },
		func(key []byte) (r row, err error) { r.partition, r.epoch, err = keys.DecodeEpoch(key); return },
		func(r row) []any { return partitionFields(r, uint64(r.epoch)) },
	},
	{
		"offsets", 8,
		func(dst []byte, r row) []byte { return keys.AppendOffset(dst, r.name, r.partition) },
		func(key []byte) (r row, err error) { r.name, r.partition, err = keys.DecodeOffset(key); return },
		func(r row) []any { return append([]any{r.name}, partitionFields(r)...) },
	},
	{
		"due", 9,
		func(dst []byte, r row) []byte { return keys.AppendDue(dst, r.offset, r.partition) },
		func(key []byte) (r row, err error) { r.offset, r.partition, err = keys.DecodeDue(key); return },
		func(r row) []any { return append([]any{uint64(r.offset)}, partitionFields(r)...) },
	},
	{
		"producers", 10,
		func(dst []byte, r row) []byte { return keys.AppendProducer(dst, r.partition, r.name) },
		func(key []byte) (r row, err error) { r.partition, r.name, err = keys.DecodeProducer(key); return },
		func(r row) []any { return partitionFields(r, r.name) },
	},
	{
		"transactions", 11,
		func(dst []byte, r row) []byte {
			return keys.AppendTransaction(dst, r.partition, r.offset, r.start)
		},
		func(key []byte) (r row, err error) {
			r.partition, r.offset, r.start, err = keys.DecodeTransaction(key)
			return
		},
		func(r row) []any { return partitionFields(r, uint64(r.offset), uint64(r.start)) },
	},
}

var (
	boundaryNumbers = []int32{0, 1, 255, 256, math.MaxInt32, -1, -2, -256, math.MinInt32}
	boundaryOffsets = []int64{0, 1, 255, 256, 1<<32 - 1, 1 << 32, math.MaxInt64 - 1, math.MaxInt64}
	boundaryTimes   = []int64{0, -1, 1, math.MinInt64, math.MaxInt64, 1_500_000_000_000}
	boundaryTopics  = []uint32{0, 1, 255, 256, math.MaxUint32 - 1, math.MaxUint32}
	boundaryEpochs  = []int32{0, 1, 255, 256, math.MaxInt32}
	boundaryNames   = []string{"", "a", "b", "a\x00", "a\x00\x00", "a\x00\x01", "a\x00\xff", "a\x01", "a\xff", "\x00", "\x01", "\xff", "\xff\xff", "\x00\xff"}
)

func pick[T any](rng *rand.Rand, boundary []T, other T) T {
	if rng.IntN(4) > 0 {
		return boundary[rng.IntN(len(boundary))]
	}
	return other
}

func randomRow(rng *rand.Rand) row {
	name := make([]byte, rng.IntN(4))
	for i := range name {
		name[i] = []byte{0, 1, 'a', 0xff}[rng.IntN(4)]
	}
	return row{
		name:      pick(rng, boundaryNames, string(name)),
		partition: keys.Partition{Topic: pick(rng, boundaryTopics, rng.Uint32()), Number: pick(rng, boundaryNumbers, int32(rng.Uint32()))},
		offset:    pick(rng, boundaryOffsets, rng.Int64()),
		time:      pick(rng, boundaryTimes, int64(rng.Uint64())),
		epoch:     pick(rng, boundaryEpochs, rng.Int32()),
		start:     pick(rng, boundaryOffsets, rng.Int64()),
	}
}
