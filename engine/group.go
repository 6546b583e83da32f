package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

// Group is a handle on a consumer group: a name under which consumers keep how far
// they have read, an offset for each partition. It comes into being with its first
// commit. The handle costs nothing and is safe for concurrent use; the store does
// not watch who reads, so one consumer of a partition at a time is the caller's
// care.
type Group struct {
	db   *DB
	name string
}

// NoOffset is Committed.Offset where a group has committed nothing.
const NoOffset = -1

// Committed is what a group has committed for a partition, and how that lies in
// the log now.
type Committed struct {
	Partition *Partition
	// Offset is the next one to read; NoOffset if nothing is committed.
	Offset   int64
	Metadata string
	// Time is the store's clock at the commit, codec.NoTimestamp without one.
	Time codec.Timestamp
	// Start and HighWatermark are the borders of what can be read.
	Start, HighWatermark int64
}

// Next returns where to go on reading: Offset, or the log start where nothing is
// committed or retention has removed what comes next. It may be beyond the log,
// after a truncation: a Read from there is an *OffsetRangeError.
func (c Committed) Next() int64 { return max(c.Offset, c.Start) }

// Lag returns how many offsets there are still to read, 0 at the end and beyond.
func (c Committed) Lag() int64 { return max(c.HighWatermark-c.Next(), 0) }

// Group returns the handle on a group. The name is 1 to 255 bytes of UTF-8
// without control characters; every use of another one is an error (Kafka code
// 24).
func (db *DB) Group(name string) *Group { return &Group{db, name} }

// Name returns the group's name.
func (g *Group) Name() string {
	if g == nil {
		return ""
	}
	return g.name
}

// Commit makes offset where the group goes on reading p: the offset after the last
// message dealt with. Metadata is the caller's, up to 4096 bytes. It replaces what
// was committed before, a larger offset too, and is as durable as an append. Any
// offset from 0 on is taken, also one outside the log: see Committed.Next. To
// commit several together, or with appends, use Batch.CommitOffset.
func (g *Group) Commit(ctx context.Context, p *Partition, offset int64, metadata string) error {
	if g == nil {
		return ErrClosed
	}
	b := g.db.NewBatch()
	b.CommitOffset(g.name, p, offset, metadata)
	_, err := b.commit(ctx)
	return g.wrap("commit", err)
}

// Committed returns what the group has committed for p. It sees every commit
// acknowledged before the call; one that another goroutine is making meanwhile it
// may see before that is on stable storage.
func (g *Group) Committed(ctx context.Context, p *Partition) (Committed, error) {
	c, err := g.committed(ctx, p)
	return c, g.wrap("committed", err)
}

func (g *Group) committed(ctx context.Context, p *Partition) (Committed, error) {
	c := Committed{Partition: p, Offset: NoOffset, Time: codec.NoTimestamp}
	if err := g.checkPartition(ctx, p); err != nil {
		return c, err
	}
	if err := p.settled(ctx); err != nil && !g.db.hasFailed() {
		return c, err
	}
	value, err := g.db.get(keys.AppendOffset(nil, g.name, p.id()))
	if err != nil {
		return c, err
	}
	if value != nil {
		if err := c.decode(g.name, value); err != nil {
			return c, err
		}
	}
	c.locate()
	return c, nil
}

func (c *Committed) decode(group string, value []byte) error {
	row, err := decodeOffset(group, value)
	c.Offset, c.Metadata, c.Time = row.Offset, row.Metadata, row.Time
	return err
}

// locate fills in the borders of the log. The partition is loaded.
func (c *Committed) locate() {
	c.Start, c.HighWatermark = c.Partition.logStart.Load(), c.Partition.readable.Load()
}

// Offsets returns everything the group has committed, in order of topic names and
// partitions; nothing for a group that does not exist. Offsets of a deleted topic
// are gone.
func (g *Group) Offsets(ctx context.Context) ([]Committed, error) {
	list, err := g.offsets(ctx)
	return list, g.wrap("offsets", err)
}

func (g *Group) offsets(ctx context.Context) ([]Committed, error) {
	if err := g.check(ctx); err != nil {
		return nil, err
	}
	if err := g.db.settleOffsets(ctx); err != nil {
		return nil, err
	}
	var list []Committed
	err := g.db.eachOffset(ctx, keys.OffsetGroupRange(g.name), func(row groupRow) (bool, error) {
		if row.topic == nil {
			return false, nil
		}
		c := Committed{Partition: row.topic.Partition(row.id.Number)}
		list = append(list, c)
		return false, list[len(list)-1].decode(g.name, row.value)
	})
	if err != nil {
		return nil, err
	}
	return g.located(list)
}

// located loads the partitions and sorts. A topic may be deleted meanwhile.
func (g *Group) located(list []Committed) ([]Committed, error) {
	kept := list[:0]
	for _, c := range list {
		if err := c.Partition.ready(); err != nil {
			if c.Partition.topic.dropped.Load() {
				continue
			}
			return nil, fmt.Errorf("%s: %w", c.Partition, err)
		}
		c.locate()
		kept = append(kept, c)
	}
	slices.SortFunc(kept, func(a, b Committed) int {
		return cmp.Or(cmp.Compare(a.Partition.Topic(), b.Partition.Topic()), cmp.Compare(a.Partition.Number(), b.Partition.Number()))
	})
	return kept, nil
}

// Reset commits where each of the partitions is to be read from: Earliest, Latest,
// or a time, which is the first message at or after it and the end if there is
// none. Without partitions it resets all the group has offsets for. It is atomic
// and returns what it committed, with no metadata. To go to an offset, Commit it.
func (g *Group) Reset(ctx context.Context, to codec.Timestamp, partitions ...*Partition) ([]Committed, error) {
	list, err := g.reset(ctx, to, partitions)
	return list, g.wrap("reset", err)
}

func (g *Group) reset(ctx context.Context, to codec.Timestamp, partitions []*Partition) ([]Committed, error) {
	if err := g.check(ctx); err != nil {
		return nil, err
	}
	if len(partitions) == 0 {
		had, err := g.offsets(ctx)
		if err != nil {
			return nil, err
		}
		for _, c := range had {
			partitions = append(partitions, c.Partition)
		}
	}
	b := g.db.NewBatch()
	for _, p := range partitions {
		if err := g.checkPartition(ctx, p); err != nil {
			return nil, err
		}
		pos, err := p.listOffset(ctx, to, ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		if !pos.Found {
			pos.Offset = p.readable.Load()
		}
		b.CommitOffset(g.name, p, pos.Offset, "")
	}
	if _, err := b.commit(ctx); err != nil {
		return nil, err
	}
	list := make([]Committed, len(partitions))
	for i, p := range partitions {
		c, err := g.committed(ctx, p)
		if err != nil {
			return nil, err
		}
		list[i] = c
	}
	return list, nil
}

// check refuses a use of the group that cannot be.
func (g *Group) check(ctx context.Context) error {
	if g == nil || g.db.isClosed() {
		return ErrClosed
	}
	if err := validateGroup(g.name); err != nil {
		return err
	}
	return ctx.Err()
}

// checkPartition is check for a use with a partition, which it loads.
func (g *Group) checkPartition(ctx context.Context, p *Partition) error {
	if err := g.check(ctx); err != nil {
		return err
	}
	if err := p.ready(); err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	if p.topic.db != g.db {
		return fmt.Errorf("%s: %w", p, errForeign)
	}
	return nil
}

// wrap names the operation and the group in an error.
func (g *Group) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("engine: %s of group %.300q: %w", op, g.Name(), err)
}
