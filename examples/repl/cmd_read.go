package main

import (
	"context"
	"errors"
	"iter"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// defaultCount is how many rows read and index print if nothing says how many.
const defaultCount = 20

func init() {
	register(command{
		name: "read", group: readGroup, args: "[OFFSET]", maxArgs: 1,
		summary: "print messages from an offset, from a time, the last ones, or as they come",
		details: `OFFSET is a number, earliest (the default) or latest. A read from a time begins at
the first message at or after it, and one until a time ends before the first
message at or after that: late messages beyond are not part of it. Without n the
first 20 are printed; until=, to= and --follow print all.`,
		options: []option{
			{name: "time", value: "TIME", doc: "begin at the first message at or after a time"},
			{name: "until", value: "TIME", doc: "end before the first message at or after a time"},
			{name: "to", value: "OFFSET", doc: "end before an offset"},
			{name: "n", value: "COUNT", doc: "how many at most; all for no limit"},
			{name: "last", value: "COUNT", doc: "begin that many offsets before the end"},
			{name: "follow", doc: "go on with new messages until Ctrl-C"},
			{name: "committed", doc: "only what transactions have committed"},
			{name: "tags", doc: "print the tags of the enriched format too"},
			fullOption,
			topicOption,
		},
		examples: []string{
			"read", "read 1000 n=5", "read last=3", "read latest --follow",
			"read time=2026-01-01T00:10:00Z until=2026-01-01T00:11:00Z",
			"read n=all --json",
		},
		run: runRead,
	})
}

func runRead(ctx context.Context, s *session, a *arguments) error {
	p, err := s.partition(a)
	if err != nil {
		return err
	}
	from, err := s.readFrom(p, a)
	if err != nil {
		return err
	}
	opts, err := s.readOptions(p, a)
	if err != nil {
		return err
	}
	out := s.records(a)
	out.live = a.has("follow")
	defer out.close()
	bounded := a.has("until") || a.has("to")
	if !bounded || opts.Before < 0 || opts.Before > from { // a zero Before would be no bound
		err = printMessages(out, s.sequence(ctx, p, from, opts, a.has("follow")), a.has("tags"))
	}
	if a.has("follow") && errors.Is(err, context.Canceled) {
		return nil // Ctrl-C is how a follow ends
	}
	if err == nil && out.total == 0 {
		s.say(a, "no messages from offset %d", from)
	}
	return err
}

func (s *session) sequence(ctx context.Context, p *engine.Partition, from int64, o engine.ReadOptions, follow bool) iter.Seq2[codec.Message, error] {
	if follow {
		return p.Follow(ctx, from, o)
	}
	return p.Read(ctx, from, o)
}

func printMessages(out *printer, messages iter.Seq2[codec.Message, error], tags bool) error {
	for m, err := range messages {
		if err == nil {
			r := messageRecord(m)
			if tags {
				r = append(r, field{name: "tags", value: tagsText(m.Tags)})
			}
			err = out.print(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func messageRecord(m codec.Message) record {
	return record{
		{name: "offset", value: m.Offset},
		{name: "timestamp", value: m.Timestamp},
		{name: "type", value: m.TimestampType.String(), detail: true},
		{name: "key", value: m.Key},
		{name: "value", value: m.Value},
	}
}

// readFrom returns the offset that a read begins at.
func (s *session) readFrom(p *engine.Partition, a *arguments) (int64, error) {
	given := len(a.words)
	for _, name := range []string{"time", "last"} {
		if a.has(name) {
			given++
		}
	}
	if given > 1 {
		return 0, usagef("OFFSET, time and last exclude each other")
	}
	switch {
	case a.has("time"):
		pos, err := s.positionFor(p, a.text("time", ""))
		return pos.Offset, err
	case a.has("last"):
		return lastFrom(p, a)
	default:
		return offsetWord(p, a.word(0))
	}
}

func (s *session) positionFor(p *engine.Partition, text string) (engine.Position, error) {
	ts, err := parseTime(text, s.now())
	if err != nil {
		return engine.Position{}, err
	}
	return p.OffsetFor(ts)
}

func lastFrom(p *engine.Partition, a *arguments) (int64, error) {
	n, err := a.count("last", all)
	if err != nil {
		return 0, err
	}
	offsets, err := p.Offsets()
	if err != nil {
		return 0, err
	}
	if n == all {
		return offsets.Start, nil
	}
	return max(offsets.Start, offsets.HighWatermark-n), nil
}

// offsetWord reads an offset, earliest or latest; earliest is also the default.
func offsetWord(p *engine.Partition, word string) (int64, error) {
	if word != "" && word != "earliest" && word != "latest" {
		return parseNumber("offset", word)
	}
	offsets, err := p.Offsets()
	if word == "latest" {
		return offsets.HighWatermark, err
	}
	return offsets.Start, err
}

func (s *session) readOptions(p *engine.Partition, a *arguments) (o engine.ReadOptions, err error) {
	count := int64(defaultCount)
	for _, name := range []string{"until", "to", "follow", "last"} {
		if a.has(name) {
			count = all
		}
	}
	if o.MaxMessages, err = a.count("n", count); err != nil {
		return o, err
	}
	if a.has("committed") {
		o.Isolation = engine.ReadCommitted
	}
	switch {
	case a.has("until") && (a.has("to") || a.has("follow")):
		return o, usagef("until excludes to and --follow")
	case a.has("until"):
		pos, err := s.positionFor(p, a.text("until", ""))
		o.Before = pos.Offset // the high watermark if no message is that late
		return o, err
	case a.has("to"):
		o.Before, err = a.number("to", 0)
	}
	return o, err
}
