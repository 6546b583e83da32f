package main

import (
	"context"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

func init() {
	register(command{
		name: "search", group: timeGroup, args: "TIME", minArgs: 1, maxArgs: 1,
		summary: "find the first message at or after a time",
		details: `TIME is milliseconds since the epoch, RFC 3339, or now. The offset found is kept
in $OFFSET; without a message that late it is the high watermark.`,
		options:  []option{topicOption},
		examples: []string{"search 2026-01-01T00:10:00Z", "search 1767226200000"},
		run:      runSearch,
	})
	register(command{
		name: "maxts", group: timeGroup,
		summary: "find the message with the largest timestamp, the first of equals",
		options: []option{topicOption},
		run:     runMaxTimestamp,
	})
	register(command{
		name: "list-offsets", group: timeGroup, args: "earliest|latest|TIME", minArgs: 1, maxArgs: 1,
		summary: "answer Kafka's ListOffsets request",
		details: `Version 1 finds a message by its timestamp. Version 0 gives segment bases, newest
first, of the segments last appended to at or before TIME on the store's clock.`,
		values: oneOf("earliest", "latest"),
		options: []option{
			{name: "version", value: "0|1", doc: "of the request; 1 if not given", values: oneOf("0", "1")},
			{name: "limit", value: "COUNT", doc: "offsets in the answer of version 0; 1 if not given"},
			{name: "replica", doc: "ask as a follower, who sees beyond the high watermark"},
			topicOption,
		},
		examples: []string{"list-offsets latest", "list-offsets 2026-01-01T00:10:00Z", "list-offsets latest version=0 limit=10"},
		run:      runListOffsets,
	})
}

func runSearch(_ context.Context, s *session, a *arguments) error {
	p, err := s.partition(a)
	if err != nil {
		return err
	}
	ts, err := parseTime(a.word(0), s.now())
	if err != nil {
		return err
	}
	pos, err := p.OffsetFor(ts)
	if err != nil {
		return err
	}
	s.remember(pos.Offset)
	return s.show(a, append(record{{name: "searched for", value: ts}}, positionRecord(pos)...))
}

func positionRecord(pos engine.Position) record {
	return record{
		{name: "found", value: pos.Found},
		{name: "offset", value: pos.Offset},
		{name: "timestamp", value: pos.Timestamp},
	}
}

func runMaxTimestamp(ctx context.Context, s *session, a *arguments) error {
	p, err := s.partition(a)
	if err != nil {
		return err
	}
	pos, err := p.MaxTimestamp(ctx)
	if err != nil {
		return err
	}
	s.remember(pos.Offset)
	return s.show(a, positionRecord(pos))
}

func runListOffsets(ctx context.Context, s *session, a *arguments) error {
	p, err := s.partition(a)
	if err != nil {
		return err
	}
	ts, err := s.listTime(a.word(0))
	if err != nil {
		return err
	}
	limit, err := a.number("limit", 1)
	if err != nil {
		return err
	}
	o := engine.ListOptions{Replica: a.has("replica")}
	switch version := a.text("version", "1"); version {
	case "0":
		offsets, err := p.ListOffsetsV0(ctx, ts, int(limit), o)
		if err != nil {
			return err
		}
		return s.show(a, record{{name: "offsets", value: offsets}})
	case "1":
		if a.has("limit") {
			return usagef("limit is for version=0")
		}
		pos, err := p.ListOffset(ctx, ts, o)
		if err != nil {
			return err
		}
		return s.show(a, positionRecord(pos))
	default:
		return usagef("version %q is not 0 or 1", version)
	}
}

// listTime reads a time or one of the two words that stand for a negative one.
func (s *session) listTime(word string) (codec.Timestamp, error) {
	switch word {
	case "earliest":
		return engine.Earliest, nil
	case "latest":
		return engine.Latest, nil
	default:
		return parseTime(word, s.now())
	}
}
