package compaction_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/compaction"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

var partition = keys.Partition{Topic: 7, Number: 3}

// oneKey is the map size that holds a single key.
const oneKey = 64

// testLog is a log over a sorted map of the engine's keys and values: enough to
// compact, to search, to cut and to crash.
type testLog struct {
	t      testing.TB
	rows   map[string][]byte
	sorted []string // the keys of rows

	segments   []retention.Segment
	start, end int64
	cleanPoint int64
	due        codec.Timestamp

	now     codec.Timestamp
	policy  compaction.Policy
	options compaction.Options

	// commits counts steps; failAt is the step that fails with fail, or -1.
	commits, failAt int
	fail            error
	onCommit        func(*compaction.Step)
	// What the plan was made for, and where the log was cut since.
	planned      compaction.Plan
	plannedStart int64
	cutAt        int64
}

func newLog(t testing.TB) *testLog {
	return &testLog{
		t: t, rows: map[string][]byte{},
		segments: []retention.Segment{retention.NewSegment(0)},
		due:      retention.Never,
		policy:   compaction.Policy{SegmentBytes: 300, IndexInterval: 150, DeleteRetentionMs: 1000},
		failAt:   -1,
	}
}

func (l *testLog) active() *retention.Segment { return &l.segments[len(l.segments)-1] }

// Rows.

func (l *testLog) set(key, value []byte) {
	k := string(key)
	if _, ok := l.rows[k]; !ok {
		i, _ := slices.BinarySearch(l.sorted, k)
		l.sorted = slices.Insert(l.sorted, i, k)
	}
	l.rows[k] = bytes.Clone(value)
}

func (l *testLog) deleteRange(r keys.Range) {
	require.LessOrEqual(l.t, string(r.Start), string(r.End), "inverted range")
	i, _ := slices.BinarySearch(l.sorted, string(r.Start))
	j, _ := slices.BinarySearch(l.sorted, string(r.End))
	for _, k := range l.sorted[i:j] {
		delete(l.rows, k)
	}
	l.sorted = slices.Delete(l.sorted, i, j)
}

func (l *testLog) in(r keys.Range) []string {
	i, _ := slices.BinarySearch(l.sorted, string(r.Start))
	j, _ := slices.BinarySearch(l.sorted, string(r.End))
	return slices.Clone(l.sorted[i:j])
}

func (l *testLog) setIndexRow(r retention.IndexRow) {
	k := keys.AppendLog(nil, partition.Companion(), r.Offset)
	l.set(k, codec.AppendIndexRow(nil, k, r))
	value := binary.BigEndian.AppendUint64(nil, uint64(r.Offset))
	value = binary.BigEndian.AppendUint64(value, uint64(r.ScanFrom))
	l.set(keys.AppendTimestamp(nil, partition, r.Base, int64(r.Timestamp)), value)
}

// Appends.

// entry stores one unsealed entry at the end of the log.
func (l *testLog) entry(value []byte, last int64, s codec.Stamp) {
	key := keys.AppendLog(nil, partition, last)
	codec.Seal(key, value, s)
	e, err := codec.ParseEntry(key, value)
	require.NoError(l.t, err)
	l.set(key, value)
	if row, ok := l.active().Add(appended(&e, len(value)), l.policy.IndexInterval); ok {
		l.setIndexRow(row)
	}
	l.end = last + 1
}

func appended(e *codec.Entry, stored int) retention.Appended {
	return retention.Appended{
		Last: e.Last, FirstTimestamp: e.Timestamp, MaxTimestamp: e.MaxTimestamp, MaxOffset: e.MaxOffset,
		Clock: e.Clock, WireBytes: int64(e.WireSize()), StoredBytes: int64(stored), Messages: int64(e.Count),
	}
}

// plain appends msgs as one plain entry, numbering them.
func (l *testLog) plain(msgs ...codec.Message) {
	for i := range msgs {
		msgs[i].Offset = l.end + int64(i)
	}
	value := codec.AppendPlain(nil, msgs, codec.PlainOptions{Magic: 1, Dense: true})
	l.entry(value, l.end+int64(len(msgs))-1, codec.Stamp{Timestamp: msgs[0].Timestamp, Clock: l.now})
}

