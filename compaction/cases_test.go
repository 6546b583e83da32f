package compaction_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/compaction"
	"github.com/cairnlog/cairn/retention"
)

// C01: the newest a is in the active segment, so the one before stays, and what
// stays keeps its bytes.
func TestC01KeepsNewestPerKey(t *testing.T) {
	l := newLog(t).append("a@10 b@20 a@30 | b@40 c@50 d@60 | a@70")
	before := map[int64][]byte{}
	for _, e := range l.entries(0, 7) {
		before[e.entry.Last] = e.value
	}
	r := l.compact()
	require.Equal(t, "2:a@30 3:b@40 4:c@50 5:d@60 6:a@70", l.survivors())
	for _, e := range l.entries(0, 7) {
		require.Equal(t, before[e.entry.Last], e.value)
	}
	require.EqualValues(t, 6, l.cleanPoint)
	require.EqualValues(t, 2, r.Superseded)
	require.EqualValues(t, 6, r.Messages)
	require.EqualValues(t, 4, r.Kept())
	require.EqualValues(t, 600, r.WireBytesBefore)
	require.EqualValues(t, 400, r.WireBytesAfter)
}

// C01 with all messages of a segment in one entry.
func TestC01Packed(t *testing.T) {
	l := newLog(t).packed("a@10 b@20 a@30 | b@40 c@50 d@60 | a@70")
	l.compact()
	require.Equal(t, "2:a@30 3:b@40 4:c@50 5:d@60 6:a@70", l.survivors())
}

// C02
func TestC02ActiveSegmentIsNeverCleaned(t *testing.T) {
	l := newLog(t).append("a@1 a@2 a@3")
	require.False(t, l.plan().Work)
	l.compact()
	require.Equal(t, "0:a@1 1:a@2 2:a@3", l.survivors())
	l.append("| a@4")
	l.compact()
	require.Equal(t, "2:a@3 3:a@4", l.survivors())
}

// C04: SPEC 9.7 to the millisecond.
func TestC04TombstoneHorizon(t *testing.T) {
	for now, want := range map[codec.Timestamp]string{1018: "1 2 3 4 5", 1019: "2 3 4 5"} {
		l := newLog(t)
		step := func(now codec.Timestamp, text string) {
			l.now = now
			l.append(text + " |")
		}
		step(0, "a@0")
		step(10, "a@0-")
		step(20, "b@0")
		l.compact()
		require.Equal(t, "1:a@0- 2:b@0", l.survivors())
		require.Equal(t, []codec.Timestamp{1020}, l.horizons())
		require.EqualValues(t, 1020, l.due)
		step(30, "c@0")
		l.compact()
		step(now, "d@0")
		l.compact()
		step(now+1, "e@0")
		l.compact()
		var offsets []string
		for _, m := range l.messages() {
			offsets = append(offsets, fmt.Sprint(m.Offset))
		}
		require.Equal(t, want, strings.Join(offsets, " "))
	}
}

// C04: the pass that first sees a tombstone keeps it even without retention.
func TestC04TombstoneOutlivesItsFirstPass(t *testing.T) {
	l := newLog(t).append("a@0 | a@0- |")
	l.policy.DeleteRetentionMs = 0
	l.compact()
	require.Equal(t, "1:a@0-", l.survivors())
	p := l.plan()
	require.Equal(t, compaction.Tombstones, p.Reason)
	require.True(t, p.Eligible && p.Work && p.Due == 0)
	r := l.compact()
	require.Empty(t, l.survivors())
	require.EqualValues(t, 1, r.Expired)
	require.Equal(t, retention.Never, l.due)
	require.False(t, l.plan().Work)
}

