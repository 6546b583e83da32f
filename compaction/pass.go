package compaction

import (
	"context"
	"errors"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// Options change a pass. The zero Options are usable.
type Options struct {
	// MapBytes bounds the map of newest offsets (log.cleaner.dedupe.buffer.size):
	// 40 bytes a key. Zero means 128 MiB, at least 64 are used.
	MapBytes int64
	// StepBytes is the size from which on a step is committed. Zero means 256 KiB.
	// A step is larger by at most its last entry and the rows it brings.
	StepBytes int
	// DryRun counts what would be done and commits nothing.
	DryRun bool
	// Progress is called after every step and now and then between; nil is not.
	Progress func(Progress)
}

const (
	defaultMapBytes  = 128 << 20
	defaultStepBytes = 256 << 10
	// progressBytes is how much is read between two calls of Progress.
	progressBytes = 4 << 20
)

func (o Options) withDefaults() Options {
	if o.MapBytes <= 0 {
		o.MapBytes = defaultMapBytes
	}
	if o.StepBytes <= 0 {
		o.StepBytes = defaultStepBytes
	}
	return o
}

// Pass compacts the log of a plan at the time now. It reads the dirty part, up to
// EndCleanable or as far as the map reaches, and then the log from its start up to
// there, which it rewrites in steps. Without Work it does nothing.
//
// The error is the store's, an *EntryError or that of ctx; not ErrOvertaken, which
// the result reports. Steps committed before it stand, and the result is of them.
func Pass(ctx context.Context, store Store, plan Plan, now codec.Timestamp, o Options) (Result, error) {
	p := newPass(store, plan, now, o.withDefaults())
	if !plan.Work {
		return p.result(), nil
	}
	err := p.run(ctx)
	if errors.Is(err, ErrOvertaken) {
		p.overtaken, err = true, nil
	}
	return p.result(), err
}

// pass is one run of Pass.
type pass struct {
	store    Store
	plan     Plan
	policy   *Policy
	segments []retention.Segment // what the pass goes over
	now      codec.Timestamp
	o        Options

	newest *offsetMap
	ahead  []ahead // see lookAhead
	turn   int     // how many messages of the entry accept was called for
	// touched is what lookAhead read of the map.
	touched uint32
	// mapped is the end of what newest knows; from there on nothing changes.
	mapped int64
	// skim: nothing can be superseded. Only entries past their horizon are opened.
	skim bool

	cursor  codec.Cursor
	control control
	keep    func(*codec.Message) bool // p.accept, made once
	expired bool                      // the entry's horizon has passed

	group group
	step  Step
	// horizon is the earliest horizon of the entries gone over that are left.
	horizon codec.Timestamp

	stats        Stats
	committed    Stats
	cleanPoint   int64 // as committed
	tombstoneDue codec.Timestamp
	overtaken    bool

	stage       Stage
	done, total int64
	reported    int64
}

func newPass(store Store, plan Plan, now codec.Timestamp, o Options) *pass {
	p := &pass{
		store: store, plan: plan, policy: &plan.policy, now: now, o: o,
		segments:     plan.log.Segments,
		mapped:       plan.EndCleanable,
		horizon:      retention.Never,
		cleanPoint:   plan.log.CleanPoint,
		tombstoneDue: plan.log.TombstoneDue,
		control:      newControl(plan.transactions),
	}
	p.keep = p.accept
	return p
}

func (p *pass) result() Result {
	r := Result{
		Stats: p.committed, CleanPoint: p.cleanPoint, TombstoneDue: p.tombstoneDue,
		More: p.mapped < p.plan.EndCleanable, Overtaken: p.overtaken,
	}
	return r
}

func (p *pass) run(ctx context.Context) error {
	if err := p.mapKeys(ctx); err != nil {
		return err
	}
	for n := len(p.segments); n > 0 && p.segments[n-1].Base >= p.mapped; n-- {
		p.segments = p.segments[:n-1]
	}
	if err := p.clean(ctx); err != nil {
		return err
	}
	return p.commitState(ctx)
}

// errFull ends the scan of mapKeys.
var errFull = errors.New("map is full")

// mapKeys reads the dirty part into the map and so finds how far the pass can
// reach.
func (p *pass) mapKeys(ctx context.Context) error {
	from, to := p.plan.FirstDirty, p.plan.EndCleanable
	p.newest = newOffsetMap(0, from, 0)
	if from < to {
		p.newest = newOffsetMap(p.o.MapBytes, from, to-from)
		p.begin(Mapping, p.plan.CleanableBytes)
		err := p.store.Scan(ctx, p.logRange(from, to), func(key, value []byte) error { return p.mapEntry(ctx, key, value) })
		if err != nil && !errors.Is(err, errFull) {
			return err
		}
	}
	p.stats.Keys = int64(p.newest.used)
	// Markers ask which of their messages are left.
	p.skim = p.stats.Mapped == 0 && len(p.plan.transactions) == 0
	return nil
}

func (p *pass) mapEntry(ctx context.Context, key, value []byte) error {
	e, err := parse(ctx, key, value)
	if err != nil {
		return err
	}
	if e.Control != 0 {
		p.advance(e.WireSize())
		return nil
	}
	p.control.enter(&e)
	if err := p.cursor.Reset(&e); err != nil {
		return &EntryError{e.Last, err}
	}
	for more := true; more; {
		more = p.lookAhead()
		for i := range p.ahead {
			m := &p.ahead[i]
			if m.offset < p.plan.FirstDirty {
				continue
			}
			if m.keyed && !p.newest.set(&m.lookup, m.offset) {
				p.mapped = m.offset
				return errFull
			}
			p.stats.Mapped++
		}
	}
	if err := p.cursor.Err(); err != nil {
		return &EntryError{e.Last, err}
	}
	p.advance(e.WireSize())
	return nil
}

func parse(ctx context.Context, key, value []byte) (codec.Entry, error) {
	if err := ctx.Err(); err != nil {
		return codec.Entry{}, err
	}
	e, err := codec.ParseEntry(key, value)
	if err == nil {
		return e, nil
	}
	offset := int64(-1)
	if _, last, keyErr := keys.DecodeLog(key); keyErr == nil {
		offset = last
	}
	return e, &EntryError{offset, err}
}

// begin and advance keep the progress.
func (p *pass) begin(stage Stage, total int64) {
	p.stage, p.done, p.total, p.reported = stage, 0, total, 0
	p.report()
}

func (p *pass) advance(bytes int) {
	p.done += int64(bytes)
	if p.done-p.reported >= progressBytes {
		p.report()
	}
}

func (p *pass) report() {
	p.reported = p.done
	if p.o.Progress != nil {
		p.o.Progress(Progress{Stage: p.stage, Done: p.done, Total: p.total, Stats: p.stats})
	}
}

// commitState writes a clean point and an alarm that no group brought along.
func (p *pass) commitState(ctx context.Context) error {
	p.step.reset()
	p.step.Base, p.step.End = p.plan.EndCleanable, p.plan.EndCleanable
	p.step.CleanPoint, p.step.TombstoneDue = p.reached(len(p.segments))
	if p.step.CleanPoint == p.cleanPoint && p.step.TombstoneDue == p.tombstoneDue {
		p.committed = p.stats
		return nil
	}
	return p.commit(ctx)
}

// reached returns the clean point and the alarm once the first n segments are
// clean.
func (p *pass) reached(n int) (cleanPoint int64, due codec.Timestamp) {
	cleanPoint = p.plan.FirstDirty
	if n == len(p.segments) {
		cleanPoint = max(cleanPoint, p.mapped)
	} else if n > 0 {
		cleanPoint = max(cleanPoint, p.upper(n-1))
	}
	due = p.plan.log.TombstoneDue
	if n == len(p.segments) && p.mapped == p.plan.EndCleanable {
		due = retention.Never // every tombstone with a horizon was seen
	}
	return cleanPoint, sooner(due, p.horizon)
}

// commit carries the step out and begins the next one.
func (p *pass) commit(ctx context.Context) error {
	if !p.o.DryRun {
		if err := p.store.Commit(ctx, &p.step); err != nil {
			return err
		}
		p.cleanPoint, p.tombstoneDue = p.step.CleanPoint, p.step.TombstoneDue
		p.stats.Steps++
		p.stats.BytesWritten += int64(p.step.bytes)
	}
	p.committed = p.stats
	p.step.reset()
	p.report()
	return nil
}

// upper is the base of the segment after the i-th.
func (p *pass) upper(i int) int64 {
	if all := p.plan.log.Segments; i+1 < len(all) {
		return all[i+1].Base
	}
	return p.plan.EndCleanable
}

func (p *pass) logRange(from, to int64) keys.Range {
	return keys.LogRange(p.plan.log.Partition, from, to)
}