// wrapper appends msgs as one compressed entry; a known one has a count.
func (l *testLog) wrapper(c codec.Compression, known, logAppend bool, msgs ...codec.Message) {
	for i := range msgs {
		msgs[i].Offset = l.end + int64(i)
	}
	f, _, err := codec.BuildWrapper(nil, c, 1, msgs)
	require.NoError(l.t, err)
	w := codec.StoredWrapper{Compression: c, Magic: 1, Payload: f.Value}
	if known {
		w.Count, w.Span = len(msgs), int64(len(msgs)-1)
	}
	s := codec.Stamp{Timestamp: f.Timestamp, Clock: l.now, LogAppend: logAppend}
	if logAppend {
		s.Timestamp = l.now
	}
	l.entry(codec.AppendStoredWrapper(nil, w), f.Offset, s)
}

func (l *testLog) roll() { l.rollTo(l.end) }

func (l *testLog) rollTo(base int64) {
	if l.active().Empty() {
		return
	}
	if row, ok := l.active().ClosingRow(); ok {
		l.setIndexRow(row)
	}
	l.active().Sealed = true
	l.segments = append(l.segments, retention.NewSegment(base))
	l.end = base
}

// message reads key@timestamp, a tombstone with a trailing -, a null key without
// key: a@10, a@20-, @30. It is a standard record of 100 bytes on the wire.
func message(t testing.TB, text string) codec.Message {
	key, at, ok := strings.Cut(text, "@")
	require.True(t, ok, text)
	at, dead := strings.CutSuffix(at, "-")
	ts, err := strconv.ParseInt(at, 10, 64)
	require.NoError(t, err)
	m := codec.Message{Timestamp: codec.Timestamp(ts), TimestampType: codec.CreateTime}
	if key != "" {
		m.Key = []byte(key)
	}
	if !dead {
		m.Value = bytes.Repeat([]byte{'v'}, 66-len(key))
	}
	return m
}

func messages(t testing.TB, text string) (msgs []codec.Message) {
	for field := range strings.FieldsSeq(text) {
		msgs = append(msgs, message(t, field))
	}
	return msgs
}

// append appends messages, each an entry of its own, and rolls at each |.
func (l *testLog) append(text string) *testLog {
	for i, part := range strings.Split(text, "|") {
		if i > 0 {
			l.roll()
		}
		for _, m := range messages(l.t, part) {
			l.plain(m)
		}
	}
	return l
}

// packed appends each part between | as one entry.
func (l *testLog) packed(text string) *testLog {
	for i, part := range strings.Split(text, "|") {
		if i > 0 {
			l.roll()
		}
		if msgs := messages(l.t, part); len(msgs) > 0 {
			l.plain(msgs...)
		}
	}
	return l
}

// Cuts.

func (l *testLog) moveStart(start int64) {
	l.deleteRange(keys.LogRange(partition, l.start, start))
	l.start = start
	for len(l.segments) > 1 && l.segments[1].Base <= start {
		base := l.segments[1].Base
		l.deleteRange(keys.LogRange(partition.Companion(), 0, base))
		l.deleteRange(keys.TimestampRange(partition, 0, base))
		l.segments = slices.Clone(l.segments[1:])
	}
}

// truncate cuts a log of single-message entries, as the engine does.
func (l *testLog) truncate(offset int64) {
	n := len(l.segments) - 1
	for l.segments[n].Base > offset {
		n--
	}
	base := l.segments[n].Base
	l.deleteRange(keys.LogRange(partition, offset, math.MaxInt64))
	l.deleteRange(keys.LogRange(partition.Companion(), base, math.MaxInt64))
	l.deleteRange(keys.TimestampRange(partition, base, math.MaxInt64))
	l.segments = append(slices.Clone(l.segments[:n]), retention.NewSegment(base))
	for _, k := range l.in(keys.LogRange(partition, base, offset)) {
		e, err := codec.ParseEntry([]byte(k), l.rows[k])
		require.NoError(l.t, err)
		if row, ok := l.active().Add(appended(&e, len(l.rows[k])), l.policy.IndexInterval); ok {
			l.setIndexRow(row)
		}
	}
	l.end, l.cutAt = offset, min(l.cutAt, offset)
	l.cleanPoint = min(l.cleanPoint, offset)
}

