package enginetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairnlog/cairn/engine"
)

// Look reads, fetches and searches at one place.
type Look struct {
	Log   int
	From  int // counted round and round
	Read  engine.ReadOptions
	Fetch engine.FetchOptions
	Time  Instant
}

// Run implements Op.
func (o Look) Run(ctx context.Context, s *Store) error {
	p, err := s.at(o.Log)
	if err != nil {
		return err
	}
	from := p.Start + int64(o.From)%(p.End()-p.Start+1)
	if err := CheckRead(ctx, p.Partition, p.Log, from, o.Read); err != nil {
		return err
	}
	if _, err := CheckFetch(ctx, p.Partition, p.Log, from, o.Fetch); err != nil {
		return err
	}
	if err := checkFollow(ctx, p.Partition, p.Log, from); err != nil {
		return err
	}
	ts := max(0, Draft{Time: o.Time}.message(s).Timestamp)
	return CheckListOffset(ctx, p.Partition, p.Log, p.config, ts)
}

// checkFollow follows the log from an offset up to its end.
func checkFollow(ctx context.Context, p *engine.Partition, l *Log, from int64) error {
	want := l.Read(from, engine.ReadOptions{})
	if len(want) == 0 {
		return nil
	}
	for m, err := range p.Follow(ctx, from, engine.ReadOptions{MaxMessages: int64(len(want))}) {
		if err == nil && len(want) == 0 {
			err = errors.New("unexpected message")
		}
		if err == nil {
			err = sameMessage(m, want[0])
		}
		if err != nil {
			return fmt.Errorf("follow from %d: %w", from, err)
		}
		want = want[1:]
	}
	if len(want) > 0 {
		return fmt.Errorf("follow from %d: ended before message %d", from, want[0].Offset)
	}
	return nil
}
