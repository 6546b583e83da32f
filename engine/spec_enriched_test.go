package engine_test

import (
	"crypto/rand"
	mathrand "math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/engine/enginetest"
)

// S49, S62, S94: an audit reads tags of opaque messages, plain and wrapped, and
// opens nothing.
func TestS49S62S94HeaderScanReadsTagsAlone(t *testing.T) {
	s, p := enrichedLog(t)
	value := make([]byte, 1000)
	_, err := rand.Read(value)
	require.NoError(t, err)
	_, err = p.Append(t.Context(), codec.Message{Key: []byte("k"), Value: value, Tags: appTags(t, "host", "h1")})
	require.NoError(t, err)
	produceEnriched(t, p, enrichedSet(threeInside(t, appTags(t, "host", "h2").WithTag(codec.TagNumMessages, 3))))
	_, err = p.BeginEpoch(t.Context(), 3)
	require.NoError(t, err)
	before := s.Stats()

	headers := headersOf(t, p, 0)
	require.Len(t, headers, 3)
	host, ok := headers[0].Tags.AppValue("host")
	require.True(t, ok)
	require.Equal(t, "h1", host)
	require.Equal(t, 1000, headers[0].ValueBytes)
	require.Equal(t, 1, headers[0].KeyBytes)
	require.Equal(t, t0, headers[0].Timestamp)
	host, _ = headers[1].Tags.AppValue("host")
	require.Equal(t, "h2", host)
	require.Equal(t, codec.Gzip, headers[1].Compression)
	require.Equal(t, 3, headers[1].Messages)
	require.EqualValues(t, 1, headers[1].First)
	require.EqualValues(t, 3, headers[1].Last)
	require.Equal(t, codec.ControlLeaderEpoch, headers[2].Control)
	require.EqualValues(t, 4, headers[2].Last)

	after := s.Stats()
	require.Equal(t, before.ReadBytes, after.ReadBytes, "no value was read")
	require.Equal(t, before.Inflations, after.Inflations, "nothing was inflated")
	wire := fetchEnriched(t, p, 0)
	for i := range headers {
		require.Equal(t, wire[i].WireSize(), headers[i].WireBytes, i)
	}
}

// S50, KAFKA-527: offsets are assigned without touching a payload.
func TestS50AppendsNeverCompressAgain(t *testing.T) {
	s, p := enrichedLog(t)
	f := threeInside(t, nil)
	for i := range 100 {
		require.EqualValues(t, 3*i, produceEnriched(t, p, enrichedSet(f)).Offset)
	}
	require.Zero(t, s.Recompressions())
	for i, got := range fetchEnriched(t, p, 0) {
		require.Equal(t, f.Value, got.Value)
		require.EqualValues(t, 3*i, got.Offset)
	}
}

// S51, S52, S77, S85: a mirror takes wrappers over unopened: payload and size stay,
// the i-th message gets the i-th offset, the receipt time is the mirror's.
func TestS51S52S77S85MirrorTakesFramesUnopened(t *testing.T) {
	s := newStore(t)
	source, mirror := s.named("source", enriched()), s.named("mirror", enriched())
	tags := codec.Tags(nil).WithTag(codec.TagPositional, 1).WithTag(codec.TagNumMessages, 3)
	f := threeInside(t, tags, 0, 2, 5)
	produceEnriched(t, source, enrichedSet(f))
	_, err := mirror.Append(t.Context(), records(make([]codec.Timestamp, 10)...)...)
	require.NoError(t, err)
	fetched := fetchEnriched(t, source, 0)
	s.clock.set(t0 + 60)
	before := s.Stats()
	set := enrichedSet(fetched...)
	r, err := mirror.Mirror(t.Context(), set)
	require.NoError(t, err)
	require.EqualValues(t, 10, r.Offset)
	require.Equal(t, before.Inflations, s.Stats().Inflations, "S51")
	require.EqualValues(t, 13, end(t, mirror), "S77")

	got := fetchEnriched(t, mirror, 10)
	require.Equal(t, fetched[0].Value, got[0].Value, "S51")
	require.Len(t, enrichedSet(got...), len(set), "S52")
	require.Equal(t, t0+60, got[0].Tags.ReceiptTime(), "S85")
	require.Equal(t, t0, fetchEnriched(t, source, 0)[0].Tags.ReceiptTime(), "S85")
	require.Equal(t, []int64{10, 11, 12}, offsetsOf(readAll(t, mirror, 10)), "S77")
	s.reopen()
	require.Equal(t, []int64{10, 11, 12}, offsetsOf(readAll(t, s.named("mirror", enriched()), 10)), "S77")
}

