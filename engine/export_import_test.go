package engine_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

func exported(t testing.TB, p *engine.Partition, o engine.ExportOptions) []byte {
	t.Helper()
	var out bytes.Buffer
	e, err := p.Export(t.Context(), &out, o)
	require.NoError(t, err)
	require.EqualValues(t, out.Len(), e.Bytes)
	return out.Bytes()
}

func imported(t testing.TB, p *engine.Partition, data []byte, f engine.ExportFormat) engine.Imported {
	t.Helper()
	i, err := p.Import(t.Context(), bytes.NewReader(data), engine.ImportOptions{Format: f})
	require.NoError(t, err)
	require.EqualValues(t, len(data), i.Bytes)
	return i
}

// withoutOffsets is messages as a producer gives them.
func withoutOffsets(msgs []codec.Message) []codec.Message {
	list := make([]codec.Message, len(msgs))
	for i, m := range msgs {
		m.Offset, m.TimestampType = 0, codec.CreateTime
		list[i] = m
	}
	return list
}

// randomLog appends sets of every kind.
func randomLog(t testing.TB, rng *rand.Rand, p *engine.Partition, sets int) {
	t.Helper()
	for range sets {
		var msgs []codec.Message
		for range 1 + rng.IntN(5) {
			m := codec.Message{Timestamp: t0 + codec.Timestamp(rng.IntN(1000)), TimestampType: codec.CreateTime}
			if rng.IntN(5) == 0 {
				m.Timestamp = none
			}
			m.Key = [][]byte{nil, {}, []byte("text"), {0xff, 0}}[rng.IntN(4)]
			m.Value = [][]byte{nil, {}, []byte("a\n\"<&>\u2028"), {0xff, 0xfe}, bytes.Repeat([]byte("v"), 300)}[rng.IntN(5)]
			msgs = append(msgs, m)
		}
		_, err := p.AppendSet(t.Context(), msgs, engine.AppendOptions{Compression: codec.Compression(rng.IntN(4))})
		require.NoError(t, err)
	}
}

func TestExportedLogsImportAsTheyWere(t *testing.T) {
	for range rounds(t, 12) {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		s := newStore(t)
		source := s.named("source", engine.TopicConfig{SegmentBytes: 2000})
		randomLog(t, rng, source, 40)
		want := readAll(t, source, 0)
		for f, name := range map[engine.ExportFormat]string{engine.ExportSets: "sets", engine.ExportJSONL: "jsonl"} {
			data := exported(t, source, engine.ExportOptions{Format: f})
			copied := s.named(name, engine.TopicConfig{})
			i := imported(t, copied, data, f)
			require.EqualValues(t, len(want), i.Messages, "seed %d", seed)
			require.Zero(t, i.First)
			require.Equal(t, withoutOffsets(want), withoutOffsets(readAll(t, copied, 0)), "%s, seed %d", name, seed)
			if f == engine.ExportSets { // compression is kept too
				require.Equal(t, data, exported(t, copied, engine.ExportOptions{}), "seed %d", seed)
			}
		}
	}
}

func TestExportRangesAreExact(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	leadGzip(t, p, t0, t0+1, t0+2)
	leadEach(t, p, t0+3, t0+4)
	leadGzip(t, p, t0+5, t0+6)
	for _, o := range []engine.ExportOptions{
		{}, {From: 1}, {From: 3}, {From: 1, To: 6}, {To: 1}, {From: 7}, {From: 4, To: 4},
		{Since: t0 + 1}, {Since: t0 + 1, Until: t0 + 6}, {Until: t0 + 3}, {Since: t0 + 100}, {From: 2, Since: t0, To: 6, Until: t0 + 4},
	} {
		from, to := o.From, int64(7)
		if o.To > 0 {
			to = o.To
		}
		if o.Since > 0 {
			from = max(from, min(int64(o.Since-t0), 7))
		}
		if o.Until > 0 {
			to = min(to, int64(o.Until-t0))
		}
		var want []codec.Message
		if from < to {
			want = readAll(t, p, from)[:to-from]
		}
		for _, o.Format = range []engine.ExportFormat{engine.ExportSets, engine.ExportJSONL} {
			var out bytes.Buffer
			e, err := p.Export(t.Context(), &out, o)
			require.NoError(t, err, "%+v", o)
			require.EqualValues(t, len(want), e.Messages, "%+v", o)
			if len(want) > 0 {
				require.Equal(t, from, e.First)
				require.Equal(t, to, e.Next)
			}
			if o.Format == engine.ExportJSONL {
				require.Equal(t, len(want), bytes.Count(out.Bytes(), []byte("\n")))
				continue
			}
			var got []codec.Message
			for m, err := range codec.Messages(out.Bytes()) {
				require.NoError(t, err)
				got = append(got, m)
			}
			require.Equal(t, want, got, "%+v", o)
		}
	}
	_, err := p.Export(t.Context(), &bytes.Buffer{}, engine.ExportOptions{From: 8})
	require.ErrorIs(t, err, engine.ErrOffsetRange)
	_, err = p.Export(t.Context(), &bytes.Buffer{}, engine.ExportOptions{Format: 9})
	requireCode(t, codec.CodeInvalidRequest, err)
}

