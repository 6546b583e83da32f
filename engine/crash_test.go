package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/engine/enginetest"
	"github.com/cairnlog/cairn/keys"
)

// keeps is how many percent of what was not synced a crash leaves.
var keeps = []int{0, 50, 100}

// crashShape is that of histories to crash: short, as each is crashed after every
// operation of the file system, with values that fill write buffers.
var crashShape = enginetest.Shape{Topics: 2, Ops: 12, MaxSets: 4, Large: true, Quiet: true}

// crashHistories crashes n histories everywhere, CAIRN_SOAK times as many when
// that is set.
func crashHistories(t *testing.T, n int, opts engine.Options, o enginetest.CrashOptions) {
	t.Helper()
	var total enginetest.CrashReport
	histories := enginetest.Histories(crashShape)
	n = rounds(t, n)
	for seed := range n {
		h := histories.Example(seed)
		h.Options = opts
		o.Seed = uint64(seed)
		report, err := enginetest.Crash(t.Context(), h, o)
		total.Add(report)
		require.NoError(t, err, "history %d\n%v", seed, h)
	}
	t.Logf("%d histories: %+v", n, total)
	require.NotZero(t, total.Points)
}

// CASES K01, K08: power is lost after every operation of the file system; what was
// acknowledged is there, whole sets only, and the store agrees with itself.
func TestCrashAnywhereKeepsWhatWasAcknowledged(t *testing.T) {
	crashHistories(t, 6, engine.Options{}, enginetest.CrashOptions{Keep: keeps, Recovery: 150})
}

// A store that is not synced at every append comes back as it was at some point
// after its last sync: never with a hole, never with part of a set.
func TestCrashWithoutSyncKeepsAPrefix(t *testing.T) {
	for name, mode := range map[string]engine.Durability{
		"never": engine.SyncNever,
		"every": engine.SyncEvery(time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			crashHistories(t, 2, engine.Options{Durability: mode}, enginetest.CrashOptions{Keep: keeps, Recovery: 300})
		})
	}
}

// The negative control: a store that does not sync loses what it acknowledged, and
// the crash test sees it.
func TestCrashTestNoticesAMissingSync(t *testing.T) {
	histories := enginetest.Histories(crashShape)
	for seed := range 10 {
		h := histories.Example(seed)
		h.Options.Durability = engine.SyncNever
		_, err := enginetest.Crash(t.Context(), h, enginetest.CrashOptions{Keep: []int{0}, Trusting: true})
		if err != nil {
			require.ErrorIs(t, err, enginetest.ErrUnknownState)
			return
		}
	}
	require.Fail(t, "a store that never syncs lost nothing: the crash test proves nothing")
}

// appender appends numbered sets to a partition, one after the other.
type appender struct {
	name      string
	partition int32
	attempted int
	acked     int
	offsets   []int64 // of the acknowledged sets
}

// set returns the messages of the appender's n-th set: each names its set, its
// place and the size of the set.
func (a *appender) set(n int) []codec.Message {
	msgs := make([]codec.Message, 1+n%4)
	for i := range msgs {
		msgs[i].Value = fmt.Appendf(nil, "%s %d %d/%d", a.name, n, i, len(msgs))
	}
	return msgs
}

// run appends sets until stop is closed; mu guards what a crash takes note of.
func (a *appender) run(t *testing.T, p *engine.Partition, mu *sync.Mutex, stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		mu.Lock()
		a.attempted++
		mu.Unlock()
		r, err := p.Append(t.Context(), a.set(n)...)
		if !assert.NoError(t, err) {
			return
		}
		mu.Lock()
		a.acked++
		a.offsets = append(a.offsets, r.Offset)
		mu.Unlock()
	}
}

