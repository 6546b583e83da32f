package compaction_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
)

// record is a message as the model has it, with the last offset of its set.
type record struct {
	codec.Message
	set     int
	horizon codec.Timestamp // -1 before it is stamped
}

// dumb is SPEC 9.5-9.8 in ten lines, for a pass that knew all keys in [start,
// mapped).
func dumb(log []record, start, mapped int64, now, retention codec.Timestamp) (left []record) {
	newest, last := map[string]int64{}, map[int]int64{}
	for _, r := range log {
		if last[r.set] = r.Offset; r.Key != nil && r.Offset < mapped {
			newest[string(r.Key)] = r.Offset
		}
	}
	for _, r := range log {
		if r.Offset < start || r.Offset < mapped && (r.Key == nil || newest[string(r.Key)] > r.Offset || r.horizon >= 0 && r.horizon <= now) {
			continue
		}
		if r.Value == nil && r.Offset < mapped && r.horizon < 0 && last[r.set] < mapped {
			r.horizon = now + retention
		}
		left = append(left, r)
	}
	return left
}

func describe(log []record) string {
	var b strings.Builder
	for _, r := range log {
		fmt.Fprintf(&b, "%d:%s@%d", r.Offset, r.Key, int64(r.Timestamp))
		if r.Value == nil {
			fmt.Fprintf(&b, "-%d", int64(r.horizon))
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// history is a random log next to its model.
type history struct {
	*testLog
	rng   *rand.Rand
	model []record
	sets  int
	keys  int
}

func newHistory(t testing.TB, rng *rand.Rand) *history {
	h := &history{testLog: newLog(t), rng: rng, keys: 1 + rng.IntN(8)}
	h.policy.IndexInterval = []int64{1, 150, 400, 4096}[rng.IntN(4)]
	h.policy.SegmentBytes = int64(200 + rng.IntN(2000))
	h.policy.DeleteRetentionMs = int64(rng.IntN(3) * 50)
	if rng.IntN(3) == 0 {
		h.policy.IndexBytes = int64(24 + rng.IntN(80))
	}
	h.options.MapBytes = []int64{oneKey, 3 * oneKey, 1 << 20}[rng.IntN(3)]
	h.options.StepBytes = []int{1, 300, 1 << 20}[rng.IntN(3)]
	return h
}

func (h *history) set() []codec.Message {
	msgs := make([]codec.Message, 1+h.rng.IntN(5))
	for i := range msgs {
		m := &msgs[i]
		m.TimestampType = codec.CreateTime
		m.Timestamp = h.now + codec.Timestamp(h.rng.IntN(60)-20)
		if h.rng.IntN(12) == 0 || m.Timestamp < 0 {
			m.Timestamp = codec.NoTimestamp
		}
		if h.rng.IntN(15) > 0 {
			m.Key = fmt.Append(nil, "k", h.rng.IntN(h.keys))
			if h.rng.IntN(8) == 0 {
				m.Key = append(m.Key, strings.Repeat("x", 40)...)
			}
		}
		if h.rng.IntN(4) > 0 {
			m.Value = make([]byte, h.rng.IntN(80))
		}
	}
	return msgs
}

func (h *history) appendSet() {
	msgs := h.set()
	c := codec.Compression(h.rng.IntN(4))
	if c == codec.None {
		h.plain(msgs...)
	} else {
		h.wrapper(c, h.rng.IntN(2) == 0, h.rng.IntN(4) == 0, msgs...)
	}
	written := h.entries(h.end-1, h.end)
	for _, m := range written[0].messages {
		h.model = append(h.model, record{m, h.sets, -1})
	}
	h.sets++
}

// grow appends a few sets and rolls now and then; the last segment is sealed.
func (h *history) grow() {
	for range 1 + h.rng.IntN(12) {
		h.now += codec.Timestamp(h.rng.IntN(30))
		h.appendSet()
		if h.rng.IntN(4) == 0 {
			h.roll()
		}
		if h.rng.IntN(40) == 0 {
			h.rollTo(h.end + int64(h.rng.IntN(5)))
		}
	}
	if h.rng.IntN(3) > 0 {
		h.roll()
	}
}

// cut moves the log start, into an entry as well: such an entry stays whole until
// a pass.
func (h *history) cut() {
	if h.rng.IntN(4) > 0 {
		return
	}
	start := h.start + h.rng.Int64N((h.end-h.start)/2+1)
	first := h.end
	for _, e := range h.entries(start, h.end) {
		first = min(first, e.messages[0].Offset)
	}
	h.moveStart(start)
	for len(h.model) > 0 && h.model[0].Offset < first {
		h.model = h.model[1:]
	}
}

func (h *history) requireModel() {
	h.t.Helper()
	var got []record
	for _, e := range h.entries(h.start, h.end) {
		for _, m := range e.messages {
			r := record{Message: m, horizon: -1}
			if m.Value == nil {
				r.horizon = e.entry.Horizon
			}
			got = append(got, r)
		}
	}
	require.Equal(h.t, describe(h.model), describe(got))
}

// The whole pass against the dumb one: random sets, plain and compressed, maps too
// small, steps of one entry, clocks that pass horizons, log starts that move.
func TestRandomLogsAgreeWithDumbCompactor(t *testing.T) {
	rng := randomSource(t)
	for range 80 * soak(t) {
		h := newHistory(t, rng)
		for range 4 {
			h.grow()
			h.cut()
			if rng.IntN(20) == 0 {
				h.policy.IndexInterval = []int64{1, 150, 400}[rng.IntN(3)]
			}
			if rng.IntN(8) == 0 {
				h.cleanPoint = max(h.start, h.cleanPoint-int64(rng.IntN(5))) // as after a crash
			}
			h.onCommit = nil
			if rng.IntN(3) == 0 {
				h.onCommit = func(s *compactionStep) { h.requireSound() }
			}
			for more := true; more; {
				work, now := h.plan(), h.now
				r := h.compact()
				more = r.More
				if !work.Work {
					continue
				}
				mapped := work.EndCleanable
				if r.More {
					mapped = r.CleanPoint
				}
				h.model = dumb(h.model, h.start, mapped, now, codec.Timestamp(h.policy.DeleteRetentionMs))
				h.requireModel()
			}
			h.now += codec.Timestamp(rng.IntN(80))
		}
	}
}

// The result does not depend on the size of the map, only the number of passes.
func TestSmallMapsReachTheSameEnd(t *testing.T) {
	rng := randomSource(t)
	for range 100 * soak(t) {
		h := newHistory(t, rng)
		h.policy.DeleteRetentionMs = 1 << 40
		h.grow()
		want := ""
		for _, size := range []int64{1 << 20, 4 * oneKey, oneKey} {
			l := h.clone()
			l.options.MapBytes = size
			l.compactAll()
			if want == "" {
				want = l.survivors()
			}
			require.Equal(t, want, l.survivors(), "map of %d bytes", size)
		}
	}
}

// K02: a crash at any step leaves a log that reads right, holds the newest message
// of every key, and that the next pass finishes to the same end.
func TestK02CrashAtEveryStep(t *testing.T) {
	rng := randomSource(t)
	crashes := 0
	for range 10 * soak(t) {
		h := newHistory(t, rng)
		h.options.StepBytes = []int{1, 200}[rng.IntN(2)]
		h.policy.DeleteRetentionMs = 1 << 40
		for range 2 {
			h.grow()
			h.clone().compactAll()
			whole := h.clone()
			whole.compactAll()
			if rng.IntN(2) == 0 { // and over a log that is compacted in part
				h.testLog = whole.clone()
				h.grow()
				whole = h.clone()
				whole.compactAll()
			}
			for k := 0; ; k++ {
				l := h.clone()
				l.failAt, l.fail = k, errCrash
				if !l.crash(rng.IntN(2) == 0) {
					break
				}
				crashes++
				require.Equal(t, newest(h.testLog), newest(l))
				l.failAt = -1
				l.compactAll()
				require.Equal(t, whole.survivors(), l.survivors())
				require.Equal(t, len(whole.horizons()), len(l.horizons()))
			}
		}
	}
	require.NotZero(t, crashes)
}

// P08, and the same for cuts: the log changes between any two steps. What is gone
// stays gone, nothing below the log start is written, no newest message is lost,
// and later passes come to an exact end.
func TestLogChangesDuringPass(t *testing.T) {
	rng := randomSource(t)
	overtaken := 0
	for range 100 * soak(t) {
		h := newHistory(t, rng)
		h.options.StepBytes = []int{1, 200}[rng.IntN(2)]
		h.policy.DeleteRetentionMs = 1 << 40 // or a tombstone is the newest, and goes
		for range 3 {
			h.grow()
			h.onCommit = func(s *compactionStep) {
				h.requireSound()
				if s.Segment != nil && h.start != h.plannedStart {
					require.GreaterOrEqual(t, s.Base, h.start)
				}
				if rng.IntN(4) > 0 {
					return
				}
				before := newest(h.testLog)
				if at := h.border(); rng.IntN(3) > 0 {
					h.moveStart(max(h.start, at))
				} else if at > h.start {
					h.truncate(at)
				}
				for key := range newest(h.testLog) {
					require.Contains(t, before, key)
				}
			}
			r := h.compact()
			if r.Overtaken {
				overtaken++
			}
			h.onCommit = nil
			for _, e := range h.entries(0, h.start) {
				require.Fail(t, "entry below the log start", "%d", e.entry.Last)
			}
			kept := newest(h.testLog)
			h.roll()
			h.compactAll()
			for key, value := range kept {
				require.Equal(t, value, newest(h.testLog)[key])
			}
		}
	}
	require.NotZero(t, overtaken)
}

// border returns the first offset of some entry.
func (h *history) border() int64 {
	entries := h.entries(h.start, h.end)
	if len(entries) == 0 {
		return h.start
	}
	return max(h.start, entries[h.rng.IntN(len(entries))].messages[0].Offset)
}
