package bench_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/engine"
)

// maxAllocsPerMessage lets a call allocate a little, whatever it carries, and
// fails a hot path that allocates for each message.
const maxAllocsPerMessage = 0.01

func TestAppendDoesNotAllocatePerMessage(t *testing.T) {
	skipUnderRace(t)
	const batch = 1000
	for name, durability := range map[string]engine.Durability{"synced": engine.SyncAlways, "unsynced": engine.SyncNever} {
		t.Run(name, func(t *testing.T) {
			s := openCairn(t, t.TempDir(), nil, 1, durability)
			src := newSource(batch, 100, 0)
			allocs := testing.AllocsPerRun(20, func() {
				if _, err := s.logs[0].Append(t.Context(), src.next()...); err != nil {
					t.Fatal(err)
				}
			})
			require.Less(t, allocs/batch, maxAllocsPerMessage, "%v allocations an append of %d messages", allocs, batch)
			require.NoError(t, s.db.Close())
		})
	}
}

func TestReadDoesNotAllocatePerMessage(t *testing.T) {
	skipUnderRace(t)
	const n = 20_000
	s := openCairn(t, t.TempDir(), nil, 1, engine.SyncNever)
	s.fill(t, 0, n, readSet, 100)
	allocs := testing.AllocsPerRun(5, func() {
		if scanCairn(t, s.logs[0]) != n {
			t.Fatal("messages are missing")
		}
	})
	require.Less(t, allocs/n, maxAllocsPerMessage, "%v allocations for %d messages", allocs, n)
	require.NoError(t, s.db.Close())
}

func TestFetchDoesNotAllocatePerMessage(t *testing.T) {
	skipUnderRace(t)
	const n = 20_000
	s := openCairn(t, t.TempDir(), nil, 1, engine.SyncNever)
	s.fill(t, 0, n, readSet, 100)
	s.settle(t)
	var buf []byte
	allocs := testing.AllocsPerRun(5, func() {
		for from := int64(0); from < n; {
			res, err := s.logs[0].AppendFetch(t.Context(), buf[:0], from, engine.FetchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			buf, from = res.Set, res.Next
		}
	})
	require.Less(t, allocs/n, maxAllocsPerMessage, "%v allocations for %d messages", allocs, n)
	require.NoError(t, s.db.Close())
}

func skipUnderRace(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("the race detector makes pools forget")
	}
}
