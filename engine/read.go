package engine

import (
	"context"
	"errors"
	"iter"

	"github.com/cairnlog/cairn/codec"
)

// ReadOptions bound a read. The zero value reads to the end.
type ReadOptions struct {
	// MaxMessages ends the read after that many messages; zero means no limit.
	MaxMessages int64
	// Before ends the read at that offset, exclusive; zero means the end.
	Before int64
	// Isolation says which messages of transactions are yielded.
	Isolation Isolation
}

// Isolation is what a reader sees of transactions (SPEC 10.7.10).
type Isolation uint8

// The isolation levels.
const (
	// ReadUncommitted yields every message at once.
	ReadUncommitted Isolation = iota
	// ReadCommitted yields no message of an aborted transaction, and nothing at or
	// after the start of one that is open: the log ends there for it.
	ReadCommitted
)

// Read yields the messages from offset from to the end of the log as it was
// when the loop began, in offset order; an offset that compaction removed
// behaves like the next one that exists (SPEC 1.5.32).
//
// Key and Value are valid until the next iteration, the last ones until the loop
// is left. An error is yielded at most
// once, last, with a zero Message: an *OffsetRangeError if from is outside the
// log, a *CorruptionError naming the damaged offset (reading on after it is
// possible), ErrClosed, or ctx.Err(). The iterator opens nothing until it is
// ranged over, may be ranged over again, and leaving the loop releases
// everything. Appends and other reads go on meanwhile.
func (p *Partition) Read(ctx context.Context, from int64, o ReadOptions) iter.Seq2[codec.Message, error] {
	return func(yield func(codec.Message, error) bool) {
		bounds, err := p.readBounds(ctx, from, o)
		if err == nil {
			p.topic.db.stats.reads.Add(1)
			r := newReading(p, o)
			var stopped bool
			if _, stopped, err = r.messages(ctx, from, bounds, yield); stopped {
				return
			}
		}
		if err != nil {
			yield(codec.Message{}, p.wrap("read", err))
		}
	}
}

// Follow yields what Read does and then goes on with each message as it becomes
// readable, for ever: until the loop is left, ctx ends (ctx.Err()), the store is
// closed (ErrClosed) or fails (ErrFailed, after everything acknowledged). It is
// woken by appends and does not poll. o.MaxMessages and o.Before end it too.
func (p *Partition) Follow(ctx context.Context, from int64, o ReadOptions) iter.Seq2[codec.Message, error] {
	return func(yield func(codec.Message, error) bool) {
		if err := p.follow(ctx, from, o, yield); err != nil {
			yield(codec.Message{}, p.wrap("follow", err))
		}
	}
}

func (p *Partition) follow(ctx context.Context, from int64, o ReadOptions, yield func(codec.Message, error) bool) error {
	bounds, err := p.readBounds(ctx, from, o)
	if err != nil {
		return err
	}
	p.topic.db.stats.reads.Add(1)
	r := newReading(p, o)
	for o.Before == 0 || from < o.Before {
		var stopped bool
		from, stopped, err = r.messages(ctx, from, bounds, yield)
		if stopped || r.limit > 0 && r.count == r.limit || err == nil && o.Before > 0 && from >= o.Before {
			return nil
		}
		if err != nil && (!errors.Is(err, ErrOffsetRange) || p.cuts.Load() == bounds.cuts) {
			return err
		}
		moved := func() bool { return p.endFor(o.Isolation) > from || p.cuts.Load() != bounds.cuts }
		if err := p.awaitUntil(ctx, moved); err != nil {
			return err
		}
		later := p.bounds(o)               // before the cuts are looked at: one after it counts next time
		if p.cutBelow(from, bounds.cuts) { // what was yielded is not the log's any more
			return p.outOfRange(from)
		}
		bounds = later
	}
	return nil
}

// readBounds are what a read was decided on: where it ends, and how often the log
// had been cut then.
type readBounds struct {
	end  int64
	cuts uint64
}

