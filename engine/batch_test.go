package engine_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// text returns a message with a value and the standard timestamp.
func text(value string) codec.Message {
	return codec.Message{Timestamp: t0, Key: []byte("k"), Value: []byte(value)}
}

// values returns the values from an offset to the end.
func values(t testing.TB, p *engine.Partition) []string {
	t.Helper()
	var list []string
	for _, m := range readAll(t, p, 0) {
		list = append(list, string(m.Value))
	}
	return list
}

func committed(t testing.TB, s *store, group string, p *engine.Partition) int64 {
	t.Helper()
	c, err := s.Group(group).Committed(t.Context(), p)
	require.NoError(t, err)
	return c.Offset
}

func TestBatchAppendsToManyPartitionsAtOnce(t *testing.T) {
	s := newStore(t)
	a, b := s.named("a", engine.TopicConfig{}), s.named("b", engine.TopicConfig{Compression: engine.CompressGzip})
	lead(t, b, t0)
	batch := s.NewBatch()
	batch.Append(b, text("b1"), text("b2"))
	batch.Append(a, text("a0"))
	batch.Append(b, text("b3"))
	batch.Append(a)
	batch.Produce(a, fetchAll(t, b, 0))
	batch.CommitOffset("g", b, 1, "note")
	require.Zero(t, end(t, a), "nothing happens before Commit")
	require.Equal(t, int64(engine.NoOffset), committed(t, s, "g", b))

	receipts, err := batch.Commit(t.Context())
	require.NoError(t, err)
	require.Equal(t, []engine.Receipt{
		{Offset: 1, Count: 2, Timestamp: t0, LogAppendTime: none},
		{Offset: 0, Count: 1, Timestamp: t0, LogAppendTime: none},
		{Offset: 3, Count: 1, Timestamp: t0, LogAppendTime: none},
		{Offset: -1, Timestamp: none, LogAppendTime: none},
		{Offset: 1, Count: 1, Timestamp: t0, LogAppendTime: none},
	}, receipts)
	check := func(a, b *engine.Partition) {
		require.Equal(t, []string{"b1", "b2", "b3"}, values(t, b)[1:])
		require.Equal(t, "a0", values(t, a)[0])
		require.Len(t, values(t, a), 2)
		c, err := s.Group("g").Committed(t.Context(), b)
		require.NoError(t, err)
		require.Equal(t, engine.Committed{Partition: b, Offset: 1, Metadata: "note", Time: t0, HighWatermark: 4}, c)
	}
	check(a, b)
	s.reopen()
	check(s.named("a", engine.TopicConfig{}), s.named("b", engine.TopicConfig{}))
}

func TestBatchTakesOneSync(t *testing.T) {
	var gate logGate
	s := newStoreWith(t, engine.Options{FS: errorfs.Wrap(vfs.NewMem(), &gate)})
	topic, err := s.CreateTopic("many", engine.TopicConfig{Partitions: 100})
	require.NoError(t, err)
	fewest := int64(math.MaxInt64)
	for range 5 { // the store's own mark may come in between
		b := s.NewBatch()
		for n := range topic.Partitions() {
			b.Append(topic.Partition(n), at(t0))
			b.CommitOffset("g", topic.Partition(n), 1, "")
		}
		before := gate.syncs.Load()
		_, err := b.Commit(t.Context())
		require.NoError(t, err)
		fewest = min(fewest, gate.syncs.Load()-before)
	}
	require.EqualValues(t, 1, fewest)
}

// Several sets of one partition are one set: they are never in two segments, and
// one clock stamps them. A set alone keeps the rule that it fits a segment.
func TestBatchMakesOneSetOfEachPartition(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{SegmentBytes: 1000})
	leadEach(t, p, t0, t0, t0)
	b := s.NewBatch()
	for range 9 {
		b.Append(p, at(t0))
	}
	receipts, err := b.Commit(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{0, 3}, bases(t, p), "no roll within")
	for i, r := range receipts {
		require.EqualValues(t, 3+i, r.Offset)
	}
	for range 11 {
		b.Append(p, at(t0))
	}
	was := stateOf(t, p)
	_, err = b.Commit(t.Context())
	requireCode(t, codec.CodeRecordListTooLarge, err)
	require.Equal(t, was, stateOf(t, p))
}

