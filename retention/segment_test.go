package retention_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/retention"
)

// The example of SPEC 12.4 (5.2.5): interval 100, frames of 36 bytes.
func TestRowsFollowTheInterval(t *testing.T) {
	s := retention.NewSegment(0)
	var got []retention.IndexRow
	for i := range int64(8) {
		a := record(i, codec.Timestamp(t0+i), t0)
		a.WireBytes = 36
		if row, ok := s.Add(a, 100); ok {
			got = append(got, row)
		}
	}
	row, ok := s.ClosingRow()
	require.True(t, ok)
	require.Equal(t, []retention.IndexRow{
		{Timestamp: t0, Offset: 0, ScanFrom: 0},
		{Timestamp: t0 + 3, Offset: 3, ScanFrom: 1},
		{Timestamp: t0 + 6, Offset: 6, ScanFrom: 4},
		{Timestamp: t0 + 7, Offset: 7, ScanFrom: 7},
	}, append(got, row))
	require.EqualValues(t, 4, s.IndexRows)

	_, ok = s.ClosingRow()
	require.False(t, ok, "the last row already says it (SPEC 5.2.6)")
}

// SPEC 5.2.5: exactly the interval is not yet more than it.
func TestRowIsDueStrictlyAfterTheInterval(t *testing.T) {
	s := retention.NewSegment(0)
	s.Add(record(0, 1, t0), recordBytes)
	_, ok := s.Add(record(1, 2, t0), recordBytes)
	require.False(t, ok)
	row, ok := s.Add(record(2, 3, t0), recordBytes)
	require.True(t, ok)
	require.Equal(t, retention.IndexRow{Timestamp: 3, Offset: 2, ScanFrom: 1}, row)
}

// SPEC 5.2.4, T03, C10: equal timestamps keep the first offset.
func TestMaxMovesOnStrictlyGreaterOnly(t *testing.T) {
	s := retention.NewSegment(7)
	for i, ts := range []codec.Timestamp{5, 9, 9, 3} {
		s.Add(record(7+int64(i), ts, t0), 0)
	}
	require.EqualValues(t, 9, s.MaxTimestamp)
	require.EqualValues(t, 8, s.MaxOffset)
	require.EqualValues(t, 2, s.IndexRows)
	require.EqualValues(t, 11, s.ScanFrom, "nothing is newer than the last row")
}

// SPEC 5.2.7: the first frame with a timestamp, not the first frame.
func TestFirstTimestampInsertsARow(t *testing.T) {
	s := retention.NewSegment(0)
	_, ok := s.Add(record(0, codec.NoTimestamp, t0), 1<<20)
	require.False(t, ok)
	row, ok := s.Add(record(1, 0, t0), 1<<20)
	require.True(t, ok, "zero is a timestamp")
	require.Equal(t, retention.IndexRow{Timestamp: 0, Offset: 1, ScanFrom: 1}, row)
	require.EqualValues(t, 2*recordBytes, s.SinceIndex, "it begins no interval")
}

// An interval without growth inserts nothing and starts anew (SPEC 5.2.5).
func TestIntervalRestartsWithoutARow(t *testing.T) {
	s := retention.NewSegment(0)
	s.Add(record(0, 9, t0), 50)
	_, ok := s.Add(record(1, 9, t0), 50)
	require.False(t, ok)
	require.EqualValues(t, recordBytes, s.SinceIndex)
	require.EqualValues(t, 1, s.IndexRows)
}

// C35, R04: what the time rules need is taken from the first entry.
func TestAddKeepsFirstAndLast(t *testing.T) {
	s := retention.NewSegment(0)
	require.True(t, s.Empty())
	s.Add(record(0, codec.NoTimestamp, t0), 100)
	s.Add(record(1, 8, t0+1), 100)
	s.Add(record(5, 7, t0-1), 100)
	require.False(t, s.Empty())
	require.Equal(t, retention.Segment{
		Base: 0, End: 6,
		FirstTimestamp: codec.NoTimestamp, MaxTimestamp: 8, MaxOffset: 1,
		FirstAppend: t0, LastAppend: t0 - 1,
		Bytes: 300, StoredBytes: 270, Messages: 3, Entries: 3,
		IndexedTimestamp: 8, IndexRows: 1, SinceIndex: 100, ScanFrom: 6,
	}, s)
}

