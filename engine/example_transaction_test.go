package engine_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// Messages of a transaction are in the log at once; readers of committed messages see
// them when it is committed.
func ExampleDB_Begin() {
	ctx := context.Background()
	db, err := engine.Open("store", engine.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }() // the example ends here
	topic, err := db.CreateTopic("orders", engine.TopicConfig{MessageFormat: engine.FormatEnriched})
	if err != nil {
		log.Fatal(err)
	}
	orders := topic.Partition(0)

	committed := func() (n int) {
		for _, err := range orders.Read(ctx, 0, engine.ReadOptions{Isolation: engine.ReadCommitted}) {
			if err != nil {
				log.Fatal(err)
			}
			n++
		}
		return n
	}
	tx, err := db.Begin(ctx, 7)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := tx.Append(ctx, orders, codec.Message{Value: []byte("placed")}, codec.Message{Value: []byte("paid")}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("before the commit:", committed())
	if err := tx.Commit(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("after it:", committed())
	// Output:
	// before the commit: 0
	// after it: 2
}

// An audit reads tags and sizes of messages that it does not open.
func ExamplePartition_ReadHeaders() {
	ctx := context.Background()
	db, err := engine.Open("store", engine.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }() // the example ends here
	topic, err := db.CreateTopic("orders", engine.TopicConfig{MessageFormat: engine.FormatEnriched})
	if err != nil {
		log.Fatal(err)
	}
	orders := topic.Partition(0)
	tags, err := codec.NewTags(codec.NoTimestamp, codec.AppTag{Key: "host", Value: "h1"})
	if err != nil {
		log.Fatal(err)
	}
	set := []codec.Message{{Value: []byte("sealed")}, {Value: []byte("opaque")}}
	if _, err := orders.AppendSet(ctx, set, engine.AppendOptions{Compression: codec.LZ4, Tags: tags}); err != nil {
		log.Fatal(err)
	}
	for h, err := range orders.ReadHeaders(ctx, 0, engine.ReadOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		host, _ := h.Tags.AppValue("host")
		fmt.Println(h.Messages, "messages from", host, "in", h.Compression)
	}
	// Output:
	// 2 messages from h1 in lz4
}
