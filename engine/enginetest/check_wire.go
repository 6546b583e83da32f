package enginetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// lists compares ListOffsets, v0 and v1 (SPEC 8).
func (c *checker) lists() error {
	for _, replica := range []bool{false, true} {
		o := engine.ListOptions{Replica: replica}
		for ts, want := range map[codec.Timestamp]int64{engine.Earliest: c.l.Start, engine.Latest: c.l.End()} {
			got, err := c.p.ListOffset(c.ctx, ts, o)
			if err != nil || got != (engine.Position{Offset: want, Timestamp: codec.NoTimestamp, Found: true}) {
				return fmt.Errorf("ListOffset(%d, %+v) = %+v, %w, want %d", ts, o, got, orNone(err), want)
			}
		}
		for _, limit := range []int{0, 1, 2, 100} {
			if err := c.listsV0(limit, o); err != nil {
				return err
			}
		}
	}
	if _, err := c.p.ListOffset(c.ctx, -3, engine.ListOptions{}); engine.KafkaCode(err) != codec.CodeInvalidRequest {
		return fmt.Errorf("ListOffset(-3): %w, want code 42", orNone(err))
	}
	return nil
}

func (c *checker) listsV0(limit int, o engine.ListOptions) error {
	at := []codec.Timestamp{engine.Earliest, engine.Latest, c.now}
	for _, s := range c.l.Segments {
		if _, last := s.Clocks(); last > 0 {
			at = append(at, last-1, last)
		}
	}
	for _, ts := range at {
		if ts >= 0 && !c.l.timed(ts) {
			continue
		}
		got, err := c.p.ListOffsetsV0(c.ctx, ts, limit, o)
		if want := c.l.ListOffsetsV0(ts, c.now, limit); err != nil || !slices.Equal(got, want) {
			return fmt.Errorf("ListOffsetsV0(%d, %d, %+v) = %v, %w, want %v at %d", ts, limit, o, got, orNone(err), want, c.now)
		}
	}
	return nil
}

// timed reports whether it is known which segments are older than ts. An empty one
// is not older than the appends before it; nobody knows more of its time.
func (l *Log) timed(ts codec.Timestamp) bool {
	if len(l.active().Frames) > 0 {
		return true
	}
	if len(l.Segments) == 1 {
		return false
	}
	_, last := l.Segments[len(l.Segments)-2].Clocks()
	return ts < last
}

// CheckListOffset compares a ListOffsets v1 search, which a topic of the old
// format refuses (SPEC 8.8-9).
func CheckListOffset(ctx context.Context, p *engine.Partition, l *Log, c engine.TopicConfig, ts codec.Timestamp) error {
	got, err := p.ListOffset(ctx, ts, engine.ListOptions{})
	if c.MessageFormat == engine.FormatV0 {
		if engine.KafkaCode(err) != codec.CodeUnsupportedForFormat {
			return fmt.Errorf("ListOffset(%d): %w, want code 43", ts, orNone(err))
		}
		return nil
	}
	want := l.OffsetFor(ts)
	if !want.Found {
		want.Offset = -1
	}
	if err != nil || got != want {
		return fmt.Errorf("ListOffset(%d) = %+v, %w, want %+v", ts, got, orNone(err), want)
	}
	return nil
}

// fetches walks through the log with several limits and compares each set.
func (c *checker) fetches() error {
	for _, o := range []engine.FetchOptions{
		{}, {MaxBytes: 1}, {MaxBytes: 150}, {MaxBytes: 400, Format: engine.FormatV0},
	} {
		for from := c.l.Start; ; {
			res, err := CheckFetch(c.ctx, c.p, c.l, from, o)
			if err != nil {
				return err
			}
			if res.Next == from {
				break
			}
			from = res.Next
		}
	}
	return nil
}

// CheckFetch compares one fetch with the model's, bytes and messages.
func CheckFetch(ctx context.Context, p *engine.Partition, l *Log, from int64, o engine.FetchOptions) (engine.FetchResult, error) {
	got, err := p.Fetch(ctx, from, o)
	if err != nil {
		return got, fmt.Errorf("fetch from %d %+v: %w", from, o, err)
	}
	want := l.Fetch(from, o)
	if got.HighWatermark != want.HighWatermark || got.LogStart != want.LogStart || got.Next != want.Next {
		return got, fmt.Errorf("fetch from %d %+v: high watermark %d, start %d, next %d, want %d, %d, %d", from, o,
			got.HighWatermark, got.LogStart, got.Next, want.HighWatermark, want.LogStart, want.Next)
	}
	if !bytes.Equal(got.Set, want.Set) {
		return got, fmt.Errorf("fetch from %d %+v: set of %d bytes, want %d:\n%x\n%x", from, o, len(got.Set), len(want.Set), got.Set, want.Set)
	}
	const head = "head"
	appended, err := p.AppendFetch(ctx, []byte(head), from, o)
	if err != nil || string(appended.Set) != head+string(want.Set) || appended.Next != want.Next {
		return got, fmt.Errorf("fetch from %d %+v appended: %d bytes, next %d, %w, want %d and %d", from, o,
			len(appended.Set), appended.Next, orNone(err), len(head)+len(want.Set), want.Next)
	}
	return got, checkFetched(l, from, got, o)
}

// checkFetched decodes a fetched set as a consumer does.
func checkFetched(l *Log, from int64, res engine.FetchResult, o engine.FetchOptions) error {
	want := l.Read(from, engine.ReadOptions{Before: res.Next})
	if res.Next == 0 {
		want = nil
	}
	for m, err := range codec.Messages(res.Set) {
		if err != nil {
			return fmt.Errorf("fetch from %d %+v: decode: %w", from, o, err)
		}
		if m.Offset < from {
			continue // the head of a wrapper
		}
		if len(want) == 0 {
			return fmt.Errorf("fetch from %d %+v: unexpected message %s", from, o, show(m))
		}
		if o.Format == engine.FormatV0 {
			want[0].Timestamp, want[0].TimestampType = codec.NoTimestamp, codec.NoTimestampType
		}
		if err := sameMessage(m, want[0]); err != nil {
			return fmt.Errorf("fetch from %d %+v: %w", from, o, err)
		}
		want = want[1:]
	}
	if len(want) > 0 {
		return fmt.Errorf("fetch from %d %+v: message %d is missing", from, o, want[0].Offset)
	}
	return nil
}
