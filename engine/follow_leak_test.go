package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/engine/enginetest"
)

// Ten thousand follows of a thousand partitions, by watches and by loops, end with
// their contexts and with Close, and leave no goroutine.
func TestFollowsLeaveNoGoroutine(t *testing.T) {
	before := enginetest.Running()
	db, err := engine.Open("store", engine.Options{FS: vfs.NewMem(), Durability: engine.SyncNever}.SmallMemory())
	require.NoError(t, err)
	topic, err := db.CreateTopic("t", engine.TopicConfig{Partitions: 1000})
	require.NoError(t, err)
	w := db.NewWatcher()
	for i := range 10_000 {
		_, err := w.Add(topic.Partition(int32(i%1000)), 0)
		require.NoError(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	follow := func(ctx context.Context, n int32, end error) {
		loops.Go(func() {
			for _, err := range topic.Partition(n).Follow(ctx, 0, engine.ReadOptions{}) {
				if err != nil && !errors.Is(err, end) {
					t.Error(err)
				}
			}
		})
	}
	for n := range int32(100) {
		follow(ctx, n, context.Canceled)
		follow(t.Context(), n, engine.ErrClosed)
	}
	for n := range int32(1000) {
		_, err := topic.Partition(n).Append(t.Context(), codec.Message{Value: []byte("v")})
		require.NoError(t, err)
	}
	for ready := 0; ready < 10_000; {
		list, err := w.Wait(t.Context())
		require.NoError(t, err)
		ready += len(list)
	}
	cancel()
	require.NoError(t, db.Close())
	loops.Wait()
	_, err = w.Wait(t.Context())
	require.ErrorIs(t, err, engine.ErrClosed)
	require.Empty(t, enginetest.Leaked(before))
}
