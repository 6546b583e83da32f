package compaction

import (
	"bytes"
	"context"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// class is what kind of message compaction sees. Control messages are not among them:
// they are not in the map, and control.go has the rule of SPEC 9.15.
type class uint8

const (
	valued class = iota
	tombstone
	unkeyed
)

func classOf(m *codec.Message) class {
	switch {
	case m.Key == nil:
		return unkeyed
	case m.Value == nil:
		return tombstone
	default:
		return valued
	}
}

// accept decides about one message of the current entry, and counts (SPEC 9.5-9.8).
func (p *pass) accept(m *codec.Message) bool {
	p.stats.Messages++
	p.turn++
	if m.Offset >= p.mapped {
		return true
	}
	class := classOf(m)
	switch {
	case m.Offset < p.plan.log.Bounds.Start:
		p.stats.BelowStart++
	case p.control.isAborted(m):
		p.stats.Aborted++
	case class == unkeyed:
		p.stats.Invalid++
	case p.newestOf(m) > m.Offset:
		p.stats.Superseded++
	case class == tombstone && p.expired:
		p.stats.Expired++
	default:
		p.control.left(m)
		return true
	}
	return false
}

// newestOf returns the newest offset the map has of the message's key, -1 for none.
// The message is the one accept was last called for.
func (p *pass) newestOf(m *codec.Message) int64 {
	if p.newest.used == 0 {
		return -1
	}
	if p.turn <= len(p.ahead) {
		return p.newest.get(&p.ahead[p.turn-1].lookup)
	}
	l := p.newest.lookup(m.Key)
	return p.newest.get(&l)
}

// entry goes over the next stored entry.
func (p *pass) entry(ctx context.Context, key, value []byte) error {
	e, err := parse(ctx, key, value)
	if err != nil {
		return err
	}
	for e.Last >= p.upper(p.group.last) {
		if err := p.endSegment(ctx); err != nil {
			return err
		}
	}
	p.stats.Entries++
	p.stats.WireBytesBefore += int64(e.WireSize())
	p.stats.StoredBytesBefore += int64(len(value))
	p.advance(e.WireSize())

	left, value, err := p.filter(ctx, e, key, value)
	if err != nil {
		return err
	}
	if left.Kind == 0 {
		return p.flushFull(ctx)
	}
	if left.Horizon != codec.NoTimestamp {
		p.horizon = sooner(p.horizon, left.Horizon)
	}
	p.stats.WireBytesAfter += int64(left.WireSize())
	p.stats.StoredBytesAfter += int64(len(value))
	p.add(&left, len(value))
	return p.flushFull(ctx)
}

// filter decides about the messages of an entry and puts what follows into the
// step. It returns the entry that is left and its value: the zero Entry if it is
// dropped.
func (p *pass) filter(ctx context.Context, e codec.Entry, key, value []byte) (codec.Entry, []byte, error) {
	p.expired = e.Horizon != codec.NoTimestamp && e.Horizon <= p.now
	if e.Control != 0 {
		return p.filterMarker(ctx, e, key, value)
	}
	skip := p.skim && !p.expired && p.stats.Entries > 1 // the first may reach below the log start
	if skip || e.First >= p.mapped {
		p.stats.Messages += int64(e.Count)
		p.step.kept()
		return e, value, nil
	}
	p.control.enter(&e)
	p.ahead, p.turn = p.ahead[:0], 0
	if e.Kind == codec.KindPlain && p.newest.used > 0 { // a wrapper would be inflated twice
		if err := p.cursor.Reset(&e); err == nil {
			p.lookAhead()
		}
	}
	f, err := e.Filter(&p.cursor, p.keep)
	if err != nil {
		return e, nil, &EntryError{e.Last, err}
	}
	// An entry that reaches beyond the map is stamped when all of it is clean.
	stamp := f.Tombstones > 0 && e.Horizon == codec.NoTimestamp && e.Last < p.mapped
	if f.Dropped == 0 && !stamp {
		p.step.kept()
		return e, value, nil
	}
	if err := p.change(ctx); err != nil {
		return e, nil, err
	}
	if f.Kept == 0 {
		p.stats.Emptied++
		p.step.delete(e.Last)
		return codec.Entry{}, nil, nil
	}
	return p.replace(&e, &f, key, value, stamp)
}

// replace puts the rewritten or stamped entry into the step.
func (p *pass) replace(e *codec.Entry, f *codec.Filtered, key, value []byte, stamp bool) (codec.Entry, []byte, error) {
	offset := e.Last
	if f.Dropped > 0 {
		offset = f.Last
		key = bytes.Clone(key)
		keys.PutLogOffset(key, offset)
		codec.Seal(key, f.Value, f.Stamp)
		value = f.Value
	}
	if stamp {
		value = codec.AppendHorizon(nil, key, value, p.policy.horizon(p.now))
	}
	left, err := codec.ParseEntry(key, value)
	if err != nil {
		return left, nil, &EntryError{e.Last, err}
	}
	switch {
	case f.Dropped == 0:
		p.stats.Stamped++
	case left.WireSize() > e.WireSize():
		p.stats.Grown++
		fallthrough
	default:
		p.stats.Rewritten++
	}
	p.step.set(e.Last, Entry{offset, value})
	return left, value, nil
}

// add accounts for an entry that is left in the statistics of the new segment.
// The index rows it makes due are the stored ones until something changes.
func (p *pass) add(e *codec.Entry, stored int) {
	g := &p.group
	row, due := g.segment.Add(retention.AppendedOf(e, stored), p.policy.IndexInterval)
	if !due {
		return
	}
	if g.changed {
		p.step.row(row)
	} else {
		g.rows.add(p.newest.seed, row)
		g.cleared = place{row.Timestamp, row.Offset}
	}
}

// flushFull commits the step if it is large enough.
func (p *pass) flushFull(ctx context.Context) error {
	if p.step.bytes < p.o.StepBytes {
		return nil
	}
	return p.flush(ctx)
}
