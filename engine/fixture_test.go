package engine_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// t0 is the instant the scenarios count from: T of SPEC 0.1, t0 of CASES.md.
const t0 codec.Timestamp = 1_500_000_000_000

// none is the timestamp of a message without one.
const none = codec.NoTimestamp

// hour is segment.ms in the rolling scenarios.
const hour codec.Timestamp = 3_600_000

// wallClock is the injected clock of a store.
type wallClock struct{ ms atomic.Int64 }

func (c *wallClock) Now() time.Time              { return time.UnixMilli(c.ms.Load()) }
func (c *wallClock) set(ts codec.Timestamp)      { c.ms.Store(int64(ts)) }
func (c *wallClock) add(d codec.Timestamp)       { c.ms.Add(int64(d)) }
func (c *wallClock) read() codec.Timestamp       { return codec.Timestamp(c.ms.Load()) }
func newWallClock(at codec.Timestamp) *wallClock { c := new(wallClock); c.set(at); return c }

// store is a store on a memory file system whose clock stands at t0.
type store struct {
	*engine.DB
	t     testing.TB
	dir   string
	clock *wallClock
	opts  engine.Options
	// edited: a test wrote into Pebble itself.
	edited bool
}

// newStore opens an empty store; the test's end closes it.
func newStore(t testing.TB) *store {
	t.Helper()
	return newStoreWith(t, engine.Options{})
}

// newStoreWith is newStore with options; FS and Now are filled in where unset.
func newStoreWith(t testing.TB, opts engine.Options) *store {
	t.Helper()
	s := &store{t: t, dir: "store", clock: newWallClock(t0), opts: opts.SmallMemory()}
	if s.opts.Now == nil {
		s.opts.Now = s.clock.Now
	}
	if s.opts.FS == nil {
		s.opts.FS = vfs.NewMem()
	}
	s.open()
	t.Cleanup(func() {
		s.requireVerified()
		require.NoError(t, s.Close())
	})
	return s
}

// requireVerified: whatever a test did through the engine, every invariant holds.
func (s *store) requireVerified() {
	s.t.Helper()
	if s.edited || s.t.Failed() {
		return
	}
	v, err := s.Verify(context.Background(), nil) // the test's own context has ended
	if errors.Is(err, engine.ErrClosed) {
		return
	}
	require.NoError(s.t, err)
	require.Empty(s.t, v.Findings)
}

func (s *store) open() {
	s.t.Helper()
	db, err := engine.Open(s.dir, s.opts)
	require.NoError(s.t, err)
	s.DB = db
}

// reopen closes the store and opens it again. Handles from before are stale.
func (s *store) reopen() {
	s.t.Helper()
	require.NoError(s.t, s.Close())
	s.open()
}

// raw closes the store, gives its Pebble store to f and opens it again.
func (s *store) raw(f func(pdb *pebble.DB)) {
	s.t.Helper()
	require.NoError(s.t, s.Close())
	s.edit(f)
	s.open()
}

// edit gives the Pebble store of a closed store to f.
func (s *store) edit(f func(pdb *pebble.DB)) {
	s.t.Helper()
	s.edited = true
	pdb, err := engine.OpenRaw(s.dir, s.opts)
	require.NoError(s.t, err)
	f(pdb)
	require.NoError(s.t, pdb.Close())
}

// log returns partition 0 of a new or existing topic t.
func (s *store) log(config engine.TopicConfig) *engine.Partition {
	s.t.Helper()
	return s.named("t", config)
}

// named is log for a topic of another name. The settings are those of CASES.md
// where config does not say: no retention, segments of 1 MiB, no time roll.
func (s *store) named(name string, config engine.TopicConfig) *engine.Partition {
	s.t.Helper()
	topic, err := s.EnsureTopic(name, casesConfig(config))
	require.NoError(s.t, err)
	return topic.Partition(0)
}

func casesConfig(config engine.TopicConfig) engine.TopicConfig {
	if config.SegmentBytes == 0 {
		config.SegmentBytes = 1 << 20
	}
	if config.SegmentAge == 0 {
		config.SegmentAge = engine.Forever
	}
	if config.Retention == (retention.Policy{}) {
		config.Retention.MaxAge = retention.Unlimited
	}
	return config
}

// alter changes the settings of topic t but for the index interval.
func (s *store) alter(config engine.TopicConfig) {
	s.t.Helper()
	topic, ok := s.Topic("t")
	require.True(s.t, ok)
	config.IndexIntervalBytes = topic.Config().IndexIntervalBytes
	require.NoError(s.t, s.AlterTopic("t", casesConfig(config)))
}

// unhex decodes hex digits, ignoring spaces and slashes.
func unhex(t testing.TB, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "/", "", "\n", "", "\t", "").Replace(digits))
	require.NoError(t, err)
	return b
}

// ms is a duration of message time.
func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// at returns the standard record of CASES.md, 100 bytes on the wire, with a
// timestamp.
func at(ts codec.Timestamp) codec.Message { return sized(ts, 100) }