// S52: a wrapper of exactly max.message.bytes mirrors; one byte more is refused.
func TestS52WrapperOfTheLimitMirrors(t *testing.T) {
	s := newStore(t)
	source := s.named("source", enriched())
	produceEnriched(t, source, enrichedSet(threeInside(t, codec.Tags(nil).WithTag(codec.TagPositional, 1).WithTag(codec.TagNumMessages, 3))))
	set := enrichedSet(fetchEnriched(t, source, 0)...)
	for _, c := range []struct {
		limit int64
		code  codec.Code
	}{{int64(len(set)), codec.CodeNone}, {int64(len(set)) - 1, codec.CodeMessageTooLarge}} {
		config := enriched()
		config.MaxMessageBytes = c.limit
		mirror := s.named("mirror"+string(rune('a'+c.code)), config)
		_, err := mirror.Mirror(t.Context(), set)
		require.Equal(t, c.code, engine.KafkaCode(err), "%v", err)
	}
}

// S53, S54, S80: control messages take offsets, consumers do not see them, their own
// call does; clients may not append them.
func TestS53S54S80ControlMessagesAreHiddenAndTakeOffsets(t *testing.T) {
	s, p := enrichedLog(t)
	_, err := p.Append(t.Context(), kv("k", "0"))
	require.NoError(t, err)
	start, err := p.BeginEpoch(t.Context(), 3)
	require.NoError(t, err)
	require.EqualValues(t, 1, start)
	require.EqualValues(t, 2, end(t, p), "S53: LEO + 1")
	_, err = p.Append(t.Context(), kv("k", "2"))
	require.NoError(t, err)

	for range 2 {
		require.Equal(t, []int64{0, 2}, offsetsOf(readAll(t, p, 0)), "S54")
		require.Equal(t, []engine.Control{{Offset: 1, Type: codec.ControlLeaderEpoch, ID: 3, Timestamp: t0}}, controlsOf(t, p, 0))
		res, err := p.Fetch(t.Context(), 0, engine.FetchOptions{Format: engine.FormatEnriched})
		require.NoError(t, err)
		require.EqualValues(t, 3, res.Next)
		var offsets []int64
		for set := res.Set; len(set) > 0; {
			f, n, err := codec.ReadEnrichedFrame(set)
			require.NoError(t, err)
			offsets = append(offsets, f.Offset)
			set = set[n:]
		}
		require.Equal(t, []int64{0, 2}, offsets)
		var v1 []int64
		for m, err := range codec.Messages(fetchAll(t, p, 0)) {
			require.NoError(t, err)
			v1 = append(v1, m.Offset)
		}
		require.Equal(t, []int64{0, 2}, v1, "skipped on down-conversion (SPEC 10.7.9)")
		s.reopen()
		p = s.log(enriched())
	}
	control := enrichedSet(fetchEnriched(t, p, 1)[0])
	require.Equal(t, unhex(t, "0000001a0000000000000001 913ec264 01 08 ffffffff ffffffff ffffffff 00000004 00000003"), control, "S80, SPEC 13")
	_, err = p.ProduceEnriched(t.Context(), control)
	requireCode(t, codec.CodeCorruptMessage, err)
	_, err = p.Mirror(t.Context(), control)
	requireCode(t, codec.CodeCorruptMessage, err)
}

// S55, S56, S86: an enriched segment expires by its receipt time, also the active
// one and without an append; earliest is then behind it.
func TestS55S56S86ReceiptTimeDrivesRetention(t *testing.T) {
	config := enriched()
	config.Retention = maxAge(1000)
	s := newStore(t)
	p := s.log(config)
	m := kv("k", "v")
	m.Timestamp, m.TimestampType = t0+1_000_000, codec.CreateTime // the sent time has no say
	_, err := p.Append(t.Context(), m)
	require.NoError(t, err)
	s.clock.set(t0 + 1000)
	retained(t, p)
	require.Len(t, readAll(t, p, 0), 1)
	s.clock.set(t0 + 1001)
	retained(t, p)
	requireBounds(t, p, 1, 1)
	pos, err := p.ListOffset(t.Context(), engine.Earliest, engine.ListOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 1, pos.Offset, "S56")
}