func TestExportOfTagsAndTransactions(t *testing.T) {
	s, p := enrichedLog(t)
	m := kv("k", "v")
	m.Timestamp, m.TimestampType, m.Tags = t0-5, codec.CreateTime, appTags(t, "a", "1", "b", "2")
	_, err := p.Append(t.Context(), m)
	require.NoError(t, err)
	tx := begin(t, s, 7)
	appendIn(t, tx, p, "aborted")
	require.NoError(t, tx.Abort(t.Context()))
	data := exported(t, p, engine.ExportOptions{Format: engine.ExportJSONL, Isolation: engine.ReadCommitted})
	require.Equal(t, `{"offset":0,"timestamp":1500000000000,"type":"LogAppendTime","key":"k","value":"v","sent":1499999999995,"tags":[["a","1"],["b","2"]]}`+"\n", string(data))
	copied := s.named("copy", enriched())
	imported(t, copied, data, engine.ExportJSONL)
	got := readAll(t, copied, 0)
	require.Len(t, got, 1)
	require.Equal(t, t0-5, got[0].Tags.SentTime())
	value, _ := got[0].Tags.AppValue("b")
	require.Equal(t, "2", value)
	require.Equal(t, 1, strings.Count(string(exported(t, p, engine.ExportOptions{Isolation: engine.ReadCommitted})), "v"))
}

func TestImportRefusesWhatIsMalformed(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	lead(t, p, t0)
	good := exported(t, p, engine.ExportOptions{})
	huge := bytes.Clone(good)
	binary.BigEndian.PutUint32(huge[8:], 1<<31-1)
	negative := bytes.Clone(good)
	binary.BigEndian.PutUint32(negative[8:], 1<<31)
	damaged := bytes.Clone(good)
	damaged[len(damaged)-1] ^= 1
	for name, data := range map[string][]byte{"cut": good[:len(good)-1], "header cut": good[:5], "huge": huge, "negative": negative, "damaged": damaged} {
		i, err := p.Import(t.Context(), bytes.NewReader(data), engine.ImportOptions{})
		require.Error(t, err, name)
		require.NotEqual(t, codec.CodeUnknown, engine.KafkaCode(err), "%s: %v", name, err)
		require.Zero(t, i.Messages, name)
	}
	for _, line := range []string{"{", `{"key_hex":"x"}`, `{"tags":[["a"]]}`, `{"timestamp":"yesterday"}`, "[]", `{"value":5}`} {
		_, err := p.Import(t.Context(), strings.NewReader(line), engine.ImportOptions{Format: engine.ExportJSONL})
		requireCode(t, codec.CodeCorruptMessage, err)
	}
	require.EqualValues(t, 1, end(t, p))
	_, err := p.Import(t.Context(), &bytes.Buffer{}, engine.ImportOptions{Format: 9})
	requireCode(t, codec.CodeInvalidRequest, err)
	i := imported(t, p, append(bytes.Clone(good), good...), engine.ExportSets)
	require.EqualValues(t, 2, i.Messages)
	require.EqualValues(t, 1, i.First)
}

func TestExportReportsTheWritersError(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	lead(t, p, t0)
	_, err := p.Export(t.Context(), brokenWriter{}, engine.ExportOptions{})
	require.ErrorIs(t, err, errInjected)
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errInjected }

// FuzzImport gives any bytes to an import: it appends what is whole or says why not.
func FuzzImport(f *testing.F) {
	db, err := engine.Open("store", engine.Options{FS: vfs.NewMem(), Durability: engine.SyncNever}.SmallMemory())
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, db.Close()) })
	topic, err := db.CreateTopic("t", engine.TopicConfig{})
	require.NoError(f, err)
	p := topic.Partition(0)
	f.Add(byte(0), unhex(f, goldenW))
	f.Add(byte(1), []byte(`{"offset":0,"timestamp":1,"key":"k","value_hex":"ff","sent":5,"tags":[["a",null]]}`))
	f.Fuzz(func(t *testing.T, format byte, data []byte) {
		before, err := p.Offsets()
		require.NoError(t, err)
		i, err := p.Import(t.Context(), bytes.NewReader(data), engine.ImportOptions{Format: engine.ExportFormat(format % 2)})
		if err != nil {
			require.NotEqual(t, codec.CodeUnknown, engine.KafkaCode(err), "%v", err)
		}
		after, err := p.Offsets()
		require.NoError(t, err)
		require.Equal(t, before.End+i.Messages, after.End)
	})
}
