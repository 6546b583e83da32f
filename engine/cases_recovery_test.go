package engine_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/keys"
)

// eachRow calls f with every row of a range.
func eachRow(t *testing.T, pdb *pebble.DB, r keys.Range, f func(key, value []byte)) {
	t.Helper()
	it, err := pdb.NewIter(&pebble.IterOptions{LowerBound: r.Start, UpperBound: r.End})
	require.NoError(t, err)
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		f(append([]byte(nil), it.Key()...), append([]byte(nil), it.Value()...))
		n++
	}
	require.NoError(t, it.Error())
	require.NoError(t, it.Close())
	require.NotZero(t, n, "no rows to damage")
}

// indexRanges are the two places of a partition's time index.
func indexRanges(id keys.Partition) []keys.Range {
	return []keys.Range{
		keys.TimestampRange(id, 0, 1<<62),
		keys.LogRange(id.Companion(), 0, 1<<62),
	}
}

// Case K04: without its time index a log gives the same answers; with a garbled
// one too.
func TestK04SearchDoesNotDependOnTheIndex(t *testing.T) {
	damages := map[string]func(t *testing.T, pdb *pebble.DB, key, value []byte){
		"deleted": func(t *testing.T, pdb *pebble.DB, key, _ []byte) { require.NoError(t, pdb.Delete(key, pebble.NoSync)) },
		"emptied": func(t *testing.T, pdb *pebble.DB, key, _ []byte) {
			require.NoError(t, pdb.Set(key, nil, pebble.NoSync))
		},
		"cut": func(t *testing.T, pdb *pebble.DB, key, value []byte) {
			require.NoError(t, pdb.Set(key, value[:len(value)/2], pebble.NoSync))
		},
		"zeroed": func(t *testing.T, pdb *pebble.DB, key, value []byte) {
			clear(value)
			require.NoError(t, pdb.Set(key, value, pebble.NoSync))
		},
		"set to 0x7f": func(t *testing.T, pdb *pebble.DB, key, value []byte) {
			for i := range value {
				value[i] = 0x7f
			}
			require.NoError(t, pdb.Set(key, value, pebble.NoSync))
		},
		"one bit flipped": func(t *testing.T, pdb *pebble.DB, key, value []byte) {
			value[len(value)-1] ^= 2
			require.NoError(t, pdb.Set(key, value, pebble.NoSync))
		},
	}
	for name, damage := range damages {
		for scenario, tc := range map[string]struct {
			config  engine.TopicConfig
			fill    func(*testing.T, *store, *engine.Partition)
			answers []answer
		}{
			"T01": {engine.TopicConfig{}, fillT01, answersT01},
			"T02": {engine.TopicConfig{}, fillT02, answersT02},
			"T03": {engine.TopicConfig{SegmentBytes: 400}, fillT03, answersT03},
			"T15": {engine.TopicConfig{}, fillT15, answersT15},
		} {
			t.Run(name+"/"+scenario, func(t *testing.T) {
				config := tc.config
				config.IndexIntervalBytes = engine.ExplicitZero
				s := newStore(t)
				p := s.log(config)
				tc.fill(t, s, p)
				was, id := largest(t, p), p.TestKeys()
				s.raw(func(pdb *pebble.DB) {
					for _, r := range indexRanges(id) {
						eachRow(t, pdb, r, func(key, value []byte) { damage(t, pdb, key, value) })
					}
				})
				p = s.log(config)
				require.Equal(t, was, largest(t, p))
				requireSearch(t, p, tc.answers...)
				for _, err := range p.TimeIndex(t.Context()) { // reports, does not panic
					if err != nil {
						require.ErrorIs(t, err, engine.ErrCorrupt)
					}
				}
			})
		}
	}
}

// Case K05: zero rows that pad an index are no timestamps.
func TestK05ZeroRowsInTheIndexAreNoTimestamps(t *testing.T) {
	s := newStore(t)
	config := engine.TopicConfig{IndexIntervalBytes: engine.ExplicitZero, SegmentBytes: 200}
	p := s.log(config)
	leadEach(t, p, t0, t0+1, t0+2, t0+3)
	was, id := largest(t, p), p.TestKeys()
	s.raw(func(pdb *pebble.DB) {
		for _, base := range []int64{0, 2} {
			require.NoError(t, pdb.Set(keys.AppendTimestamp(nil, id, base, 0), make([]byte, 16), pebble.Sync))
		}
	})
	p = s.log(config)
	require.Equal(t, was, largest(t, p))
	requireSearch(t, p, answer{0, t0, 0}, answer{t0, t0, 0}, answer{t0 + 2, t0 + 2, 2}, answer{t0 + 3, t0 + 3, 3}, answer{t0 + 4, none, notFound})
	pos, err := p.MaxTimestamp(t.Context())
	require.NoError(t, err)
	require.Equal(t, engine.Position{Offset: 3, Timestamp: t0 + 3, Found: true}, pos)
}