// message is what a search looks at.
type message struct {
	offset int64
	ts     codec.Timestamp
}

// randomEntry returns an entry of one to four messages after end, sometimes a
// wrapper, sometimes after a gap, and its messages.
func randomEntry(r *rand.Rand, end int64) (retention.Appended, []message) {
	offset := end + r.Int64N(3)*r.Int64N(2)
	a := retention.Appended{FirstTimestamp: -1, MaxTimestamp: -1, MaxOffset: -1, Clock: t0, WireBytes: 1 + r.Int64N(60)}
	var ms []message
	for i := range 1 + r.IntN(4) {
		m := message{offset + int64(i), codec.Timestamp(r.Int64N(22) - 1)}
		if m.ts > a.MaxTimestamp {
			a.MaxTimestamp, a.MaxOffset = m.ts, m.offset
		}
		ms = append(ms, m)
	}
	a.FirstTimestamp, a.Last, a.Messages = ms[0].ts, ms[len(ms)-1].offset, int64(len(ms))
	if r.IntN(3) == 0 { // a wrapper reports its last offset
		a.FirstTimestamp = a.MaxTimestamp
		if a.MaxTimestamp >= 0 {
			a.MaxOffset = a.Last
		}
	}
	return a, ms
}

// The bound that searches rely on, with and without the closing row, for
// disordered timestamps, wrappers, gaps and every interval.
func TestScanFromBoundsEverySearch(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 4000 {
		s := retention.NewSegment(r.Int64N(3) * 1000)
		interval := []int64{0, 1, 40, 100, 1 << 20}[r.IntN(5)]
		var rows []retention.IndexRow
		var all []message
		for range r.IntN(25) {
			a, ms := randomEntry(r, s.End)
			if row, ok := s.Add(a, interval); ok {
				rows = append(rows, row)
			}
			all = append(all, ms...)
			requireBounded(t, s, rows, all)
		}
		if row, ok := s.ClosingRow(); ok {
			rows = append(rows, row)
		}
		requireBounded(t, s, rows, all)
		// S31: the last row carries the largest timestamp.
		if s.MaxTimestamp >= 0 {
			require.Equal(t, s.MaxTimestamp, rows[len(rows)-1].Timestamp)
		}
		require.EqualValues(t, len(rows), s.IndexRows)
	}
}

func requireBounded(t *testing.T, s retention.Segment, rows []retention.IndexRow, all []message) {
	t.Helper()
	for i := 1; i < len(rows); i++ { // SPEC 5.1.2, and one key per row
		require.Greater(t, rows[i].Timestamp, rows[i-1].Timestamp)
		require.Greater(t, rows[i].Offset, rows[i-1].Offset)
		require.Greater(t, rows[i].ScanFrom, rows[i-1].Offset)
	}
	for target := codec.Timestamp(0); target <= 22; target++ {
		from, to := s.ScanFrom, s.End-1
		for _, row := range rows {
			if row.Timestamp >= target {
				from, to = row.ScanFrom, row.Offset
				break
			}
		}
		for _, m := range all {
			if m.ts >= target {
				require.True(t, from <= m.offset && m.offset <= to,
					"time %d is first at %d, outside [%d, %d]; rows %v", target, m.offset, from, to, rows)
				break
			}
		}
	}
}

// A reopened segment that accounts again for what came after its stored row ends
// up the same, whichever row that was (KAFKA-881).
func TestReplayFromAnyStoredRowConverges(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	live := retention.NewSegment(0)
	var entries []retention.Appended
	var stored [][]byte
	for range 200 {
		stored = append(stored, retention.AppendSegment(nil, live))
		a, _ := randomEntry(r, live.End)
		entries = append(entries, a)
		live.Add(a, 100)
	}
	for i, row := range stored {
		s, err := retention.DecodeSegment(row)
		require.NoError(t, err)
		for _, a := range entries[i:] {
			s.Add(a, 100)
		}
		require.Equal(t, live, s, "from entry %d", i)
	}
}

func BenchmarkAdd(b *testing.B) {
	s := retention.NewSegment(0)
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		s.Add(record(i, codec.Timestamp(t0+i), t0), 4096)
	}
}