// C05: the bound is one pass: the first at or after the horizon drops it, however
// often its segment was joined with others meanwhile.
func TestC05TombstoneGoesDespiteJoining(t *testing.T) {
	l := newLog(t)
	l.policy.DeleteRetentionMs, l.policy.SegmentBytes = 86_400_000, 1<<20
	round := func(text string) {
		l.append(text + " |")
		l.compact()
	}
	round("a@0")
	round("a@0-")
	for i := range 10 {
		l.now += 86_400_000 - 1
		round(fmt.Sprintf("x%d@0", i))
		if i == 0 {
			require.Contains(t, l.survivors(), "1:a@0-")
		} else {
			require.NotContains(t, l.survivors(), "a@")
		}
		require.Len(t, l.segments, 2)
	}
}

// C06: the lag goes by message timestamps, compares strictly and blocks what
// follows.
func TestC06Lag(t *testing.T) {
	l := newLog(t).append("a@5000 | a@6000 | a@5500 | z@100")
	l.policy.MinLagMs, l.now = 1000, 6500
	p := l.plan()
	require.EqualValues(t, 1, p.EndCleanable)
	require.EqualValues(t, 100, p.CleanableBytes)
	l.compact()
	require.Equal(t, "0:a@5000 1:a@6000 2:a@5500 3:z@100", l.survivors())
	p = l.plan()
	require.False(t, p.Work)
	require.Equal(t, compaction.Lagging, p.Reason)
	require.EqualValues(t, 7000, p.Due)
	l.now = 6999
	require.EqualValues(t, 1, l.plan().EndCleanable)
	l.now = 7000
	require.EqualValues(t, 3, l.plan().EndCleanable)
	l.compact()
	require.Equal(t, "2:a@5500 3:z@100", l.survivors())
}

// C08: the clean point is the base of the next segment, not the offset after the
// last message, and the log is idle then.
func TestC08CleanPointSkipsMissingOffsets(t *testing.T) {
	l := newLog(t)
	for i := range 10 {
		l.append(fmt.Sprintf("%d@0", i))
	}
	l.rollTo(11)
	l.append("x@0")
	l.compact()
	require.EqualValues(t, 11, l.cleanPoint)

	l = newLog(t)
	for i := range 10 {
		l.append(fmt.Sprintf("%d@0", i))
	}
	l.rollTo(15)
	for i := range 10 {
		l.append(fmt.Sprintf("%d@0", i))
	}
	l.rollTo(30)
	l.append("x@0")
	l.compact()
	require.EqualValues(t, 30, l.cleanPoint)
	p := l.plan()
	require.False(t, p.Work || p.Eligible)
	require.Equal(t, compaction.Clean, p.Reason)
}

// C10: null keys go, wrappers are cut, and a search sees the result.
func TestC10WrapperFilter(t *testing.T) {
	l := newLog(t)
	for _, text := range []string{"@10", "1@11 @12", "@13 4@20 5@15", "6@16"} {
		l.wrapper(codec.Gzip, true, false, messages(t, text)...)
	}
	l.roll()
	r := l.compact()
	require.Equal(t, "1:1@11 4:4@20 5:5@15 6:6@16", l.survivors())
	require.EqualValues(t, 3, r.Invalid)
	require.EqualValues(t, 2, r.Rewritten)
	require.EqualValues(t, 1, r.Emptied)
	var wrappers []string
	for _, e := range l.entries(0, 7) {
		require.Equal(t, codec.Gzip, e.entry.Compression)
		wrappers = append(wrappers, fmt.Sprintf("%d@%d", int64(e.entry.Timestamp), e.entry.Last))
	}
	require.Equal(t, []string{"11@1", "20@5", "16@6"}, wrappers)
	require.Equal(t, "20@4", l.search(12))
	require.Equal(t, "20@4", l.search(17))
	require.Equal(t, "none", l.search(21))
}

// C11: under LogAppendTime the wrapper's own timestamp stays (SPEC 9.9).
func TestC11LogAppendTimeWrapper(t *testing.T) {
	l := newLog(t)
	l.now = 500
	l.wrapper(codec.LZ4, true, true, messages(t, "a@10 b@9 a@3")...)
	l.roll()
	l.compact()
	e := l.entries(0, 9)[0].entry
	require.Equal(t, codec.LogAppendTime, e.TimestampType)
	require.EqualValues(t, 500, e.Timestamp)
	require.Equal(t, codec.LZ4, e.Compression)
	require.EqualValues(t, 1, e.Magic)
	require.Equal(t, "1:b@500 2:a@500", l.survivors())
}