// sized returns a record of n wire bytes under a 2-byte key.
func sized(ts codec.Timestamp, n int) codec.Message {
	return codec.Message{Timestamp: ts, TimestampType: codec.CreateTime, Key: []byte("kk"),
		Value: bytes.Repeat([]byte{'v'}, n-codec.MessageOverhead-2)}
}

// records returns a standard record for each timestamp.
func records(timestamps ...codec.Timestamp) []codec.Message {
	msgs := make([]codec.Message, len(timestamps))
	for i, ts := range timestamps {
		msgs[i] = at(ts)
	}
	return msgs
}

// lead appends one set, L[..] of CASES.md, and returns its first offset.
func lead(t testing.TB, p *engine.Partition, timestamps ...codec.Timestamp) int64 {
	t.Helper()
	r, err := p.Append(t.Context(), records(timestamps...)...)
	require.NoError(t, err)
	return r.Offset
}

// leadEach appends a set for each timestamp.
func leadEach(t testing.TB, p *engine.Partition, timestamps ...codec.Timestamp) {
	t.Helper()
	for _, ts := range timestamps {
		lead(t, p, ts)
	}
}

// leadGzip appends one gzip wrapper, GZ[..] of CASES.md.
func leadGzip(t testing.TB, p *engine.Partition, timestamps ...codec.Timestamp) int64 {
	t.Helper()
	r, err := p.AppendSet(t.Context(), records(timestamps...), engine.AppendOptions{Compression: codec.Gzip})
	require.NoError(t, err)
	return r.Offset
}

// produce appends a wire set that must be accepted.
func produce(t testing.TB, p *engine.Partition, set []byte) engine.Receipt {
	t.Helper()
	before := bytes.Clone(set)
	r, err := p.Produce(t.Context(), set)
	require.NoError(t, err)
	require.Equal(t, before, set, "the caller's set was changed")
	return r
}

// logState is everything a rejected append must leave alone.
type logState struct {
	offsets  engine.Offsets
	segments []retention.Segment
	rows     []retention.IndexRow
	set      []byte
}

func stateOf(t testing.TB, p *engine.Partition) logState {
	t.Helper()
	offsets, err := p.Offsets()
	require.NoError(t, err)
	segments, err := p.Segments()
	require.NoError(t, err)
	return logState{offsets, segments, indexRows(t, p), fetchAll(t, p, offsets.Start)}
}

// refuse produces a set that must be refused with a Kafka code, changing
// nothing of the log or of the caller's buffer.
func refuse(t testing.TB, p *engine.Partition, set []byte, code codec.Code, msgAndArgs ...any) {
	t.Helper()
	was, copied := stateOf(t, p), bytes.Clone(set)
	r, err := p.Produce(t.Context(), set)
	require.Error(t, err, msgAndArgs...)
	require.Equal(t, code, engine.KafkaCode(err), "%v %v", err, msgAndArgs)
	require.Equal(t, engine.Receipt{Offset: -1, Timestamp: none, LogAppendTime: none}, r)
	require.Equal(t, copied, set, "the caller's set was changed")
	require.Equal(t, was, stateOf(t, p), msgAndArgs...)
}

// refuseMessages is refuse for the Go API.
func refuseMessages(t testing.TB, p *engine.Partition, o engine.AppendOptions, code codec.Code, msgs ...codec.Message) {
	t.Helper()
	was, copied := stateOf(t, p), cloneMessages(msgs)
	_, err := p.AppendSet(t.Context(), msgs, o)
	require.Error(t, err)
	require.Equal(t, code, engine.KafkaCode(err), "%v", err)
	require.Equal(t, copied, msgs, "the caller's messages were changed")
	require.Equal(t, was, stateOf(t, p))
}

func cloneMessages(msgs []codec.Message) []codec.Message {
	copied := make([]codec.Message, len(msgs))
	for i, m := range msgs {
		m.Key, m.Value, m.Tags = bytes.Clone(m.Key), bytes.Clone(m.Value), bytes.Clone(m.Tags)
		copied[i] = m
	}
	return copied
}

// fetchAll returns the stored bytes from an offset to the end.
func fetchAll(t testing.TB, p *engine.Partition, from int64) []byte {
	t.Helper()
	res, err := p.Fetch(t.Context(), from, engine.FetchOptions{MaxBytes: 1 << 30})
	require.NoError(t, err)
	return res.Set
}

// readAll returns the messages from an offset to the end.
func readAll(t testing.TB, p *engine.Partition, from int64) []codec.Message {
	t.Helper()
	msgs, err := collect(p, t, from)
	require.NoError(t, err)
	return msgs
}

// collect reads until the end or the first error.
func collect(p *engine.Partition, t testing.TB, from int64) ([]codec.Message, error) {
	var msgs []codec.Message
	for m, err := range p.Read(t.Context(), from, engine.ReadOptions{}) {
		if err != nil {
			return msgs, err
		}
		msgs = append(msgs, cloneMessages([]codec.Message{m})...)
	}
	return msgs, nil
}

