package main

import (
	"context"

	"github.com/cairnlog/cairn/engine"
)

func init() {
	register(command{
		name: "verify", group: inspectGroup,
		summary: "go over the whole store and list every broken invariant",
		details: `Reads everything as it is at this instant, opens wrappers, and compares entries,
segments, both places of the time index, offsets, producers, transactions and alarms.
Appends may go on. At most 1000 findings are listed; repair mends most.`,
		examples: []string{"verify", "verify --json"},
		run:      runVerify,
	})
	register(command{
		name: "repair", group: storeGroup,
		summary: "rebuild what verify finds broken, where that loses nothing",
		details: `Makes index rows, segments, log ends, states and alarms anew and removes rows of
topics that do not exist, then verifies again and lists what is left.`,
		options: []option{
			{name: "quarantine", doc: "also remove what cannot be rebuilt, damaged entries too, after copying it to a file in the store's directory"},
		},
		examples: []string{"repair", "repair --quarantine"},
		run:      runRepair,
	})
}

func runVerify(ctx context.Context, s *session, a *arguments) error {
	db, err := s.store()
	if err != nil {
		return err
	}
	bar := verifyBar{session: s}
	v, err := db.Verify(ctx, bar.update)
	bar.close()
	if err != nil {
		return err
	}
	if a.has("json") {
		return s.show(a, append(verifiedRecord(&v), field{name: "list", value: v.Findings}))
	}
	if err := s.show(a, verifiedRecord(&v)); err != nil {
		return err
	}
	s.sayFindings(a, &v)
	return nil
}

func runRepair(ctx context.Context, s *session, a *arguments) error {
	db, err := s.store()
	if err != nil {
		return err
	}
	bar := verifyBar{session: s}
	r, err := db.Repair(ctx, engine.RepairOptions{Quarantine: a.has("quarantine"), Progress: bar.update})
	bar.close()
	if err != nil {
		return err
	}
	shown := record{
		{name: "found", value: r.Before.Found},
		{name: "actions", value: r.Done},
		{name: "quarantined", value: r.Quarantined},
		{name: "quarantine", value: r.Quarantine},
		{name: "left", value: r.After.Found},
	}
	if a.has("json") {
		return s.show(a, append(shown, field{name: "done", value: r.Actions}, field{name: "list", value: r.After.Findings}))
	}
	if err := s.show(a, shown); err != nil {
		return err
	}
	for _, done := range r.Actions {
		s.say(a, "%s", done)
	}
	s.sayFindings(a, &r.After)
	return nil
}

func (s *session) sayFindings(a *arguments, v *engine.Verification) {
	for _, f := range v.Findings {
		s.say(a, "%s", f)
	}
	if more := v.Found - int64(len(v.Findings)); more > 0 {
		s.say(a, "and %d more", more)
	}
}

func verifiedRecord(v *engine.Verification) record {
	return record{
		{name: "findings", value: v.Found},
		{name: "topics", value: v.Topics},
		{name: "partitions", value: v.Partitions},
		{name: "segments", value: v.Segments},
		{name: "entries", value: v.Entries},
		{name: "messages", value: v.Messages},
		{name: "stored bytes", value: byteCount(v.Bytes)},
		{name: "index rows", value: v.IndexRows},
		{name: "offsets", value: v.Offsets},
		{name: "producers", value: v.Producers},
		{name: "transactions", value: v.Transactions},
		{name: "alarms", value: v.Alarms},
	}
}

// verifyBar shows a bar for each verification.
type verifyBar struct {
	session *session
	done    int64
	bar     *progress
}

func (b *verifyBar) update(at engine.VerifyProgress) {
	if b.bar == nil || at.Done < b.done {
		b.close()
		b.bar = b.session.newProgress(at.Total)
	}
	b.done = at.Done
	b.bar.update(at.Done, at.Messages)
}

func (b *verifyBar) close() {
	if b.bar != nil {
		b.bar.close()
	}
}
