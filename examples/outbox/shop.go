package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// The events of an order.
const (
	placed = "placed"
	paid   = "paid"
)

// errRefused is a command that the state of the order does not allow: not a failure.
var errRefused = errors.New("refused")

// decision says which event a command leads to, given the order's last one, which is
// empty before the first.
type decision func(last string) (event string, err error)

func place(last string) (string, error) {
	if last != "" {
		return "", fmt.Errorf("%w: placed already", errRefused)
	}
	return placed, nil
}

func pay(last string) (string, error) {
	if last != placed {
		return "", fmt.Errorf("%w: %s order cannot be paid", errRefused, last)
	}
	return paid, nil
}

// shop is the writing side: what it knows is a fold of its log.
type shop struct {
	db     *engine.DB
	events *engine.Partition
	orders map[string]string // the last event of each order
	next   int64             // the offset up to which orders is folded
}

func openShop(ctx context.Context, db *engine.DB) (*shop, error) {
	topic, err := db.EnsureTopic("orders", engine.TopicConfig{Retention: keepAll})
	if err != nil {
		return nil, err
	}
	s := &shop{db: db, events: topic.Partition(0), orders: make(map[string]string)}
	return s, s.fold(ctx)
}

// fold brings the state up to the end of the log.
func (s *shop) fold(ctx context.Context) error {
	for m, err := range s.events.Read(ctx, s.next, engine.ReadOptions{}) {
		if err != nil {
			return err
		}
		s.orders[string(m.Key)] = string(m.Value)
		s.next = m.Offset + 1
	}
	return nil
}

// handle decides about one command against the state it has read, and appends the
// event only if nothing was appended since: another shop on the same log may be
// deciding too. On a conflict it folds what is new and decides again.
func (s *shop) handle(ctx context.Context, order string, decide decision) error {
	for {
		event, err := decide(s.orders[order])
		if err != nil {
			return err
		}
		b := s.db.NewBatch()
		b.Append(s.events, codec.Message{Key: []byte(order), Value: []byte(event)})
		b.Expect(s.events, s.next)
		_, err = b.Commit(ctx)
		if _, conflict := errors.AsType[*engine.ConflictError](err); err != nil && !conflict {
			return err
		}
		if err := s.fold(ctx); err != nil {
			return err
		}
		if err == nil {
			return nil
		}
	}
}

// paid counts the orders that were paid.
func (s *shop) paid() (n int) {
	for _, last := range s.orders {
		if last == paid {
			n++
		}
	}
	return n
}