// crash replaces the store's file system by what a power cut would leave of it,
// without what was not synced, and opens it. The store before is closed after
// the clone was taken.
func (s *store) crash(mem *vfs.MemFS) *vfs.MemFS {
	s.t.Helper()
	clone := mem.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(s.t, s.Close())
	s.opts.FS = clone
	s.open()
	return clone
}

// Case K06: opening and closing, cleanly or not, changes nothing.
func TestK06ReopeningChangesNothing(t *testing.T) {
	mem := vfs.NewCrashableMem()
	s := newStoreWith(t, engine.Options{FS: mem})
	config := engine.TopicConfig{IndexIntervalBytes: 300, SegmentBytes: 700}
	leadEach(t, s.log(config), 400, 410, 420, none, 440, 405, 460, 460, 480, 430)
	s.reopen()
	p := s.log(config)
	was := stateOf(t, p)
	for round := range 10 {
		if round%2 == 0 {
			mem = s.crash(mem)
		} else {
			s.reopen()
		}
		p = s.log(config)
		require.Equal(t, was, stateOf(t, p), "round %d", round)
		requireSearch(t, p, answer{0, 400, 0}, answer{421, 440, 4}, answer{445, 460, 6}, answer{461, 480, 8}, answer{481, none, notFound})
	}
}

// Case K06, SPEC 5.7.22: what a crash leaves of the index is the index of what it
// leaves of the log.
func TestK06CrashNeedsNoRebuild(t *testing.T) {
	mem := vfs.NewCrashableMem()
	s := newStoreWith(t, engine.Options{FS: mem})
	config := engine.TopicConfig{IndexIntervalBytes: 300, SegmentBytes: 700}
	for i := range codec.Timestamp(30) {
		p := s.log(config)
		lead(t, p, 400+10*i)
		was := stateOf(t, p)
		mem = s.crash(mem)
		require.Equal(t, was, stateOf(t, s.log(config)), "after %d appends", i+1)
	}
}

// Case K08: a torn set is there as a whole or not at all.
func TestK08TornSetIsAtomic(t *testing.T) {
	for seed := range uint64(40) {
		mem := vfs.NewCrashableMem()
		s := newStoreWith(t, engine.Options{FS: mem, Durability: engine.SyncNever})
		config := engine.TopicConfig{IndexIntervalBytes: engine.ExplicitZero}
		p := s.log(config)
		for range 20 {
			lead(t, p, 10, 20, 30)
			leadGzip(t, p, 10, 30, 20)
		}
		clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(seed, 8))})
		require.NoError(t, s.Close())
		s.opts.FS = clone
		s.open()
		p = s.log(config)
		require.Zero(t, end(t, p)%3, "seed %d", seed)
		msgs := readAll(t, p, 0)
		require.Len(t, msgs, int(end(t, p)), "seed %d", seed)
		if len(msgs) > 0 {
			requireSearch(t, p, answer{0, 10, 0}, answer{30, 30, 2})
			require.Equal(t, pair{30, 2}, indexPairs(t, p)[len(indexPairs(t, p))-1])
		}
	}
}

// damaged returns a log of ten messages, of which that at offset 5 has a bad
// byte.
func damaged(t *testing.T) (*store, *engine.Partition) {
	t.Helper()
	s := newStore(t)
	config := engine.TopicConfig{IndexIntervalBytes: engine.ExplicitZero}
	p := s.log(config)
	for i := range codec.Timestamp(10) {
		lead(t, p, t0+i)
	}
	id := p.TestKeys()
	s.raw(func(pdb *pebble.DB) {
		key := logKey(id, 5)
		value, closer, err := pdb.Get(key)
		require.NoError(t, err)
		bad := append([]byte(nil), value...)
		require.NoError(t, closer.Close())
		bad[len(bad)/2] ^= 0x20
		require.NoError(t, pdb.Set(key, bad, pebble.Sync))
	})
	return s, s.log(config)
}

// Case K09: a damaged message is a CorruptionError that names its offset; its
// neighbours stay readable and nothing is truncated.
func TestK09DamageIsReportedWhereItIs(t *testing.T) {
	_, p := damaged(t)
	require.EqualValues(t, 10, end(t, p))
	msgs, err := collect(p, t, 0)
	require.Equal(t, []int64{0, 1, 2, 3, 4}, offsetsOf(msgs))
	bad, ok := errors.AsType[*engine.CorruptionError](err)
	require.True(t, ok, "%v", err)
	require.EqualValues(t, 5, bad.Offset)
	require.Equal(t, "t", bad.Topic)
	require.ErrorIs(t, err, engine.ErrCorrupt)
	require.ErrorIs(t, err, codec.ErrDamaged)
	requireCode(t, codec.CodeCorruptMessage, err)
	require.Equal(t, []int64{6, 7, 8, 9}, offsetsOf(readAll(t, p, bad.Offset+1)))
	require.EqualValues(t, 10, lead(t, p, t0))
}

