package engine_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// What a service looks at: the work done, how long the disk takes, and whether
// the store still takes writes.
func ExampleDB_Metrics() {
	ctx := context.Background()
	db, orders, done := openExample("orders", 1)
	defer done()
	p := orders.Partition(0)
	for range 3 {
		if _, err := p.Append(ctx, codec.Message{Value: []byte("tea")}, codec.Message{Value: []byte("cups")}); err != nil {
			log.Fatal(err)
		}
	}
	for _, err := range p.Read(ctx, 0, engine.ReadOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
	}

	m := db.Metrics()
	fmt.Println("appends:", m.Sets, "messages:", m.Messages, "read:", m.ReadMessages)
	fmt.Println("partitions:", m.Partitions, "segments:", m.Segments, "failed:", m.Failed)
	fmt.Println("slow disk:", time.Duration(m.SyncLatency.Quantile(0.5)) > 5*time.Second)
	// Output:
	// appends: 3 messages: 6 read: 6
	// partitions: 1 segments: 1 failed: false
	// slow disk: false
}
