package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// began is when the first event happened, and pace how far apart they are.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const pace = 10 * time.Millisecond

// generate appends n clicks after those that are there, each up to late before its
// turn. Equal logs get equal clicks.
func generate(ctx context.Context, p *engine.Partition, n int, late time.Duration) error {
	offsets, err := p.Offsets()
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, uint64(offsets.End)))
	set := make([]codec.Message, 0, 500)
	for i := range n {
		at := began.Add(time.Duration(offsets.End+int64(i)) * pace)
		if late > 0 && rng.IntN(10) == 0 {
			at = at.Add(-time.Duration(rng.Int64N(int64(late))))
		}
		if at.Before(began) {
			at = began
		}
		set = append(set, codec.Message{
			Timestamp: codec.TimestampOf(at), TimestampType: codec.CreateTime,
			Key: fmt.Append(nil, "user-", rng.IntN(1000)), Value: []byte("click"),
		})
		if len(set) < cap(set) && i < n-1 {
			continue
		}
		if _, err := p.Append(ctx, set...); err != nil {
			return err
		}
		set = set[:0]
	}
	return nil
}
