package main

import (
	"context"

	"github.com/cairnlog/cairn/retention"
)

func init() {
	register(command{
		name: "segments", group: inspectGroup,
		summary: "list the segments of the partition; the last is the active one",
		details: `rows are those of the time index. bytes are v1 wire bytes, as settings
count them; stored, shown with --full, are those of the stored entries before
Pebble's own compression.`,
		options: []option{fullOption, topicOption},
		run:     runSegments,
	})
	register(command{
		name: "roll", group: retentionGroup, noData: true,
		summary: "seal the active segment and begin a new one",
		details: "An empty segment stays as it is.",
		options: []option{topicOption},
		run:     runRoll,
	})
	register(command{
		name: "index", group: inspectGroup,
		summary: "list the rows of the time index",
		details: `A row says that up to its offset, no message of its segment is newer than its
timestamp. A search takes the first row that reaches its time: what it looks for
lies between scan from and offset.`,
		options:  []option{{name: "n", value: "COUNT", doc: "how many rows; 20 if not given, or all"}, topicOption},
		examples: []string{"index", "index n=all --json"},
		run:      runIndex,
	})
}

func runSegments(_ context.Context, s *session, a *arguments) error {
	p, err := s.partition(a)
	if err != nil {
		return err
	}
	segments, err := p.Segments()
	if err != nil {
		return err
	}
	out := s.records(a)
	defer out.close()
	for i := range segments {
		if err := out.print(segmentRecord(&segments[i])); err != nil {
			return err
		}
	}
	return nil
}

func segmentRecord(seg *retention.Segment) record {
	state := "active"
	if seg.Sealed {
		state = "sealed"
	}
	return record{
		{name: "base", value: seg.Base},
		{name: "end", value: seg.End},
		{name: "messages", value: seg.Messages},
		{name: "entries", value: seg.Entries, detail: true},
		{name: "first timestamp", value: seg.FirstTimestamp, detail: true},
		{name: "max timestamp", value: seg.MaxTimestamp},
		{name: "at offset", value: seg.MaxOffset},
		{name: "first append", value: seg.FirstAppend, detail: true},
		{name: "last append", value: seg.LastAppend, detail: true},
		{name: "bytes", value: byteCount(seg.Bytes)},
		{name: "stored", value: byteCount(seg.StoredBytes), detail: true},
		{name: "rows", value: seg.IndexRows},
		{name: "state", value: state},
	}
}

func runRoll(ctx context.Context, s *session, a *arguments) error {
	p, err := s.partition(a)
	if err != nil {
		return err
	}
	return p.Roll(ctx)
}

func runIndex(ctx context.Context, s *session, a *arguments) error {
	p, err := s.partition(a)
	if err != nil {
		return err
	}
	n, err := a.count("n", defaultCount)
	if err != nil {
		return err
	}
	out := s.records(a)
	defer out.close()
	for row, err := range p.TimeIndex(ctx) {
		if err != nil {
			return err
		}
		if n != all && out.total == n {
			out.close()
			s.say(a, "... and more; n=all lists them")
			break
		}
		if err := out.print(indexRecord(row)); err != nil {
			return err
		}
	}
	if out.total == 0 {
		s.say(a, "no rows")
	}
	return nil
}

func indexRecord(row retention.IndexRow) record {
	return record{
		{name: "timestamp", value: row.Timestamp},
		{name: "offset", value: row.Offset},
		{name: "segment", value: row.Base},
		{name: "scan from", value: row.ScanFrom},
	}
}
