package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

func init() {
	register(command{
		name: "headers", group: readGroup, args: "[OFFSET]", maxArgs: 1,
		summary: "print what frames say of themselves, without opening them",
		details: "Offsets, types, times, tags and sizes; no key, value or payload is looked at.",
		options: []option{
			{name: "n", value: "COUNT", doc: "how many frames at most; all for no limit"},
			topicOption,
		},
		examples: []string{"headers", "headers 1000 n=all"},
		run:      runHeaders,
	})
	register(command{
		name: "controls", group: readGroup, args: "[OFFSET]", maxArgs: 1,
		summary:  "print the control messages, which read passes over",
		options:  []option{topicOption},
		examples: []string{"controls"},
		run:      runControls,
	})
	register(command{
		name: "begin-epoch", group: writeGroup, args: "EPOCH", minArgs: 1, maxArgs: 1,
		summary:  "append the control message of a new leader epoch",
		options:  []option{topicOption},
		examples: []string{"begin-epoch 3"},
		run: func(ctx context.Context, s *session, a *arguments) error {
			p, err := s.partition(a)
			if err != nil {
				return err
			}
			epoch, err := parseNumber("epoch", a.word(0))
			if err != nil {
				return err
			}
			if int64(int32(epoch)) != epoch {
				return usagef("epoch %d is too large", epoch)
			}
			start, err := p.BeginEpoch(ctx, int32(epoch))
			if err != nil {
				return err
			}
			return s.show(a, record{{name: "epoch", value: epoch}, {name: "start", value: start}})
		},
	})
}

func runHeaders(ctx context.Context, s *session, a *arguments) error {
	p, err := s.partition(a)
	if err != nil {
		return err
	}
	from, err := offsetWord(p, a.word(0))
	if err != nil {
		return err
	}
	var o engine.ReadOptions
	if o.MaxMessages, err = a.count("n", defaultCount); err != nil {
		return err
	}
	out := s.records(a)
	defer out.close()
	for h, err := range p.ReadHeaders(ctx, from, o) {
		if err == nil {
			err = out.print(headerRecord(h))
		}
		if err != nil {
			return err
		}
	}
	if out.total == 0 {
		s.say(a, "no frames from offset %d", from)
	}
	return nil
}

func headerRecord(h engine.Header) record {
	kind := "message"
	switch {
	case h.Control != 0:
		kind = h.Control.String()
	case h.Compression != codec.None:
		kind = h.Compression.String()
	}
	offsets := fmt.Sprint(h.Last)
	if h.First >= 0 && h.First != h.Last {
		offsets = fmt.Sprintf("%d-%d", h.First, h.Last)
	}
	return record{
		{name: "offsets", value: offsets},
		{name: "messages", value: h.Messages},
		{name: "kind", value: kind},
		{name: "timestamp", value: h.Timestamp},
		{name: "bytes", value: h.WireBytes},
		{name: "tags", value: tagsText(h.Tags)},
	}
}

// tagsText writes tags as key=value words.
func tagsText(t codec.Tags) string {
	var words []string
	if sent := t.SentTime(); sent != codec.NoTimestamp {
		words = append(words, fmt.Sprintf("sent=%d", int64(sent)))
	}
	if id, ok := t.Transaction(); ok {
		words = append(words, fmt.Sprintf("tx=%d", id))
	}
	for tag := range t.App() {
		value := strings.Clone(tag.Value)
		if tag.Null {
			value = "null"
		}
		words = append(words, display([]byte(tag.Key))+"="+display([]byte(value)))
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, " ")
}

func runControls(ctx context.Context, s *session, a *arguments) error {
	p, err := s.partition(a)
	if err != nil {
		return err
	}
	from, err := offsetWord(p, a.word(0))
	if err != nil {
		return err
	}
	out := s.records(a)
	defer out.close()
	for c, err := range p.ReadControl(ctx, from, engine.ReadOptions{}) {
		if err == nil {
			err = out.print(record{
				{name: "offset", value: c.Offset},
				{name: "type", value: c.Type.String()},
				{name: "id", value: c.ID},
				{name: "timestamp", value: c.Timestamp},
			})
		}
		if err != nil {
			return err
		}
	}
	if out.total == 0 {
		s.say(a, "no control messages from offset %d", from)
	}
	return nil
}