// SPEC 12.4 row 9.9, and S76: relative offsets keep their gaps.
func TestRewrittenWrapperOnTheWire(t *testing.T) {
	for name, c := range map[string]struct {
		wrapper, later string
		offset         int64
		relative       []int64
		timestamp      codec.Timestamp
	}{
		"9.9": {"x@50 b@10 y@60 d@30 z@70", "x@0 y@0 z@0", 103, []int64{0, 2}, 30},
		"S76": {"a@1 b@2 c@3", "b@4", 102, []int64{0, 2}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			l.segments[0], l.start, l.end = retention.NewSegment(100), 100, 100
			l.wrapper(codec.Snappy, true, false, messages(t, c.wrapper)...)
			for _, m := range messages(t, c.later) {
				l.plain(m)
			}
			l.roll()
			l.compact()
			e := l.entries(0, 200)[0].entry
			set, _, err := e.AppendSet(nil, codec.SetOptions{To: 200, Magic: 1, Limit: 1 << 20, First: true})
			require.NoError(t, err)
			f, _, err := codec.ReadFrame(set)
			require.NoError(t, err)
			require.Equal(t, c.offset, f.Offset)
			require.Equal(t, c.timestamp, f.Timestamp)
			inner, err := codec.Snappy.Decompress(nil, f.Value, 1, codec.MaxInflated)
			require.NoError(t, err)
			var relative []int64
			for len(inner) > 0 {
				f, n, err := codec.ReadFrame(inner)
				require.NoError(t, err)
				relative, inner = append(relative, f.Offset), inner[n:]
			}
			require.Equal(t, c.relative, relative)
		})
	}
}

// C12: what a reader then finds between the survivors is the engine's case.
func TestC12GapAcrossSegments(t *testing.T) {
	l := newLog(t).append("a@10 b@20 c@30 | b@40 c@50 d@60 | e@70")
	l.compact()
	require.Equal(t, "0:a@10 3:b@40 4:c@50 5:d@60 6:e@70", l.survivors())
}

// C14
func TestC14UnkeyedMessagesAreInvalid(t *testing.T) {
	l := newLog(t).append("@1 a@2 @3 b@4 @5 c@6 |")
	r := l.compact()
	require.EqualValues(t, 3, r.Invalid)
	require.Equal(t, "1:a@2 3:b@4 5:c@6", l.survivors())
}

// C15: keys are bytes of any length, compared whole.
func TestC15KeyIdentity(t *testing.T) {
	long := bytes.Repeat([]byte{'k'}, 64<<10)
	list := [][]byte{
		{}, []byte("a"), []byte("a\x00"), []byte("a\x00\x00"), {0xff}, {0xff, 0xff}, long, long[1:], append(bytes.Clone(long), 0),
		long[:26], long[:27], long[:28], long[:29], append(long[:26:26], 0), append(long[:27:27], 0),
	}
	l := newLog(t)
	for _, k := range list {
		l.plain(codec.Message{Key: k, Value: []byte("v")})
	}
	l.roll()
	r := l.compact()
	require.Zero(t, r.Dropped())
	require.EqualValues(t, len(list), r.Keys)
	l.append("a@0 |")
	r = l.compact()
	require.EqualValues(t, 1, r.Dropped())
	for _, m := range l.messages() {
		require.NotEqualValues(t, 1, m.Offset)
	}
}

