package engine_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/keys"
)

// enriched is the settings of a topic with tags.
func enriched() engine.TopicConfig { return engine.TopicConfig{MessageFormat: engine.FormatEnriched} }

// enrichedLog opens a store with a log of tags.
func enrichedLog(t testing.TB) (*store, *engine.Partition) {
	s := newStore(t)
	return s, s.log(enriched())
}

// kv is a message of a key and a value.
func kv(key, value string) codec.Message {
	return codec.Message{Key: []byte(key), Value: []byte(value)}
}

// appTags makes tags of pairs.
func appTags(t testing.TB, pairs ...string) codec.Tags {
	t.Helper()
	var app []codec.AppTag
	for i := 0; i < len(pairs); i += 2 {
		app = append(app, codec.AppTag{Key: pairs[i], Value: pairs[i+1]})
	}
	tags, err := codec.NewTags(none, app...)
	require.NoError(t, err)
	return tags
}

// wrapperFrame is an enriched wrapper with relative offsets.
func wrapperFrame(t testing.TB, c codec.Compression, tags codec.Tags, relative []int64, msgs ...codec.Message) codec.EnrichedFrame {
	t.Helper()
	msgs = slices.Clone(msgs)
	for i := range msgs {
		msgs[i].Offset = relative[i]
	}
	payload, _, err := codec.BuildEnrichedWrapper(nil, c, msgs)
	require.NoError(t, err)
	return codec.EnrichedFrame{Type: uint8(c), Tags: tags, Value: payload}
}

// threeInside is a gzip wrapper of a, b, c.
func threeInside(t testing.TB, tags codec.Tags, relative ...int64) codec.EnrichedFrame {
	t.Helper()
	if relative == nil {
		relative = []int64{0, 1, 2}
	}
	return wrapperFrame(t, codec.Gzip, tags, relative, kv("a", "1"), kv("b", "2"), kv("c", "3"))
}

func enrichedSet(frames ...codec.EnrichedFrame) (set []byte) {
	for i := range frames {
		set = codec.AppendEnrichedFrame(set, &frames[i])
	}
	return set
}

// produceEnriched appends an enriched set that must be accepted.
func produceEnriched(t testing.TB, p *engine.Partition, set []byte) engine.Receipt {
	t.Helper()
	before := bytes.Clone(set)
	r, err := p.ProduceEnriched(t.Context(), set)
	require.NoError(t, err)
	require.Equal(t, before, set, "the caller's set was changed")
	return r
}

// fetchEnriched returns the frames from an offset to the end, control messages
// included.
func fetchEnriched(t testing.TB, p *engine.Partition, from int64) (frames []codec.EnrichedFrame) {
	t.Helper()
	res, err := p.Fetch(t.Context(), from, engine.FetchOptions{MaxBytes: 1 << 30, Format: engine.FormatEnriched, Control: true})
	require.NoError(t, err)
	for set := res.Set; len(set) > 0; {
		f, n, err := codec.ReadEnrichedFrame(set)
		require.NoError(t, err)
		require.NotZero(t, n)
		frames = append(frames, f)
		set = set[n:]
	}
	return frames
}

func headersOf(t testing.TB, p *engine.Partition, from int64) (headers []engine.Header) {
	t.Helper()
	for h, err := range p.ReadHeaders(t.Context(), from, engine.ReadOptions{}) {
		require.NoError(t, err)
		h.Tags = bytes.Clone(h.Tags)
		headers = append(headers, h)
	}
	return headers
}

func controlsOf(t testing.TB, p *engine.Partition, from int64) (controls []engine.Control) {
	t.Helper()
	for c, err := range p.ReadControl(t.Context(), from, engine.ReadOptions{}) {
		require.NoError(t, err)
		controls = append(controls, c)
	}
	return controls
}

// visible returns the values that a reader sees.
func visible(t testing.TB, p *engine.Partition, i engine.Isolation) string {
	t.Helper()
	var list []string
	for m, err := range p.Read(t.Context(), 0, engine.ReadOptions{Isolation: i}) {
		require.NoError(t, err)
		list = append(list, string(m.Value))
	}
	return joined(list)
}

// joined writes a list as one word each.
func joined(list []string) string {
	var b bytes.Buffer
	for i, word := range list {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
	}
	return b.String()
}

// transactionRows counts the rows of transactions; the store is opened again.
func transactionRows(t testing.TB, s *store) (n int) {
	t.Helper()
	s.raw(func(pdb *pebble.DB) {
		each(t, pdb, keys.TransactionsRange(), func(_, _ []byte) { n++ })
	})
	return n
}
