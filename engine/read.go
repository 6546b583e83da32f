package engine

import (
	"context"
	"errors"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/codec"
)

// ReadOptions bound a read. The zero value reads to the end.
type ReadOptions struct {
	// MaxMessages ends the read after that many messages; zero means no limit.
	MaxMessages int64
	// Before ends the read at that offset, exclusive; zero means the end.
	Before int64
}

// Read yields the messages from offset from to the end of the log as it was
// when the loop began, in offset order; an offset that compaction removed
// behaves like the next one that exists (SPEC 1.5.32).
//
// Key and Value are valid until the next iteration. An error is yielded at most
// once, last, with a zero Message: an *OffsetRangeError if from is outside the
// log, a *CorruptionError naming the damaged offset (reading on after it is
// possible), ErrClosed, or ctx.Err(). The iterator opens nothing until it is
// ranged over, may be ranged over again, and leaving the loop releases
// everything. Appends and other reads go on meanwhile.
func (p *Partition) Read(ctx context.Context, from int64, o ReadOptions) iter.Seq2[codec.Message, error] {
	return func(yield func(codec.Message, error) bool) {
		end, err := p.readBounds(ctx, from, o)
		if err == nil {
			r := reading{p: p, limit: o.MaxMessages}
			var stopped bool
			if _, stopped, err = r.messages(ctx, from, end, yield); stopped {
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
	if _, err := p.readBounds(ctx, from, o); err != nil {
		return err
	}
	r := reading{p: p, limit: o.MaxMessages}
	cuts := p.cuts.Load()
	for o.Before == 0 || from < o.Before {
		if err := p.awaitUntil(ctx, func() bool { return p.readable.Load() > from || p.cuts.Load() != cuts }); err != nil {
			return err
		}
		var below bool
		if below, cuts = p.cutBelow(from, cuts); below { // what was yielded is not the log's any more
			return p.outOfRange(from)
		}
		end := p.readable.Load()
		if o.Before > 0 {
			end = min(end, o.Before)
		}
		to, stopped, err := r.messages(ctx, from, end, yield)
		if stopped || err != nil {
			return err
		}
		if r.limit > 0 && r.count == r.limit {
			return nil
		}
		from = to
	}
	return nil
}

// readBounds checks where a read begins and returns where it ends.
func (p *Partition) readBounds(ctx context.Context, from int64, o ReadOptions) (end int64, err error) {
	if err := p.ready(); err != nil {
		return 0, err
	}
	if o.MaxMessages < 0 || o.Before < 0 {
		return 0, codec.Errorf(codec.CodeInvalidRequest, "negative read bound")
	}
	if err := p.settled(ctx); err != nil && !errors.Is(err, ErrFailed) {
		return 0, err
	}
	p.mu.Lock()
	leo := p.mu.end
	p.mu.Unlock()
	if from < p.logStart.Load() || from > leo {
		return 0, p.outOfRange(from)
	}
	end = min(p.readable.Load(), leo)
	if o.Before > 0 {
		end = min(end, o.Before)
	}
	return end, nil
}

func (p *Partition) outOfRange(offset int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &OffsetRangeError{Topic: p.Topic(), Partition: p.Number(), Offset: offset, Start: p.logStart.Load(), End: p.mu.end}
}

// reading is the state of one Read or Follow loop.
type reading struct {
	p     *Partition
	count int64
	limit int64 // 0: none
}

// messages yields the messages in [from, end) and returns the offset to go on
// from. stopped: the loop was left, nothing may be yielded any more.
func (r *reading) messages(ctx context.Context, from, end int64, yield func(codec.Message, error) bool) (to int64, stopped bool, err error) {
	scan := r.p.scanFrom(from)
	defer scan.close()
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
	return end, false, nil
}

// readError locates an error of Pebble's in the log.
func (p *Partition) readError(offset int64, err error) error {
	if err != nil && pebble.IsCorruptionError(err) {
		return p.corrupt(offset, err)
	}
	return err
}
