package bench_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/keys"
)

// Wire benchmarks use messages that compress to about half.
const (
	wireText = 0.5
	wireSet  = 100 // messages in a produced set
)

var compressions = []codec.Compression{codec.None, codec.Gzip, codec.Snappy, codec.LZ4}

// wireSets returns produced sets of a log of so many messages: plain frames, or
// one compressed frame each.
func wireSets(tb testing.TB, c codec.Compression, size, n int) [][]byte {
	tb.Helper()
	src := newSource(wireSet, size, 0)
	src.pool = compressiblePool()
	sets := make([][]byte, n/wireSet)
	for i := range sets {
		msgs := src.next()
		for j := range msgs {
			msgs[j].Offset = int64(j)
			msgs[j].TimestampType = codec.CreateTime
		}
		sets[i] = wireSetOf(tb, c, msgs)
	}
	return sets
}

func wireSetOf(tb testing.TB, c codec.Compression, msgs []codec.Message) []byte {
	tb.Helper()
	if c == codec.None {
		var set []byte
		for i := range msgs {
			set = codec.AppendMessageFrame(set, &msgs[i], 1)
		}
		return set
	}
	frame, _, err := codec.BuildWrapper(nil, c, 1, msgs)
	require.NoError(tb, err)
	return codec.AppendFrame(nil, &frame)
}

// Goal G7: a log is fetched as message sets of up to 1 MiB. raw collects the same
// frames from Pebble, where each has a key. read is the store's own Read of the
// same log.
func BenchmarkFetch(b *testing.B) {
	for _, size := range []int{100, 1024} {
		for _, c := range compressions {
			b.Run(fmt.Sprintf("compression=%s/bytes=%s", c, bytesName(size)), func(b *testing.B) { benchFetch(b, c, size) })
		}
	}
}

func benchFetch(b *testing.B, c codec.Compression, size int) {
	dir, n := b.TempDir(), logLength(size)
	sets := wireSets(b, c, size, n)
	cairn := openCairn(b, filepath.Join(dir, "cairn"), nil, 1, engine.SyncNever)
	for _, set := range sets {
		_, err := cairn.logs[0].Produce(b.Context(), set)
		require.NoError(b, err)
	}
	require.NoError(b, cairn.db.Close())
	cairn = openCairn(b, filepath.Join(dir, "cairn"), nil, 1, engine.SyncNever)
	raw := frameStore(b, filepath.Join(dir, "raw"), sets)

	var buf []byte
	fetchAll := func() int64 {
		from := int64(0)
		for from < int64(n) {
			res, err := cairn.logs[0].AppendFetch(b.Context(), buf[:0], from, engine.FetchOptions{})
			if err != nil || res.Next == from {
				b.Fatal(from, res.Next, err)
			}
			buf, from = res.Set, res.Next
		}
		return int64(n)
	}
	interleave(b, size,
		scanning(b, "cairn", size, fetchAll),
		scanning(b, "raw", size, func() int64 { buf = collect(b, raw, buf); return int64(n) }),
		scanning(b, "read", size, func() int64 { return scanCairn(b, cairn.logs[0]) }),
	)
	require.NoError(b, cairn.db.Close())
	require.NoError(b, raw.Close())
}

// collect puts the values of a log together, up to 1 MiB at a time.
func collect(tb testing.TB, db *pebble.DB, buf []byte) []byte {
	buf = buf[:0]
	scanLog(tb, db, func(value []byte) {
		if len(buf)+len(value) > 1<<20 {
			buf = buf[:0]
		}
		buf = append(buf, value...)
	})
	return buf
}

// frameStore is Pebble with a key for each frame of the sets.
func frameStore(tb testing.TB, dir string, sets [][]byte) *pebble.DB {
	tb.Helper()
	db := openRaw(tb, dir, vfs.Default, 1).db
	for i, set := range sets {
		require.NoError(tb, storeFrames(db, int64(i)*wireSet, set))
	}
	require.NoError(tb, db.Close())
	return openRaw(tb, dir, vfs.Default, 1).db
}

// Goal G8: sets are produced without waiting for the disk. bare is what cannot
// be left out: checking the frames and, where they are compressed, decompressing
// and checking what is inside. raw does that and stores the frames in Pebble, a
// key for each.
func BenchmarkProduce(b *testing.B) {
	for _, size := range []int{100, 1024} {
		for _, c := range compressions {
			b.Run(fmt.Sprintf("compression=%s/bytes=%s", c, bytesName(size)), func(b *testing.B) { benchProduce(b, c, size) })
		}
	}
}

func benchProduce(b *testing.B, c codec.Compression, size int) {
	sets := wireSets(b, c, size, 20*wireSet)
	dir := b.TempDir()
	cairn := openCairn(b, filepath.Join(dir, "cairn"), nil, 1, engine.SyncNever)
	raw := openRaw(b, filepath.Join(dir, "raw"), vfs.Default, 1)
	var scratch []byte
	var offset int64
	next := 0
	producing := func(name string, produce func(set []byte) error) variant {
		return variant{name, func() (int64, time.Duration) {
			return repeat(func() int64 {
				if err := produce(sets[next%len(sets)]); err != nil {
					b.Fatal(err)
				}
				next++
				return wireSet
			})
		}}
	}
	interleave(b, size,
		producing("cairn", func(set []byte) error {
			_, err := cairn.logs[0].Produce(b.Context(), set)
			return err
		}),
		producing("bare", func(set []byte) error {
			var err error
			scratch, err = checkSet(set, scratch)
			return err
		}),
		producing("raw", func(set []byte) error {
			var err error
			if scratch, err = checkSet(set, scratch); err != nil {
				return err
			}
			offset += wireSet
			return storeFrames(raw.db, offset, set)
		}),
	)
	require.NoError(b, cairn.db.Close())
	require.NoError(b, raw.db.Close())
}

// storeFrames writes a key for each frame of a set, the first at offset.
func storeFrames(db *pebble.DB, offset int64, set []byte) error {
	batch := db.NewBatchWithSize(len(set) + len(set)/4)
	var key [keys.LogSize]byte
	for len(set) > 0 {
		n, err := codec.FrameSize(set)
		if err != nil {
			return err
		}
		if err := batch.Set(keys.AppendLog(key[:0], logID(0), offset), set[:n], nil); err != nil {
			return err
		}
		set = set[n:]
		offset++
	}
	return batch.Commit(pebble.NoSync)
}

// checkSet checks the frames of a set and what is inside them.
func checkSet(set, scratch []byte) ([]byte, error) {
	for len(set) > 0 {
		frame, n, err := codec.ReadFrame(set)
		if err != nil {
			return scratch, err
		}
		if frame.Compression != codec.None {
			inner, err := codec.InspectWrapper(&frame, scratch[:0])
			if err != nil {
				return scratch, err
			}
			scratch = inner.Messages
		}
		set = set[n:]
	}
	return scratch, nil
}