func TestBatchStampsEverySetWithOneClock(t *testing.T) {
	ticks := codec.Timestamp(0)
	clock := newWallClock(t0)
	s := newStoreWith(t, engine.Options{Now: clock.Now})
	created := s.named("created", engine.TopicConfig{})
	logged := s.named("logged", engine.TopicConfig{TimestampType: codec.LogAppendTime})
	b := s.NewBatch()
	for range 3 {
		b.Append(created, codec.Message{Value: []byte("clock")})
		b.Append(created, at(t0-5))
		b.Append(logged, at(t0-7), at(t0-8))
		clock.add(1)
		ticks++
	}
	receipts, err := b.Commit(t.Context())
	require.NoError(t, err)
	now := t0 + ticks
	require.Equal(t, []codec.Timestamp{now, t0 - 5, now, t0 - 5, now, t0 - 5}, timestampsOf(readAll(t, created, 0)))
	require.Equal(t, []codec.Timestamp{now, now, now, now, now, now}, timestampsOf(readAll(t, logged, 0)))
	require.Equal(t, engine.Receipt{Offset: 4, Count: 2, Timestamp: now, LogAppendTime: now}, receipts[8])
	requireSearch(t, created, answer{t0 - 5, now, 0}, answer{now, now, 0}, answer{now + 1, none, notFound})
}

// A large set, cut into many entries, beside compressed ones: offsets, index and
// search are what appends one by one would have made.
func TestBatchOfLargeSetsReadsBack(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{SegmentBytes: 8 << 20, IndexIntervalBytes: 4096})
	b := s.NewBatch()
	var want []codec.Timestamp
	for i := range 40 {
		var msgs []codec.Message
		for j := range 20 {
			ts := t0 + codec.Timestamp((i*20+j)*7919%1000)
			msgs = append(msgs, sized(ts, 3000))
			want = append(want, ts)
		}
		b.AppendSet(p, msgs, engine.AppendOptions{Compression: []codec.Compression{codec.None, codec.LZ4}[i%2]})
	}
	_, err := b.Commit(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, timestampsOf(readAll(t, p, 0)))
	for i := range codec.Timestamp(1000) {
		pos, err := p.OffsetFor(t0 + i)
		require.NoError(t, err)
		for o, ts := range want {
			if ts >= t0+i {
				require.EqualValues(t, o, pos.Offset)
				break
			}
		}
	}
}

func TestBatchConflictChangesNothing(t *testing.T) {
	s := newStore(t)
	a, b := s.named("a", engine.TopicConfig{}), s.named("b", engine.TopicConfig{})
	lead(t, a, t0)
	was := []logState{stateOf(t, a), stateOf(t, b)}
	batch := s.NewBatch()
	fill := func(next int64) {
		batch.Append(b, text("b"))
		batch.Append(a, text("a"))
		batch.Expect(a, next)
		batch.Expect(b, 0)
		batch.CommitOffset("g", a, 1, "")
	}
	for _, next := range []int64{0, 2, -1} {
		fill(next)
		receipts, err := batch.Commit(t.Context())
		conflict, ok := errors.AsType[*engine.ConflictError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, &engine.ConflictError{Topic: "a", Partition: 0, Expected: next, Next: 1}, conflict)
		require.Nil(t, receipts)
	}
	require.Equal(t, was, []logState{stateOf(t, a), stateOf(t, b)})
	require.EqualValues(t, engine.NoOffset, committed(t, s, "g", a))
	fill(1)
	receipts, err := batch.Commit(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, receipts[1].Offset)

	batch.Expect(a, 2) // alone it is a question
	_, err = batch.Commit(t.Context())
	require.NoError(t, err)
	batch.Expect(a, 1)
	_, err = batch.Commit(t.Context())
	require.Error(t, err)
}

