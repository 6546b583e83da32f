package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairnlog/cairn/engine"
)

func init() {
	register(command{
		name: "begin", group: writeGroup, args: "ID", minArgs: 1, maxArgs: 1, noData: true,
		summary: "start a transaction, or take an abandoned one over",
		details: `Appends with tx=ID are part of it, in any topics of message.format=enriched.
read --committed shows them after commit-tx ID, and never after abort-tx ID.`,
		examples: []string{"begin 7"},
		run: func(ctx context.Context, s *session, a *arguments) error {
			id, err := parseNumber("transaction", a.word(0))
			if err == nil {
				_, err = s.transaction(ctx, id, true)
			}
			return err
		},
	})
	for name, end := range map[string]func(*engine.Transaction, context.Context) error{
		"commit-tx": (*engine.Transaction).Commit, "abort-tx": (*engine.Transaction).Abort,
	} {
		register(command{
			name: name, group: writeGroup, args: "ID", minArgs: 1, maxArgs: 1, noData: true,
			summary:  map[string]string{"commit-tx": "commit a transaction", "abort-tx": "abort a transaction"}[name],
			examples: []string{name + " 7"},
			run: func(ctx context.Context, s *session, a *arguments) error {
				id, err := parseNumber("transaction", a.word(0))
				if err != nil {
					return err
				}
				tx, err := s.transaction(ctx, id, false)
				if err != nil {
					return err
				}
				if err := end(tx, ctx); err != nil {
					return err
				}
				delete(s.transactions, id)
				return nil
			},
		})
	}
	register(command{
		name: "transactions", group: inspectGroup,
		summary: "list the open transactions and where they started",
		details: "One that nobody holds is abandoned: begin ID takes it over, abort-tx ID ends it.",
		run:     runTransactions,
	})
}

// transaction returns the session's handle of a transaction: one that is open already
// is taken over, another started if begin says so.
func (s *session) transaction(ctx context.Context, id int64, begin bool) (*engine.Transaction, error) {
	if tx := s.transactions[id]; tx != nil {
		return tx, nil
	}
	db, err := s.store()
	if err != nil {
		return nil, err
	}
	tx, err := db.Resume(ctx, id)
	if errors.Is(err, engine.ErrTransaction) && begin {
		tx, err = db.Begin(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	if s.transactions == nil {
		s.transactions = make(map[int64]*engine.Transaction)
	}
	s.transactions[id] = tx
	return tx, nil
}

func runTransactions(ctx context.Context, s *session, a *arguments) error {
	db, err := s.store()
	if err != nil {
		return err
	}
	open, err := db.OpenTransactions(ctx)
	if err != nil {
		return err
	}
	out := s.records(a)
	defer out.close()
	for _, o := range open {
		for _, at := range o.Partitions {
			err := out.print(record{
				{name: "transaction", value: o.ID},
				{name: "partition", value: fmt.Sprintf("%s/%d", at.Topic, at.Partition)},
				{name: "start", value: at.Start},
				{name: "held", value: o.Handle},
			})
			if err != nil {
				return err
			}
		}
	}
	if len(open) == 0 {
		s.say(a, "no open transactions")
	}
	return nil
}
