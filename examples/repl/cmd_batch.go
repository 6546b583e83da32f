package main

import (
	"context"
	"slices"

	"github.com/cairnlog/cairn/engine"
)

func init() {
	register(command{
		name: "batch", group: writeGroup, args: "VALUE [, VALUE]...", groups: true,
		summary: "append to several partitions and commit an offset, all or nothing",
		details: `A lone comma divides messages; key, ts and topic belong to the message they stand
with. expect and the offset of a group are of the topic in use: with expect nothing
happens unless that is the partition's next offset.`,
		options: []option{
			{name: "topic", value: "TOPIC[/N]", doc: "where the message goes; the topic in use without one", grouped: true},
			{name: "key", value: "KEY", doc: "the message's key; null without one", grouped: true},
			{name: "ts", value: "TIME", doc: "the message's timestamp", grouped: true},
			{name: "tags", value: "KEY=VALUE,...", doc: "app tags, on a topic with message.format=enriched", grouped: true},
			{name: "expect", value: "OFFSET", doc: "the next offset of the topic in use must be this"},
			{name: "group", value: "GROUP", doc: "commit offset= for a consumer group"},
			{name: "offset", value: "OFFSET", doc: "where the group goes on reading the topic in use"},
		},
		examples: []string{
			"batch topic=payments key=42 paid , topic=mail key=42 receipt",
			"batch topic=invoices key=42 invoice group=billers offset=7",
		},
		run: runBatch,
	})
}

func runBatch(ctx context.Context, s *session, a *arguments) error {
	db, err := s.store()
	if err != nil {
		return err
	}
	b := db.NewBatch()
	if err := s.fillBatch(b, a); err != nil {
		return err
	}
	if err := s.conditions(b, a); err != nil {
		return err
	}
	receipts, err := b.Commit(ctx)
	if err != nil {
		return err
	}
	out := s.records(a)
	defer out.close()
	for _, r := range receipts {
		if err := out.print(receiptRecord(r)); err != nil {
			return err
		}
	}
	return nil
}

// fillBatch adds the messages between lone commas.
func (s *session) fillBatch(b *engine.Batch, a *arguments) error {
	for rest := a.tokens; ; {
		end := slices.IndexFunc(rest, func(t token) bool { return t.bare(",") })
		group := rest
		if end >= 0 {
			group = rest[:end]
		}
		of, err := sortTokens(a.command, group, false)
		if err != nil {
			return err
		}
		p, err := s.partition(of)
		if err != nil {
			return err
		}
		m, err := s.message(a.command, group)
		if err != nil {
			return err
		}
		b.Append(p, m)
		if end < 0 {
			return nil
		}
		rest = rest[end+1:]
	}
}

// conditions adds what is of the topic in use.
func (s *session) conditions(b *engine.Batch, a *arguments) error {
	if a.has("group") != a.has("offset") {
		return usagef("group and offset go together")
	}
	if !a.has("expect") && !a.has("group") {
		return nil
	}
	if s.current == nil {
		return usagef("expect and group are of the topic in use: say use TOPIC first")
	}
	if a.has("expect") {
		next, err := a.number("expect", 0)
		if err != nil {
			return err
		}
		b.Expect(s.current, next)
	}
	if a.has("group") {
		offset, err := a.number("offset", 0)
		if err != nil {
			return err
		}
		b.CommitOffset(a.text("group", ""), s.current, offset, "")
	}
	return nil
}
