package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// openExample opens a store in a new directory, with a topic of some partitions.
func openExample(topic string, partitions int32) (db *engine.DB, t *engine.Topic, done func()) {
	dir, err := os.MkdirTemp("", "cairn")
	if err != nil {
		log.Fatal(err)
	}
	db, err = engine.Open(dir, engine.Options{}.SmallMemory())
	if err != nil {
		log.Fatal(err)
	}
	t, err = db.EnsureTopic(topic, engine.TopicConfig{Partitions: partitions})
	if err != nil {
		log.Fatal(err)
	}
	return db, t, func() {
		if err := errors.Join(db.Close(), os.RemoveAll(dir)); err != nil {
			log.Fatal(err)
		}
	}
}

// A consumer that turns orders into invoices: what it writes and how far it has
// read happen together or not at all, so each order is dealt with exactly once,
// whenever the process dies.
func ExampleBatch_offsets() {
	ctx := context.Background()
	db, orders, done := openExample("orders", 1)
	defer done()
	in := orders.Partition(0)
	if _, err := in.Append(ctx, codec.Message{Value: []byte("tea")}, codec.Message{Value: []byte("cups")}); err != nil {
		log.Fatal(err)
	}
	invoices, err := db.EnsureTopic("invoices", engine.TopicConfig{})
	if err != nil {
		log.Fatal(err)
	}
	out := invoices.Partition(0)
	billing := db.Group("billing")

	at, err := billing.Committed(ctx, in)
	if err != nil {
		log.Fatal(err)
	}
	b := db.NewBatch()
	for order, err := range in.Read(ctx, at.Next(), engine.ReadOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		b.Append(out, codec.Message{Value: fmt.Appendf(nil, "invoice for %s", order.Value)})
		b.CommitOffset("billing", in, order.Offset+1, "")
		receipts, err := b.Commit(ctx)
		if err != nil {
			log.Fatal(err) // start again from what is committed
		}
		fmt.Println("invoice", receipts[0].Offset)
	}
	at, err = billing.Committed(ctx, in)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("next order", at.Offset, "lag", at.Lag())
	// Output:
	// invoice 0
	// invoice 1
	// next order 2 lag 0
}

// An append whose answer got lost is simply made again under the same number.
func ExamplePartition_AppendSet_idempotent() {
	ctx := context.Background()
	_, payments, done := openExample("payments", 1)
	defer done()
	p := payments.Partition(0)
	pay := []codec.Message{{Key: []byte("42"), Value: []byte("9.90 EUR")}}

	for range 3 { // the first time, and two retries
		r, err := p.AppendSet(ctx, pay, engine.AppendOptions{Producer: "till-7", Sequence: 0})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("at offset", r.Offset)
	}
	_, err := p.AppendSet(ctx, pay, engine.AppendOptions{Producer: "till-7", Sequence: 5})
	if gap, ok := errors.AsType[*engine.SequenceError](err); ok {
		fmt.Println("expected", gap.Next)
	}
	// Output:
	// at offset 0
	// at offset 0
	// at offset 0
	// expected 1
}

// One goroutine follows a thousand partitions.
func ExampleWatcher() {
	ctx := context.Background()
	db, events, done := openExample("events", 1000)
	defer done()
	w := db.NewWatcher()
	defer w.Close()
	for n := range events.Partitions() {
		if _, err := w.Add(events.Partition(n), 0); err != nil {
			log.Fatal(err)
		}
	}
	go func() {
		for _, n := range []int32{3, 700} {
			if _, err := events.Partition(n).Append(ctx, codec.Message{Value: []byte("hello")}); err != nil {
				log.Print(err)
			}
		}
	}()

	for seen := 0; seen < 2; {
		ready, err := w.Wait(ctx)
		if err != nil {
			log.Fatal(err)
		}
		for _, r := range ready {
			if r.Err != nil {
				log.Fatal(r.Err)
			}
			next := r.Offset
			for m, err := range r.Partition().Read(ctx, r.Offset, engine.ReadOptions{}) {
				if err != nil {
					log.Fatal(err)
				}
				fmt.Printf("%s: %s\n", r.Partition(), m.Value)
				next = m.Offset + 1
				seen++
			}
			r.Advance(next)
		}
	}
	// Output:
	// events/3: hello
	// events/700: hello
}

// Partition.Follow goes on for ever, woken by appends.
func ExamplePartition_Follow() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, events, done := openExample("events", 1)
	defer done()
	p := events.Partition(0)
	go func() {
		for i := range 3 {
			if _, err := p.Append(ctx, codec.Message{Value: fmt.Append(nil, i)}); err != nil {
				log.Print(err)
			}
		}
	}()
	for m, err := range p.Follow(ctx, 0, engine.ReadOptions{MaxMessages: 3}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(m.Offset, string(m.Value))
	}
	// Output:
	// 0 0
	// 1 1
	// 2 2
}