// C16: a pass with a map for one key, from each clean point [REF].
func TestC16OneKeyMap(t *testing.T) {
	for _, packed := range []bool{false, true} {
		l := newLog(t)
		if l.options.MapBytes = oneKey; packed {
			l.packed("0@0 1@0 0@0 1@0 0@0 |")
		} else {
			l.append("0@0 1@0 0@0 1@0 0@0 |")
		}
		offsets := func() (text string) {
			for _, m := range l.messages() {
				text += fmt.Sprint(m.Offset)
			}
			return text
		}
		l.cleanPoint = 2
		for _, want := range []string{"1234", "234", "34"} {
			from := l.cleanPoint
			r := l.compact()
			require.Equal(t, want, offsets(), "from %d", from)
			require.Equal(t, from+1, l.cleanPoint)
			require.Equal(t, l.cleanPoint < 5, r.More)
		}
		require.False(t, l.plan().Work)
	}
}

// C17: sizes do not matter, and a rewritten wrapper may be larger.
func TestC17LargeMessagesAndGrowth(t *testing.T) {
	l := newLog(t)
	for i, size := range []int{1, 1 << 20, 3 << 20} {
		l.plain(codec.Message{Key: []byte{byte(i)}, Value: bytes.Repeat([]byte{byte(i)}, size)})
	}
	l.plain(codec.Message{Key: []byte{0}, Value: []byte{9}})
	l.roll()
	l.compact()
	msgs := l.messages()
	require.Len(t, msgs, 3)
	require.Equal(t, bytes.Repeat([]byte{1}, 1<<20), msgs[0].Value)
	require.Equal(t, bytes.Repeat([]byte{2}, 3<<20), msgs[1].Value)
}

// C18: nothing new, nothing done.
func TestC18SecondPassDoesNothing(t *testing.T) {
	l := newLog(t).append("a@10 b@20 a@30 | b@40 c@50 d@60 | c@65 d@66 | a@70")
	l.compact()
	steps, before := l.commits, l.clone()
	p := l.plan()
	require.False(t, p.Work || p.Eligible)
	require.Equal(t, retention.Never, p.Due)
	r := l.compact()
	require.Zero(t, r.Stats)
	require.Equal(t, steps, l.commits)
	require.Equal(t, before.rows, l.rows)
	require.Equal(t, before.segments, l.segments)
}

// C18: what is clean is read, not written, when something new comes.
func TestC18CleanSegmentsAreNotRewritten(t *testing.T) {
	l := newLog(t).append("a@10 b@20 c@30 | d@40 e@50 f@60 | g@70 h@80 i@90 |")
	l.compact()
	require.Equal(t, 1, l.commits, "only the clean point: every key is new")
	l.append("d@100 |")
	l.onCommit = func(s *compaction.Step) {
		require.NotEqualValues(t, 0, s.Base)
		require.NotEqualValues(t, 6, s.Base)
	}
	r := l.compact()
	require.EqualValues(t, 1, r.Emptied)
	require.Equal(t, "0:a@10 1:b@20 2:c@30 4:e@50 5:f@60 6:g@70 7:h@80 8:i@90 9:d@100", l.survivors())
}

// C18: emptied segments become part of the next one.
func TestC18EmptiedSegmentsDoNotPileUp(t *testing.T) {
	l := newLog(t)
	for i := range 50 {
		l.append(fmt.Sprintf("a@%d b@%d c@%d |", 3*i, 3*i+1, 3*i+2))
	}
	l.compact()
	require.Equal(t, "147:a@147 148:b@148 149:c@149", l.survivors())
	require.Len(t, l.segments, 2)
	require.Zero(t, l.segments[0].Base, "SPEC 9.11: the first base stays")
	for i := range 50 {
		l.append(fmt.Sprintf("a@%d b@%d c@%d |", 200+i, 200+i, 200+i))
		l.compact()
		require.LessOrEqual(t, len(l.segments), 3)
	}
}

// Everything can go: the segment that is left keeps the offsets.
func TestEverythingCompactedAway(t *testing.T) {
	l := newLog(t).append("@5 @6 | @7 |")
	l.compact()
	require.Empty(t, l.survivors())
	require.Len(t, l.segments, 2)
	s := l.segments[0]
	require.EqualValues(t, 0, s.Base)
	require.EqualValues(t, 3, s.End)
	require.EqualValues(t, -1, s.MaxTimestamp)
	require.True(t, s.Sealed && s.Empty())
	require.EqualValues(t, 3, l.end)
}

