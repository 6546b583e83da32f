package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

func begin(t testing.TB, s *store, id int64) *engine.Transaction {
	t.Helper()
	tx, err := s.Begin(t.Context(), id)
	require.NoError(t, err)
	return tx
}

func appendIn(t testing.TB, tx *engine.Transaction, p *engine.Partition, vs ...string) {
	t.Helper()
	for _, v := range vs {
		_, err := tx.Append(t.Context(), p, kv(v, v))
		require.NoError(t, err)
	}
}

func appendPlain(t testing.TB, p *engine.Partition, vs ...string) {
	t.Helper()
	for _, v := range vs {
		_, err := p.Append(t.Context(), kv(v, v))
		require.NoError(t, err)
	}
}

// S81: committed messages show, aborted ones never do; who reads uncommitted sees all
// but the markers.
func TestS81CommittedShowsAndAbortedHides(t *testing.T) {
	s, p := enrichedLog(t)
	seven := begin(t, s, 7)
	appendIn(t, seven, p, "a")
	require.NoError(t, seven.Commit(t.Context()))
	eight := begin(t, s, 8)
	appendIn(t, eight, p, "b")
	require.NoError(t, eight.Abort(t.Context()))
	appendPlain(t, p, "c")
	for range 2 {
		require.Equal(t, "a c", visible(t, p, engine.ReadCommitted))
		require.Equal(t, "a b c", visible(t, p, engine.ReadUncommitted))
		require.Equal(t, []engine.Control{
			{0, codec.ControlBegin, 7, t0}, {2, codec.ControlCommit, 7, t0}, {3, codec.ControlBegin, 8, t0}, {5, codec.ControlAbort, 8, t0},
		}, controlsOf(t, p, 0))
		id, ok := readAll(t, p, 0)[0].Tags.Transaction()
		require.True(t, ok)
		require.EqualValues(t, 7, id)
		s.reopen()
		p = s.log(enriched())
	}
}

func TestAnOpenTransactionHoldsCommittedReadersBack(t *testing.T) {
	s, p := enrichedLog(t)
	appendPlain(t, p, "a")
	tx := begin(t, s, 7)
	appendIn(t, tx, p, "b")
	appendPlain(t, p, "c")
	require.Equal(t, "a", visible(t, p, engine.ReadCommitted), "the log ends at the first unstable offset")
	require.Equal(t, "a b c", visible(t, p, engine.ReadUncommitted))
	other := begin(t, s, 8)
	appendIn(t, other, p, "d")
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, "a b c", visible(t, p, engine.ReadCommitted), "up to the start of the other")
	require.NoError(t, other.Abort(t.Context()))
	require.Equal(t, "a b c", visible(t, p, engine.ReadCommitted))
}

func TestTransactionOverPartitionsEndsInAllOrNone(t *testing.T) {
	s := newStore(t)
	config := enriched()
	config.Partitions = 3
	s.log(config)
	topic, _ := s.Topic("t")
	parts := []*engine.Partition{topic.Partition(0), topic.Partition(1), topic.Partition(2)}
	tx := begin(t, s, 7)
	appendIn(t, tx, parts[0], "a")
	appendIn(t, tx, parts[2], "b")
	tx.CommitOffset("group", parts[1], 5, "")
	require.EqualValues(t, -1, committed(t, s, "group", parts[1]))
	before := s.Stats().Commits
	require.NoError(t, tx.Commit(t.Context()))
	require.EqualValues(t, before+1, s.Stats().Commits, "one batch")
	require.Equal(t, "a", visible(t, parts[0], engine.ReadCommitted))
	require.Equal(t, "b", visible(t, parts[2], engine.ReadCommitted))
	require.Zero(t, end(t, parts[1]), "nothing is written where nothing was appended")
	require.EqualValues(t, 5, committed(t, s, "group", parts[1]))

	aborted := begin(t, s, 7)
	appendIn(t, aborted, parts[0], "x")
	aborted.CommitOffset("group", parts[1], 9, "")
	require.NoError(t, aborted.Abort(t.Context()))
	require.EqualValues(t, 5, committed(t, s, "group", parts[1]))
}

