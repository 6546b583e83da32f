package main

import (
	"context"
	"slices"

	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/retention"
)

func init() {
	register(command{
		name: "truncate", group: retentionGroup, args: "OFFSET", minArgs: 1, maxArgs: 1,
		summary: "remove the messages at and above an offset",
		details: `The next message gets the offset. At the log end or above it nothing happens; at
the log start or below it the log is emptied and goes on at the offset.
` + changeDetails,
		options:  []option{dryRunOption, yesOption, topicOption},
		examples: []string{"truncate 9000 --dry-run", "truncate $OFFSET topic=orders/3"},
		run:      runTruncate,
	})
	register(command{
		name: "reset", group: retentionGroup, args: "OFFSET", minArgs: 1, maxArgs: 1,
		summary: "empty the partition and go on at an offset",
		details: `The next message gets the offset, whichever side of the old ones it is.
` + changeDetails,
		options:  []option{dryRunOption, yesOption, topicOption},
		examples: []string{"reset 1000000 --dry-run", "reset 0 --yes"},
		run:      runReset,
	})
}

func runTruncate(ctx context.Context, s *session, a *arguments) error {
	p, offset, err := s.cutPoint(a)
	if err != nil {
		return err
	}
	o, segments, err := contents(p)
	if err != nil {
		return err
	}
	if offset <= o.Start || offset < segments[0].Base {
		return s.emptyAt(ctx, a, p, offset, func() error { return p.TruncateTo(ctx, offset) })
	}
	left, estimated := withoutTail(o, segments, offset)
	c, err := s.newChange(ctx, p, left)
	if err != nil {
		return err
	}
	c.estimated = estimated
	return s.carryOut(a, c, func() (holdings, error) {
		if err := p.TruncateTo(ctx, offset); err != nil {
			return holdings{}, err
		}
		return s.holdings(ctx, p)
	})
}

// withoutTail is what TruncateTo leaves above the log start. The bytes of a
// segment that is cut inside are taken for evenly spread.
func withoutTail(o engine.Offsets, segments []retention.Segment, offset int64) (left holdings, estimated bool) {
	if offset >= o.End {
		return holdingsOf(o, segments), false
	}
	n := len(segments)
	for n > 1 && segments[n-1].Base > offset {
		n--
	}
	segments = slices.Clone(segments[:n])
	last := &segments[n-1]
	share := float64(offset-last.Base) / float64(last.End-last.Base)
	for _, sum := range []*int64{&last.Messages, &last.Bytes, &last.StoredBytes} {
		*sum = int64(float64(*sum) * share)
	}
	last.End, o.End = offset, offset
	return holdingsOf(o, segments), offset > last.Base
}

func runReset(ctx context.Context, s *session, a *arguments) error {
	p, offset, err := s.cutPoint(a)
	if err != nil {
		return err
	}
	return s.emptyAt(ctx, a, p, offset, func() error { return p.ResetTo(ctx, offset) })
}

// cutPoint returns the partition and the offset of a command.
func (s *session) cutPoint(a *arguments) (p *engine.Partition, offset int64, err error) {
	if p, err = s.partition(a); err != nil {
		return nil, 0, err
	}
	if offset, err = parseNumber("OFFSET", a.word(0)); err != nil || offset >= 0 {
		return p, offset, err
	}
	o, err := p.Offsets()
	if err != nil {
		return nil, 0, err
	}
	return nil, 0, outOfRange(p, offset, o.Start, o.End)
}

// outOfRange is the engine's error, for what must be refused before anything is
// shown or asked.
func outOfRange(p *engine.Partition, offset, start, end int64) error {
	return &engine.OffsetRangeError{Topic: p.Topic(), Partition: p.Number(), Offset: offset, Start: start, End: end}
}

// emptyAt removes all that a partition holds; empty does it.
func (s *session) emptyAt(ctx context.Context, a *arguments, p *engine.Partition, offset int64, empty func() error) error {
	left := holdingsOf(engine.Offsets{Start: offset, End: offset}, []retention.Segment{retention.NewSegment(offset)})
	c, err := s.newChange(ctx, p, left)
	if err != nil {
		return err
	}
	if c.before.messages > 0 {
		c.renewed = 1
	}
	return s.carryOut(a, c, func() (holdings, error) {
		if err := empty(); err != nil {
			return holdings{}, err
		}
		return s.holdings(ctx, p)
	})
}
