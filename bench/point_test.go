package bench_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/keys"
)

// Goal G9: one message at a random offset. kept is Pebble with an iterator that
// is made once, raw with one for each call, as the store does it.
func BenchmarkPointRead(b *testing.B) {
	for _, size := range []int{100, 1024} {
		b.Run(fmt.Sprintf("messages=%d/bytes=%s", logLength(size), bytesName(size)), func(b *testing.B) {
			dir := b.TempDir()
			cairn := filledCairn(b, filepath.Join(dir, "cairn"), readSet, size)
			raw := filledRaw(b, filepath.Join(dir, "raw"), size)
			kept, err := raw.db.NewIter(nil)
			require.NoError(b, err)
			interleave(b, 0,
				pointing("cairn", size, func(offset int64) bool { return pointCairn(b, cairn.logs[0], offset) }),
				pointing("raw", size, func(offset int64) bool { return pointRaw(b, raw.db, offset) }),
				pointing("kept", size, func(offset int64) bool { return seek(b, kept, offset) }),
			)
			require.NoError(b, kept.Close())
			require.NoError(b, cairn.db.Close())
			require.NoError(b, raw.db.Close())
		})
	}
}

// pointing is a variant that reads at random offsets.
func pointing(name string, size int, read func(offset int64) bool) variant {
	random := rand.New(rand.NewPCG(1, 2))
	return variant{name, func() (int64, time.Duration) {
		return repeat(func() (n int64) {
			const calls = 16 // between two looks at the clock
			for range calls {
				if read(random.Int64N(int64(logLength(size)))) {
					n++
				}
			}
			return n
		})
	}}
}

func pointCairn(tb testing.TB, p *engine.Partition, offset int64) (found bool) {
	for m, err := range p.Read(tb.Context(), offset, engine.ReadOptions{MaxMessages: 1}) {
		if err != nil {
			tb.Fatal(err)
		}
		touch(m.Value)
		found = m.Offset == offset
	}
	return found
}

func pointRaw(tb testing.TB, db *pebble.DB, offset int64) bool {
	r := keys.LogRange(logID(0), offset, math.MaxInt64)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: r.Start, UpperBound: r.End})
	if err != nil {
		tb.Fatal(err)
	}
	found := seek(tb, it, offset)
	if err := it.Close(); err != nil {
		tb.Fatal(err)
	}
	return found
}

func seek(tb testing.TB, it *pebble.Iterator, offset int64) bool {
	var key [keys.LogSize]byte
	if !it.SeekGE(keys.AppendLog(key[:0], logID(0), offset)) {
		return false
	}
	value, err := it.ValueAndErr()
	if err != nil {
		tb.Fatal(err)
	}
	touch(value)
	return true
}
