package bench_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/retention"
)

// cairnStore is the store under measurement: one topic, one partition a log.
type cairnStore struct {
	db   *engine.DB
	logs []*engine.Partition
}

func openCairn(tb testing.TB, dir string, fs vfs.FS, logs int, d engine.Durability) *cairnStore {
	tb.Helper()
	return openWith(tb, dir, engine.Options{Durability: d, FS: fs}, logs, engine.TopicConfig{
		Retention: retention.Policy{MaxAge: engine.Forever}, // payloads have fixed, old timestamps
	})
}

// openWith is openCairn with options of the store and of its topic.
func openWith(tb testing.TB, dir string, o engine.Options, logs int, config engine.TopicConfig) *cairnStore {
	tb.Helper()
	db, err := engine.Open(dir, o)
	require.NoError(tb, err)
	config.Partitions = int32(logs)
	topic, err := db.EnsureTopic("bench", config)
	require.NoError(tb, err)
	s := &cairnStore{db: db}
	for n := range logs {
		s.logs = append(s.logs, topic.Partition(int32(n)))
	}
	return s
}

// settle waits until every message appended can be read: a read on a store that
// does not sync begins with that.
func (s *cairnStore) settle(tb testing.TB) {
	tb.Helper()
	for _, p := range s.logs {
		o, err := p.Offsets()
		require.NoError(tb, err)
		for _, err := range p.Read(tb.Context(), o.End, engine.ReadOptions{}) {
			require.NoError(tb, err)
		}
	}
}

// fill appends n messages of size bytes to log, a set of batch at a time.
func (s *cairnStore) fill(tb testing.TB, log, n, batch, size int) {
	tb.Helper()
	src := newSource(batch, size, log)
	for done := 0; done < n; done += batch {
		_, err := s.logs[log].Append(tb.Context(), src.next()...)
		require.NoError(tb, err)
	}
}

var noOptions engine.AppendOptions

func (s *cairnStore) append(tb testing.TB) func(log int, msgs []codec.Message) error {
	ctx := tb.Context()
	return func(log int, msgs []codec.Message) error {
		_, err := s.logs[log].AppendSet(ctx, msgs, noOptions)
		return err
	}
}