// Compressed sets name their transaction on the wrapper, where it costs no inflating.
func TestTransactionsInWrappers(t *testing.T) {
	s, p := enrichedLog(t)
	for _, id := range []int64{7, 8} {
		tx := begin(t, s, id)
		_, err := tx.AppendSet(t.Context(), p, []codec.Message{kv("k", fmt.Sprint(id, "a")), kv("k", fmt.Sprint(id, "b"))}, engine.AppendOptions{Compression: codec.Gzip})
		require.NoError(t, err)
		if id == 7 {
			require.NoError(t, tx.Commit(t.Context()))
		} else {
			require.NoError(t, tx.Abort(t.Context()))
		}
	}
	require.Equal(t, "7a 7b", visible(t, p, engine.ReadCommitted))
	id, ok := headersOf(t, p, 1)[0].Tags.Transaction()
	require.True(t, ok)
	require.EqualValues(t, 7, id)
	for _, format := range []engine.MessageFormat{engine.FormatV0, engine.FormatV1, engine.FormatEnriched} {
		res, err := p.Fetch(t.Context(), 0, engine.FetchOptions{Format: format, Isolation: engine.ReadCommitted})
		require.NoError(t, err)
		require.EqualValues(t, 8, res.Next)
		if format == engine.FormatEnriched {
			f, n, err := codec.ReadEnrichedFrame(res.Set)
			require.NoError(t, err)
			require.Len(t, res.Set, n, "one wrapper")
			require.EqualValues(t, 1, f.Offset)
			continue
		}
		var values []string
		for m, err := range codec.Messages(res.Set) {
			require.NoError(t, err)
			values = append(values, string(m.Value))
		}
		require.Equal(t, "7a 7b", joined(values))
	}
}

func TestAbandonedTransactionsAreFoundAndEnded(t *testing.T) {
	s := newStore(t)
	p, q := s.named("p", enriched()), s.named("q", enriched())
	tx := begin(t, s, 7)
	appendIn(t, tx, p, "a")
	appendIn(t, tx, q, "b")
	done := begin(t, s, 8)
	appendIn(t, done, p, "c")
	require.NoError(t, done.Commit(t.Context()))
	open, err := s.OpenTransactions(t.Context())
	require.NoError(t, err)
	require.True(t, open[0].Handle)
	s.reopen()

	open, err = s.OpenTransactions(t.Context())
	require.NoError(t, err)
	require.Len(t, open, 1)
	require.EqualValues(t, 7, open[0].ID)
	require.False(t, open[0].Handle)
	require.Len(t, open[0].Partitions, 2)
	require.Equal(t, "p", open[0].Partitions[0].Topic)
	require.Equal(t, "q", open[0].Partitions[1].Topic)
	p, q = s.named("p", enriched()), s.named("q", enriched())
	require.Empty(t, visible(t, p, engine.ReadCommitted))
	_, err = s.Begin(t.Context(), 7)
	require.ErrorIs(t, err, engine.ErrTransactionOpen)
	_, err = s.Resume(t.Context(), 8)
	require.ErrorIs(t, err, engine.ErrTransaction)

	tx, err = s.Resume(t.Context(), 7)
	require.NoError(t, err)
	_, err = s.Resume(t.Context(), 7)
	require.ErrorIs(t, err, engine.ErrTransactionOpen, "one handle")
	require.NoError(t, tx.Abort(t.Context()))
	require.Equal(t, "c", visible(t, p, engine.ReadCommitted))
	require.Empty(t, visible(t, q, engine.ReadCommitted))
	open, err = s.OpenTransactions(t.Context())
	require.NoError(t, err)
	require.Empty(t, open)
	_, err = s.Begin(t.Context(), 7)
	require.NoError(t, err, "the id is free again")
}

func TestMessagesOfNoOpenTransactionAreRefused(t *testing.T) {
	s, p := enrichedLog(t)
	tagged := kv("k", "v")
	tagged.Tags = codec.Tags(nil).WithTag(codec.TagTransaction, 7)
	_, err := p.Append(t.Context(), tagged)
	require.ErrorIs(t, err, engine.ErrTransaction)
	requireCode(t, codec.CodeInvalidTransaction, err)
	_, err = p.ProduceEnriched(t.Context(), enrichedSet(codec.EnrichedFrame{Value: []byte("v"), Tags: tagged.Tags}))
	require.ErrorIs(t, err, engine.ErrTransaction)
	require.Zero(t, end(t, p))

	tx := begin(t, s, 7)
	appendIn(t, tx, p, "a")
	_, err = p.Append(t.Context(), tagged)
	require.NoError(t, err, "it is open here")
	require.NoError(t, tx.Commit(t.Context()))
	_, err = tx.Append(t.Context(), p, kv("k", "late"))
	require.ErrorIs(t, err, engine.ErrTransaction)
	require.ErrorIs(t, tx.Commit(t.Context()), engine.ErrTransaction)
	_, err = p.Append(t.Context(), tagged)
	require.ErrorIs(t, err, engine.ErrTransaction)
	require.Equal(t, "a v", visible(t, p, engine.ReadCommitted))
}

