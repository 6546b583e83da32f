package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/retention"
)

func init() {
	register(command{
		name: "retain", group: retentionGroup, args: "[TOPIC]", maxArgs: 1, settings: true, values: topicNames,
		summary: "apply the retention and roll settings now",
		details: `To the partition in use, to all of TOPIC or, with --all, to all that are due.
The store does the same by itself about once a second, so that seldom anything is
left to do. A dry run also tries settings before a topic is altered; they are
retention.ms, retention.bytes, retention.clamp.future and cleanup.policy.
` + changeDetails + `
In the line removed they are Pebble's estimate of what will come back, where what
is still in memory counts as nothing.`,
		options: []option{
			dryRunOption,
			{name: "all", doc: "every partition of the store that is due"},
			topicOption,
		},
		examples: []string{
			"retain --dry-run", "retain orders", "retain --all",
			"retain orders --dry-run retention.ms=86400000 retention.bytes=1073741824",
		},
		run: runRetain,
	})
}

func runRetain(ctx context.Context, s *session, a *arguments) error {
	if err := checkRetain(a); err != nil {
		return err
	}
	if !a.has("all") && len(a.words) == 0 {
		p, err := s.partition(a)
		if err != nil {
			return err
		}
		return s.retainOne(ctx, a, p)
	}
	list, err := s.partitions(a.word(0))
	switch {
	case err != nil:
		return err
	case a.has("all") && !a.has("dry-run"):
		return s.retainDue(ctx, a, list)
	default:
		return s.retainEach(ctx, a, list)
	}
}

// checkRetain refuses what does not go together.
func checkRetain(a *arguments) error {
	scopes := len(a.words)
	for _, name := range []string{"all", "topic"} {
		if a.has(name) {
			scopes++
		}
	}
	if scopes > 1 {
		return usagef("give only one of TOPIC, topic= and --all")
	}
	for _, name := range slices.Sorted(maps.Keys(a.settings)) {
		switch {
		case !strings.HasPrefix(name, "retention.") && name != "cleanup.policy":
			return usagef("%s has no part in retention", name)
		case !a.has("dry-run"):
			return usagef("%s can be tried with --dry-run; alter sets it", name)
		}
	}
	return nil
}

// retaining is a change by retention.
type retaining struct {
	change
	done  engine.Maintained
	tried bool // with other settings, of which the engine knows nothing
}

func (s *session) retainOne(ctx context.Context, a *arguments, p *engine.Partition) error {
	var before holdings
	if err := before.measure(s); err != nil {
		return err
	}
	r, err := s.retain(ctx, a, p)
	if err != nil {
		return err
	}
	r.before.disk = before.disk
	return s.showRetaining(a, r)
}

// retainEach goes over partitions one by one: a line for each that loses
// something, and the sum.
func (s *session) retainEach(ctx context.Context, a *arguments, list []*engine.Partition) error {
	sum := retaining{change: change{what: cmp.Or(a.word(0), "all"), sum: true}, tried: len(a.settings) > 0}
	if err := sum.before.measure(s); err != nil {
		return err
	}
	out := s.records(a)
	defer out.close()
	for _, p := range list {
		r, err := s.retain(ctx, a, p)
		if err != nil {
			return err
		}
		sum.add(r)
		if a.has("json") {
			err = s.showChange(a, r.explained())
		} else if r.done.Removed.Segments > 0 {
			removed := r.explained().removed()
			err = out.print(append(record{{name: "removed from", value: r.what}}, removed.record(false)...))
		}
		if err != nil {
			return err
		}
	}
	if out.close(); out.total > 0 && !a.has("json") {
		s.say(a, "")
	}
	return s.showRetaining(a, &sum)
}

// retainDue lets the store do what is due.
func (s *session) retainDue(ctx context.Context, a *arguments, list []*engine.Partition) error {
	before, err := s.holdings(ctx, list...)
	if err != nil {
		return err
	}
	if err := before.measure(s); err != nil {
		return err
	}
	done, failed := s.db.MaintainOnce(ctx, s.now())
	after, err := s.holdings(ctx, list...)
	if err != nil {
		return errors.Join(failed, err)
	}
	r := retaining{change: change{what: "all", sum: true, before: before, after: after}, done: done}
	return errors.Join(failed, s.showRetaining(a, &r))
}