// readBounds checks where a read begins and returns where it ends.
func (p *Partition) readBounds(ctx context.Context, from int64, o ReadOptions) (readBounds, error) {
	if err := p.ready(); err != nil {
		return readBounds{}, err
	}
	if o.MaxMessages < 0 || o.Before < 0 || o.Isolation > ReadCommitted {
		return readBounds{}, codec.Errorf(codec.CodeInvalidRequest, "negative read bound or unknown isolation")
	}
	if err := p.settled(ctx); err != nil && !errors.Is(err, ErrFailed) {
		return readBounds{}, err
	}
	bounds := p.bounds(o)
	p.mu.Lock()
	leo := p.mu.end
	p.mu.Unlock()
	if from < p.logStart.Load() || from > leo {
		return readBounds{}, p.outOfRange(from)
	}
	return bounds, nil
}

// bounds counts the cuts before it looks at the end: a cut in between is noticed.
func (p *Partition) bounds(o ReadOptions) readBounds {
	b := readBounds{cuts: p.cuts.Load()}
	b.end = p.endFor(o.Isolation)
	if o.Before > 0 {
		b.end = min(b.end, o.Before)
	}
	return b
}

// endFor returns where the log ends for a reader.
func (p *Partition) endFor(i Isolation) int64 {
	if i == ReadCommitted {
		return p.stable()
	}
	return p.readable.Load()
}

func (p *Partition) outOfRange(offset int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outOfRangeLocked(offset)
}

func (p *Partition) outOfRangeLocked(offset int64) error {
	return &OffsetRangeError{Topic: p.Topic(), Partition: p.Number(), Offset: offset, Start: p.logStart.Load(), End: p.mu.end}
}

// reading is the state of one Read or Follow loop.
type reading struct {
	p     *Partition
	count int64
	limit int64 // 0: none
	// aborted hides messages; nil for a reader that sees all.
	aborted *aborted
}

func newReading(p *Partition, o ReadOptions) reading {
	r := reading{p: p, limit: o.MaxMessages}
	if o.Isolation == ReadCommitted {
		r.aborted = &aborted{p: p}
	}
	return r
}

// messages yields the messages from an offset to the end of the bounds and returns
// the offset to go on from. stopped: the loop was left, nothing may be yielded any
// more.
func (r *reading) messages(ctx context.Context, from int64, bounds readBounds, yield func(codec.Message, error) bool) (to int64, stopped bool, err error) {
	end := bounds.end
	scan := r.p.scanFrom(from, bounds.cuts)
	defer scan.close()
	before := r.count
	defer func() { r.p.topic.db.stats.readMessages.Add(uint64(r.count - before)) }()
	var m codec.Message
	for scan.from < end {
		if err := ctx.Err(); err != nil {
			return scan.from, false, err
		}
		ok, err := scan.next()
		if err != nil {
			return scan.from, false, err
		}
		if !ok {
			break
		}
		if scan.entry.Control != 0 { // no application sees it
			continue
		}
		if err := scan.open(); err != nil {
			return scan.from, false, err
		}
		for scan.cursor.Next(&m) {
			if m.Offset < from {
				continue
			}
			if m.Offset >= end {
				return end, false, nil
			}
			if hidden, err := r.aborted.hides(&scan.entry, &m); err != nil {
				return m.Offset, false, err
			} else if hidden {
				continue
			}
			r.count++
			if !yield(m, nil) {
				return m.Offset + 1, true, nil
			}
			if r.count == r.limit {
				return m.Offset + 1, false, nil
			}
		}
		if err := scan.damage(); err != nil {
			return scan.from, false, err
		}
	}
	return max(from, end), false, nil
}

// readError locates an error of Pebble's in the log.
func (p *Partition) readError(offset int64, err error) error {
	if bad, ok := errors.AsType[*CorruptionError](err); ok && bad.Topic == "" {
		return p.corrupt(offset, bad.Err)
	}
	return err
}