// S57, KAFKA-881: the receipt time survives a reopen and decides about the roll.
func TestS57RollByReceiptTimeAfterReopen(t *testing.T) {
	config := enriched()
	config.SegmentAge = ms(1000)
	s := newStore(t)
	p := s.log(config)
	_, err := p.Append(t.Context(), kv("k", "v"))
	require.NoError(t, err)
	s.clock.set(t0 + 900)
	s.reopen()
	p = s.log(config)
	s.clock.set(t0 + 1001)
	require.True(t, retained(t, p).Rolled)
	require.Equal(t, []int64{0, 1}, bases(t, p))
}

// S59: timestamps are in messages and in the index.
func TestS59TimestampsAreInTheIndex(t *testing.T) {
	config := enriched()
	config.IndexIntervalBytes = engine.ExplicitZero
	s := newStore(t)
	p := s.log(config)
	for i := range 3 {
		s.clock.set(t0 + codec.Timestamp(i))
		_, err := p.Append(t.Context(), kv("k", "v"))
		require.NoError(t, err)
	}
	require.Equal(t, []pair{{t0, 0}, {t0 + 1, 1}, {t0 + 2, 2}}, indexPairs(t, p))
	requireSearch(t, p, answer{t0 + 1, t0 + 1, 1}, answer{t0 + 3, 0, notFound})
}

// S60, KAFKA-977: the epochs of the leader tell a follower where to cut.
func TestS60EpochEndTellsWhereLogsDiverge(t *testing.T) {
	s := newStore(t)
	leader, follower := s.named("leader", enriched()), s.named("follower", enriched())
	for _, p := range []*engine.Partition{leader, follower} {
		_, err := p.BeginEpoch(t.Context(), 1)
		require.NoError(t, err)
		_, err = p.Append(t.Context(), kv("k", "1"), kv("k", "2"), kv("k", "3"), kv("k", "4"))
		require.NoError(t, err)
	}
	start, err := leader.BeginEpoch(t.Context(), 2)
	require.NoError(t, err)
	require.EqualValues(t, 5, start)
	_, err = follower.Append(t.Context(), kv("k", "5"), kv("k", "6"), kv("k", "7"), kv("k", "8"))
	require.NoError(t, err)
	require.EqualValues(t, 9, end(t, follower))

	to, err := leader.EpochEnd(t.Context(), 1)
	require.NoError(t, err)
	require.EqualValues(t, 5, to)
	require.NoError(t, follower.TruncateTo(t.Context(), to))
	require.Equal(t, fetchAll(t, leader, 0), fetchAll(t, follower, 0))
	newest, err := leader.EpochEnd(t.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, end(t, leader), newest)
	first, err := leader.EpochEnd(t.Context(), 0)
	require.NoError(t, err)
	require.Zero(t, first)

	require.NoError(t, leader.TruncateTo(t.Context(), 5))
	epochs, err := leader.Epochs(t.Context())
	require.NoError(t, err)
	require.Equal(t, []engine.Epoch{{Epoch: 1, Start: 0}}, epochs, "a cut takes epochs with it")
	s.reopen()
	leader = s.named("leader", enriched())
	_, err = leader.BeginEpoch(t.Context(), 1)
	requireCode(t, codec.CodeInvalidRequest, err)
	_, err = leader.BeginEpoch(t.Context(), 2)
	require.NoError(t, err)
}

// S67, S84: the log overwrites kafka_timestamp with its clock and computes the CRC
// anew.
func TestS67S84ReceiptTimeIsTheLogs(t *testing.T) {
	s, p := enrichedLog(t)
	f := codec.EnrichedFrame{Key: []byte("k"), Value: []byte("v"), Tags: codec.Tags(nil).WithTag(codec.TagReceiptTime, 5)}
	r := produceEnriched(t, p, enrichedSet(f))
	require.Equal(t, t0, r.LogAppendTime)
	got := fetchEnriched(t, p, 0)[0] // which checks the CRC
	require.Equal(t, t0, got.Tags.ReceiptTime())
	seconds, err := got.Tags.ReceiptTime().Seconds()
	require.NoError(t, err)
	require.EqualValues(t, 1_500_000_000, seconds, "S67")
	m := readAll(t, p, 0)[0]
	require.Equal(t, t0, m.Timestamp)
	require.Equal(t, codec.LogAppendTime, m.TimestampType)
	s.reopen()
	require.Equal(t, got, fetchEnriched(t, s.log(enriched()), 0)[0])
}

