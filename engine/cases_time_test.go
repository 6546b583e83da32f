package engine_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// Case T01: one by one, before, on, between and after the timestamps.
func TestT01SearchInAnAscendingLog(t *testing.T) {
	searchLog(t, engine.TopicConfig{}, fillT01, answersT01...)
}

func fillT01(t *testing.T, _ *store, p *engine.Partition) {
	p.StartAt(t, 40)
	leadEach(t, p, 400, 410, 420, 430, 440, 450, 460, 470, 480, 490)
}

var answersT01 = []answer{
	{399, 400, 40}, {400, 400, 40}, {401, 410, 41}, {420, 420, 42}, {421, 430, 43},
	{430, 430, 43}, {431, 440, 44}, {490, 490, 49}, {491, none, notFound},
}

// Case T02: out of order, the first at or after the time wins over an exact match
// that comes later.
func TestT02SearchOutOfOrder(t *testing.T) {
	searchLog(t, engine.TopicConfig{}, fillT02, answersT02...)
}

func fillT02(t *testing.T, _ *store, p *engine.Partition) { leadEach(t, p, 100, 300, 200, 50, 400) }

var answersT02 = []answer{
	{0, 100, 0}, {50, 100, 0}, {101, 300, 1}, {200, 300, 1}, {250, 300, 1}, {301, 400, 4}, {401, none, notFound},
}

// T02 as one set: one stored entry.
func TestT02SearchOutOfOrderInOneSet(t *testing.T) {
	searchLog(t, engine.TopicConfig{}, func(t *testing.T, _ *store, p *engine.Partition) {
		lead(t, p, 100, 300, 200, 50, 400)
	}, answersT02...)
}

// Case T03: a run of equal timestamps over several segments.
func TestT03SearchInARunOfEqualTimestamps(t *testing.T) {
	searchLog(t, engine.TopicConfig{SegmentBytes: 400}, fillT03, answersT03...)
}

func fillT03(t *testing.T, _ *store, p *engine.Partition) {
	for range 10 {
		lead(t, p, 1000)
	}
	lead(t, p, 1001)
	require.Equal(t, []int64{0, 4, 8}, bases(t, p))
}

var answersT03 = []answer{{999, 1000, 0}, {1000, 1000, 0}, {1001, 1001, 10}, {1002, none, notFound}}

// Case T05: messages without timestamps are
// passed over.
func TestT05SearchPassesOverMessagesWithoutTimestamps(t *testing.T) {
	searchLog(t, engine.TopicConfig{}, func(t *testing.T, _ *store, p *engine.Partition) {
		leadEach(t, p, none, none, 100, none, 200)
	}, answer{0, 100, 2}, answer{1, 100, 2}, answer{101, 200, 4}, answer{201, none, notFound})
}

// Case T08: an empty log finds nothing.
func TestT08SearchInAnEmptyLog(t *testing.T) {
	searchLog(t, engine.TopicConfig{}, func(*testing.T, *store, *engine.Partition) {},
		answer{0, none, notFound}, answer{t0, none, notFound})
}

// Case T08: one message.
func TestT08SearchInALogOfOne(t *testing.T) {
	searchLog(t, engine.TopicConfig{}, func(t *testing.T, _ *store, p *engine.Partition) { lead(t, p, 100) },
		answer{99, 100, 0}, answer{100, 100, 0}, answer{101, none, notFound}, answer{math.MaxInt64, none, notFound})
}

// Case T09: the sentinels on an empty log and after five messages.
func TestT09Sentinels(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	requireSentinels(t, p, 0, 0)
	leadEach(t, p, 1, 2, 3, 4, 5)
	requireSentinels(t, p, 0, 5)
	s.reopen()
	requireSentinels(t, s.log(engine.TopicConfig{}), 0, 5)
}

func requireSentinels(t *testing.T, p *engine.Partition, earliest, latest int64) {
	t.Helper()
	for ts, want := range map[codec.Timestamp]int64{engine.Earliest: earliest, engine.Latest: latest} {
		pos, err := p.ListOffset(t.Context(), ts, engine.ListOptions{})
		require.NoError(t, err)
		require.Equal(t, engine.Position{Offset: want, Timestamp: none, Found: true}, pos)
	}
}

// Case T15: the answer is a message inside a wrapper, not a border of it.
func TestT15SearchOpensWrappers(t *testing.T) {
	searchLog(t, engine.TopicConfig{}, fillT15, answersT15...)
}

func fillT15(t *testing.T, _ *store, p *engine.Partition) {
	leadGzip(t, p, 10, 30, 20)
	leadGzip(t, p, 25, 40, 35)
}

var answersT15 = []answer{
	{10, 10, 0}, {11, 30, 1}, {20, 30, 1}, {25, 30, 1}, {30, 30, 1},
	{31, 40, 4}, {36, 40, 4}, {40, 40, 4}, {41, none, notFound},
}

// T15 with the wrappers as a producer sends them.
func TestT15SearchOpensProducedWrappers(t *testing.T) {
	searchLog(t, engine.TopicConfig{}, func(t *testing.T, _ *store, p *engine.Partition) {
		produce(t, p, append(gzipFrame(t, 10, 30, 20), gzipFrame(t, 25, 40, 35)...))
	}, answersT15...)
}

