package bench_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/keys"
)

// sink keeps the compiler from removing what is only read.
var sink byte

// readSet is how many messages an append of a log to be read usually has.
const readSet = 100

// Goal G6: a whole log is read, in order, with every value touched. The stores
// are opened again after they were filled, so that all is in tables, and the
// first reading is not counted: the second finds what it needs in memory.
// packed is Pebble with one key for 100 messages and the least it takes to find
// them again, without checksums, offsets or timestamps.
//
// set is how many messages an append had: the store keeps those of one append
// together. Logs that were appended to one by one have an entry for each message,
// as raw has a key.
func BenchmarkRead(b *testing.B) {
	for _, size := range []int{100, 1024} {
		for _, set := range []int{readSet, 1} {
			b.Run(fmt.Sprintf("messages=%d/set=%d/bytes=%s", logLength(size), set, bytesName(size)), func(b *testing.B) {
				benchRead(b, set, size)
			})
		}
	}
}

func benchRead(b *testing.B, set, size int) {
	dir := b.TempDir()
	cairn := filledCairn(b, filepath.Join(dir, "cairn"), set, size)
	raw := filledRaw(b, filepath.Join(dir, "raw"), size)
	packed := filledPacked(b, filepath.Join(dir, "packed"), size)
	interleave(b, size,
		scanning(b, "cairn", size, func() int64 { return scanCairn(b, cairn.logs[0]) }),
		scanning(b, "raw", size, func() int64 { return scanRaw(b, raw.db) }),
		scanning(b, "packed", size, func() int64 { return scanPacked(b, packed) }),
	)
	require.NoError(b, cairn.db.Close())
	require.NoError(b, raw.db.Close())
	require.NoError(b, packed.Close())
}

// logLength returns how many messages of a size a log to be read has: as many
// bytes of each size.
func logLength(size int) int { return max(*messages*100/size/readSet, 1) * readSet }

// scanning is a variant that scans whole logs; it warms up first.
func scanning(tb testing.TB, name string, size int, scan func() int64) variant {
	require.EqualValues(tb, logLength(size), scan(), name)
	return variant{name, func() (int64, time.Duration) { return repeat(scan) }}
}

func filledCairn(tb testing.TB, dir string, set, size int) *cairnStore {
	tb.Helper()
	s := openCairn(tb, dir, nil, 1, engine.SyncNever)
	s.fill(tb, 0, logLength(size), set, size)
	require.NoError(tb, s.db.Close())
	return openCairn(tb, dir, nil, 1, engine.SyncNever)
}

func filledRaw(tb testing.TB, dir string, size int) *rawStore {
	tb.Helper()
	s := openRaw(tb, dir, vfs.Default, 1)
	src := newSource(readSet, size, 0)
	for range logLength(size) / readSet {
		require.NoError(tb, s.appendNoSync(0, src.next()))
	}
	require.NoError(tb, s.db.Close())
	return openRaw(tb, dir, vfs.Default, 1)
}

// filledPacked is a raw store with a set of messages under each key.
func filledPacked(tb testing.TB, dir string, size int) *pebble.DB {
	tb.Helper()
	s := openRaw(tb, dir, vfs.Default, 1)
	src := newSource(readSet, size, 0)
	var value []byte
	for n := range logLength(size) / readSet {
		value = value[:0]
		for _, m := range src.next() {
			value = binary.AppendUvarint(value, uint64(len(m.Value)))
			value = append(value, m.Value...)
		}
		key := keys.AppendLog(nil, logID(0), int64(n+1)*readSet-1)
		require.NoError(tb, s.db.Set(key, value, pebble.NoSync))
	}
	require.NoError(tb, s.db.Close())
	return openRaw(tb, dir, vfs.Default, 1).db
}

func scanCairn(tb testing.TB, p *engine.Partition) (n int64) {
	for m, err := range p.Read(tb.Context(), 0, engine.ReadOptions{}) {
		if err != nil {
			tb.Fatal(err)
		}
		touch(m.Value)
		n++
	}
	return n
}

// touch reads every cache line of a value, as whoever wants it will.
func touch(value []byte) {
	const line = 64
	var b byte
	for i := 0; i < len(value); i += line {
		b ^= value[i]
	}
	sink ^= b
}

// scanLog calls f with every value of the log.
func scanLog(tb testing.TB, db *pebble.DB, f func(value []byte)) {
	r := keys.LogRange(logID(0), 0, math.MaxInt64)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: r.Start, UpperBound: r.End})
	if err != nil {
		tb.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			tb.Fatal(err)
		}
		f(value)
	}
	if err := it.Close(); err != nil {
		tb.Fatal(err)
	}
}

func scanRaw(tb testing.TB, db *pebble.DB) (n int64) {
	scanLog(tb, db, func(value []byte) {
		touch(value)
		n++
	})
	return n
}

func scanPacked(tb testing.TB, db *pebble.DB) (n int64) {
	scanLog(tb, db, func(value []byte) {
		for len(value) > 0 {
			length, w := binary.Uvarint(value)
			end := w + int(length)
			touch(value[w:end])
			value = value[end:]
			n++
		}
	})
	return n
}
