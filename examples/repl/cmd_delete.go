package main

import (
	"context"
	"fmt"

	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/retention"
)

func init() {
	register(command{
		name: "delete-before", group: retentionGroup, args: "OFFSET|hw", minArgs: 1, maxArgs: 1, values: oneOf("hw"),
		summary: "remove the messages below an offset, as Kafka's DeleteRecords",
		details: `hw is the high watermark: all that can be read goes. The log start moves to the
offset, the log end stays. The topic's cleanup.policy must include delete.
` + changeDetails,
		options:  []option{dryRunOption, yesOption, topicOption},
		examples: []string{"delete-before 5000 --dry-run", "delete-before $OFFSET", "delete-before hw topic=orders/3 --yes"},
		run:      runDeleteBefore,
	})
	register(command{
		name: "drop", group: retentionGroup,
		summary: "delete all of the partition, offsets included",
		details: `The topic keeps the partition, whose next message gets offset 0.
` + changeDetails,
		options:  []option{dryRunOption, yesOption, topicOption},
		examples: []string{"drop --dry-run", "drop topic=orders/3 --yes"},
		run:      runDrop,
	})
	register(command{
		name: "drop-topic", group: retentionGroup, args: "TOPIC", minArgs: 1, maxArgs: 1, values: topicNames,
		summary: "delete a topic with its partitions and settings",
		details: `A new topic of the same name starts empty.
` + changeDetails,
		options:  []option{dryRunOption, yesOption},
		examples: []string{"drop-topic orders --dry-run", "drop-topic orders --yes"},
		run:      runDropTopic,
	})
}

func runDeleteBefore(ctx context.Context, s *session, a *arguments) error {
	p, offset, err := s.deletePoint(ctx, a)
	if err != nil {
		return err
	}
	o, segments, err := contents(p)
	if err != nil {
		return err
	}
	c, err := s.newChange(ctx, p, withoutHead(o, segments, offset))
	if err != nil {
		return err
	}
	return s.carryOut(a, c, func() (holdings, error) {
		if _, err := p.DeleteBefore(ctx, offset); err != nil {
			return holdings{}, err
		}
		return s.holdings(ctx, p)
	})
}

// deletePoint returns the partition and the offset below which to delete, when
// the engine would accept them.
func (s *session) deletePoint(ctx context.Context, a *arguments) (p *engine.Partition, offset int64, err error) {
	if p, err = s.partition(a); err != nil {
		return nil, 0, err
	}
	offset = engine.HighWatermark
	if a.word(0) != "hw" {
		if offset, err = parseNumber("OFFSET", a.word(0)); err != nil {
			return nil, 0, err
		}
	}
	// Nothing is below 0, but a topic that allows no deletion refuses this too.
	if _, err := p.DeleteBefore(ctx, 0); err != nil {
		return nil, 0, err
	}
	o, err := p.Offsets()
	switch {
	case err != nil:
		return nil, 0, err
	case offset == engine.HighWatermark:
		return p, o.HighWatermark, nil
	case offset < 0 || offset > o.HighWatermark:
		return nil, 0, outOfRange(p, offset, o.Start, o.HighWatermark)
	}
	return p, offset, nil
}

// withoutHead is what DeleteBefore leaves: segments go that are wholly below.
func withoutHead(o engine.Offsets, segments []retention.Segment, offset int64) holdings {
	for len(segments) > 1 && segments[1].Base <= offset {
		segments = segments[1:]
	}
	o.Start = max(o.Start, offset)
	return holdingsOf(o, segments)
}

func runDrop(ctx context.Context, s *session, a *arguments) error {
	p, err := s.partition(a)
	if err != nil {
		return err
	}
	return s.emptyAt(ctx, a, p, 0, func() error { return p.Drop(ctx) })
}

func runDropTopic(ctx context.Context, s *session, a *arguments) error {
	name := a.word(0)
	list, err := s.partitions(name)
	if err != nil {
		return err
	}
	c := &change{what: name, sum: true}
	if c.before, err = s.holdings(ctx, list...); err != nil {
		return err
	}
	c.question = fmt.Sprintf("Delete topic %s with its settings and %s messages for good?", name, grouped(c.before.messages))
	return s.carryOut(a, c, func() (holdings, error) {
		err := s.db.DeleteTopic(ctx, name)
		if err == nil && s.current != nil && s.current.Topic() == name {
			s.current = nil
		}
		return holdings{}, err
	})
}