// Case K09: a fetch returns what precedes the damage, then reports it.
func TestK09FetchStopsAtTheDamage(t *testing.T) {
	_, p := damaged(t)
	res, err := p.Fetch(t.Context(), 0, engine.FetchOptions{})
	require.NoError(t, err)
	require.Len(t, res.Set, 500)
	require.EqualValues(t, 5, res.Next)
	_, err = p.Fetch(t.Context(), 5, engine.FetchOptions{})
	bad, ok := errors.AsType[*engine.CorruptionError](err)
	require.True(t, ok, "%v", err)
	require.EqualValues(t, 5, bad.Offset)
	res, err = p.Fetch(t.Context(), 6, engine.FetchOptions{})
	require.NoError(t, err)
	require.Len(t, res.Set, 400)
}

// Case K09: a search that does not touch the damage answers, one that does
// reports it.
func TestK09SearchReportsTheDamage(t *testing.T) {
	_, p := damaged(t)
	requireSearch(t, p, answer{t0 + 4, t0 + 4, 4}, answer{t0 + 6, t0 + 6, 6}, answer{t0 + 9, t0 + 9, 9})
	_, err := p.OffsetFor(t0 + 5)
	require.ErrorIs(t, err, engine.ErrCorrupt)
}

// Case K09: each byte of a stored entry is covered.
func TestK09EveryByteOfAnEntryIsCovered(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	lead(t, p, t0, t0)
	leadGzip(t, p, t0, t0+1)
	id := p.TestKeys()
	for _, offset := range []int64{1, 3} {
		var value []byte
		require.NoError(t, s.Close())
		s.edit(func(pdb *pebble.DB) {
			v, closer, err := pdb.Get(logKey(id, offset))
			require.NoError(t, err)
			value = append(value, v...)
			require.NoError(t, closer.Close())
		})
		for i := 0; i < len(value); i += 7 {
			s.edit(func(pdb *pebble.DB) {
				bad := append([]byte(nil), value...)
				bad[i] ^= 1
				require.NoError(t, pdb.Set(logKey(id, offset), bad, pebble.Sync))
			})
			s.open()
			_, err := collect(s.log(engine.TopicConfig{}), t, offset-1)
			require.ErrorIs(t, err, engine.ErrCorrupt, "offset %d, byte %d", offset, i)
			require.NoError(t, s.Close())
		}
		s.edit(func(pdb *pebble.DB) { require.NoError(t, pdb.Set(logKey(id, offset), value, pebble.Sync)) })
		s.open()
	}
}

// faultyFS fails operations on the write-ahead log once armed.
type faultyFS struct {
	*errorfs.FS
	armed atomic.Bool
	hits  atomic.Int32
}

func newFaultyFS(inner vfs.FS, kinds ...errorfs.OpKind) *faultyFS {
	f := &faultyFS{}
	f.FS = errorfs.Wrap(inner, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !f.armed.Load() || !strings.HasSuffix(op.Path, ".log") {
			return nil
		}
		if slices.Contains(kinds, op.Kind) {
			f.hits.Add(1)
			return errInjected
		}
		return nil
	}))
	return f
}

// failedStore returns a store with four acknowledged messages whose fifth met a
// failed write.
func failedStore(t *testing.T, kinds ...errorfs.OpKind) (*store, *engine.Partition, *faultyFS) {
	t.Helper()
	fs := newFaultyFS(vfs.NewMem(), kinds...)
	s := newStoreWith(t, engine.Options{FS: fs})
	p := s.log(engine.TopicConfig{})
	leadEach(t, p, t0, t0+1, t0+2, t0+3)
	fs.armed.Store(true)
	_, err := p.Append(t.Context(), at(t0+4))
	require.ErrorIs(t, err, engine.ErrFailed)
	require.ErrorIs(t, err, errInjected)
	require.NotZero(t, fs.hits.Load())
	fs.armed.Store(false)
	return s, p, fs
}

var walFaults = map[string][]errorfs.OpKind{
	"write": {errorfs.OpFileWrite, errorfs.OpFileWriteAt},
	"sync":  {errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo},
}