func TestTransactionMisuse(t *testing.T) {
	s := newStore(t)
	plain := s.named("plain", engine.TopicConfig{})
	tx := begin(t, s, 7)
	_, err := tx.Append(t.Context(), plain, kv("k", "v"))
	require.ErrorIs(t, err, engine.ErrFormat)
	_, err = plain.Append(t.Context(), codec.Message{Tags: appTags(t, "a", "b")})
	require.ErrorIs(t, err, engine.ErrFormat)
	_, err = plain.BeginEpoch(t.Context(), 1)
	require.ErrorIs(t, err, engine.ErrFormat)
	_, err = plain.ProduceEnriched(t.Context(), []byte{1})
	require.ErrorIs(t, err, engine.ErrFormat)
	require.NoError(t, tx.Commit(t.Context()), "it never started")
	require.Zero(t, end(t, plain))

	var none *engine.Transaction
	_, err = none.Append(t.Context(), plain)
	require.ErrorIs(t, err, engine.ErrClosed)
	require.ErrorIs(t, none.Commit(t.Context()), engine.ErrClosed)
	none.CommitOffset("g", plain, 1, "")
	require.Zero(t, none.ID())
	_, err = new(engine.Transaction).Append(t.Context(), plain)
	require.ErrorIs(t, err, engine.ErrClosed)

	p := s.named("p", enriched())
	bad := kv("k", "v")
	bad.Tags = codec.Tags{1, 2, 3}
	_, err = p.Append(t.Context(), bad)
	requireCode(t, codec.CodeCorruptMessage, err)
	again := begin(t, s, 9)
	_, err = again.Append(t.Context(), p, bad)
	requireCode(t, codec.CodeCorruptMessage, err)
	_, err = again.Append(t.Context(), nil, kv("k", "v"))
	require.ErrorIs(t, err, engine.ErrUnknownTopic)
	_, err = p.AppendSet(t.Context(), []codec.Message{kv("k", "v")}, engine.AppendOptions{Tags: codec.Tags(nil).WithTag(codec.TagTransaction, 1)})
	requireCode(t, codec.CodeInvalidRequest, err)
	_, err = p.Fetch(t.Context(), 0, engine.FetchOptions{Format: engine.FormatEnriched, HardLimit: true})
	require.ErrorIs(t, err, engine.ErrFormat)
	_, err = p.Fetch(t.Context(), 0, engine.FetchOptions{Control: true})
	require.ErrorIs(t, err, engine.ErrFormat)
	for _, err := range p.Read(t.Context(), 0, engine.ReadOptions{Isolation: 9}) {
		requireCode(t, codec.CodeInvalidRequest, err)
	}
	require.Zero(t, end(t, p))
}

// A cut through a transaction opens it again; one below its start forgets it; one
// above its end leaves it.
func TestTruncationUndoesMarkers(t *testing.T) {
	for cut, want := range map[int64]struct {
		committed string
		open      []int64
	}{
		0: {"", nil}, 1: {"", []int64{7}}, 2: {"", []int64{7}}, 3: {"a", nil}, 4: {"a", []int64{8}}, 5: {"a", []int64{8}},
		6: {"a", nil}, 7: {"a c", nil},
	} {
		s, p := enrichedLog(t)
		tx := begin(t, s, 7)
		appendIn(t, tx, p, "a") // start at 0, a at 1
		require.NoError(t, tx.Commit(t.Context()))
		tx = begin(t, s, 8)
		appendIn(t, tx, p, "b") // start at 3, b at 4
		require.NoError(t, tx.Abort(t.Context()))
		appendPlain(t, p, "c") // 6
		require.NoError(t, p.TruncateTo(t.Context(), cut))
		for range 2 {
			require.Equal(t, want.committed, visible(t, p, engine.ReadCommitted), "cut at %d", cut)
			open, err := s.OpenTransactions(t.Context())
			require.NoError(t, err)
			var ids []int64
			for _, o := range open {
				ids = append(ids, o.ID)
			}
			require.Equal(t, want.open, ids, "cut at %d", cut)
			s.reopen()
			p = s.log(enriched())
		}
		require.NoError(t, p.ResetTo(t.Context(), 9))
		open, err := s.OpenTransactions(t.Context())
		require.NoError(t, err)
		require.Empty(t, open)
	}
}

func TestRetentionForgetsTransactionsOfItsSegments(t *testing.T) {
	s := newStore(t)
	config := enriched()
	config.Retention = maxAge(1000)
	p := s.log(config)
	tx := begin(t, s, 7)
	appendIn(t, tx, p, "a")
	require.NoError(t, tx.Abort(t.Context()))
	require.NoError(t, p.Roll(t.Context()))
	s.clock.add(2000)
	tx = begin(t, s, 7)
	appendIn(t, tx, p, "b")
	require.NoError(t, tx.Abort(t.Context()))
	retained(t, p)
	requireBounds(t, p, 3, 6)
	require.Equal(t, 1, transactionRows(t, s), "that of the segment that is left")
	p = s.log(config)
	require.Empty(t, visibleFrom(t, p, 3, engine.ReadCommitted))
	require.Equal(t, "b", visibleFrom(t, p, 3, engine.ReadUncommitted))
	require.NoError(t, p.Drop(t.Context()))
	require.Zero(t, transactionRows(t, s))
}