// retain applies retention to a partition or, in a dry run, finds out what it
// would do.
func (s *session) retain(ctx context.Context, a *arguments, p *engine.Partition) (*retaining, error) {
	plan, left, err := s.planRetain(ctx, a, p)
	if err != nil {
		return nil, err
	}
	c, err := s.newChange(ctx, p, left)
	if err != nil {
		return nil, err
	}
	if !a.has("dry-run") {
		if plan, err = p.Retain(ctx, engine.RetainOptions{}); err != nil {
			return nil, err
		}
		if c.after, err = s.holdings(ctx, p); err != nil {
			return nil, err
		}
	}
	r := &retaining{change: *c, done: engine.Maintained{Removed: plan}, tried: len(a.settings) > 0}
	if plan.Rolled {
		r.done.Rolled = 1
	}
	return r, nil
}

// planRetain returns what retention would remove and what it would leave.
func (s *session) planRetain(ctx context.Context, a *arguments, p *engine.Partition) (plan engine.Retained, left holdings, err error) {
	o, segments, err := contents(p)
	if err != nil {
		return plan, left, err
	}
	if len(a.settings) > 0 {
		plan, err = s.tryRetention(a, p, o, segments)
	} else {
		plan, err = p.Retain(ctx, engine.RetainOptions{DryRun: true})
	}
	if err != nil {
		return plan, left, err
	}
	segments = segments[min(plan.Segments, len(segments)):]
	if plan.Rolled {
		segments = append(segments, retention.NewSegment(o.End))
	}
	o.Start = max(o.Start, plan.Start)
	return plan, holdingsOf(o, segments), nil
}

// tryRetention decides as the engine would if the topic had the settings given.
func (s *session) tryRetention(a *arguments, p *engine.Partition, o engine.Offsets, segments []retention.Segment) (engine.Retained, error) {
	t, err := s.topic(p.Topic())
	if err != nil {
		return engine.Retained{}, err
	}
	settings := s.opts.Defaults.Settings()
	maps.Copy(settings, t.Config().Settings())
	maps.Copy(settings, a.settings)
	config, err := engine.ParseTopicConfig(settings)
	if err != nil {
		return engine.Retained{}, err
	}
	limits := config.Retention.Limits()
	if config.CleanupPolicy == engine.CleanupCompact {
		limits = retention.NoLimits()
	}
	borders := retention.Bounds{Start: o.Start, HighWatermark: o.HighWatermark, End: o.End}
	d := retention.Expire(segments, limits, borders, codec.TimestampOf(s.now()))
	return engine.Retained{
		Segments: d.Drop, ByTime: d.ByTime, BySize: d.BySize, ByLogStart: d.ByLogStart,
		Rolled: d.RollFirst, Start: d.NewStart,
	}, nil
}

// add adds the change of another partition.
func (r *retaining) add(o *retaining) {
	r.before.add(&o.before)
	r.after.add(&o.after)
	r.done.Rolled += o.done.Rolled
	sum, more := &r.done.Removed, &o.done.Removed
	sum.Segments += more.Segments
	sum.ByTime += more.ByTime
	sum.BySize += more.BySize
	sum.ByLogStart += more.ByLogStart
	sum.DiskBytes += more.DiskBytes
}

// explained returns the change with what retention says about it.
func (r *retaining) explained() *change {
	removed := &r.done.Removed
	r.renewed = int64(r.done.Rolled)
	if !r.tried {
		r.freed = byteCount(removed.DiskBytes)
	}
	r.more = fmt.Sprintf("segments removed: %d by time, %d by size, %d by log start; rolled: %d",
		removed.ByTime, removed.BySize, removed.ByLogStart, r.done.Rolled)
	r.fields = record{
		{name: "by time", value: removed.ByTime},
		{name: "by size", value: removed.BySize},
		{name: "by log start", value: removed.ByLogStart},
		{name: "rolled", value: r.done.Rolled},
	}
	return &r.change
}

func (s *session) showRetaining(a *arguments, r *retaining) error {
	if !a.has("dry-run") {
		if err := r.after.measure(s); err != nil {
			return err
		}
	}
	return s.showChange(a, r.explained())
}