// The Store.

func (l *testLog) Scan(_ context.Context, r keys.Range, each func(key, value []byte) error) error {
	for _, k := range l.in(r) {
		if value, ok := l.rows[k]; ok {
			key, v := []byte(k), bytes.Clone(value)
			err := each(key, v)
			for _, b := range [][]byte{key, v} { // valid during the call only
				for i := range b {
					b[i] = 0xdd
				}
			}
			if err != nil {
				return fmt.Errorf("scan: %w", err)
			}
		}
	}
	return nil
}

// overtaken is the contract of Store.Commit.
func (l *testLog) overtaken(s *compaction.Step) bool {
	return l.cutAt < l.planned.EndCleanable || l.start != l.plannedStart && l.start > s.Base
}

var errCrash = errors.New("crash")

func (l *testLog) Commit(_ context.Context, s *compaction.Step) error {
	if l.commits == l.failAt {
		return l.fail
	}
	if l.overtaken(s) {
		return fmt.Errorf("commit: %w", compaction.ErrOvertaken)
	}
	l.commits++
	for _, r := range s.Ranges(partition) {
		l.deleteRange(r)
	}
	for _, offset := range s.Deletes {
		l.deleteRange(keys.LogRange(partition, offset, offset+1))
	}
	for _, e := range s.Sets {
		l.set(keys.AppendLog(nil, partition, e.Offset), e.Value)
	}
	for _, row := range s.Rows {
		l.setIndexRow(row)
	}
	if s.Segment != nil {
		require.Equal(l.t, s.Base, s.Segment.Base)
		i := slices.IndexFunc(l.segments, func(g retention.Segment) bool { return g.Base == s.Base })
		j := slices.IndexFunc(l.segments, func(g retention.Segment) bool { return g.Base >= s.End })
		require.NotEqual(l.t, -1, i)
		l.segments = slices.Replace(slices.Clone(l.segments), i, j, *s.Segment)
	}
	l.cleanPoint, l.due = s.CleanPoint, s.TombstoneDue
	if l.onCommit != nil {
		l.onCommit(s)
	}
	return nil
}

// Compaction.

func (l *testLog) plan() compaction.Plan {
	l.cutAt, l.plannedStart = math.MaxInt64, l.start
	l.planned = compaction.PlanOf(compaction.Log{
		Partition:  partition,
		Segments:   l.segments,
		Bounds:     retention.Bounds{Start: l.start, HighWatermark: l.end, End: l.end},
		CleanPoint: l.cleanPoint, TombstoneDue: l.due,
	}, l.policy, l.now)
	return l.planned
}

// compact runs one pass, and then checks all that must hold.
func (l *testLog) compact() compaction.Result {
	l.t.Helper()
	end, plan := l.end, l.plan()
	r, err := compaction.Pass(context.Background(), l, plan, l.now, l.options)
	require.NoError(l.t, err)
	if l.cutAt == math.MaxInt64 {
		require.Equal(l.t, l.cleanPoint, r.CleanPoint)
		require.Equal(l.t, l.due, r.TombstoneDue)
		require.Equal(l.t, end, l.end)
	}
	l.requireSound()
	if plan.Work && !r.Overtaken && l.start == l.plannedStart {
		l.requireExact()
	}
	return r
}

// compactAll runs passes until the map was large enough.
func (l *testLog) compactAll() {
	l.t.Helper()
	for point := int64(-1); l.compact().More; point = l.cleanPoint {
		require.Greater(l.t, l.cleanPoint, point, "a pass makes progress")
	}
}

func (l *testLog) clone() *testLog {
	c := *l
	c.rows, c.sorted, c.segments = maps.Clone(l.rows), slices.Clone(l.sorted), slices.Clone(l.segments)
	return &c
}

// soak returns by how much random tests are to be longer than usual: the number
// in CAIRN_SOAK, 1 without it.
func soak(t testing.TB) int {
	t.Helper()
	text := os.Getenv("CAIRN_SOAK")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "CAIRN_SOAK")
	return max(1, n)
}

// randomSource returns a source of randomness whose seed a failing test prints;
// CAIRN_SEED replays one.
func randomSource(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("CAIRN_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "CAIRN_SEED")
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
