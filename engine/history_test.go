package engine_test

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/cairnlog/cairn/engine/enginetest"
)

// rounds returns how often a random test that usually runs n times is to run: the
// number in CAIRN_SOAK times as often, and less under the race detector.
func rounds(t testing.TB, n int) int {
	t.Helper()
	if enginetest.Race {
		n = max(1, n/4)
	}
	text := os.Getenv("CAIRN_SOAK")
	if text == "" {
		return n
	}
	times, err := strconv.Atoi(text)
	require.NoError(t, err, "CAIRN_SOAK")
	return n * max(1, times)
}

// checkHistories runs n random histories against the model, CAIRN_SOAK times as
// many when that is set, and calls step after each step. A failure prints the
// shrunk history and the seed that replays it (-rapid.seed).
func checkHistories(t *testing.T, n int, shape enginetest.Shape, step func(t *rapid.T, s *enginetest.Store) error) {
	t.Helper()
	require.NoError(t, flag.Set("rapid.checks", strconv.Itoa(rounds(t, n))))
	require.NoError(t, flag.Set("rapid.nofailfile", "true"))
	histories := enginetest.Histories(shape)
	rapid.Check(t, func(t *rapid.T) {
		h := histories.Draw(t, "history")
		s := enginetest.NewStore(vfs.NewMem(), "db", h.Options)
		err := s.Open()
		if err == nil {
			err = h.Run(t.Context(), s, func() error { return step(t, s) })
		}
		if err == nil {
			err = s.Close()
		} else {
			err = s.CloseAfter(err)
		}
		if err == nil {
			err = enginetest.Audit(s.FS, s.Dir)
		}
		if err == nil {
			return
		}
		if s.Slow() {
			t.Skip("too slow to tell: the store may have maintained itself")
		}
		t.Fatalf("%v\n%v", err, h)
	})
}

// CASES T22 and much more: after every step of a random history everything the
// store says is what the model says, and in the end all that it stores agrees.
func TestRandomHistoryAgreesWithModel(t *testing.T) {
	shape := enginetest.Shape{Topics: 2, Ops: 25, MaxSets: 5}
	checkHistories(t, 300, shape, func(t *rapid.T, s *enginetest.Store) error { return s.Check(t.Context()) })
}

// The same with sets of many entries and values that fill write buffers.
func TestRandomHistoryOfLargeSetsAgreesWithModel(t *testing.T) {
	shape := enginetest.Shape{Topics: 1, Ops: 15, MaxSets: 8, Large: true}
	checkHistories(t, 60, shape, func(t *rapid.T, s *enginetest.Store) error { return s.Check(t.Context()) })
}

// The same closed and opened again after every step: nothing hangs on what is only
// in memory.
func TestRandomHistoryReopenedAfterEachStepAgreesWithModel(t *testing.T) {
	shape := enginetest.Shape{Topics: 2, Ops: 12, MaxSets: 5}
	checkHistories(t, 60, shape, func(t *rapid.T, s *enginetest.Store) error {
		if err := (enginetest.Reopen{}).Run(t.Context(), s); err != nil {
			return err
		}
		return s.Check(t.Context())
	})
}
