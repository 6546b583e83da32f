package compaction_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

type stored struct {
	entry    codec.Entry
	value    []byte
	messages []codec.Message
}

func (l *testLog) entries(from, to int64) (entries []stored) {
	for _, k := range l.in(keys.LogRange(partition, from, to)) {
		value := l.rows[k]
		e, err := codec.ParseEntry([]byte(k), value)
		require.NoError(l.t, err)
		s := stored{entry: e, value: value}
		var c codec.Cursor
		require.NoError(l.t, c.Reset(&e))
		var m codec.Message
		for c.Next(&m) {
			s.messages = append(s.messages, m)
		}
		require.NoError(l.t, c.Err())
		require.NotEmpty(l.t, s.messages)
		require.Equal(l.t, e.Last, s.messages[len(s.messages)-1].Offset)
		entries = append(entries, s)
	}
	return entries
}

func (l *testLog) messages() []codec.Message { return l.readable(l.entries(0, math.MaxInt64)) }

func (l *testLog) readable(all []stored) (msgs []codec.Message) {
	for _, e := range all {
		for _, m := range e.messages {
			if m.Offset >= l.start {
				msgs = append(msgs, m)
			}
		}
	}
	return msgs
}

// survivors writes the log as offset:key@timestamp.
func (l *testLog) survivors() string {
	var words []string
	for _, m := range l.messages() {
		word := fmt.Sprintf("%d:%s@%d", m.Offset, m.Key, int64(m.Timestamp))
		if m.Value == nil {
			word += "-"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// search is the engine's: segments by their largest timestamp, one index row,
// then a scan.
func (l *testLog) search(ts codec.Timestamp) string {
	return l.searchIn(l.entries(0, math.MaxInt64), ts)
}

func (l *testLog) searchIn(all []stored, ts codec.Timestamp) string {
	for i := range l.segments {
		s := &l.segments[i]
		if s.MaxTimestamp < ts || s.End <= l.start {
			continue
		}
		to := int64(math.MaxInt64)
		if s.Sealed {
			to = s.End
		}
		from := max(l.searchFrom(s, ts), l.start)
		if from >= to {
			continue
		}
		for _, e := range all {
			if e.entry.Last < from || e.entry.MaxTimestamp < ts {
				continue
			}
			for _, m := range e.messages {
				if m.Timestamp >= ts && m.Offset >= from && m.Offset < to {
					return fmt.Sprintf("%d@%d", int64(m.Timestamp), m.Offset)
				}
			}
		}
	}
	return "none"
}

func (l *testLog) searchFrom(s *retention.Segment, ts codec.Timestamp) int64 {
	if s.IndexedTimestamp < ts {
		return s.ScanFrom
	}
	from := s.Base
	for _, k := range l.in(keys.TimestampRange(partition, s.Base, s.Base+1)) {
		_, _, t, err := keys.DecodeTimestamp([]byte(k))
		require.NoError(l.t, err)
		if codec.Timestamp(t) >= ts {
			return int64(binary.BigEndian.Uint64(l.rows[k][8:]))
		}
		from = int64(binary.BigEndian.Uint64(l.rows[k]))
	}
	return from
}

// requireSound checks what holds after every step: no search is wrong, and
// segments promise no less than they hold (SPEC 5.4.12).
func (l *testLog) requireSound() {
	l.t.Helper()
	all := l.entries(0, math.MaxInt64)
	msgs := l.readable(all)
	times := map[codec.Timestamp]bool{0: true}
	for _, m := range msgs {
		times[m.Timestamp], times[m.Timestamp+1] = true, true
	}
	for ts := range times {
		if ts < 0 {
			continue
		}
		want := "none"
		if i := slices.IndexFunc(msgs, func(m codec.Message) bool { return m.Timestamp >= ts }); i >= 0 {
			want = fmt.Sprintf("%d@%d", int64(msgs[i].Timestamp), msgs[i].Offset)
		}
		require.Equal(l.t, want, l.searchIn(all, ts), "search for %d", int64(ts))
	}
	for i := range l.segments {
		s, upper := &l.segments[i], int64(math.MaxInt64)
		if i+1 < len(l.segments) {
			upper = l.segments[i+1].Base
			require.LessOrEqual(l.t, s.End, upper)
		}
		for _, e := range all {
			if e.entry.Last < s.Base || e.entry.Last >= upper {
				continue
			}
			require.LessOrEqual(l.t, e.entry.MaxTimestamp, s.MaxTimestamp)
			require.Less(l.t, e.entry.Last, s.End)
			if e.entry.Horizon != codec.NoTimestamp {
				require.NotEqual(l.t, retention.Never, l.due)
				require.LessOrEqual(l.t, l.due, e.entry.Horizon, "no tombstone is forgotten")
			}
		}
	}
}

func (l *testLog) horizons() (horizons []codec.Timestamp) {
	for _, e := range l.entries(l.start, math.MaxInt64) {
		if e.entry.Horizon != codec.NoTimestamp {
			horizons = append(horizons, e.entry.Horizon)
		}
	}
	return horizons
}

// requireExact checks what holds after a whole pass below the clean point: rows
// and index are those of a log that never held anything else (SPEC 9.11-12).
func (l *testLog) requireExact() {
	l.t.Helper()
	for i := range len(l.segments) - 1 {
		s, upper := l.segments[i], l.segments[i+1].Base
		if upper > l.cleanPoint {
			return
		}
		want := retention.NewSegment(s.Base)
		var rows []retention.IndexRow
		add := func(row retention.IndexRow, ok bool) {
			if ok {
				rows = append(rows, row)
			}
		}
		for _, e := range l.entries(max(s.Base, l.start), upper) {
			add(want.Add(appended(&e.entry, len(e.value)), l.policy.IndexInterval))
		}
		add(want.ClosingRow())
		want.SinceIndex = s.SinceIndex // of a sealed segment, it means nothing
		want.End, want.FirstAppend, want.LastAppend, want.Sealed = s.End, s.FirstAppend, s.LastAppend, true
		if s.Base >= l.start {
			require.Equal(l.t, want, s)
		}
		var got []retention.IndexRow
		for _, k := range l.in(keys.LogRange(partition.Companion(), s.Base, upper)) {
			row, err := codec.ParseIndexRow([]byte(k), l.rows[k])
			require.NoError(l.t, err)
			got = append(got, row)
		}
		require.Equal(l.t, rows, got, "companion rows of segment %d", s.Base)
		var times []codec.Timestamp
		for _, k := range l.in(keys.TimestampRange(partition, s.Base, upper)) {
			_, base, ts, err := keys.DecodeTimestamp([]byte(k))
			require.NoError(l.t, err)
			require.Equal(l.t, s.Base, base)
			times = append(times, codec.Timestamp(ts))
		}
		require.Len(l.t, times, len(rows), "timestamp rows of segment %d", s.Base)
	}
}