// Whatever is wrong with one part, no part happens, and the batch can be used on.
func TestBatchRefusedChangesNothing(t *testing.T) {
	s := newStore(t)
	p := s.named("p", engine.TopicConfig{})
	compacted := s.named("compacted", engine.TopicConfig{CleanupPolicy: engine.CleanupCompact})
	strict := s.named("strict", engine.TopicConfig{MaxTimestampDifference: ms(10)})
	v0 := s.named("v0", engine.TopicConfig{MessageFormat: engine.FormatV0})
	wire := produceSet(t, at(t0))
	was := []logState{stateOf(t, p), stateOf(t, compacted), stateOf(t, strict)}
	for name, c := range map[string]struct {
		code codec.Code
		fill func(b *engine.Batch)
	}{
		"null key":         {codec.CodeCorruptMessage, func(b *engine.Batch) { b.Append(compacted, codec.Message{}) }},
		"timestamp":        {codec.CodeInvalidTimestamp, func(b *engine.Batch) { b.Append(strict, at(t0+11)) }},
		"negative time":    {codec.CodeInvalidTimestamp, func(b *engine.Batch) { b.Append(p, codec.Message{Timestamp: -2}) }},
		"too large":        {codec.CodeMessageTooLarge, func(b *engine.Batch) { b.Append(p, sized(t0, 2_000_000)) }},
		"partial":          {codec.CodeCorruptMessage, func(b *engine.Batch) { b.Produce(p, wire[:len(wire)-1]) }},
		"v0 compressed":    {codec.CodeUnsupportedForFormat, func(b *engine.Batch) { b.AppendSet(v0, records(t0), engine.AppendOptions{Compression: codec.Gzip}) }},
		"no partition":     {codec.CodeUnknownPartition, func(b *engine.Batch) { b.Append(nil, at(t0)) }},
		"zero partition":   {codec.CodeUnknownPartition, func(b *engine.Batch) { b.Expect(&engine.Partition{}, 0) }},
		"group name":       {codec.CodeInvalidGroup, func(b *engine.Batch) { b.CommitOffset("", p, 0, "") }},
		"negative offset":  {codec.CodeOffsetOutOfRange, func(b *engine.Batch) { b.CommitOffset("g", p, -1, "") }},
		"large metadata":   {codec.CodeMetadataTooLarge, func(b *engine.Batch) { b.CommitOffset("g", p, 0, string(make([]byte, 4097))) }},
		"sequence alone":   {codec.CodeInvalidRequest, func(b *engine.Batch) { b.AppendSet(p, records(t0), engine.AppendOptions{Sequence: 1}) }},
		"negative number":  {codec.CodeInvalidRequest, func(b *engine.Batch) { b.AppendSet(p, records(t0), engine.AppendOptions{Producer: "x", Sequence: -1}) }},
		"long producer":    {codec.CodeInvalidRequest, func(b *engine.Batch) { b.AppendSet(p, nil, engine.AppendOptions{Producer: string(make([]byte, 256))}) }},
		"repeated at once": {codec.CodeDuplicateSequence, func(b *engine.Batch) { number(b, p, "x", 4); number(b, p, "x", 4) }},
		"gap at once":      {codec.CodeOutOfOrderSequence, func(b *engine.Batch) { number(b, p, "x", 4); number(b, p, "x", 6) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := s.NewBatch()
			b.Append(p, at(t0))
			b.CommitOffset("g", p, 1, "")
			c.fill(b)
			b.Append(p, at(t0))
			receipts, err := b.Commit(t.Context())
			requireCode(t, c.code, err)
			require.Nil(t, receipts)
			require.Equal(t, was, []logState{stateOf(t, p), stateOf(t, compacted), stateOf(t, strict)})
			require.EqualValues(t, engine.NoOffset, committed(t, s, "g", p))
			require.Zero(t, b.Size())
			receipts, err = b.Commit(t.Context())
			require.NoError(t, err, "an empty batch again")
			require.Empty(t, receipts)
		})
	}
}

// number adds a numbered set of one message.
func number(b *engine.Batch, p *engine.Partition, producer string, sequence int64) {
	b.AppendSet(p, records(t0), engine.AppendOptions{Producer: producer, Sequence: sequence})
}

// produceSet returns messages as a wire set.
func produceSet(t testing.TB, msgs ...codec.Message) []byte {
	t.Helper()
	var set []byte
	for i := range msgs {
		set = codec.AppendMessageFrame(set, &msgs[i], 1)
	}
	return set
}

func TestBatchCopiesWhatItIsGiven(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	b := s.NewBatch()
	m := text("value")
	set := produceSet(t, m)
	msgs := []codec.Message{m}
	b.Append(p, msgs...)
	b.Produce(p, set)
	copy(m.Value, "xxxxx")
	msgs[0] = codec.Message{}
	clear(set)
	_, err := b.Commit(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"value", "value"}, values(t, p))
}

