package main

import (
	"context"

	"github.com/cairnlog/cairn/engine"
)

func init() {
	register(command{
		name: "checkpoint", group: storeGroup, args: "DIR", minArgs: 1, maxArgs: 1, values: fileNames,
		summary: "copy the store to a new directory while it is in use",
		details: `The copy is a store of its own, of this moment. On the same file system it shares
the disk space of tables with the store. With --open the session goes on in the
copy, for reading only.`,
		options:  []option{{name: "open", doc: "open the copy for reading, in place of the store"}},
		examples: []string{"checkpoint /backup/orders", "checkpoint ./look --open"},
		run:      runCheckpoint,
	})
}

func runCheckpoint(ctx context.Context, s *session, a *arguments) error {
	db, err := s.store()
	if err != nil {
		return err
	}
	dir := a.word(0)
	started := s.now()
	if err := db.Checkpoint(ctx, dir); err != nil {
		return err
	}
	r := record{{name: "checkpoint", value: dir}, {name: "topics", value: len(db.Topics())}, {name: "took", value: s.now().Sub(started)}}
	if a.has("open") {
		opts, current := s.opts, s.current
		opts.ReadOnly, opts.Durability = true, engine.SyncAlways
		if err := s.switchStore(dir, opts, false); err != nil {
			return err
		}
		if current != nil {
			if t, ok := s.db.Topic(current.Topic()); ok {
				s.current = t.Partition(current.Number())
			}
		}
		r = append(r, field{name: "open", value: "for reading"})
	}
	return s.show(a, r)
}
