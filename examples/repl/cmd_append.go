package main

import (
	"context"
	"slices"
	"strings"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

func init() {
	register(command{
		name: "append", group: writeGroup, args: "VALUE [, VALUE]...", groups: true,
		summary: "append one message, or several as one atomic set",
		details: `A lone comma divides messages; key and ts belong to the message they stand with.
null is the null key or value, "" the empty one, "null" the word. Without ts a
message takes the time of the append, with ts=none it has none. On a topic with
message.timestamp.type=LogAppendTime every message takes the time of the append.`,
		options: []option{
			{name: "key", value: "KEY", doc: "the message's key; null without one", grouped: true},
			{name: "ts", value: "TIME", doc: "the message's timestamp", grouped: true},
			{name: "tags", value: "KEY=VALUE,...", doc: "app tags, on a topic with message.format=enriched", grouped: true},
			{name: "tx", value: "ID", doc: "append in a transaction; see begin"},
			{name: "producer", value: "NAME", doc: "number the set: one that is there already is not appended again"},
			{name: "sequence", value: "N", doc: "the number of the producer's set"},
			{name: "compression", value: "CODEC", doc: "store the set compressed", values: compressionNames},
			topicOption,
		},
		examples: []string{
			`append "GET /index.html"`,
			"append key=42 ts=2026-01-01T12:00:00Z placed",
			"append key=42 null",
			`append key="" ""`,
			`append compression=lz4 key=a one , key=b two , key=c "three\x00"`,
		},
		run: runAppend,
	})
}

func runAppend(ctx context.Context, s *session, a *arguments) error {
	p, err := s.partition(a)
	if err != nil {
		return err
	}
	compression, err := a.compression()
	if err != nil {
		return err
	}
	msgs, err := s.messages(a)
	if err != nil {
		return err
	}
	o := engine.AppendOptions{Compression: compression, Producer: a.text("producer", "")}
	if o.Sequence, err = a.number("sequence", 0); err != nil {
		return err
	}
	receipt, err := s.appendSet(ctx, a, p, msgs, o)
	if err != nil {
		return err
	}
	s.remember(receipt.Offset)
	return s.show(a, receiptRecord(receipt))
}

// appendSet appends in the transaction that tx names, or outside of any.
func (s *session) appendSet(ctx context.Context, a *arguments, p *engine.Partition, msgs []codec.Message, o engine.AppendOptions) (engine.Receipt, error) {
	if !a.has("tx") {
		return p.AppendSet(ctx, msgs, o)
	}
	id, err := a.number("tx", 0)
	if err != nil {
		return engine.Receipt{}, err
	}
	tx, err := s.transaction(ctx, id, true)
	if err != nil {
		return engine.Receipt{}, err
	}
	return tx.AppendSet(ctx, p, msgs, o)
}

// messages parses the groups between lone commas.
func (s *session) messages(a *arguments) ([]codec.Message, error) {
	var msgs []codec.Message
	for rest := a.tokens; ; {
		end := slices.IndexFunc(rest, func(t token) bool { return t.bare(",") })
		group := rest
		if end >= 0 {
			group = rest[:end]
		}
		m, err := s.message(a.command, group)
		if err != nil {
			return nil, err
		}
		msgs = append(msgs, m)
		if end < 0 {
			return msgs, nil
		}
		rest = rest[end+1:]
	}
}

func (s *session) message(c *command, group []token) (codec.Message, error) {
	a, err := sortTokens(c, group, false)
	if err != nil {
		return codec.Message{}, err
	}
	switch len(a.words) {
	case 0:
		return codec.Message{}, usagef(`a message has no value: give one, null, or "" for the empty one`)
	case 1:
	default:
		return codec.Message{}, usagef("unexpected argument %s: quote a value with spaces, divide messages by a lone comma",
			display([]byte(a.words[1].text)))
	}
	m := codec.Message{Value: bytesOf(a.words[0])}
	if key, ok := a.options["key"]; ok {
		m.Key = bytesOf(key)
	}
	if a.has("ts") {
		m.TimestampType = codec.CreateTime // also for 0, which alone would mean unset
		if m.Timestamp, err = parseTime(a.text("ts", ""), s.now()); err != nil {
			return m, err
		}
	}
	if a.has("tags") {
		m.Tags, err = parseTags(a.text("tags", ""))
	}
	return m, err
}

// parseTags reads KEY=VALUE,KEY=VALUE.
func parseTags(text string) (codec.Tags, error) {
	var app []codec.AppTag
	for pair := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, usagef("tag %s: write KEY=VALUE", display([]byte(pair)))
		}
		app = append(app, codec.AppTag{Key: key, Value: value})
	}
	return codec.NewTags(codec.NoTimestamp, app...)
}

// bytesOf returns the key or value that a word stands for.
func bytesOf(t token) []byte {
	if t.text == "null" && !t.quoted {
		return nil
	}
	return []byte(t.text)
}

func receiptRecord(r engine.Receipt) record {
	return record{
		{name: "offset", value: r.Offset},
		{name: "messages", value: r.Count},
		{name: "timestamp", value: r.Timestamp},
		{name: "log append time", value: r.LogAppendTime},
	}
}
