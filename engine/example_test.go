package engine_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/retention"
)

// noon is when the examples take place.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// A service opens a directory, appends to a partition of a topic, and reads back.
func Example() {
	ctx := context.Background()
	db, err := engine.Open("store", engine.Options{FS: vfs.NewMem()}) // without FS it is a directory on disk
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }() // the example ends here
	orders, err := db.EnsureTopic("orders", engine.TopicConfig{Partitions: 4})
	if err != nil {
		log.Fatal(err)
	}
	p := orders.Partition(0)
	receipt, err := p.Append(ctx,
		codec.Message{Key: []byte("42"), Value: []byte("placed")},
		codec.Message{Key: []byte("42"), Value: []byte("paid")},
	) // one atomic set, on stable storage now
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt.Count, "messages from offset", receipt.Offset)
	for m, err := range p.Read(ctx, 0, engine.ReadOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %s=%s\n", m.Offset, m.Key, m.Value)
	}
	// Output:
	// 2 messages from offset 0
	// 0 42=placed
	// 1 42=paid
}

// A search by time finds the first message at or after it, however disordered the
// timestamps are.
func ExamplePartition_OffsetFor() {
	ctx := context.Background()
	db, err := engine.Open("store", engine.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }() // the example ends here
	topic, err := db.CreateTopic("clicks", engine.TopicConfig{})
	if err != nil {
		log.Fatal(err)
	}
	p := topic.Partition(0)
	for _, minutes := range []int{0, 10, 5, 20} { // the third is late
		m := codec.Message{
			Timestamp:     codec.TimestampOf(noon.Add(time.Duration(minutes) * time.Minute)),
			TimestampType: codec.CreateTime,
			Value:         fmt.Append(nil, "after ", minutes, " minutes"),
		}
		if _, err := p.Append(ctx, m); err != nil {
			log.Fatal(err)
		}
	}
	pos, err := p.OffsetFor(codec.TimestampOf(noon.Add(6 * time.Minute)))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("offset", pos.Offset, "at", pos.Timestamp.Time().Format(time.TimeOnly))
	// Output:
	// offset 1 at 12:10:00
}

// Retention removes segments whose newest message is old enough. The store does it by
// itself; Retain does it now.
func ExamplePartition_Retain() {
	ctx := context.Background()
	now := noon
	db, err := engine.Open("store", engine.Options{FS: vfs.NewMem(), Now: func() time.Time { return now }})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }() // the example ends here
	topic, err := db.CreateTopic("events", engine.TopicConfig{
		Retention:  retention.Policy{MaxAge: 24 * time.Hour},
		SegmentAge: time.Hour,
	})
	if err != nil {
		log.Fatal(err)
	}
	p := topic.Partition(0)
	for range 3 { // one a day
		if _, err := p.Append(ctx, codec.Message{Value: []byte("event")}); err != nil {
			log.Fatal(err)
		}
		now = now.Add(20 * time.Hour)
	}
	r, err := p.Retain(ctx, engine.RetainOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("removed", r.Messages, "messages, the log starts at", r.Start)
	// Output:
	// removed 2 messages, the log starts at 2
}

// Compaction keeps at least the newest message of each key; offsets stay.
func ExamplePartition_Compact() {
	ctx := context.Background()
	db, err := engine.Open("store", engine.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }() // the example ends here
	topic, err := db.CreateTopic("prices", engine.TopicConfig{CleanupPolicy: engine.CleanupCompact})
	if err != nil {
		log.Fatal(err)
	}
	p := topic.Partition(0)
	for _, price := range [][2]string{{"apple", "1"}, {"pear", "2"}, {"apple", "3"}} {
		if _, err := p.Append(ctx, codec.Message{Key: []byte(price[0]), Value: []byte(price[1])}); err != nil {
			log.Fatal(err)
		}
	}
	if err := p.Roll(ctx); err != nil { // the active segment is never compacted
		log.Fatal(err)
	}
	r, err := p.Compact(ctx, engine.CompactOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("superseded:", r.Superseded)
	for m, err := range p.Read(ctx, 0, engine.ReadOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %s=%s\n", m.Offset, m.Key, m.Value)
	}
	// Output:
	// superseded: 1
	// 1 pear=2
	// 2 apple=3
}

// Produce and Fetch speak Kafka's message sets: what a broker's clients send, and
// what they are sent.
func ExamplePartition_Produce() {
	ctx := context.Background()
	db, err := engine.Open("store", engine.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }() // the example ends here
	topic, err := db.CreateTopic("wire", engine.TopicConfig{})
	if err != nil {
		log.Fatal(err)
	}
	p := topic.Partition(0)
	msgs := []codec.Message{
		{Offset: 0, Timestamp: 1, TimestampType: codec.CreateTime, Value: []byte("one")},
		{Offset: 1, Timestamp: 2, TimestampType: codec.CreateTime, Value: []byte("two")},
	}
	frame, _, err := codec.BuildWrapper(nil, codec.Snappy, 1, msgs) // as a producer does
	if err != nil {
		log.Fatal(err)
	}
	if _, err := p.Produce(ctx, codec.AppendFrame(nil, &frame)); err != nil {
		log.Fatal(err)
	}
	fetched, err := p.Fetch(ctx, 0, engine.FetchOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for m, err := range codec.Messages(fetched.Set) { // as a consumer does
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %s\n", m.Offset, m.Value)
	}
	fmt.Println("recompressed:", db.Stats().Recompressions)
	// Output:
	// 0 one
	// 1 two
	// recompressed: 0
}
