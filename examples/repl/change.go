package main

import (
	"context"
	"fmt"

	"github.com/cairnlog/cairn/engine"
)

// change is what a command removes: what was there and what is left.
type change struct {
	what string // a partition or a topic
	sum  bool   // of several partitions
	// before and after; until the change is made, after is what is expected.
	before, after holdings
	// renewed counts empty segments of after that stand for removed ones.
	renewed int64
	// estimated: bytes of after are not known without reading the log.
	estimated bool
	// freed estimates the bytes that come back on disk, nil if nobody does.
	freed any
	// question asks for leave; "" if no message is lost.
	question string
	// more is what else is to say: a line for people, fields for JSON.
	more   string
	fields record
}

// changeDetails is help that the commands with a change share.
const changeDetails = `The table counts the messages that can be read, and the bytes of whole segments as
retention does. Disk bytes are those of all files of the store at that moment:
space comes back in the background, from about a second later on.`

var (
	dryRunOption = option{name: "dry-run", doc: "show what would be removed and change nothing"}
	// yesOption is for commands that ask.
	yesOption = option{name: "yes", doc: "do not ask; scripts are never asked"}
)

// newChange returns the change that leaves a partition as after.
func (s *session) newChange(ctx context.Context, p *engine.Partition, after holdings) (*change, error) {
	c := &change{what: p.String(), after: after}
	var err error
	if c.before, err = s.holdings(ctx, p); err != nil {
		return nil, err
	}
	if lost := c.removed().messages; lost > 0 {
		c.question = fmt.Sprintf("Remove %s messages of %s for good?", grouped(lost), c.what)
	}
	return c, nil
}

// removed is the difference, with the offsets that go.
func (c *change) removed() holdings {
	before, after := &c.before, &c.after
	r := holdings{
		partitions: before.partitions - after.partitions,
		start:      before.start,
		end:        before.end,
		segments:   before.segments - after.segments + c.renewed,
		messages:   before.messages - after.messages,
		wire:       before.wire - after.wire,
		stored:     before.stored - after.stored,
		disk:       c.freed,
	}
	switch {
	case after.end == before.end: // at the head, or nothing
		r.end = after.start
	case after.start == before.start: // at the tail
		r.start = after.end
	}
	return r
}

// carryOut shows a change or, given leave, makes it. do returns what is left.
func (s *session) carryOut(a *arguments, c *change, do func() (holdings, error)) error {
	if err := c.before.measure(s); err != nil {
		return err
	}
	if a.has("dry-run") {
		return s.showChange(a, c)
	}
	if leave, err := s.leave(a, c); err != nil {
		return err
	} else if !leave {
		s.say(a, "nothing is changed")
		return nil
	}
	var err error
	if c.after, err = do(); err != nil {
		return err
	}
	c.estimated = false
	if err := c.after.measure(s); err != nil {
		return err
	}
	return s.showChange(a, c)
}

// leave asks whether to make a change, if it must: only a person who typed the
// command is asked, and shown what would go.
func (s *session) leave(a *arguments, c *change) (bool, error) {
	if s.lines == nil || s.depth > 0 || a.has("yes") || c.question == "" {
		return true, nil
	}
	if !a.has("json") {
		if err := s.showChange(a, c); err != nil {
			return false, err
		}
	}
	return s.confirm(c.question)
}

// showChange prints a change: lines for before, removed and after, or one JSON
// document.
func (s *session) showChange(a *arguments, c *change) error {
	removed := c.removed()
	if a.has("json") {
		return s.show(a, append(record{
			{name: "of", value: c.what},
			{name: "dry run", value: a.has("dry-run")},
			{name: "estimated", value: c.estimated},
			{name: "before", value: c.before.record(c.sum)},
			{name: "removed", value: removed.record(c.sum)},
			{name: "after", value: c.after.record(c.sum)},
		}, c.fields...))
	}
	out := s.records(a)
	for _, line := range []struct {
		name string
		holdings
	}{{"before", c.before}, {"removed", removed}, {"after", c.after}} {
		if err := out.print(append(record{{name: "", value: line.name}}, line.record(c.sum)...)); err != nil {
			return err
		}
	}
	out.close()
	if c.more != "" {
		s.say(a, "%s", c.more)
	}
	if c.estimated {
		s.say(a, "bytes are estimated: the cut is inside a segment")
	}
	if a.has("dry-run") {
		s.say(a, "dry run: nothing is changed")
	}
	return nil
}
