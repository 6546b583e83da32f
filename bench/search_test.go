package bench_test

import (
	"fmt"
	"math"
	"math/rand/v2"
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

// searchSize is the value size of a log to be searched.
const searchSize = 32

// Goal G10: OffsetFor of a random timestamp. raw is an index with a row for each
// message and a seek in it: what the answer costs at least in ordered logs. In
// shuffled ones a row for each message answers another, easier question.
func BenchmarkSearch(b *testing.B) {
	for _, order := range []string{"ordered", "shuffled"} {
		for _, n := range []int{*messages, *messages * 10} {
			b.Run(fmt.Sprintf("order=%s/messages=%d", order, n), func(b *testing.B) {
				times := timestamps(n, order == "shuffled")
				dir := b.TempDir()
				cairn := searchableCairn(b, filepath.Join(dir, "cairn"), times)
				raw := searchableRaw(b, filepath.Join(dir, "raw"), times)
				interleave(b, 0,
					searching("cairn", n, func(ts codec.Timestamp) {
						pos, err := cairn.logs[0].OffsetFor(ts)
						if err != nil || !pos.Found || pos.Timestamp < ts {
							b.Fatal(ts, pos, err)
						}
					}),
					searching("raw", n, func(ts codec.Timestamp) { searchRaw(b, raw.db, ts) }),
				)
				require.NoError(b, cairn.db.Close())
				require.NoError(b, raw.db.Close())
			})
		}
	}
}

// timestamps returns those of a log: a millisecond for each message.
func timestamps(n int, shuffled bool) []codec.Timestamp {
	times := make([]codec.Timestamp, n)
	for i := range times {
		times[i] = firstTimestamp + codec.Timestamp(i)
	}
	if shuffled {
		rand.New(rand.NewPCG(3, 4)).Shuffle(n, func(i, j int) { times[i], times[j] = times[j], times[i] })
	}
	return times
}

// searching is a variant that searches for the timestamps of the log, at random.
func searching(name string, n int, search func(codec.Timestamp)) variant {
	random := rand.New(rand.NewPCG(5, 6))
	return variant{name, func() (int64, time.Duration) {
		return repeat(func() int64 {
			search(firstTimestamp + codec.Timestamp(random.IntN(n)))
			return 1
		})
	}}
}

func searchableCairn(tb testing.TB, dir string, times []codec.Timestamp) *cairnStore {
	tb.Helper()
	s := openCairn(tb, dir, nil, 1, engine.SyncNever)
	src := newSource(readSet, searchSize, 0)
	for i := 0; i < len(times); i += readSet {
		msgs := src.next()
		for j := range msgs {
			msgs[j].Timestamp = times[i+j]
		}
		_, err := s.logs[0].Append(tb.Context(), msgs...)
		require.NoError(tb, err)
	}
	require.NoError(tb, s.db.Close())
	return openCairn(tb, dir, nil, 1, engine.SyncNever)
}

func searchableRaw(tb testing.TB, dir string, times []codec.Timestamp) *rawStore {
	tb.Helper()
	s := openRaw(tb, dir, vfs.Default, 1)
	var value [8]byte
	for i := 0; i < len(times); i += readSet {
		b := s.db.NewBatch()
		for _, ts := range times[i : i+readSet] {
			require.NoError(tb, b.Set(keys.AppendTimestamp(nil, logID(0), 0, int64(ts)), value[:], nil))
		}
		require.NoError(tb, b.Commit(pebble.NoSync))
	}
	require.NoError(tb, s.db.Close())
	return openRaw(tb, dir, vfs.Default, 1)
}

func searchRaw(tb testing.TB, db *pebble.DB, ts codec.Timestamp) {
	r := keys.TimestampRange(logID(0), 0, math.MaxInt64)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: r.Start, UpperBound: r.End})
	if err != nil {
		tb.Fatal(err)
	}
	if !it.SeekGE(keys.AppendTimestamp(nil, logID(0), 0, int64(ts))) {
		tb.Fatal("not found", ts, it.Error())
	}
	value, err := it.ValueAndErr()
	if err != nil {
		tb.Fatal(err)
	}
	touch(value)
	if err := it.Close(); err != nil {
		tb.Fatal(err)
	}
}
