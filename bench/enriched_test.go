package bench_test

import (
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

// enrichedLog fills a store with compressed wrappers of readSet messages of size
// bytes.
func enrichedLog(b *testing.B, dir string, c codec.Compression, size int) *cairnStore {
	b.Helper()
	config := engine.TopicConfig{MessageFormat: engine.FormatEnriched, SegmentBytes: 1 << 30}
	s := openWith(b, dir, engine.Options{Durability: engine.SyncNever}, 2, config)
	src := newSource(readSet, size, 0)
	src.pool = compressiblePool()
	tags, err := codec.NewTags(codec.NoTimestamp, codec.AppTag{Key: "host", Value: "h1"})
	require.NoError(b, err)
	for range logLength(size) / readSet {
		_, err := s.logs[0].AppendSet(b.Context(), src.next(), engine.AppendOptions{Compression: c, Tags: tags})
		require.NoError(b, err)
	}
	s.settle(b)
	return s
}

// An audit of a log of wrappers reads their tags, not their messages: at least ten
// times the rate of reading them.
func BenchmarkHeaders(b *testing.B) {
	for _, c := range []codec.Compression{codec.Gzip, codec.Snappy, codec.LZ4} {
		b.Run("codec="+c.String()+"/bytes=100B", func(b *testing.B) {
			const size = 100
			s := enrichedLog(b, b.TempDir(), c, size)
			p := s.logs[0]
			headers := func() (n int64) {
				for h, err := range p.ReadHeaders(b.Context(), 0, engine.ReadOptions{}) {
					if err != nil {
						b.Fatal(err)
					}
					if _, ok := h.Tags.AppValue("host"); !ok {
						b.Fatal("no tag")
					}
					n += int64(h.Messages)
				}
				return n
			}
			interleave(b, size,
				scanning(b, "headers", size, headers),
				scanning(b, "read", size, func() int64 { return scanCairn(b, p) }),
			)
			require.NoError(b, s.db.Close())
		})
	}
}

// A mirror of compressed data, fetched from one log and appended to another, against
// a scan of Pebble with the same payloads under one key each and a write of what it
// finds.
func BenchmarkMirror(b *testing.B) {
	for _, size := range []int{100, 1024} {
		b.Run("codec=snappy/bytes="+bytesName(size), func(b *testing.B) {
			dir := b.TempDir()
			s := enrichedLog(b, filepath.Join(dir, "cairn"), codec.Snappy, size)
			raw := openRaw(b, filepath.Join(dir, "raw"), vfs.Default, 2)
			payloads := 0
			forEachFrame(b, s.logs[0], func(f *codec.EnrichedFrame) {
				payloads++
				key := keys.AppendLog(nil, logID(0), int64(payloads)*readSet-1)
				require.NoError(b, raw.db.Set(key, f.Value, pebble.NoSync))
			})
			units := int64(payloads * readSet)
			at := int64(0)
			interleave(b, size,
				variant{"mirror", func() (int64, time.Duration) {
					return repeat(func() int64 { mirror(b, s.logs[0], s.logs[1]); return units })
				}},
				variant{"raw", func() (int64, time.Duration) {
					return repeat(func() int64 { at = mirrorRaw(b, raw.db, at); return units })
				}},
			)
			require.NoError(b, s.db.Close())
			require.NoError(b, raw.db.Close())
		})
	}
}

const mirrorBytes = 1 << 20

func mirror(b *testing.B, from, to *engine.Partition) {
	var set []byte
	for at := int64(0); ; {
		res, err := from.AppendFetch(b.Context(), set[:0], at, engine.FetchOptions{Format: engine.FormatEnriched, MaxBytes: mirrorBytes})
		if err != nil {
			b.Fatal(err)
		}
		if len(res.Set) == 0 {
			return
		}
		if _, err := to.Mirror(b.Context(), res.Set); err != nil {
			b.Fatal(err)
		}
		set, at = res.Set, res.Next
	}
}

// mirrorRaw copies the values of one log to the end of another, in batches as large
// as the fetches of mirror.
func mirrorRaw(b *testing.B, db *pebble.DB, at int64) int64 {
	batch := db.NewBatchWithSize(mirrorBytes + 1<<16)
	flush := func() {
		if err := db.Apply(batch, pebble.NoSync); err != nil {
			b.Fatal(err)
		}
		if err := batch.Close(); err != nil {
			b.Fatal(err)
		}
		batch = db.NewBatchWithSize(mirrorBytes + 1<<16)
	}
	scanLog(b, db, func(value []byte) {
		if batch.Len()+len(value) > mirrorBytes {
			flush()
		}
		at += readSet
		if err := batch.Set(keys.AppendLog(nil, logID(1), at-1), value, nil); err != nil {
			b.Fatal(err)
		}
	})
	flush()
	return at
}

func forEachFrame(b *testing.B, p *engine.Partition, f func(*codec.EnrichedFrame)) {
	for at := int64(0); ; {
		res, err := p.Fetch(b.Context(), at, engine.FetchOptions{Format: engine.FormatEnriched, MaxBytes: mirrorBytes})
		require.NoError(b, err)
		if len(res.Set) == 0 {
			return
		}
		for set := res.Set; len(set) > 0; {
			frame, n, err := codec.ReadEnrichedFrame(set)
			require.NoError(b, err)
			f(&frame)
			set = set[n:]
		}
		at = res.Next
	}
}