// requireSets checks the messages of a partition against what its appenders did up
// to a crash: all that was acknowledged, where the receipt says; whole sets only,
// in the order of each appender, none that nobody appended.
func requireSets(t *testing.T, values []string, appenders []appender) {
	t.Helper()
	next := make(map[string]int)
	for at := 0; at < len(values); {
		name, rest, _ := strings.Cut(values[at], " ")
		i := slices.IndexFunc(appenders, func(a appender) bool { return a.name == name })
		require.NotEqual(t, -1, i, "message %d, %s", at, values[at])
		a := &appenders[i]
		n := next[name]
		require.True(t, strings.HasPrefix(rest, fmt.Sprintf("%d 0/", n)), "message %d is %s, want set %d", at, values[at], n)
		require.Less(t, n, a.attempted)
		if n < a.acked {
			require.EqualValues(t, a.offsets[n], at)
		}
		set := a.set(n)
		require.LessOrEqual(t, at+len(set), len(values), "the log ends inside a set")
		for _, m := range set {
			require.Equal(t, string(m.Value), values[at])
			at++
		}
		next[name]++
	}
	for _, a := range appenders {
		require.GreaterOrEqual(t, next[a.name], a.acked, "acknowledged sets of %s are missing", a.name)
	}
}

// CASES K01 with many appenders, whose sets share syncs.
func TestCrashUnderConcurrentAppendsKeepsWhatWasAcknowledged(t *testing.T) {
	type survivor struct {
		mem       *vfs.MemFS
		appenders []appender
	}
	const every = 7 // operations between crashes
	wanted := rounds(t, 60)
	var survivors []survivor
	var mu sync.Mutex
	appenders := make([]appender, 8)
	stop := make(chan struct{})
	mem := vfs.NewCrashableMem()
	rng := rand.New(rand.NewPCG(1, 2))
	fs := enginetest.NewCrashFS(mem, func(op int, _ bool) {
		mu.Lock()
		defer mu.Unlock()
		if op%every != 0 || len(survivors) == wanted || appenders[0].attempted == 0 {
			return
		}
		then := slices.Clone(appenders)
		for i := range then {
			then[i].offsets = slices.Clone(then[i].offsets)
		}
		clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keeps[len(survivors)%len(keeps)], RNG: rng})
		if survivors = append(survivors, survivor{clone, then}); len(survivors) == wanted {
			close(stop)
		}
	})
	opts := engine.Options{FS: fs, MemTableBytes: 64 << 10, CacheBytes: 1 << 20}
	db, err := engine.Open("db", opts)
	require.NoError(t, err)
	topic, err := db.CreateTopic("t", engine.TopicConfig{Partitions: 2, SegmentBytes: 1000})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range appenders {
		mu.Lock()
		appenders[i].name, appenders[i].partition = fmt.Sprint("a", i), int32(i%2)
		mu.Unlock()
		wg.Go(func() { appenders[i].run(t, topic.Partition(int32(i%2)), &mu, stop) })
	}
	wg.Wait()
	require.NoError(t, db.Close())
	require.Len(t, survivors, wanted)
	for _, v := range survivors {
		opts.FS = enginetest.NewCrashFS(v.mem, nil)
		db, err := engine.Open("db", opts)
		require.NoError(t, err)
		topic, ok := db.Topic("t")
		require.True(t, ok)
		for n := range int32(2) {
			var values []string
			for m, err := range topic.Partition(n).Read(t.Context(), 0, engine.ReadOptions{}) {
				require.NoError(t, err)
				require.EqualValues(t, len(values), m.Offset)
				values = append(values, string(m.Value))
			}
			requireSets(t, values, slices.DeleteFunc(slices.Clone(v.appenders), func(a appender) bool { return a.partition != n }))
		}
		require.NoError(t, db.Close())
		require.NoError(t, enginetest.Audit(opts.FS, "db"))
	}
}

// A new store in a directory whose parents are new too: their entries must be on
// disk before an append is acknowledged.
func TestCrashKeepsNewDirectories(t *testing.T) {
	h := enginetest.History{
		Topics: []engine.TopicConfig{{}},
		Ops:    []enginetest.Op{enginetest.Append{Drafts: []enginetest.Draft{{Size: 10}}}},
	}
	_, err := enginetest.Crash(t.Context(), h, enginetest.CrashOptions{Dir: "srv/logs/orders", Keep: keeps})
	require.NoError(t, err)
}

