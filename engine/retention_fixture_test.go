package engine_test

import (
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// maxAge is retention.ms, size retention off.
func maxAge(n int64) retention.Policy { return limits(n, -1) }

// maxBytes is retention.bytes, time retention off.
func maxBytes(n int64) retention.Policy { return limits(-1, n) }

// limits is a policy in Kafka's numbers.
func limits(ageMs, size int64) retention.Policy {
	p := retention.Policy{MaxAge: ms(ageMs), MaxBytes: size}
	switch ageMs {
	case -1:
		p.MaxAge = retention.Unlimited
	case 0:
		p.MaxAge = retention.Immediate
	case math.MaxInt64:
		p.MaxAge = engine.Forever
	}
	if size == 0 {
		p.MaxBytes = retention.KeepNothing
	}
	return p
}

// expiring is a topic with segments of n standard records.
func expiring(n int64, p retention.Policy) engine.TopicConfig {
	return engine.TopicConfig{SegmentBytes: 100 * n, Retention: p}
}

// retained runs retention by hand.
func retained(t testing.TB, p *engine.Partition) engine.Retained {
	t.Helper()
	planned, err := p.Retain(t.Context(), engine.RetainOptions{DryRun: true})
	require.NoError(t, err)
	done, err := p.Retain(t.Context(), engine.RetainOptions{})
	require.NoError(t, err)
	require.Equal(t, planned, done, "the dry run promised something else")
	return done
}

// maintain runs the maintenance loop's work once, at the store's clock.
func (s *store) maintain() engine.Maintained {
	s.t.Helper()
	done, err := s.MaintainOnce(s.t.Context(), s.clock.Now())
	require.NoError(s.t, err)
	return done
}

// life is a scenario's log, which may be closed and opened again between any two
// steps, with the clock elsewhere meanwhile: nothing may depend on when a store
// was opened (SPEC C13, KAFKA-881).
type life struct {
	*store
	p      *engine.Partition
	config engine.TopicConfig
	// openAt is what the clock shows while the store is opened, 0 to leave it open.
	openAt codec.Timestamp
}

// rest lets time pass between two steps.
func (l *life) rest() {
	l.t.Helper()
	if l.openAt == 0 {
		return
	}
	now := l.clock.read()
	l.clock.set(l.openAt)
	l.reopen()
	l.clock.set(now)
	l.p = l.log(l.config)
}

// at sets the clock and lets time pass.
func (l *life) at(now codec.Timestamp) {
	l.t.Helper()
	l.clock.set(now)
	l.rest()
}

// livesFrom runs a scenario that starts at a time: without a reopening, and
// reopened long before and long after that time.
func livesFrom(t *testing.T, start codec.Timestamp, config engine.TopicConfig, scenario func(t *testing.T, l *life)) {
	t.Helper()
	for name, openAt := range map[string]codec.Timestamp{"live": 0, "reopened in the past": 1, "reopened in the future": 4 * t0} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			s.clock.set(start)
			scenario(t, &life{store: s, p: s.log(config), config: config, openAt: openAt})
		})
	}
}

// requireBounds checks log start and end.
func requireBounds(t testing.TB, p *engine.Partition, start, end int64) {
	t.Helper()
	offsets, err := p.Offsets()
	require.NoError(t, err)
	require.Equal(t, engine.Offsets{Start: start, HighWatermark: end, End: end}, offsets)
}

// bubble runs f with a time of its own. Stores share their commits through a
// pool, and what was made in one bubble may not be used in another (see
// TestStoresWorkInBubblesOfTheirOwn): two collections empty it.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	drain := func() {
		runtime.GC()
		runtime.GC()
	}
	drain()
	defer drain()
	synctest.Test(t, f)
}

// sleep lets the loop of a store in a bubble run, with the store's clock moving
// along: between two ticks, so that a tick does not race with it.
func (s *store) sleep(d time.Duration) {
	for ; d > 0; d -= time.Second {
		step := min(d, time.Second)
		time.Sleep(step / 2)
		s.clock.add(codec.Timestamp(step.Milliseconds()))
		time.Sleep(step - step/2)
	}
	synctest.Wait()
}

// rows is what Pebble holds for a partition.
type rows struct {
	log        []int64 // last offsets
	companion  []retention.IndexRow
	timestamps []pair
	segments   []retention.Segment
	alarms     []codec.Timestamp
	state      bool
}

