package engine_test

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/keys"
)

// Case M01: reads and fetches at and beyond the ends of a log.
func TestM01ReadsAtTheEndsOfALog(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	p.StartAt(t, 1024)
	lead(t, p, t0)
	require.Empty(t, readAll(t, p, 1025))
	require.Empty(t, fetchAll(t, p, 1025))
	for _, from := range []int64{1023, 1026, -1, 0, math.MinInt64, math.MaxInt64} {
		_, err := collect(p, t, from)
		requireOutside1024(t, from, err)
		_, err = p.Fetch(t.Context(), from, engine.FetchOptions{})
		requireOutside1024(t, from, err)
		for _, err := range p.Follow(t.Context(), from, engine.ReadOptions{}) {
			requireOutside1024(t, from, err)
			break
		}
	}
	_, err := p.Fetch(t.Context(), 1024, engine.FetchOptions{MaxBytes: -1})
	requireCode(t, codec.CodeInvalidRequest, err)
	res, err := p.Fetch(t.Context(), 1024, engine.FetchOptions{MaxBytes: 1})
	require.NoError(t, err)
	require.Len(t, res.Set, 100)
	for _, o := range []engine.ReadOptions{{MaxMessages: -1}, {Before: -1}} {
		for _, err := range p.Read(t.Context(), 1024, o) {
			requireCode(t, codec.CodeInvalidRequest, err)
		}
	}
}

func requireOutside1024(t *testing.T, offset int64, err error) {
	t.Helper()
	requireCode(t, codec.CodeOffsetOutOfRange, err)
	require.ErrorIs(t, err, engine.ErrOffsetRange)
	detail, ok := errors.AsType[*engine.OffsetRangeError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, engine.OffsetRangeError{Topic: "t", Offset: offset, Start: 1024, End: 1025}, *detail)
}

// uses calls everything a partition handle offers and returns the errors.
func uses(p *engine.Partition) map[string]error {
	ctx := context.Background()
	errs := make(map[string]error)
	_, errs["Append"] = p.Append(ctx, at(t0))
	_, errs["Append of nothing"] = p.Append(ctx)
	_, errs["AppendSet"] = p.AppendSet(ctx, records(t0), engine.AppendOptions{Compression: codec.Gzip})
	_, errs["Submit"] = p.Submit(ctx, records(t0), engine.AppendOptions{})
	_, errs["Produce"] = p.Produce(ctx, plainFrame(t0))
	_, errs["Produce of nothing"] = p.Produce(ctx, nil)
	_, errs["Fetch"] = p.Fetch(ctx, 0, engine.FetchOptions{})
	_, errs["AppendFetch"] = p.AppendFetch(ctx, nil, 0, engine.FetchOptions{})
	errs["Await"] = p.Await(ctx, 0)
	errs["Roll"] = p.Roll(ctx)
	_, errs["Offsets"] = p.Offsets()
	_, errs["Segments"] = p.Segments()
	_, errs["OffsetFor"] = p.OffsetFor(t0)
	_, errs["MaxTimestamp"] = p.MaxTimestamp(ctx)
	_, errs["ListOffset, search"] = p.ListOffset(ctx, t0, engine.ListOptions{})
	_, errs["ListOffset, earliest"] = p.ListOffset(ctx, engine.Earliest, engine.ListOptions{})
	_, errs["ListOffsetsV0"] = p.ListOffsetsV0(ctx, engine.Latest, 1, engine.ListOptions{})
	for _, err := range p.Read(ctx, 0, engine.ReadOptions{}) {
		errs["Read"] = err
	}
	for _, err := range p.Follow(ctx, 0, engine.ReadOptions{}) {
		errs["Follow"] = err
	}
	for _, err := range p.TimeIndex(ctx) {
		errs["TimeIndex"] = err
	}
	return errs
}

const usesOfAPartition = 20