// T14: the index row of a dropped message goes with it, and the largest timestamp
// shrinks.
func TestT14SearchAfterCompaction(t *testing.T) {
	for _, interval := range []int64{1, 4096} {
		l := newLog(t)
		l.policy.IndexInterval, l.policy.SegmentBytes = interval, 400
		l.append("k1@100 k2@500 k1@200 k2@300 | k3@350")
		require.Equal(t, "500@1", l.search(400))
		l.compact()
		require.Equal(t, "2:k1@200 3:k2@300 4:k3@350", l.survivors())
		for ts, want := range map[codec.Timestamp]string{
			0: "200@2", 150: "200@2", 250: "300@3", 301: "350@4", 351: "none", 400: "none",
		} {
			require.Equal(t, want, l.search(ts))
		}
		require.EqualValues(t, 300, l.segments[0].MaxTimestamp)
	}
}

// T16's shape: segments without timestamps stay so, and clocks survive.
func TestClocksOfJoinedSegments(t *testing.T) {
	l := newLog(t)
	l.now = 100
	l.append("a@-1 b@-1 |")
	l.now = 200
	l.append("a@-1 |")
	l.now = 300
	l.append("b@-1 |")
	l.compact()
	s := l.segments[0]
	require.EqualValues(t, 100, s.FirstAppend, "SPEC 9.11")
	require.EqualValues(t, 300, s.LastAppend)
	require.EqualValues(t, -1, s.MaxTimestamp)
	require.EqualValues(t, 4, s.End)
	require.EqualValues(t, 2, s.Messages)
}

// U06: a clean point above a cut would make new messages look clean.
func TestU06TruncationLowersCleanPoint(t *testing.T) {
	l := newLog(t)
	l.policy.SegmentBytes = 100 // one record per segment
	l.append("a@0 | b@0 | a@0 | b@0 | a@0 | b@0 | x@0")
	l.compact()
	require.Equal(t, "4:a@0 5:b@0 6:x@0", l.survivors())
	require.EqualValues(t, 6, l.cleanPoint)
	l.truncate(2)
	require.Empty(t, l.survivors())
	l.append("a@0 | b@0 | a@0 | y@0 |")
	l.compact()
	require.Equal(t, "3:b@0 4:a@0 5:y@0", l.survivors())
}

// SPEC 9.11: no group exceeds segment.bytes, the index bytes or the offset range.
func TestGroupsKeepTheirBounds(t *testing.T) {
	text := "a@1 | b@2 | c@3 | d@4 | e@5 | f@6 |"
	bases := func(change func(*testLog)) (bases []int64) {
		l := newLog(t).append(text)
		change(l)
		l.compact()
		for _, s := range l.segments {
			bases = append(bases, s.Base)
		}
		return bases
	}
	require.Equal(t, []int64{0, 3, 6}, bases(func(l *testLog) { l.policy.SegmentBytes = 300 }))
	require.Equal(t, []int64{0, 3, 6}, bases(func(l *testLog) { l.policy.SegmentBytes = 399 }))
	require.Equal(t, []int64{0, 1, 2, 3, 4, 5, 6}, bases(func(l *testLog) { l.policy.SegmentBytes = 199 }))
	for _, last := range []int64{1<<31 - 1, 1 << 31} {
		far := newLog(t).append("a@1")
		far.rollTo(last)
		far.append("b@2 |")
		far.compact()
		require.Equal(t, last < 1<<31, len(far.segments) == 2, "SPEC 7.1.3: an offset fits in 31 bits above the base")
	}
	l := newLog(t)
	l.policy.IndexInterval, l.policy.SegmentBytes, l.policy.IndexBytes = 1, 1<<20, 3*retention.IndexRowBytes
	l.append(text)
	l.compact()
	require.EqualValues(t, 2, l.segments[1].Base)
	require.EqualValues(t, 4, l.segments[2].Base)
}