func TestBatchIsBounded(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{SegmentBytes: 1 << 30, MaxMessageBytes: 1 << 29})
	b := s.NewBatch()
	value := bytes.Repeat([]byte("x"), 1<<20)
	for b.Size()+1<<20+1000 < engine.MaxBatchBytes {
		b.Append(p, codec.Message{Timestamp: t0, Value: value})
	}
	r, err := b.Commit(t.Context())
	require.NoError(t, err, "larger than a write buffer and the queue")
	require.EqualValues(t, len(r), end(t, p))
	b.Append(p, codec.Message{Timestamp: t0, Value: make([]byte, engine.MaxBatchBytes)})
	_, err = b.Commit(t.Context())
	requireCode(t, codec.CodeRecordListTooLarge, err)
	require.EqualValues(t, len(r), end(t, p))
}

func TestBatchMisuse(t *testing.T) {
	ctx := t.Context()
	s, other := newStore(t), newStore(t)
	p, foreign := s.log(engine.TopicConfig{}), other.log(engine.TopicConfig{})

	var zero engine.Batch
	zero.Append(p, at(t0))
	zero.CommitOffset("g", p, 1, "")
	_, err := zero.Commit(ctx)
	require.ErrorIs(t, err, engine.ErrClosed)
	var none *engine.Batch
	none.Append(p, at(t0))
	none.Reset()
	require.Zero(t, none.Size())
	_, err = none.Commit(ctx)
	require.ErrorIs(t, err, engine.ErrClosed)
	var db *engine.DB
	b := db.NewBatch()
	b.Append(p, at(t0))
	_, err = b.Commit(ctx)
	require.ErrorIs(t, err, engine.ErrClosed)

	b = s.NewBatch()
	b.Append(foreign, at(t0))
	_, err = b.Commit(ctx)
	requireCode(t, codec.CodeInvalidRequest, err)
	require.Zero(t, end(t, foreign))

	canceled, cancel := context.WithCancel(ctx)
	cancel()
	b.Append(p, at(t0))
	_, err = b.Commit(canceled)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, end(t, p))

	b.Append(p, at(t0))
	b.Reset()
	receipts, err := b.Commit(ctx)
	require.NoError(t, err)
	require.Empty(t, receipts)

	require.NoError(t, s.DeleteTopic(ctx, "t"))
	b.Append(p, at(t0))
	_, err = b.Commit(ctx)
	require.ErrorIs(t, err, engine.ErrUnknownTopic)
	p = s.log(engine.TopicConfig{})
	b.Append(p, at(t0))
	require.NoError(t, s.DeleteTopic(ctx, "t"))
	_, err = b.Commit(ctx)
	require.ErrorIs(t, err, engine.ErrUnknownTopic, "deleted while the batch was filled")

	p = s.log(engine.TopicConfig{})
	b.Append(p, at(t0))
	require.NoError(t, s.Close())
	_, err = b.Commit(ctx)
	require.ErrorIs(t, err, engine.ErrClosed)
	b.Append(p, at(t0))
	_, err = b.Commit(ctx)
	require.ErrorIs(t, err, engine.ErrClosed)
	s.open()
	b = s.NewBatch()
	b.Append(p, at(t0))
	_, err = b.Commit(ctx)
	require.Error(t, err, "a handle from before the reopen")
	require.Zero(t, end(t, s.log(engine.TopicConfig{})))
}

// A batch in the unsynced modes is read back at once, offsets too.
func TestBatchUnsyncedIsReadBack(t *testing.T) {
	s := newStoreWith(t, engine.Options{Durability: engine.SyncNever})
	a, b := s.named("a", engine.TopicConfig{}), s.named("b", engine.TopicConfig{})
	batch := s.NewBatch()
	for i := range int64(200) {
		batch.Append(a, text("a"))
		batch.Append(b, text("b"))
		batch.CommitOffset("g", a, i+1, "")
		_, err := batch.Commit(t.Context())
		require.NoError(t, err)
		require.Equal(t, i+1, committed(t, s, "g", a))
		list, err := s.Group("g").Offsets(t.Context())
		require.NoError(t, err)
		require.Equal(t, i+1, list[0].Offset)
	}
	require.Len(t, readAll(t, a, 0), 200)
	require.Len(t, readAll(t, b, 0), 200)
}