// Case M02: handles that name no partition give a typed error.
func TestM02HandlesOfNoPartition(t *testing.T) {
	s := newStore(t)
	s.log(engine.TopicConfig{})
	topic, _ := s.Topic("t")
	for name, p := range map[string]*engine.Partition{
		"nil":             nil,
		"zero":            {},
		"negative number": topic.Partition(-1),
		"beyond the last": topic.Partition(1),
		"of a nil topic":  (*engine.Topic)(nil).Partition(0),
		"of a zero topic": new(engine.Topic).Partition(0),
	} {
		t.Run(name, func(t *testing.T) {
			errs := uses(p)
			require.Len(t, errs, usesOfAPartition)
			for use, err := range errs {
				require.ErrorIs(t, err, engine.ErrUnknownTopic, use)
				require.Equal(t, codec.CodeUnknownPartition, engine.KafkaCode(err), use)
			}
		})
	}
}

// Case M02: the accessors of handles that name nothing do not panic.
func TestM02AccessorsOfZeroHandles(t *testing.T) {
	for name, use := range map[string]func(){
		"Partition.Topic of nil":     func() { _ = (*engine.Partition)(nil).Topic() },
		"Partition.Number of nil":    func() { _ = (*engine.Partition)(nil).Number() },
		"Partition.String of nil":    func() { _ = (*engine.Partition)(nil).String() },
		"Partition.String of zero":   func() { _ = new(engine.Partition).String() },
		"Topic.Name of zero":         func() { _ = new(engine.Topic).Name() },
		"Topic.Config of zero":       func() { _ = new(engine.Topic).Config() },
		"Topic.Partitions of zero":   func() { _ = new(engine.Topic).Partitions() },
		"DB.Topics of zero":          func() { _ = new(engine.DB).Topics() },
		"DB.Topic of zero":           func() { _, _ = new(engine.DB).Topic("t") },
		"Pending.Receipt of zero":    func() { _ = new(engine.Pending).Receipt() },
		"Pending.Wait of zero":       func() { _, _ = new(engine.Pending).Wait(context.Background()) },
		"Receipt.MessageTimestamp 0": func() { _ = engine.Receipt{}.MessageTimestamp(t0) },
	} {
		t.Run(name, func(t *testing.T) { require.NotPanics(t, use) })
	}
}

// Case M02: a zero DB gives errors.
func TestM02ZeroDB(t *testing.T) {
	for name, use := range map[string]func(db *engine.DB) error{
		"Close":  func(db *engine.DB) error { _ = db.Close(); return engine.ErrClosed },
		"Sync":   func(db *engine.DB) error { return db.Sync(context.Background()) },
		"Create": func(db *engine.DB) error { _, err := db.CreateTopic("t", engine.TopicConfig{}); return err },
		"Ensure": func(db *engine.DB) error { _, err := db.EnsureTopic("t", engine.TopicConfig{}); return err },
		"Alter":  func(db *engine.DB) error { return db.AlterTopic("t", engine.TopicConfig{}) },
	} {
		t.Run(name, func(t *testing.T) {
			require.NotPanics(t, func() { require.ErrorIs(t, use(new(engine.DB)), engine.ErrClosed) })
		})
	}
}

// Case M02: every use after Close is ErrClosed.
func TestM02UseAfterClose(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	lead(t, p, t0)
	topic, _ := s.Topic("t")
	seq, follow, index := p.Read(t.Context(), 0, engine.ReadOptions{}), p.Follow(t.Context(), 0, engine.ReadOptions{}), p.TimeIndex(t.Context())
	require.NoError(t, s.Close())

	errs := uses(p)
	require.Len(t, errs, usesOfAPartition)
	errs["Sync"] = s.Sync(t.Context())
	_, errs["CreateTopic"] = s.CreateTopic("u", engine.TopicConfig{})
	_, errs["EnsureTopic"] = s.EnsureTopic("t", engine.TopicConfig{})
	errs["AlterTopic"] = s.AlterTopic("t", engine.TopicConfig{})
	_, errs["a partition taken later"] = topic.Partition(0).Append(t.Context(), at(t0))
	for _, err := range seq {
		errs["Read made before"] = err
	}
	for _, err := range follow {
		errs["Follow made before"] = err
	}
	for _, err := range index {
		errs["TimeIndex made before"] = err
	}
	for use, err := range errs {
		require.ErrorIs(t, err, engine.ErrClosed, use)
	}
	require.NoError(t, s.Close(), "a second Close does nothing")
	require.Equal(t, "t", topic.Name())
}