// rowsOf reads a partition's rows from a closed store.
func rowsOf(t testing.TB, pdb *pebble.DB, id keys.Partition) rows {
	t.Helper()
	var r rows
	each(t, pdb, keys.LogRange(id, 0, math.MaxInt64), func(key, value []byte) {
		_, offset, err := keys.DecodeLog(key)
		require.NoError(t, err)
		_, err = codec.ParseEntry(key, value)
		require.NoError(t, err)
		r.log = append(r.log, offset)
	})
	each(t, pdb, keys.LogRange(id.Companion(), 0, math.MaxInt64), func(key, value []byte) {
		row, err := codec.ParseIndexRow(key, value)
		require.NoError(t, err)
		r.companion = append(r.companion, row)
	})
	each(t, pdb, keys.TimestampRange(id, 0, math.MaxInt64), func(key, value []byte) {
		_, _, ts, err := keys.DecodeTimestamp(key)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(value), 8)
		r.timestamps = append(r.timestamps, pair{codec.Timestamp(ts), int64(binary.BigEndian.Uint64(value))})
	})
	each(t, pdb, keys.SegmentRange(id, 0, math.MaxInt64), func(_, value []byte) {
		seg, err := retention.DecodeSegment(value)
		require.NoError(t, err)
		r.segments = append(r.segments, seg)
	})
	each(t, pdb, keys.DueRange(math.MaxInt64-1), func(key, _ []byte) {
		at, p, err := keys.DecodeDue(key)
		require.NoError(t, err)
		if p == id {
			r.alarms = append(r.alarms, codec.Timestamp(at))
		}
	})
	_, closer, err := pdb.Get(keys.AppendState(nil, id))
	if r.state = err == nil; r.state {
		require.NoError(t, closer.Close())
	} else {
		require.ErrorIs(t, err, pebble.ErrNotFound)
	}
	return r
}

func each(t testing.TB, pdb *pebble.DB, r keys.Range, f func(key, value []byte)) {
	t.Helper()
	it, err := pdb.NewIter(&pebble.IterOptions{LowerBound: r.Start, UpperBound: r.End})
	require.NoError(t, err)
	for ok := it.First(); ok; ok = it.Next() {
		f(it.Key(), it.Value())
	}
	require.NoError(t, it.Close())
}

// requireSound checks a partition's rows against each other and against what
// the open partition said: the log lies in [start, end), the two copies of the
// time index agree and lie in the segments, no segment row is left over.
func requireSound(t testing.TB, r rows, offsets engine.Offsets) {
	t.Helper()
	for _, last := range r.log {
		require.GreaterOrEqual(t, last, offsets.Start, "an entry is left below the log start: %v", r.log)
		require.Less(t, last, offsets.End)
	}
	byOffset := make(map[pair]int)
	for _, row := range r.companion {
		byOffset[pair{row.Timestamp, row.Offset}]++
		require.Less(t, row.Offset, offsets.End)
		require.NotEmpty(t, r.segments)
		require.GreaterOrEqual(t, row.Offset, r.segments[0].Base)
	}
	require.Len(t, byOffset, len(r.companion))
	var companion []pair
	for _, row := range r.companion {
		companion = append(companion, pair{row.Timestamp, row.Offset})
	}
	require.ElementsMatch(t, companion, r.timestamps, "companion partition and timestamp space disagree")
	for i, seg := range r.segments {
		require.Equal(t, i < len(r.segments)-1, seg.Sealed, "segment %d of %d", i, len(r.segments))
	}
}

// soundAfterwards closes the store, audits the rows of partitions and opens it
// again.
func (s *store) soundAfterwards(partitions ...*engine.Partition) {
	s.t.Helper()
	offsets := make([]engine.Offsets, len(partitions))
	for i, p := range partitions {
		var err error
		offsets[i], err = p.Offsets()
		require.NoError(s.t, err)
	}
	s.raw(func(pdb *pebble.DB) {
		for i, p := range partitions {
			requireSound(s.t, rowsOf(s.t, pdb, p.TestKeys()), offsets[i])
		}
	})
}

// requireOvertaken checks the error of a read that retention or a truncation
// overtook.
func requireOvertaken(t testing.TB, err error) *engine.OffsetRangeError {
	t.Helper()
	bad, ok := errors.AsType[*engine.OffsetRangeError](err)
	require.True(t, ok, "%v", err)
	require.ErrorIs(t, err, engine.ErrOffsetRange)
	return bad
}