// S73, S74, S75: a wrapper has its first message's offset, the messages inside are
// relative to it.
func TestS73S74S75WrapperOffsets(t *testing.T) {
	s, p := enrichedLog(t)
	p.StartAt(t, 100)
	r := produceEnriched(t, p, enrichedSet(threeInside(t, nil)))
	require.EqualValues(t, 100, r.Offset)
	require.EqualValues(t, 103, end(t, p), "S73")
	f := fetchEnriched(t, p, 100)[0]
	require.EqualValues(t, 100, f.Offset, "S73")
	in, err := codec.InspectEnriched(&f, nil)
	require.NoError(t, err)
	require.True(t, in.Contiguous, "S74")
	require.Equal(t, []int64{100, 101, 102}, offsetsOf(readAll(t, p, 100)), "S75")
	require.EqualValues(t, 102, readAll(t, p, 102)[0].Offset)
	s.reopen()
	require.EqualValues(t, 103, end(t, s.log(enriched())))
}

// S76: compaction leaves gaps in the relative offsets.
func TestS76RelativeOffsetsAfterCompaction(t *testing.T) {
	config := enriched()
	config.CleanupPolicy, config.MinCleanableRatio = engine.CleanupCompact, 1
	s := newStore(t)
	p := s.log(config)
	p.StartAt(t, 100)
	tags := codec.Tags(nil).WithTag(codec.TagNumMessages, 3)
	produceEnriched(t, p, enrichedSet(threeInside(t, tags)))
	_, err := p.Append(t.Context(), kv("b", "new"))
	require.NoError(t, err)
	require.NoError(t, p.Roll(t.Context()))
	compacted(t, p)
	require.Equal(t, []int64{100, 102, 103}, offsetsOf(readAll(t, p, 100)))
	f := fetchEnriched(t, p, 100)[0]
	require.EqualValues(t, 100, f.Offset)
	n, ok := f.Tags.NumMessages()
	require.True(t, ok)
	require.Equal(t, 2, n)
	inner, _, err := codec.ReadEnrichedFrame(mustInflate(t, &f))
	require.NoError(t, err)
	require.Zero(t, inner.Offset)
}

func mustInflate(t testing.TB, f *codec.EnrichedFrame) []byte {
	t.Helper()
	set, err := f.Compression().Decompress(nil, f.Value, 1, codec.MaxInflated)
	require.NoError(t, err)
	return set
}

// S78, S79: types that clients may append.
func TestS78S79TypesOfClients(t *testing.T) {
	_, p := enrichedLog(t)
	for typ := range uint8(16) {
		f := codec.EnrichedFrame{Type: typ, Value: []byte("v")}
		if typ >= 1 && typ <= 3 {
			f = wrapperFrame(t, codec.Compression(typ), nil, []int64{0}, kv("k", "v"))
		}
		_, err := p.ProduceEnriched(t.Context(), enrichedSet(f))
		if typ <= 3 {
			require.NoError(t, err, typ)
		} else {
			requireCode(t, codec.CodeCorruptMessage, err)
		}
	}
	require.Len(t, readAll(t, p, 0), 4)
}

// S87: a tag of compressed messages on a plain one is kept and has no effect.
func TestS87ForeignTagsAreKept(t *testing.T) {
	_, p := enrichedLog(t)
	tags := codec.Tags(nil).WithTag(codec.TagNumMessages, 9)
	produceEnriched(t, p, enrichedSet(codec.EnrichedFrame{Value: []byte("v"), Tags: tags}))
	require.Equal(t, tags, readAll(t, p, 0)[0].Tags)
	require.EqualValues(t, 1, end(t, p))
}

// S88, S91: num_messages counts without inflating, is checked on append, and counted
// where it is missing.
func TestS88S91NumMessages(t *testing.T) {
	s, p := enrichedLog(t)
	produceEnriched(t, p, enrichedSet(threeInside(t, codec.Tags(nil).WithTag(codec.TagNumMessages, 3))))
	before := s.Stats()
	require.Equal(t, 3, headersOf(t, p, 0)[0].Messages)
	require.Equal(t, before.Inflations, s.Stats().Inflations)
	_, err := p.ProduceEnriched(t.Context(), enrichedSet(threeInside(t, codec.Tags(nil).WithTag(codec.TagNumMessages, 4))))
	requireCode(t, codec.CodeCorruptMessage, err)
	require.Zero(t, s.Stats().Uncounted)
	r, err := p.Mirror(t.Context(), enrichedSet(threeInside(t, nil)))
	require.NoError(t, err)
	require.Equal(t, 3, r.Count, "S91")
	require.EqualValues(t, 1, s.Stats().Uncounted, "S91")
	require.Equal(t, none, fetchEnriched(t, p, 0)[0].Tags.SentTime(), "S91: a missing time is none")
}

