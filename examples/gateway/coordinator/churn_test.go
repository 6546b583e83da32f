package coordinator_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/examples/gateway/coordinator"
)

// consumer is a member as a client library plays it.
type consumer struct {
	c      *coordinator.Coordinator
	cancel context.CancelFunc
	polite bool // leaves when it ends; else it just falls silent

	mu         sync.Mutex
	member     string
	generation int32
	assignment string
}

func (k *consumer) run(ctx context.Context) {
	for ctx.Err() == nil {
		k.round(ctx)
	}
	if k.polite {
		k.c.Leave("g", k.id())
	}
}

func (k *consumer) id() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.member
}

func (k *consumer) set(member string, generation int32, assignment string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.member, k.generation, k.assignment = member, generation, assignment
}

// round joins, syncs and heartbeats until something else is to be done.
func (k *consumer) round(ctx context.Context) {
	joined := k.c.Join(ctx, request(k.id()))
	if joined.Code == coordinator.UnknownMember {
		k.set("", -1, "")
		return
	}
	if joined.Code != coordinator.None { // the dead still fill the group
		time.Sleep(time.Second)
		return
	}
	k.set(joined.Member, joined.Generation, "")
	var assign map[string][]byte
	for _, m := range joined.Members {
		if assign == nil {
			assign = make(map[string][]byte)
		}
		assign[m.ID] = []byte(m.ID)
	}
	synced := k.c.Sync(ctx, "g", joined.Member, joined.Generation, assign)
	if synced.Code != coordinator.None {
		return
	}
	k.set(joined.Member, joined.Generation, string(synced.Assignment))
	for ctx.Err() == nil && k.c.Heartbeat("g", joined.Member, joined.Generation) == coordinator.None {
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
		}
	}
}

func churn(t *testing.T, c *coordinator.Coordinator, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	var live []*consumer
	var wg sync.WaitGroup
	for range 5 {
		for range rng.IntN(10) {
			if len(live) < 5 && rng.IntN(2) == 0 {
				ctx, cancel := context.WithCancel(t.Context())
				k := &consumer{c: c, cancel: cancel, polite: rng.IntN(2) == 0}
				live = append(live, k)
				wg.Go(func() { k.run(ctx) })
			} else if len(live) > 0 {
				i := rng.IntN(len(live))
				live[i].cancel()
				live = append(live[:i], live[i+1:]...)
			}
			time.Sleep(time.Duration(rng.IntN(5000)) * time.Millisecond)
		}
		time.Sleep(3 * rebalance)
		requireAtRest(t, live)
	}
	for _, k := range live {
		k.cancel()
	}
	wg.Wait()
	time.Sleep(2 * rebalance) // the last timers
}

func requireAtRest(t *testing.T, live []*consumer) {
	t.Helper()
	generations := make(map[int32]bool)
	for _, k := range live {
		k.mu.Lock()
		require.NotEmpty(t, k.member)
		require.Equal(t, k.member, k.assignment)
		generations[k.generation] = true
		k.mu.Unlock()
	}
	require.LessOrEqual(t, len(generations), 1)
}