// indexedStore returns a closed store with several index rows in several segments.
func indexedStore(t *testing.T) *enginetest.Store {
	t.Helper()
	fs := enginetest.NewCrashFS(vfs.NewCrashableMem(), nil)
	s := enginetest.NewStore(fs, "db", engine.Options{})
	require.NoError(t, s.Open())
	h := enginetest.History{Topics: []engine.TopicConfig{{SegmentBytes: 400, IndexIntervalBytes: engine.ExplicitZero}}}
	for _, ts := range []int64{10, 40, 20, 40, 90, 5, 100, 50, 130, 7} {
		h.Ops = append(h.Ops, enginetest.Append{Drafts: []enginetest.Draft{{Time: enginetest.Instant{Kind: enginetest.Fixed, N: ts}, Size: 30}}})
	}
	require.NoError(t, h.Run(t.Context(), s, nil))
	require.NoError(t, s.Close())
	return s
}

// editStore changes the Pebble store underneath a closed store.
func editStore(t *testing.T, s *enginetest.Store, edit func(pdb *pebble.DB)) {
	t.Helper()
	pdb, err := pebble.Open(s.Dir, &pebble.Options{FS: s.FS, FormatMajorVersion: pebble.FormatTableFormatV6, Logger: mute{}})
	require.NoError(t, err)
	edit(pdb)
	require.NoError(t, pdb.Close())
}

type mute struct{}

func (mute) Infof(string, ...any)  {}
func (mute) Errorf(string, ...any) {}
func (mute) Fatalf(string, ...any) {}

// The negative control of the index: the checks fail when any row is left out, in
// one of its two places or in both.
func TestChecksNoticeAMissingIndexRow(t *testing.T) {
	p := keys.Partition{Topic: 1}
	inCompanion := keys.LogRange(p.Companion(), 0, 1<<62)
	byTimestamp := keys.TimestampRange(p, 0, 1<<62)
	rows := 0
	for _, row := range indexedStore(t).Model.Topics[0].Logs[0].Segments {
		rows += len(row.Rows)
	}
	require.Greater(t, rows, 4)
	for name, ranges := range map[string][]keys.Range{
		"companion": {inCompanion}, "timestamps": {byTimestamp}, "both": {inCompanion, byTimestamp},
	} {
		for n := range rows {
			s := indexedStore(t)
			require.NoError(t, enginetest.Audit(s.FS, s.Dir))
			editStore(t, s, func(pdb *pebble.DB) {
				for _, r := range ranges {
					deleteNth(t, pdb, r, n)
				}
			})
			require.Error(t, enginetest.Audit(s.FS, s.Dir), "%s, row %d", name, n)
			require.NoError(t, s.Open())
			err := s.Check(t.Context())
			require.NoError(t, s.DB.Close())
			require.Error(t, err, "%s, row %d", name, n)
		}
	}
}

// deleteNth deletes the n-th key of a range.
func deleteNth(t *testing.T, pdb *pebble.DB, r keys.Range, n int) {
	t.Helper()
	it, err := pdb.NewIter(&pebble.IterOptions{LowerBound: r.Start, UpperBound: r.End})
	require.NoError(t, err)
	it.First()
	for range n {
		it.Next()
	}
	require.True(t, it.Valid())
	require.NoError(t, pdb.Delete(it.Key(), pebble.Sync))
	require.NoError(t, it.Close())
}