// Case M03: settings out of range are refused by name, all of them.
func TestM03SettingsOutOfRange(t *testing.T) {
	for name, config := range map[string]engine.TopicConfig{
		"segment.bytes":                         {SegmentBytes: engine.ExplicitZero},
		"segment.bytes ":                        {SegmentBytes: 13},
		"segment.bytes  ":                       {SegmentBytes: -5},
		"segment.ms":                            {SegmentAge: -ms(1)},
		"segment.jitter.ms":                     {SegmentAge: ms(10), SegmentJitter: ms(11)},
		"message.timestamp.difference.max.ms":   {MaxTimestampDifference: -ms(1)},
		"message.timestamp.difference.max.ms  ": {MaxTimestampDifference: -1},
		"min.cleanable.dirty.ratio":             {MinCleanableRatio: -0.1},
		"min.cleanable.dirty.ratio ":            {MinCleanableRatio: 1.1},
		"min.cleanable.dirty.ratio  ":           {MinCleanableRatio: math.NaN()},
		"message.timestamp.type":                {TimestampType: codec.NoTimestampType},
		"message.timestamp.type ":               {TimestampType: 77},
		"index.interval.bytes":                  {IndexIntervalBytes: -2},
		"max.message.bytes":                     {MaxMessageBytes: -2},
		"num.partitions":                        {Partitions: -1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			_, err := s.CreateTopic("t", config)
			bad, ok := errors.AsType[*engine.ConfigError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, strings.TrimSpace(name), bad.Setting)
			requireCode(t, codec.CodeInvalidConfig, err)
			require.Empty(t, s.Topics())
			_, err = engine.Open("other", engine.Options{FS: vfs.NewMem(), Defaults: config})
			require.ErrorContains(t, err, strings.TrimSpace(name))
			lead(t, s.log(engine.TopicConfig{}), t0)
			require.ErrorContains(t, s.AlterTopic("t", config), strings.TrimSpace(name))
		})
	}
}

// Case M03: options out of range are refused together.
func TestM03OptionsOutOfRange(t *testing.T) {
	_, err := engine.Open("store", engine.Options{FS: vfs.NewMem(), Durability: -7, MemTableBytes: 1, CacheBytes: -1, MaxQueuedBytes: -1})
	for _, name := range []string{"Durability", "MemTableBytes", "CacheBytes", "MaxQueuedBytes"} {
		require.ErrorContains(t, err, name)
	}
}

// Names that cannot be topics are refused (Kafka code 17), a second topic of a
// name too (36); an unknown one cannot be altered (3) and none can shrink (37).
func TestTopicMisuse(t *testing.T) {
	s := newStore(t)
	for _, name := range []string{"", ".", "..", "a b", "ä", strings.Repeat("x", 250), "a/b", "a\x00"} {
		_, err := s.CreateTopic(name, engine.TopicConfig{})
		requireCode(t, codec.CodeInvalidTopic, err)
	}
	_, err := s.CreateTopic("t", engine.TopicConfig{Partitions: 2})
	require.NoError(t, err)
	_, err = s.CreateTopic("t", engine.TopicConfig{})
	requireCode(t, codec.CodeTopicExists, err)
	require.ErrorIs(t, err, engine.ErrTopicExists)
	topic, err := s.EnsureTopic("t", engine.TopicConfig{Partitions: 5})
	require.NoError(t, err)
	require.EqualValues(t, 2, topic.Partitions(), "the settings of an existing topic stay")
	requireCode(t, codec.CodeUnknownPartition, s.AlterTopic("u", engine.TopicConfig{}))
	requireCode(t, codec.CodeInvalidPartitions, s.AlterTopic("t", engine.TopicConfig{Partitions: 1}))

	stale := topic.Partition(2)
	require.NoError(t, s.AlterTopic("t", engine.TopicConfig{Partitions: 3}))
	_, err = stale.Append(t.Context(), at(t0))
	require.ErrorIs(t, err, engine.ErrUnknownTopic, "a handle from before the topic grew")
	lead(t, topic.Partition(2), t0)
	_, ok := s.Topic("u")
	require.False(t, ok)
}