// S90, S92, C28: unknown tags survive, in place.
func TestS90S92UnknownTagsPassThrough(t *testing.T) {
	s, p := enrichedLog(t)
	z := unhex(t, "0000001d 0000000000000000 bbccd345 01 00 0000000c 00 0000015d3ef79800 05 dead ffffffff 00000001 6b 00000001 76")
	z[3] = byte(len(z) - 12)
	produceEnriched(t, p, z)
	require.Equal(t, z, enrichedSet(fetchEnriched(t, p, 0)...), "at t0 the log sets the receipt time it had")
	s.reopen()
	require.Equal(t, z, enrichedSet(fetchEnriched(t, s.log(enriched()), 0)...))
}

// S93: app tags keep order and duplicates, through the Go API and in wrappers.
func TestS93AppTagsRoundTrip(t *testing.T) {
	_, p := enrichedLog(t)
	tags := appTags(t, "a", "1", "b", "2", "a", "3")
	m := kv("k", "v")
	m.Tags = tags
	_, err := p.Append(t.Context(), m)
	require.NoError(t, err)
	_, err = p.AppendSet(t.Context(), []codec.Message{m, m}, engine.AppendOptions{Compression: codec.LZ4, Tags: appTags(t, "batch", "7")})
	require.NoError(t, err)
	for _, got := range readAll(t, p, 0) {
		require.Equal(t, tags, got.Tags)
		require.Equal(t, []codec.AppTag{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}, {Key: "a", Value: "3"}}, slices.Collect(got.Tags.App()))
	}
	value, ok := headersOf(t, p, 1)[0].Tags.AppValue("batch")
	require.True(t, ok)
	require.Equal(t, "7", value)
}

// S58, KAFKA-1379: a log that was moved expires by its own clocks, not by the time of
// its arrival.
func TestS58AMovedLogKeepsItsClocks(t *testing.T) {
	config := enriched()
	config.Retention, config.SegmentAge = maxAge(1000), ms(1000)
	s := newStore(t)
	_, err := s.log(config).Append(t.Context(), kv("k", "v"))
	require.NoError(t, err)
	require.NoError(t, s.Checkpoint(t.Context(), "elsewhere"))
	s.clock.set(t0 + 5000)
	moved := &store{t: t, dir: "elsewhere", clock: s.clock, opts: s.opts}
	moved.open()
	p := moved.log(config)
	require.Len(t, readAll(t, p, 0), 1)
	require.Equal(t, 1, retained(t, p).Segments, "the first check after the move")
	requireBounds(t, p, 1, 1)
	require.NoError(t, moved.Close())
}

// S61, KAFKA-1211: opening a log never cuts it to what was readable, which is what was
// acknowledged; only an answer about epochs leads to a cut.
func TestS61OpenDoesNotTruncate(t *testing.T) {
	type cut struct {
		mem   *vfs.MemFS
		acked int64
	}
	var cuts []cut
	var acked atomic.Int64
	var started atomic.Bool
	mem := vfs.NewCrashableMem()
	rng := mathrand.New(mathrand.NewPCG(1, 1))
	s := newStoreWith(t, engine.Options{FS: enginetest.NewCrashFS(mem, func(int, bool) {
		if started.Load() {
			cuts = append(cuts, cut{mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng}), acked.Load()})
		}
	})})
	p := s.log(enriched())
	started.Store(true)
	for range 10 {
		appendPlain(t, p, "v")
		acked.Add(1)
	}
	started.Store(false)
	require.NoError(t, s.Close()) // nobody adds to the cuts any more
	beyond := 0
	for _, c := range cuts {
		after := &store{t: t, dir: s.dir, clock: s.clock, opts: s.opts}
		after.opts.FS = c.mem
		after.open()
		if got := end(t, after.log(enriched())); got > c.acked {
			beyond++
		} else {
			require.Equal(t, c.acked, got)
		}
		require.NoError(t, after.Close())
	}
	require.NotZero(t, beyond, "what was written and not acknowledged stays")
}
