package main

import (
	"context"
	"fmt"

	"github.com/cairnlog/cairn/compaction"
	"github.com/cairnlog/cairn/engine"
)

func init() {
	register(command{
		name: "compact", group: retentionGroup, args: "[TOPIC[/N]]", maxArgs: 1, values: topicNames,
		summary: "remove messages that have a newer one of their key",
		details: `From the sealed segments of the partition in use, or of the one given; the topic's
cleanup.policy must include compact. roll seals the active segment. The store does
the same by itself when more than min.cleanable.dirty.ratio of a log is dirty.
` + changeDetails + `
In the line removed they are what came back of the partition's tables, where what
was still in memory counts as nothing.`,
		options: []option{
			dryRunOption,
			{name: "map", value: "BYTES", doc: "bound of the map of keys, 40 bytes a key; with more keys there are several passes"},
			topicOption,
		},
		examples: []string{"compact --dry-run", "compact orders/3", "compact orders map=1048576 --json"},
		run:      runCompact,
	})
}

func runCompact(ctx context.Context, s *session, a *arguments) error {
	p, err := s.partitionToCompact(a)
	if err != nil {
		return err
	}
	o := engine.CompactOptions{DryRun: a.has("dry-run")}
	if o.MapBytes, err = a.number("map", 0); err != nil {
		return err
	}
	if a.has("map") && o.MapBytes < 1 {
		return usagef("map %d must be at least 1", o.MapBytes)
	}
	c := change{what: p.String()}
	if c.before, err = s.holdings(ctx, p); err != nil {
		return err
	}
	if err := c.before.measure(s); err != nil {
		return err
	}
	bar := compactionBar{session: s}
	o.Progress = bar.update
	r, err := p.Compact(ctx, o)
	bar.close()
	if err != nil {
		return err
	}
	if err := s.compacted(ctx, &c, p, o, &r); err != nil {
		return err
	}
	return s.showChange(a, &c)
}

func (s *session) partitionToCompact(a *arguments) (*engine.Partition, error) {
	switch name := a.word(0); {
	case name == "":
		return s.partition(a)
	case a.has("topic"):
		return nil, usagef("give only one of TOPIC and topic=")
	default:
		return s.findPartition(name)
	}
}

// compacted notes what is left, or would be.
func (s *session) compacted(ctx context.Context, c *change, p *engine.Partition, o engine.CompactOptions, r *engine.CompactResult) (err error) {
	c.fields = compactionRecord(r)
	c.more = fmt.Sprintf("messages removed: %d superseded, %d expired tombstones, %d without a key; entries: %d rewritten, %d emptied, %d stamped",
		r.Superseded, r.Expired, r.Invalid, r.Rewritten, r.Emptied, r.Stamped)
	switch {
	case r.Passes == 0:
		c.more = "there is nothing to compact"
	case r.Overtaken:
		c.more += "\nthe log was changed meanwhile: compact again"
	}
	if o.DryRun {
		c.after = c.before
		c.after.segments, c.after.messages = int64(r.After.Segments), c.before.messages-r.Dropped()
		c.after.wire, c.after.stored = r.After.WireBytes, r.After.StoredBytes
		return nil
	}
	c.freed = byteCount(0)
	if before, after := r.Before.DiskBytes, r.After.DiskBytes; after < before {
		c.freed = byteCount(before - after)
	}
	if c.after, err = s.holdings(ctx, p); err != nil {
		return err
	}
	return c.after.measure(s)
}

func compactionRecord(r *engine.CompactResult) record {
	return record{
		{name: "passes", value: r.Passes},
		{name: "keys", value: r.Keys},
		{name: "superseded", value: r.Superseded},
		{name: "expired", value: r.Expired},
		{name: "without key", value: r.Invalid},
		{name: "entries", value: r.Entries},
		{name: "rewritten", value: r.Rewritten},
		{name: "emptied", value: r.Emptied},
		{name: "stamped", value: r.Stamped},
		{name: "bytes written", value: byteCount(r.BytesWritten)},
		{name: "clean point", value: r.CleanPoint},
		{name: "overtaken", value: r.Overtaken},
	}
}

// compactionBar shows a bar for each stage of each pass.
type compactionBar struct {
	session *session
	stage   compaction.Stage
	bar     *progress
}

func (b *compactionBar) update(at compaction.Progress) {
	if b.bar == nil || at.Stage != b.stage {
		b.close()
		b.stage, b.bar = at.Stage, b.session.newProgress(at.Total)
	}
	messages := at.Stats.Messages
	if at.Stage == compaction.Mapping {
		messages = at.Stats.Mapped
	}
	b.bar.update(at.Done, messages)
}

func (b *compactionBar) close() {
	if b.bar != nil {
		b.bar.close()
	}
}