// Messages the log cannot take through the Go API.
func TestAppendMisuse(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	bad := at(t0)
	for _, typ := range []codec.TimestampType{codec.LogAppendTime, codec.NoTimestampType, 99} {
		bad.TimestampType = typ
		refuseMessages(t, p, engine.AppendOptions{}, codec.CodeInvalidTimestamp, at(t0), bad)
	}
	requireRefusedCompression(t, p, 4)
	requireRefusedCompression(t, p, 255)
}

func requireRefusedCompression(t *testing.T, p *engine.Partition, c codec.Compression) {
	t.Helper()
	was := stateOf(t, p)
	_, err := p.AppendSet(t.Context(), records(t0), engine.AppendOptions{Compression: c})
	require.Error(t, err)
	require.NotEqual(t, codec.CodeUnknown, engine.KafkaCode(err), "%v", err)
	require.Equal(t, was, stateOf(t, p))
}

// Case M05: a second open in the process is ErrLocked and leaves the first alone.
func TestM05SecondOpenInTheProcess(t *testing.T) {
	for name, opts := range map[string]engine.Options{"memory": {FS: vfs.NewMem()}, "disk": {}} {
		t.Run(name, func(t *testing.T) {
			dir := "store"
			if opts.FS == nil {
				dir = t.TempDir()
			}
			db, err := engine.Open(dir, opts.SmallMemory())
			require.NoError(t, err)
			topic, err := db.EnsureTopic("t", engine.TopicConfig{})
			require.NoError(t, err)
			for range 2 {
				_, err = engine.Open(dir, opts.SmallMemory())
				require.ErrorIs(t, err, engine.ErrLocked)
			}
			lead(t, topic.Partition(0), t0)
			require.NoError(t, db.Close())
			db, err = engine.Open(dir, opts.SmallMemory())
			require.NoError(t, err)
			require.NoError(t, db.Close())
		})
	}
}

// childProcess tells a test that it runs in a process of its own, and what for.
const childProcess = "CAIRN_TEST_CHILD"

// inChild runs the calling test again in another process, with a word for it,
// and requires it to pass there. It returns that word there, and "" here.
func inChild(t *testing.T, word string) string {
	t.Helper()
	if got := os.Getenv(childProcess); got != "" {
		return got
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), childProcess+"="+word)
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%.3000s", out)
	return ""
}

// Case M05: a second open in another process is ErrLocked.
func TestM05SecondOpenInAnotherProcess(t *testing.T) {
	if dir := os.Getenv(childProcess); dir != "" {
		_, err := engine.Open(dir, engine.Options{}.SmallMemory())
		require.ErrorIs(t, err, engine.ErrLocked)
		return
	}
	dir := t.TempDir()
	db, err := engine.Open(dir, engine.Options{}.SmallMemory())
	require.NoError(t, err)
	topic, err := db.EnsureTopic("t", engine.TopicConfig{})
	require.NoError(t, err)
	inChild(t, dir)
	lead(t, topic.Partition(0), t0)
	require.NoError(t, db.Close())
}

// Case M05: a path that is a file.
func TestM05PathIsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	for _, opts := range []engine.Options{{}, {MustExist: true}} {
		_, err := engine.Open(path, opts)
		require.Error(t, err)
		require.ErrorContains(t, err, path)
		require.NotErrorIs(t, err, engine.ErrLocked)
		require.NotErrorIs(t, err, engine.ErrCorrupt)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "mine", string(data))
	}
}

// Case M05: a directory that may not be written, as the system says it.
func TestM05DirectoryIsReadOnly(t *testing.T) {
	for name, cause := range map[string]error{"permission": fs.ErrPermission, "read-only file system": errInjected} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			require.NoError(t, mem.MkdirAll("store", 0o755))
			denied := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				switch op.Kind {
				case errorfs.OpLock, errorfs.OpCreate, errorfs.OpRename:
					return &fs.PathError{Op: "open", Path: op.Path, Err: cause}
				}
				return nil
			}))
			_, err := engine.Open("store", engine.Options{FS: denied})
			require.ErrorIs(t, err, cause)
			require.NotErrorIs(t, err, engine.ErrLocked, "nobody holds it")
			db, err := engine.Open("store", engine.Options{FS: mem}.SmallMemory())
			require.NoError(t, err)
			require.NoError(t, db.Close())
		})
	}
}

