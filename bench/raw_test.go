package bench_test

import (
	"math"
	"math/bits"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

// The engine's Pebble options, copied: a baseline must not be tuned worse than
// the store. TestRawOptionsAreTheEngines fails when they drift.
const (
	rawMemTableBytes = 64 << 20
	rawCacheBytes    = 128<<20 + 2*rawMemTableBytes
	rawBlockBytes    = 32 << 10
	rawTableBytesMin = 4 << 20
	rawTableBytesMax = 16 << 20
	rawSpans         = 64
)

// rawOptions returns the options of a store with so many active logs.
func rawOptions(fs vfs.FS, active func() int) *pebble.Options {
	o := &pebble.Options{
		FS:                          fs,
		FormatMajorVersion:          pebble.FormatTableFormatV6,
		Comparer:                    pebble.DefaultComparer,
		Logger:                      quiet{},
		CacheSize:                   rawCacheBytes,
		MaxOpenFiles:                4096,
		MemTableSize:                rawMemTableBytes,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       8,
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               512 << 20,
		MaxManifestFileSize:         16 << 20,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		FlushDelayDeleteRange:       2 * time.Second,
		BytesPerSync:                1 << 20,
		WALBytesPerSync:             1 << 20,
	}
	for i, size := 0, int64(rawTableBytesMin); i < len(o.TargetFileSizes); i, size = i+1, size*2 {
		o.TargetFileSizes[i] = min(size, rawTableBytesMax)
	}
	for i := range o.Levels {
		o.Levels[i].BlockSize = rawBlockBytes
		o.Levels[i].IndexBlockSize = 256 << 10
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	o.Experimental.ReadSamplingMultiplier = -1
	o.Experimental.FileCacheShards = 4
	o.Experimental.SpanPolicyFunc = func(start []byte) (pebble.SpanPolicy, []byte, error) {
		return pebble.SpanPolicy{}, rawSpanEnd(start, active()), nil
	}
	return o
}

// rawSpanEnd ends tables at the borders of logs, or of groups of them.
func rawSpanEnd(start []byte, active int) []byte {
	p, _, err := keys.DecodeLog(start)
	if err != nil {
		if len(start) == 0 || start[0] == 0xff {
			return nil
		}
		return []byte{start[0] + 1}
	}
	group := 1
	if n := (active + rawSpans - 1) / rawSpans; n > 1 {
		group = 1 << bits.Len(uint(n-1))
	}
	p.Number |= int32(group - 1)
	return keys.LogRange(p, 0, math.MaxInt64).End
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic("pebble: " + format)
}

// rawStore is Pebble with one key for each message.
type rawStore struct {
	db     *pebble.DB
	ends   []atomic.Int64 // of each log
	active atomic.Int64
}

func openRaw(tb testing.TB, dir string, fs vfs.FS, logs int) *rawStore {
	tb.Helper()
	s := &rawStore{ends: make([]atomic.Int64, logs)}
	db, err := pebble.Open(dir, rawOptions(fs, func() int { return int(s.active.Load()) }))
	require.NoError(tb, err)
	s.db = db
	return s
}

func logID(log int) keys.Partition { return keys.Partition{Topic: 1, Number: int32(log)} }

// batch encodes a set, one key for each message.
func (s *rawStore) batch(log int, msgs []codec.Message) (*pebble.Batch, error) {
	size := 16
	for i := range msgs {
		size += len(msgs[i].Value) + keys.LogSize + 8
	}
	n := int64(len(msgs))
	base := s.ends[log].Add(n) - n
	if base == 0 {
		s.active.Add(1)
	}
	b := s.db.NewBatchWithSize(size)
	for i := range msgs {
		op := b.SetDeferred(keys.LogSize, len(msgs[i].Value))
		keys.AppendLog(op.Key[:0], logID(log), base+int64(i))
		copy(op.Value, msgs[i].Value)
		if err := op.Finish(); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// begin hands a set to the disk without waiting for it.
func (s *rawStore) begin(log int, msgs []codec.Message) (*pebble.Batch, error) {
	b, err := s.batch(log, msgs)
	if err != nil {
		return nil, err
	}
	return b, s.db.ApplyNoSyncWait(b, pebble.Sync)
}

// appendSync returns when the set is on the disk.
func (s *rawStore) appendSync(log int, msgs []codec.Message) error {
	b, err := s.begin(log, msgs)
	if err != nil {
		return err
	}
	if err := b.SyncWait(); err != nil {
		return err
	}
	return b.Close()
}

// appendNoSync returns when the set is in Pebble's memory.
func (s *rawStore) appendNoSync(log int, msgs []codec.Message) error {
	b, err := s.batch(log, msgs)
	if err != nil {
		return err
	}
	if err := s.db.Apply(b, pebble.NoSync); err != nil {
		return err
	}
	return b.Close()
}
