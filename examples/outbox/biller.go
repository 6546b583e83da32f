package main

import (
	"context"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/retention"
)

// keepAll is the retention of logs that are the truth.
var keepAll = retention.Policy{MaxAge: engine.Forever}

// billers is the group that remembers how far the events were invoiced.
const billers = "billers"

// biller is the reading side: it follows the events and writes invoices.
type biller struct {
	db               *engine.DB
	events, invoices *engine.Partition
	from             int64
	invoiced         int
}

func openBiller(ctx context.Context, db *engine.DB) (*biller, error) {
	b := &biller{db: db}
	for name, p := range map[string]**engine.Partition{"orders": &b.events, "invoices": &b.invoices} {
		topic, err := db.EnsureTopic(name, engine.TopicConfig{Retention: keepAll})
		if err != nil {
			return nil, err
		}
		*p = topic.Partition(0)
	}
	c, err := db.Group(billers).Committed(ctx, b.events)
	if err != nil {
		return nil, err
	}
	b.from = max(c.Offset, 0) // -1: nothing yet
	offsets, err := b.invoices.Offsets()
	b.invoiced = int(offsets.End)
	return b, err
}

// run writes invoices until there are as many as wanted.
func (b *biller) run(ctx context.Context, wanted int) error {
	if b.invoiced >= wanted {
		return nil
	}
	for m, err := range b.events.Follow(ctx, b.from, engine.ReadOptions{}) {
		if err != nil {
			return err
		}
		if string(m.Value) != paid {
			continue
		}
		if err := b.invoice(ctx, m); err != nil {
			return err
		}
		if b.invoiced == wanted {
			return nil
		}
	}
	return nil
}

// invoice writes the invoice and the progress in one batch: after a crash both are
// there or neither, so an event is never invoiced twice and never passed over.
func (b *biller) invoice(ctx context.Context, event codec.Message) error {
	batch := b.db.NewBatch()
	batch.Append(b.invoices, codec.Message{Key: event.Key, Value: []byte("invoice for " + string(event.Key))})
	batch.CommitOffset(billers, b.events, event.Offset+1, "")
	if _, err := batch.Commit(ctx); err != nil {
		return err
	}
	b.invoiced++
	return nil
}