// MustExist does not create a store, and opens one that is there.
func TestMustExist(t *testing.T) {
	mem := vfs.NewMem()
	_, err := engine.Open("store", engine.Options{FS: mem, MustExist: true})
	require.ErrorIs(t, err, engine.ErrNotExist)
	_, err = mem.Stat("store")
	require.Error(t, err, "nothing was made")
	db, err := engine.Open("store", engine.Options{FS: mem}.SmallMemory())
	require.NoError(t, err)
	require.NoError(t, db.Close())
	db, err = engine.Open("store", engine.Options{FS: mem, MustExist: true}.SmallMemory())
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

// Case M05: a store of a newer format is refused as such, and stays as it is.
func TestM05NewerFormat(t *testing.T) {
	s := newStore(t)
	lead(t, s.log(engine.TopicConfig{}), t0)
	require.NoError(t, s.Close())
	key, value, err := engine.MetaRow("format", uint32(2))
	require.NoError(t, err)
	_, old, err := engine.MetaRow("format", uint32(1))
	require.NoError(t, err)
	s.edit(func(pdb *pebble.DB) { require.NoError(t, pdb.Set(key, value, pebble.Sync)) })
	for range 2 {
		_, err = engine.Open(s.dir, s.opts)
		require.ErrorIs(t, err, engine.ErrNewerFormat)
		require.NotErrorIs(t, err, engine.ErrCorrupt)
	}
	s.edit(func(pdb *pebble.DB) { require.NoError(t, pdb.Set(key, old, pebble.Sync)) })
	s.open()
	require.EqualValues(t, 1, end(t, s.log(engine.TopicConfig{})))
}

// Case M05: so is a newer row of a topic or a partition.
func TestM05NewerRows(t *testing.T) {
	id := keys.Partition{Topic: 1, Number: 0}
	newer, err := engine.EncodeRow(map[string]any{"v": 99})
	require.NoError(t, err)
	for name, key := range map[string][]byte{
		"topic":   keys.AppendCatalog(nil, "t"),
		"state":   keys.AppendState(nil, id),
		"segment": keys.AppendSegment(nil, id, 0),
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			p := s.log(engine.TopicConfig{})
			lead(t, p, t0)
			require.Equal(t, id, p.TestKeys())
			require.NoError(t, s.Close())
			s.edit(func(pdb *pebble.DB) { require.NoError(t, pdb.Set(key, newer, pebble.Sync)) })
			db, err := engine.Open(s.dir, s.opts)
			if err == nil {
				topic, ok := db.Topic("t")
				require.True(t, ok)
				_, err = topic.Partition(0).Offsets()
				require.NoError(t, db.Close())
			}
			require.ErrorIs(t, err, engine.ErrNewerFormat)
		})
	}
}

// Case M05: somebody else's Pebble store is refused and stays as it is.
func TestM05ForeignPebbleStore(t *testing.T) {
	mem := vfs.NewMem()
	foreign := &pebble.Options{FS: mem, FormatMajorVersion: pebble.FormatMinSupported, Logger: engine.QuietLogger}
	pdb, err := pebble.Open("store", foreign)
	require.NoError(t, err)
	require.NoError(t, pdb.Set([]byte("theirs"), []byte("value"), pebble.Sync))
	require.NoError(t, pdb.Close())
	_, err = engine.Open("store", engine.Options{FS: mem})
	require.ErrorIs(t, err, engine.ErrCorrupt)
	pdb, err = pebble.Open("store", foreign)
	require.NoError(t, err)
	value, closer, err := pdb.Get([]byte("theirs"))
	require.NoError(t, err)
	require.Equal(t, "value", string(value))
	require.NoError(t, closer.Close())
	require.Equal(t, pebble.FormatMinSupported, pdb.FormatMajorVersion(), "their format was not changed")
	require.NoError(t, pdb.Close())
}