// After a crash the index state of the active segment is that of the rows that are
// stored, also where the interval was changed in between (SPEC 5.2, S31).
func TestCrashAfterIntervalChangeKeepsSearchExact(t *testing.T) {
	for _, c := range []struct {
		name        string
		from, to    int64
		wantIndexed int64
	}{
		{"wider to narrower", 0, engine.ExplicitZero, 10},
		{"narrower to wider", engine.ExplicitZero, 0, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			db, err := engine.Open("db", engine.Options{FS: enginetest.NewCrashFS(mem, nil)})
			require.NoError(t, err)
			topic, err := db.CreateTopic("t", engine.TopicConfig{IndexIntervalBytes: c.from})
			require.NoError(t, err)
			for _, ts := range []codec.Timestamp{10, 20, 30} {
				_, err := topic.Partition(0).Append(t.Context(), codec.Message{Timestamp: ts, Key: []byte("k")})
				require.NoError(t, err)
			}
			require.NoError(t, db.AlterTopic("t", engine.TopicConfig{IndexIntervalBytes: c.to}))
			crashed := mem.CrashClone(vfs.CrashCloneCfg{})
			require.NoError(t, db.Close())

			db, err = engine.Open("db", engine.Options{FS: enginetest.NewCrashFS(crashed, nil)})
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			topic, _ = db.Topic("t")
			p := topic.Partition(0)
			rows := 0
			for _, err := range p.TimeIndex(t.Context()) {
				require.NoError(t, err)
				rows++
			}
			segments, err := p.Segments()
			require.NoError(t, err)
			require.EqualValues(t, c.wantIndexed, segments[0].IndexedTimestamp)
			require.EqualValues(t, rows, segments[0].IndexRows)
			_, err = p.Append(t.Context(), codec.Message{Timestamp: 40, Key: []byte("k")})
			require.NoError(t, err)
			for i, ts := range []codec.Timestamp{10, 20, 30, 40} {
				pos, err := p.OffsetFor(ts)
				require.NoError(t, err)
				require.EqualValues(t, i, pos.Offset, "timestamp %d", ts)
			}
		})
	}
}

// SPEC 5.2.6, S31: closing gives the last row its timestamp also when a crash kept
// the close before from doing so and nothing was appended since.
func TestCloseAfterCrashWritesTheClosingRow(t *testing.T) {
	mem := vfs.NewCrashableMem()
	db, err := engine.Open("db", engine.Options{FS: enginetest.NewCrashFS(mem, nil)})
	require.NoError(t, err)
	topic, err := db.CreateTopic("t", engine.TopicConfig{})
	require.NoError(t, err)
	for _, ts := range []codec.Timestamp{10, 20} {
		_, err := topic.Partition(0).Append(t.Context(), codec.Message{Timestamp: ts})
		require.NoError(t, err)
	}
	crashed := enginetest.NewCrashFS(mem.CrashClone(vfs.CrashCloneCfg{}), nil)
	require.NoError(t, db.Close())

	for range 2 {
		db, err = engine.Open("db", engine.Options{FS: crashed})
		require.NoError(t, err)
		topic, _ = db.Topic("t")
		_, err = topic.Partition(0).OffsetFor(20) // a partition nobody used is not looked at
		require.NoError(t, err)
		require.NoError(t, db.Close())
	}
	require.NoError(t, enginetest.Audit(crashed, "db"))
}

// Close ends what the store runs: everything when nothing has failed, readers and
// appends in flight included (CASES P07).
func TestCloseLeavesNoGoroutine(t *testing.T) {
	before := enginetest.Running()
	db, err := engine.Open("db", engine.Options{FS: vfs.NewMem(), Durability: engine.SyncEvery(time.Millisecond)})
	require.NoError(t, err)
	topic, err := db.CreateTopic("t", engine.TopicConfig{})
	require.NoError(t, err)
	p := topic.Partition(0)
	followed := make(chan error)
	go func() {
		for _, err := range p.Follow(t.Context(), 0, engine.ReadOptions{}) {
			if err != nil {
				followed <- err
			}
		}
	}()
	for range 100 {
		_, err := p.Submit(t.Context(), []codec.Message{{Value: []byte("v")}}, engine.AppendOptions{})
		require.NoError(t, err)
	}
	for range p.Read(t.Context(), 0, engine.ReadOptions{}) { // error ignored: the loop is left at once
		break
	}
	require.NoError(t, db.Close())
	require.ErrorIs(t, <-followed, engine.ErrClosed)
	require.Empty(t, enginetest.Leaked(before))
}