func visibleFrom(t testing.TB, p *engine.Partition, from int64, i engine.Isolation) string {
	t.Helper()
	var list []string
	for m, err := range p.Read(t.Context(), from, engine.ReadOptions{Isolation: i}) {
		require.NoError(t, err)
		list = append(list, string(m.Value))
	}
	return joined(list)
}

// A follower of committed messages gets each when its transaction is decided.
func TestFollowCommitted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, p := enrichedLog(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var seen []string
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for m, err := range p.Follow(ctx, 0, engine.ReadOptions{Isolation: engine.ReadCommitted}) {
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				seen = append(seen, string(m.Value))
			}
		}()
		tx := begin(t, s, 7)
		appendIn(t, tx, p, "a", "b")
		appendPlain(t, p, "c")
		synctest.Wait()
		require.Empty(t, seen)
		require.NoError(t, tx.Commit(t.Context()))
		synctest.Wait()
		require.Equal(t, []string{"a", "b", "c"}, seen)
		tx = begin(t, s, 7)
		appendIn(t, tx, p, "d")
		require.NoError(t, tx.Abort(t.Context()))
		appendPlain(t, p, "e")
		synctest.Wait()
		require.Equal(t, []string{"a", "b", "c", "e"}, seen)
		cancel()
		<-ended
	})
}

// Many transactions at once, with plain appends between: readers of committed
// messages see whole transactions or nothing of them, in offset order.
func TestTransactionsConcurrently(t *testing.T) {
	s, p := enrichedLog(t)
	const writers, rounds = 4, 30
	done := make(chan error, writers)
	for w := range writers {
		go func() {
			done <- func() error {
				for i := range rounds {
					tx, err := s.Begin(t.Context(), int64(w))
					if err != nil {
						return err
					}
					for part := range 3 {
						if _, err := tx.Append(t.Context(), p, kv("k", fmt.Sprintf("%d.%d.%d", w, i, part))); err != nil {
							return err
						}
					}
					end := tx.Commit
					if i%3 == 0 {
						end = tx.Abort
					}
					if err := end(t.Context()); err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	stop := make(chan struct{})
	reader := make(chan error, 1)
	go func() {
		for {
			if err := requireWhole(t, p); err != nil {
				reader <- err
				return
			}
			select {
			case <-stop:
				reader <- nil
				return
			default:
			}
		}
	}()
	for range writers {
		require.NoError(t, <-done)
	}
	close(stop)
	require.NoError(t, <-reader)
	require.NoError(t, requireWhole(t, p))
	s.reopen()
	p = s.log(enriched())
	require.NoError(t, requireWhole(t, p))
	n := 0
	for _, err := range p.Read(t.Context(), 0, engine.ReadOptions{Isolation: engine.ReadCommitted}) {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, writers*rounds*2, n)
}

// requireWhole reads committed messages: each round has all its parts or none, and
// aborted rounds have none. Up to the first unstable offset a round may be cut off at
// the end of what is read only if its later parts lie beyond.
func requireWhole(t *testing.T, p *engine.Partition) error {
	parts := map[string]int{}
	for m, err := range p.Read(t.Context(), 0, engine.ReadOptions{Isolation: engine.ReadCommitted}) {
		if err != nil {
			return err
		}
		var w, i, part int
		if _, err := fmt.Sscanf(string(m.Value), "%d.%d.%d", &w, &i, &part); err != nil {
			return err
		}
		if i%3 == 0 {
			return fmt.Errorf("aborted message %s is visible", m.Value)
		}
		parts[fmt.Sprint(w, ".", i)]++
	}
	var short []string
	for round, n := range parts {
		if n != 3 {
			short = append(short, round)
		}
	}
	slices.Sort(short)
	if len(short) > 4 { // one a writer, cut by the unstable offset
		return fmt.Errorf("rounds in part: %v", short)
	}
	return nil
}

// A topic that is deleted takes its transactions with it; the handle ends what is left.
func TestTransactionOfADeletedTopic(t *testing.T) {
	s := newStore(t)
	p, q := s.named("p", enriched()), s.named("q", enriched())
	tx := begin(t, s, 7)
	appendIn(t, tx, p, "a")
	appendIn(t, tx, q, "b")
	require.NoError(t, s.DeleteTopic(t.Context(), "p"))
	open, err := s.OpenTransactions(t.Context())
	require.NoError(t, err)
	require.Len(t, open[0].Partitions, 1)
	_, err = tx.Append(t.Context(), p, kv("k", "late"))
	require.ErrorIs(t, err, engine.ErrUnknownTopic)
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, "b", visible(t, q, engine.ReadCommitted))
	require.Equal(t, 1, transactionRows(t, s))
}
