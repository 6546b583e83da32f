package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// SPEC 5.9.29-30: a fetch for a follower never spans two segments and brings the rows
// that describe what the follower has then, the late closing row of the segment it was
// in among them. Put together they are the leader's index.
func TestFollowersGetSegmentsAndTheirIndex(t *testing.T) {
	for name, interval := range map[string]int64{"every entry": engine.ExplicitZero, "usual": 4096} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			p := s.log(engine.TopicConfig{SegmentBytes: 1000, IndexIntervalBytes: interval})
			leadEach(t, p, t0, t0+5, t0+3, t0+9, t0+2, t0+11, t0+4, t0+20, t0+1, t0+30, t0+31, t0+32, t0+6, t0+40)
			leadGzip(t, p, t0+50, t0+45)
			segments, err := p.Segments()
			require.NoError(t, err)
			require.Greater(t, len(segments), 1)

			base := map[int64]int64{} // of the segment of each offset
			for _, seg := range segments {
				for offset := seg.Base; offset < seg.End; offset++ {
					base[offset] = seg.Base
				}
			}
			seen := map[codec.FetchedRow]bool{}
			var set []byte
			for from := int64(0); from < 16; {
				r, err := p.FetchReplica(t.Context(), from, engine.FetchOptions{MaxBytes: 250})
				require.NoError(t, err)
				require.EqualValues(t, 16, r.HighWatermark)
				require.Greater(t, r.Next, from)
				require.Equal(t, base[from], base[r.Next-1], "one segment")
				want := map[codec.FetchedRow]bool{}
				for _, row := range indexRows(t, p) {
					if row.Base >= base[max(from-1, 0)] && row.Offset < r.Next {
						want[codec.FetchedRow{Timestamp: row.Timestamp, Relative: int32(row.Offset - row.Base)}] = true
					}
				}
				got := map[codec.FetchedRow]bool{}
				for _, row := range r.Rows {
					got[row], seen[row] = true, true
				}
				require.Equal(t, want, got, "from %d", from)
				set = append(set, r.Set...)
				from = r.Next
			}
			require.Len(t, seen, len(indexRows(t, p)))
			require.Equal(t, fetchAll(t, p, 0), set)
			_, err = p.FetchReplica(t.Context(), 17, engine.FetchOptions{})
			require.ErrorIs(t, err, engine.ErrOffsetRange)
			end, err := p.FetchReplica(t.Context(), 16, engine.FetchOptions{})
			require.NoError(t, err)
			require.Empty(t, end.Set)
			require.EqualValues(t, 16, end.HighWatermark)
		})
	}
}

// SPEC 10.7.9: control messages replicate: a follower's fetch has them, byte for byte,
// at their offsets.
func TestFollowersGetControlMessages(t *testing.T) {
	s, p := enrichedLog(t)
	_, err := p.BeginEpoch(t.Context(), 3)
	require.NoError(t, err)
	tx := begin(t, s, 7)
	appendIn(t, tx, p, "a")
	require.NoError(t, tx.Commit(t.Context()))
	r, err := p.FetchReplica(t.Context(), 0, engine.FetchOptions{Format: engine.FormatEnriched, Control: true})
	require.NoError(t, err)
	require.EqualValues(t, 4, r.Next)
	require.Equal(t, enrichedSet(fetchEnriched(t, p, 0)...), r.Set)
	var types []uint8
	for set := r.Set; len(set) > 0; {
		f, n, err := codec.ReadEnrichedFrame(set)
		require.NoError(t, err)
		require.EqualValues(t, len(types), f.Offset)
		types = append(types, f.Type)
		set = set[n:]
	}
	require.Equal(t, []uint8{8, 9, 0, 10}, types)
}
