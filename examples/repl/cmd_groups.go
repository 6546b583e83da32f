package main

import (
	"context"
	"time"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

func init() {
	register(command{
		name: "groups", group: groupGroup, args: "[GROUP]", maxArgs: 1,
		summary:  "list the consumer groups, or what one has read and its lag",
		examples: []string{"groups", "groups billers"},
		run:      runGroups,
	})
	register(command{
		name: "commit", group: groupGroup, args: "GROUP OFFSET", minArgs: 2, maxArgs: 2,
		summary:  "note that a group goes on reading the partition at an offset",
		options:  []option{{name: "metadata", value: "TEXT", doc: "kept beside the offset"}, topicOption},
		examples: []string{"commit billers 120", "commit billers latest metadata=host1"},
		run:      runCommit,
	})
	register(command{
		name: "reset-group", group: groupGroup, args: "GROUP TO", minArgs: 2, maxArgs: 2,
		summary:  "have a group read all it has offsets for from earliest, latest or a time on",
		examples: []string{"reset-group billers earliest", "reset-group billers 2026-01-01T12:00:00Z"},
		run:      runResetGroup,
	})
	register(command{
		name: "delete-group", group: groupGroup, args: "GROUP", minArgs: 1, maxArgs: 1, noData: true,
		summary:  "forget a group",
		examples: []string{"delete-group billers"},
		run: func(ctx context.Context, s *session, a *arguments) error {
			db, err := s.store()
			if err != nil {
				return err
			}
			return db.Group(a.word(0)).Delete(ctx)
		},
	})
	register(command{
		name: "expire-groups", group: groupGroup, args: "AGE", minArgs: 1, maxArgs: 1,
		summary:  "forget the groups that have committed nothing for so long",
		examples: []string{"expire-groups 168h"},
		run:      runExpireGroups,
	})
}

func runGroups(ctx context.Context, s *session, a *arguments) error {
	db, err := s.store()
	if err != nil {
		return err
	}
	if len(a.words) == 1 {
		list, err := db.Group(a.word(0)).Offsets(ctx)
		if err != nil {
			return err
		}
		return s.showCommitted(a, list)
	}
	names, err := db.Groups(ctx)
	if err != nil {
		return err
	}
	out := s.records(a)
	defer out.close()
	for _, name := range names {
		list, err := db.Group(name).Offsets(ctx)
		if err != nil {
			return err
		}
		lag := int64(0)
		for _, c := range list {
			lag += c.Lag()
		}
		if err := out.print(record{{name: "group", value: name}, {name: "partitions", value: len(list)}, {name: "lag", value: lag}}); err != nil {
			return err
		}
	}
	if len(names) == 0 {
		s.say(a, "no groups")
	}
	return nil
}

func (s *session) showCommitted(a *arguments, list []engine.Committed) error {
	out := s.records(a)
	defer out.close()
	for _, c := range list {
		err := out.print(record{
			{name: "partition", value: c.Partition.String()},
			{name: "offset", value: c.Offset},
			{name: "lag", value: c.Lag()},
			{name: "committed", value: c.Time},
			{name: "metadata", value: []byte(c.Metadata)},
		})
		if err != nil {
			return err
		}
	}
	if len(list) == 0 {
		s.say(a, "the group has committed nothing")
	}
	return nil
}

func runCommit(ctx context.Context, s *session, a *arguments) error {
	p, err := s.partition(a)
	if err != nil {
		return err
	}
	offset, err := offsetWord(p, a.word(1))
	if err != nil {
		return err
	}
	g := s.db.Group(a.word(0))
	if err := g.Commit(ctx, p, offset, a.text("metadata", "")); err != nil {
		return err
	}
	c, err := g.Committed(ctx, p)
	if err != nil {
		return err
	}
	return s.showCommitted(a, []engine.Committed{c})
}

func runResetGroup(ctx context.Context, s *session, a *arguments) error {
	db, err := s.store()
	if err != nil {
		return err
	}
	var to codec.Timestamp
	switch a.word(1) {
	case "earliest":
		to = engine.Earliest
	case "latest":
		to = engine.Latest
	default:
		if to, err = parseTime(a.word(1), s.now()); err != nil {
			return err
		}
	}
	list, err := db.Group(a.word(0)).Reset(ctx, to)
	if err != nil {
		return err
	}
	return s.showCommitted(a, list)
}

func runExpireGroups(ctx context.Context, s *session, a *arguments) error {
	db, err := s.store()
	if err != nil {
		return err
	}
	age, err := time.ParseDuration(a.word(0))
	if err != nil {
		return usagef("age %q is no duration as 168h", a.word(0))
	}
	names, err := db.ExpireGroups(ctx, age)
	if err != nil {
		return err
	}
	return s.show(a, record{{name: "forgotten", value: len(names)}})
}
