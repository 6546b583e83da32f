package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/retention"
)

// Check compares everything a DB says with the Model, through the public API, and has
// the DB verify what it stores. The store must be at rest. The error is the first
// difference.
func Check(ctx context.Context, db *engine.DB, m *Model) error {
	if err := CheckVerified(ctx, db); err != nil {
		return err
	}
	topics := db.Topics()
	want := slices.SortedFunc(slices.Values(m.Topics), func(a, b *Topic) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	if len(topics) != len(want) {
		return fmt.Errorf("%d topics, want %d", len(topics), len(want))
	}
	for i, t := range topics {
		if t.Name() != want[i].Name {
			return fmt.Errorf("topic %s, want %s", t.Name(), want[i].Name)
		}
		if got, want := t.Config().Settings(), want[i].Config.Settings(); !maps.Equal(got, want) {
			return fmt.Errorf("topic %s: settings %v, want %v", t.Name(), got, want)
		}
		for _, l := range want[i].Logs {
			if err := CheckLog(ctx, t.Partition(l.Number), l, m.Now); err != nil {
				return fmt.Errorf("%s/%d: %w", t.Name(), l.Number, err)
			}
		}
	}
	return nil
}

// CheckVerified has the DB verify what it stores. The error has the first findings.
func CheckVerified(ctx context.Context, db *engine.DB) error {
	v, err := db.Verify(ctx, nil)
	if err != nil || v.Clean() {
		return err
	}
	return fmt.Errorf("verify: %d findings: %v", v.Found, v.Findings[:min(3, len(v.Findings))])
}

// CheckLog compares one partition with its model.
func CheckLog(ctx context.Context, p *engine.Partition, l *Log, now codec.Timestamp) error {
	c := &checker{ctx: ctx, p: p, l: l, now: now}
	for _, check := range []func() error{
		c.offsets, c.reads, c.segments, c.rows, c.searches, c.lists, c.fetches, c.outside,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

type checker struct {
	ctx context.Context
	p   *engine.Partition
	l   *Log
	now codec.Timestamp
}

func (c *checker) offsets() error {
	got, err := c.p.Offsets()
	if err == nil && got.End > got.HighWatermark { // unsynced appends are acknowledged before they can be read
		if err := c.p.Await(c.ctx, got.End-1); err != nil {
			return err
		}
		got, err = c.p.Offsets()
	}
	if want := (engine.Offsets{Start: c.l.Start, HighWatermark: c.l.End(), End: c.l.End()}); err != nil || got != want {
		return fmt.Errorf("offsets %+v, %w, want %+v", got, orNone(err), want)
	}
	return nil
}

func (c *checker) reads() error {
	if err := CheckRead(c.ctx, c.p, c.l, c.l.Start, engine.ReadOptions{}); err != nil {
		return err
	}
	for _, f := range c.l.frames() { // into the middle of every wrapper too
		for _, at := range []int64{f.Last(), (f.First() + f.Last()) / 2} {
			if err := CheckRead(c.ctx, c.p, c.l, max(at, c.l.Start), engine.ReadOptions{MaxMessages: 2}); err != nil {
				return err
			}
		}
	}
	return CheckRead(c.ctx, c.p, c.l, (c.l.Start+c.l.End())/2, engine.ReadOptions{Before: c.l.End() - 1})
}

// CheckRead compares one read with the model's.
func CheckRead(ctx context.Context, p *engine.Partition, l *Log, from int64, o engine.ReadOptions) error {
	if o.Before < 0 {
		o.Before = 0
	}
	want := l.Read(from, o)
	n := 0
	for m, err := range p.Read(ctx, from, o) {
		if err != nil {
			return fmt.Errorf("read from %d %+v: %w", from, o, err)
		}
		if n == len(want) {
			return fmt.Errorf("read from %d %+v: unexpected message %d", from, o, m.Offset)
		}
		if err := sameMessage(m, want[n]); err != nil {
			return fmt.Errorf("read from %d %+v: %w", from, o, err)
		}
		n++
	}
	if n < len(want) {
		return fmt.Errorf("read from %d %+v: ended before message %d", from, o, want[n].Offset)
	}
	return nil
}

func sameMessage(got, want codec.Message) error {
	same := got.Offset == want.Offset && got.Timestamp == want.Timestamp && got.TimestampType == want.TimestampType &&
		sameBytes(got.Key, want.Key) && sameBytes(got.Value, want.Value)
	if !same {
		return fmt.Errorf("message %s, want %s", show(got), show(want))
	}
	return nil
}

// sameBytes tells null from empty.
func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func show(m codec.Message) string {
	field := func(b []byte) string {
		if b == nil {
			return "null"
		}
		return fmt.Sprintf("%.16q(%d)", b, len(b))
	}
	return fmt.Sprintf("{%d %s %s %s=%s}", m.Offset, m.TimestampType, m.Timestamp, field(m.Key), field(m.Value))
}

func (c *checker) segments() error {
	got, err := c.p.Segments()
	if err != nil {
		return err
	}
	if len(got) != len(c.l.Segments) {
		return fmt.Errorf("%d segments, want %d: %+v", len(got), len(c.l.Segments), got)
	}
	for i, s := range c.l.Segments {
		largest, at := s.Max()
		first, last := s.Clocks()
		want := retention.Segment{
			Base: s.Base, End: s.End(), FirstTimestamp: s.FirstTimestamp(), MaxTimestamp: largest, MaxOffset: at,
			FirstAppend: first, LastAppend: last, Bytes: s.Bytes(), Messages: s.messages(),
			IndexedTimestamp: s.indexed(), IndexRows: int64(len(s.Rows)), Sealed: s.Sealed,
			// The engine's own affair:
			StoredBytes: got[i].StoredBytes, Entries: got[i].Entries, SinceIndex: got[i].SinceIndex, ScanFrom: got[i].ScanFrom,
		}
		if got[i] != want {
			return fmt.Errorf("segment %+v, want %+v", got[i], want)
		}
		if err := s.checkScanFrom(got[i].ScanFrom); err != nil {
			return err
		}
	}
	return nil
}

// checkScanFrom: a search beyond the index may begin at ScanFrom.
func (s *Segment) checkScanFrom(from int64) error {
	if from < s.Base || from > s.End() {
		return fmt.Errorf("segment %d: ScanFrom %d outside [%d, %d]", s.Base, from, s.Base, s.End())
	}
	for i := range s.Frames {
		if f := &s.Frames[i]; f.First() < from && f.Timestamp > s.indexed() {
			return fmt.Errorf("segment %d: ScanFrom %d skips %d with timestamp %d above the index's %d",
				s.Base, from, f.Last(), f.Timestamp, s.indexed())
		}
	}
	return nil
}

// rows compares the time index with the model's and, independently of that, with
// the messages.
func (c *checker) rows() error {
	var got []retention.IndexRow
	for r, err := range c.p.TimeIndex(c.ctx) {
		if err != nil {
			return err
		}
		got = append(got, r)
	}
	n := 0
	for _, s := range c.l.Segments {
		for _, want := range s.Rows {
			if n == len(got) {
				return fmt.Errorf("index row %+v of segment %d is missing", want, s.Base)
			}
			r := got[n]
			if (Row{r.Timestamp, r.Offset}) != want || r.Base != s.Base {
				return fmt.Errorf("index row %+v, want %+v of segment %d", r, want, s.Base)
			}
			n++
		}
	}
	if n < len(got) {
		return fmt.Errorf("unexpected index row %+v", got[n])
	}
	return checkRows(got, c.l)
}

// checkRows proves the rows from the messages: T is the largest timestamp up to
// and including O, grows within a segment, and a search that begins at ScanFrom
// misses nothing (SPEC 5.1.2).
func checkRows(rows []retention.IndexRow, l *Log) error {
	for i, r := range rows {
		previous := codec.NoTimestamp
		if i > 0 && rows[i-1].Base == r.Base {
			previous = rows[i-1].Timestamp
		}
		if r.Timestamp <= previous {
			return fmt.Errorf("index row %+v does not exceed the one before it, %d", r, previous)
		}
		largest := codec.NoTimestamp
		for _, f := range l.framesAt(r.Base) {
			if f.First() < r.Base || f.Last() > r.Offset {
				continue
			}
			largest = max(largest, f.Timestamp)
			if f.First() < r.ScanFrom && f.Timestamp > previous {
				return fmt.Errorf("index row %+v: ScanFrom skips %d with timestamp %d", r, f.Last(), f.Timestamp)
			}
		}
		if largest != r.Timestamp {
			return fmt.Errorf("index row %+v, but the largest timestamp up to there is %d", r, largest)
		}
	}
	return nil
}

// framesAt returns the frames of the segment at base.
func (l *Log) framesAt(base int64) []Frame {
	for _, s := range l.Segments {
		if s.Base == base {
			return s.Frames
		}
	}
	return nil
}

// instants returns the timestamps worth searching for: those of the messages, one
// before and one after each, and the borders.
func (l *Log) instants() []codec.Timestamp {
	at := map[codec.Timestamp]bool{-1: true, 0: true, 1: true, math.MaxInt64: true}
	for _, m := range l.Messages() {
		at[m.Timestamp] = true
		at[max(m.Timestamp, 1)-1] = true
		at[min(m.Timestamp, math.MaxInt64-1)+1] = true
	}
	return slices.Sorted(maps.Keys(at))
}

func (c *checker) searches() error {
	for _, ts := range c.l.instants() {
		got, err := c.p.OffsetFor(ts)
		if want := c.l.OffsetFor(ts); err != nil || got != want {
			return fmt.Errorf("OffsetFor(%d) = %+v, %w, want %+v", ts, got, orNone(err), want)
		}
	}
	got, err := c.p.MaxTimestamp(c.ctx)
	if want := c.l.MaxTimestamp(); err != nil || got != want {
		return fmt.Errorf("MaxTimestamp = %+v, %w, want %+v", got, orNone(err), want)
	}
	return nil
}

// outside: offsets outside the log are refused, its end is not.
func (c *checker) outside() error {
	for _, from := range []int64{-1, c.l.Start - 1, c.l.End() + 1, math.MaxInt64} {
		for _, err := range c.p.Read(c.ctx, from, engine.ReadOptions{}) {
			if !errors.Is(err, engine.ErrOffsetRange) {
				return fmt.Errorf("read from %d: %w, want out of range", from, orNone(err))
			}
		}
		if _, err := c.p.Fetch(c.ctx, from, engine.FetchOptions{}); !errors.Is(err, engine.ErrOffsetRange) {
			return fmt.Errorf("fetch from %d: %w, want out of range", from, orNone(err))
		}
	}
	return nil
}

var errNone = errors.New("no error")

// orNone makes a nil error printable.
func orNone(err error) error {
	if err == nil {
		return errNone
	}
	return err
}