// Case T18: the clock steps back under LogAppendTime.
func TestT18ClockStepsBack(t *testing.T) {
	searchLog(t, logAppend, func(t *testing.T, s *store, p *engine.Partition) {
		for _, now := range []codec.Timestamp{1000, 900, 1100} {
			s.clock.set(now)
			lead(t, p, 1)
		}
		require.Equal(t, []codec.Timestamp{1000, 900, 1100}, timestampsOf(readAll(t, p, 0)))
	}, answer{901, 1000, 0}, answer{950, 1000, 0}, answer{1000, 1000, 0}, answer{1001, 1100, 2})
}

// Case T19: the ends of the range of timestamps keep their order.
func TestT19ExtremeTimestamps(t *testing.T) {
	searchLog(t, engine.TopicConfig{}, func(t *testing.T, _ *store, p *engine.Partition) {
		leadEach(t, p, 0, math.MaxInt64, 5)
	}, answer{-5, 0, 0}, answer{0, 0, 0}, answer{1, math.MaxInt64, 1}, answer{6, math.MaxInt64, 1}, answer{math.MaxInt64, math.MaxInt64, 1})
}

// Case T21: the largest timestamp is at the first of equals, inside wrappers and
// under LogAppendTime too.
func TestT21MaxTimestamp(t *testing.T) {
	for name, tc := range map[string]struct {
		config engine.TopicConfig
		fill   func(t *testing.T, p *engine.Partition)
		want   engine.Position
	}{
		"empty":         {engine.TopicConfig{}, func(*testing.T, *engine.Partition) {}, engine.Position{Timestamp: none}},
		"first reached": {engine.TopicConfig{}, func(t *testing.T, p *engine.Partition) { leadEach(t, p, 0, 1, 2, 3, 4, 6, 5) }, engine.Position{Offset: 5, Timestamp: 6, Found: true}},
		"first of equals": {engine.TopicConfig{}, func(t *testing.T, p *engine.Partition) { leadEach(t, p, 0, 1, 2, 3, 4, 6, 5, 6) },
			engine.Position{Offset: 5, Timestamp: 6, Found: true}},
		"equals over segments": {engine.TopicConfig{SegmentBytes: 200}, func(t *testing.T, p *engine.Partition) { leadEach(t, p, 0, 6, 2, 6) },
			engine.Position{Offset: 1, Timestamp: 6, Found: true}},
		"in a wrapper":  {engine.TopicConfig{}, func(t *testing.T, p *engine.Partition) { leadGzip(t, p, 1, 9, 5) }, engine.Position{Offset: 1, Timestamp: 9, Found: true}},
		"in a set":      {engine.TopicConfig{}, func(t *testing.T, p *engine.Partition) { lead(t, p, 1, 9, 5) }, engine.Position{Offset: 1, Timestamp: 9, Found: true}},
		"no timestamps": {engine.TopicConfig{}, func(t *testing.T, p *engine.Partition) { leadEach(t, p, none, none) }, engine.Position{Offset: 2, Timestamp: none}},
		"LogAppendTime": {logAppend, func(t *testing.T, p *engine.Partition) { lead(t, p, 1, 9, 5) }, engine.Position{Offset: 0, Timestamp: t0, Found: true}},
		"LogAppendTime wrapper": {logAppend, func(t *testing.T, p *engine.Partition) { leadGzip(t, p, 1, 9, 5) },
			engine.Position{Offset: 0, Timestamp: t0, Found: true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			tc.fill(t, s.log(tc.config))
			for range 2 {
				got, err := s.log(tc.config).MaxTimestamp(t.Context())
				require.NoError(t, err)
				require.Equal(t, tc.want, got)
				s.reopen()
			}
		})
	}
}

// Case T22: random logs against a linear scan, with wrappers, rolls and reopens.
func TestT22RandomLogsAgainstALinearScan(t *testing.T) {
	for seed := range uint64(20) {
		eachInterval(t, engine.TopicConfig{}, func(t *testing.T, config engine.TopicConfig) {
			randomSearch(t, seed, config)
		})
	}
}

func randomSearch(t *testing.T, seed uint64, config engine.TopicConfig) {
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 22))
	config.SegmentBytes = []int64{400, 700, 1000}[random.IntN(3)]
	s := newStore(t)
	p := s.log(config)
	var log []codec.Timestamp
	for range 1 + random.IntN(25) {
		set := make([]codec.Timestamp, 1+random.IntN(4))
		for i := range set {
			set[i] = codec.Timestamp(random.Int64N(31))
		}
		if random.IntN(2) == 0 {
			leadGzip(t, p, set...)
		} else {
			lead(t, p, set...)
		}
		log = append(log, set...)
		if random.IntN(8) == 0 {
			s.reopen()
			p = s.log(config)
		}
	}
	require.Equal(t, log, timestampsOf(readAll(t, p, 0)))
	for q := range codec.Timestamp(33) {
		want := answer{q, none, notFound}
		for i, ts := range log {
			if ts >= q {
				want = answer{q, ts, int64(i)}
				break
			}
		}
		requireSearch(t, p, want)
	}
}

// Case T23: a search rounds up, never down.
func TestT23SearchRoundsUp(t *testing.T) {
	searchLog(t, engine.TopicConfig{}, func(t *testing.T, _ *store, p *engine.Partition) {
		leadEach(t, p, 2, 4, 6, 8)
	}, answer{2, 2, 0}, answer{3, 4, 1}, answer{4, 4, 1}, answer{5, 6, 2}, answer{6, 6, 2}, answer{7, 8, 3}, answer{8, 8, 3}, answer{9, none, notFound})
}