func timestampsOf(msgs []codec.Message) []codec.Timestamp {
	list := make([]codec.Timestamp, len(msgs))
	for i := range msgs {
		list[i] = msgs[i].Timestamp
	}
	return list
}

func offsetsOf(msgs []codec.Message) []int64 {
	list := make([]int64, len(msgs))
	for i := range msgs {
		list[i] = msgs[i].Offset
	}
	return list
}

// end returns LEO.
func end(t testing.TB, p *engine.Partition) int64 {
	t.Helper()
	offsets, err := p.Offsets()
	require.NoError(t, err)
	require.Equal(t, offsets.End, offsets.HighWatermark)
	return offsets.End
}

// bases returns the first offsets of the segments.
func bases(t testing.TB, p *engine.Partition) []int64 {
	t.Helper()
	segments, err := p.Segments()
	require.NoError(t, err)
	list := make([]int64, len(segments))
	for i := range segments {
		list[i] = segments[i].Base
	}
	return list
}

func segmentSizes(t testing.TB, p *engine.Partition) []int64 {
	t.Helper()
	segments, err := p.Segments()
	require.NoError(t, err)
	list := make([]int64, len(segments))
	for i := range segments {
		list[i] = segments[i].Bytes
	}
	return list
}

// largest returns the largest timestamp of each segment.
func largest(t testing.TB, p *engine.Partition) []codec.Timestamp {
	t.Helper()
	segments, err := p.Segments()
	require.NoError(t, err)
	list := make([]codec.Timestamp, len(segments))
	for i := range segments {
		list[i] = segments[i].MaxTimestamp
	}
	return list
}

func indexRows(t testing.TB, p *engine.Partition) []retention.IndexRow {
	t.Helper()
	var rows []retention.IndexRow
	for row, err := range p.TimeIndex(t.Context()) {
		require.NoError(t, err)
		rows = append(rows, row)
	}
	return rows
}

// pair is an index row as SPEC writes it: (timestamp, offset).
type pair struct {
	ts     codec.Timestamp
	offset int64
}

func indexPairs(t testing.TB, p *engine.Partition) []pair {
	t.Helper()
	var pairs []pair
	for _, row := range indexRows(t, p) {
		pairs = append(pairs, pair{row.Timestamp, row.Offset})
	}
	return pairs
}

// answer is S(q) = ts@offset of CASES.md; offset -1 is NONE.
type answer struct {
	q, ts  codec.Timestamp
	offset int64
}

const notFound = -1

// requireSearch asks OffsetFor and ListOffset.
func requireSearch(t testing.TB, p *engine.Partition, answers ...answer) {
	t.Helper()
	offsets, err := p.Offsets()
	require.NoError(t, err)
	for _, a := range answers {
		want := engine.Position{Offset: a.offset, Timestamp: a.ts, Found: true}
		if a.offset == notFound {
			want = engine.Position{Offset: offsets.HighWatermark, Timestamp: none}
		}
		got, err := p.OffsetFor(a.q)
		require.NoError(t, err, "S(%d)", int64(a.q))
		require.Equal(t, want, got, "S(%d)", int64(a.q))
		if a.q < 0 {
			continue
		}
		if a.offset == notFound {
			want.Offset = notFound
		}
		got, err = p.ListOffset(t.Context(), a.q, engine.ListOptions{})
		require.NoError(t, err, "S(%d)", int64(a.q))
		require.Equal(t, want, got, "ListOffset of %d", int64(a.q))
	}
}

// searchLog runs a search scenario with a row at every entry and with the usual
// index interval, before and after reopening: the index is an accelerator, never
// part of the answer.
func searchLog(t *testing.T, config engine.TopicConfig, fill func(t *testing.T, s *store, p *engine.Partition), answers ...answer) {
	t.Helper()
	eachInterval(t, config, func(t *testing.T, config engine.TopicConfig) {
		s := newStore(t)
		p := s.log(config)
		fill(t, s, p)
		requireSearch(t, p, answers...)
		s.reopen()
		requireSearch(t, s.log(config), answers...)
	})
}

// eachInterval runs f with a time-index row at every entry and with the usual
// interval.
func eachInterval(t *testing.T, config engine.TopicConfig, f func(t *testing.T, config engine.TopicConfig)) {
	t.Helper()
	for name, interval := range map[string]int64{"interval=0": engine.ExplicitZero, "interval=4096": 4096} {
		config.IndexIntervalBytes = interval
		t.Run(name, func(t *testing.T) { f(t, config) })
	}
}

// logKey returns the key of the stored entry that ends at an offset.
func logKey(id keys.Partition, offset int64) []byte { return keys.AppendLog(nil, id, offset) }

// requireCode requires an error with a Kafka code.
func requireCode(t testing.TB, code codec.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, code, engine.KafkaCode(err), "%v", err)
}

var errInjected = errors.New("injected")
