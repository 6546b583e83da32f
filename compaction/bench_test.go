package compaction_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"sort"
	"testing"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/compaction"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// benchStore holds a log in one array and copies what is committed: a store that
// costs as little as a store can.
type benchStore struct {
	keys, values [][]byte // in order; the entries come first
	entries      int
	index        [][2][]byte
	segments     []retention.Segment
	end          int64
	bytes        int64
	written      []byte
}

// benchEntryMessages makes entries of 16 KiB.
const benchEntryMessages = 160

// newBenchStore makes a log of n messages of 100 bytes of key and value over
// distinct keys, in random order after the first round, in entries of the given
// number of messages.
func newBenchStore(tb testing.TB, n, distinct, perEntry int) *benchStore {
	tb.Helper()
	s := &benchStore{segments: []retention.Segment{retention.NewSegment(0)}}
	rng := randomSource(tb)
	for s.end < int64(n) {
		msgs := make([]codec.Message, perEntry)
		for i := range msgs {
			k := rng.IntN(distinct)
			if at := int(s.end) + i; at < distinct {
				k = at
			}
			msgs[i] = codec.Message{
				Offset: s.end + int64(i), Timestamp: codec.Timestamp(s.end),
				Key: binary.BigEndian.AppendUint64([]byte("customer"), uint64(k)), Value: make([]byte, 84),
			}
		}
		key := keys.AppendLog(nil, partition, s.end+int64(perEntry)-1)
		value := codec.AppendPlain(nil, msgs, codec.PlainOptions{Magic: 1})
		codec.Seal(key, value, codec.Stamp{Timestamp: msgs[0].Timestamp})
		s.keys, s.values = append(s.keys, key), append(s.values, value)
		s.bytes += int64(len(value))
		s.end += int64(perEntry)
		e, err := codec.ParseEntry(key, value)
		if err != nil {
			tb.Fatal(err)
		}
		active := &s.segments[len(s.segments)-1]
		s.row(active.Add(appended(&e, len(value)), 4096))
		if active.Bytes > 16<<20 {
			s.roll()
		}
	}
	s.roll()
	slices.SortFunc(s.index, func(a, b [2][]byte) int { return bytes.Compare(a[0], b[0]) })
	s.entries = len(s.keys)
	for _, row := range s.index {
		s.keys, s.values = append(s.keys, row[0]), append(s.values, row[1])
	}
	s.written = make([]byte, 0, 2*s.bytes/int64(len(s.segments))+1<<20)
	return s
}

func (s *benchStore) roll() {
	active := &s.segments[len(s.segments)-1]
	s.row(active.ClosingRow())
	active.Sealed = true
	s.segments = append(s.segments, retention.NewSegment(s.end))
}

func (s *benchStore) row(row retention.IndexRow, due bool) {
	if due {
		k := keys.AppendLog(nil, partition.Companion(), row.Offset)
		s.index = append(s.index, [2][]byte{k, codec.AppendIndexRow(nil, k, row)},
			[2][]byte{keys.AppendTimestamp(nil, partition, row.Base, int64(row.Timestamp)), nil})
	}
}

func (s *benchStore) plan(cleanPoint int64) compaction.Plan {
	return compaction.PlanOf(compaction.Log{
		Partition: partition, Segments: s.segments, CleanPoint: cleanPoint, TombstoneDue: retention.Never,
		Bounds: retention.Bounds{HighWatermark: s.end, End: s.end},
	}, compaction.Policy{SegmentBytes: 16 << 20, IndexInterval: 4096, DeleteRetentionMs: 1 << 40}, 0)
}

func (s *benchStore) Scan(_ context.Context, r keys.Range, each func(key, value []byte) error) error {
	i := sort.Search(len(s.keys), func(i int) bool { return bytes.Compare(s.keys[i], r.Start) >= 0 })
	for ; i < len(s.keys) && bytes.Compare(s.keys[i], r.End) < 0; i++ {
		if err := each(s.keys[i], s.values[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *benchStore) Commit(_ context.Context, step *compaction.Step) error {
	s.written = s.written[:0]
	for _, e := range step.Sets {
		s.written = append(s.written, e.Value...)
	}
	return nil
}

// BenchmarkPass compacts a log of 100-byte messages, against reading, checking and
// copying the same bytes once. keep says how many of a hundred messages survive.
func BenchmarkPass(b *testing.B) {
	const n = 400_000
	for _, keep := range []int{1, 25, 60} {
		store := newBenchStore(b, n, n*keep/100, benchEntryMessages)
		b.Run(fmt.Sprintf("keep=%d", keep), func(b *testing.B) {
			b.SetBytes(store.bytes)
			b.ReportAllocs()
			var r compaction.Result
			var err error
			for b.Loop() {
				if r, err = compaction.Pass(b.Context(), store, store.plan(0), 0, compaction.Options{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(r.Kept())/float64(r.Messages), "kept")
			b.ReportMetric(float64(r.Messages)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mmsg/s")
		})
	}
	store := newBenchStore(b, n, n, benchEntryMessages)
	b.Run("copy", func(b *testing.B) {
		b.SetBytes(store.bytes)
		for b.Loop() {
			store.written = store.written[:0]
			for i, k := range store.keys[:store.entries] {
				if _, err := codec.ParseEntry(k, store.values[i]); err != nil {
					b.Fatal(err)
				}
				if len(store.written)+len(store.values[i]) > cap(store.written) {
					store.written = store.written[:0]
				}
				store.written = append(store.written, store.values[i]...)
			}
		}
	})
}

// peakOf runs f and returns by how many bytes the live heap grew at most at the
// samples it took.
func peakOf(f func(sample func())) int64 {
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	base, peak := live(), int64(0)
	f(func() { peak = max(peak, live()-base) })
	return peak
}