// Case K10: after a failed write no write is accepted, reads go on, Close
// succeeds and the same process can open the store again.
func TestK10FailedWriteFailsTheStoreUntilReopened(t *testing.T) {
	for name, kinds := range walFaults {
		t.Run(name, func(t *testing.T) {
			s, p, _ := failedStore(t, kinds...)
			for what, err := range map[string]error{
				"append":  func() error { _, err := p.Append(t.Context(), at(t0)); return err }(),
				"submit":  func() error { _, err := p.Submit(t.Context(), records(t0), engine.AppendOptions{}); return err }(),
				"produce": func() error { _, err := p.Produce(t.Context(), plainFrame(t0)); return err }(),
				"roll":    p.Roll(t.Context()),
				"sync":    s.Sync(t.Context()),
				"create":  func() error { _, err := s.CreateTopic("u", engine.TopicConfig{}); return err }(),
				"alter":   s.AlterTopic("t", engine.TopicConfig{}),
			} {
				require.ErrorIs(t, err, engine.ErrFailed, what)
				require.ErrorIs(t, err, errInjected, what)
				require.Equal(t, codec.CodeKafkaStorage, engine.KafkaCode(err), what)
			}

			offsets, err := p.Offsets()
			require.NoError(t, err)
			require.EqualValues(t, 4, offsets.HighWatermark, "not advanced for readers")
			require.Equal(t, []int64{0, 1, 2, 3}, offsetsOf(readAll(t, p, 0)))
			require.Len(t, fetchAll(t, p, 0), 400)
			pos, err := p.OffsetFor(t0 + 2)
			require.NoError(t, err)
			require.EqualValues(t, 2, pos.Offset)

			require.NoError(t, s.Close())
			s.open()
			p = s.log(engine.TopicConfig{})
			n := end(t, p) // the failed append may be there or not
			require.GreaterOrEqual(t, n, int64(4))
			require.LessOrEqual(t, n, int64(5))
			require.Len(t, readAll(t, p, 0), int(n))
			require.Equal(t, n, lead(t, p, t0))
		})
	}
}

// Case K10: on a failed store the largest timestamp is that of an acknowledged
// message, not an error: reads go on.
func TestK10MaxTimestampOfAFailedStore(t *testing.T) {
	_, p, _ := failedStore(t, walFaults["sync"]...)
	pos, err := p.MaxTimestamp(t.Context())
	require.NoError(t, err)
	require.Equal(t, engine.Position{Offset: 3, Timestamp: t0 + 3, Found: true}, pos)
}

// Case K10: a follower gets everything acknowledged, then the failure.
func TestK10FollowEndsWithTheFailure(t *testing.T) {
	_, p, _ := failedStore(t, walFaults["write"]...)
	var got []int64
	var last error
	for m, err := range p.Follow(t.Context(), 0, engine.ReadOptions{}) {
		if err != nil {
			last = err
			break
		}
		got = append(got, m.Offset)
	}
	require.Equal(t, []int64{0, 1, 2, 3}, got)
	require.ErrorIs(t, last, engine.ErrFailed)
}

// Case K10: a write that fails while the store opens leaves the directory free:
// the same process can open it.
func TestK10FailureDuringOpenReleasesTheDirectory(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileSync} {
		mem := vfs.NewMem()
		fs := newFaultyFS(mem, kind, errorfs.OpFileSyncData)
		fs.armed.Store(true)
		db, err := engine.Open("store", engine.Options{FS: fs}.SmallMemory())
		require.ErrorIs(t, err, errInjected)
		require.ErrorIs(t, err, engine.ErrFailed)
		require.Nil(t, db)
		db, err = engine.Open("store", engine.Options{FS: mem}.SmallMemory())
		require.NoError(t, err, "after a failed %v", kind)
		require.NoError(t, db.Close())
	}
}

// Case K10: once Close of a failed store has returned, nothing of it touches the
// directory any more: it may belong to another store by then.
func TestK10NothingIsWrittenAfterCloseOfAFailedStore(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	enter := sync.OnceFunc(func() { close(entered) })
	var table atomic.Bool
	fs := newFaultyFS(errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") && table.Load() {
			enter()
			<-release // a slow disk, in the middle of a flush
		}
		return nil
	})), walFaults["sync"]...)
	s := newStoreWith(t, engine.Options{FS: fs})
	p := s.log(engine.TopicConfig{})
	lead(t, p, t0)
	table.Store(true)
	require.NoError(t, s.Flush())
	<-entered
	fs.armed.Store(true)
	_, err := p.Append(t.Context(), at(t0))
	require.ErrorIs(t, err, engine.ErrFailed)
	fs.armed.Store(false)
	table.Store(false)

	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case <-closed:
		close(release)
		t.Fatal("Close returned while an operation on the directory was in flight")
	case <-time.After(200 * time.Millisecond):
	}
	close(release)
	require.NoError(t, <-closed)
}
