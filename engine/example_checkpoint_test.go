package engine_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// A checkpoint is a store of its own, as of the call.
func ExampleDB_Checkpoint() {
	ctx := context.Background()
	fs := vfs.NewMem()
	db, err := engine.Open("store", engine.Options{FS: fs})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }() // the example ends here
	topic, err := db.CreateTopic("orders", engine.TopicConfig{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := topic.Partition(0).Append(ctx, codec.Message{Value: []byte("placed")}); err != nil {
		log.Fatal(err)
	}
	if err := db.Checkpoint(ctx, "backup"); err != nil {
		log.Fatal(err)
	}
	if _, err := topic.Partition(0).Append(ctx, codec.Message{Value: []byte("paid")}); err != nil {
		log.Fatal(err)
	}

	backup, err := engine.Open("backup", engine.Options{FS: fs, ReadOnly: true})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = backup.Close() }() // only read
	orders, _ := backup.Topic("orders")
	for m, err := range orders.Partition(0).Read(ctx, 0, engine.ReadOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %s\n", m.Offset, m.Value)
	}
	// Output:
	// 0 placed
}
