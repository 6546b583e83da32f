package codec_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
)

var update = flag.Bool("update", false, "rewrite the golden files of layouts that changed on purpose")

type storedEntry struct{ key, value []byte }

// goldenEntries returns one entry of every layout.
func goldenEntries(t testing.TB) map[string]storedEntry {
	entries := map[string]storedEntry{}
	stamp := codec.Stamp{Timestamp: fixtureTime, Clock: fixtureTime + 5}
	appended := codec.Stamp{Timestamp: fixtureTime + 5, Clock: fixtureTime + 5, LogAppend: true}
	plain := func(name string, magic int8, last int64, s codec.Stamp, msgs ...codec.Message) {
		key, value := sealPlain(msgs, codec.PlainOptions{Magic: magic}, last, s)
		entries[name] = storedEntry{key, value}
	}
	wrapper := func(name string, last int64, s codec.Stamp, w codec.StoredWrapper) {
		key, value := sealWrapper(w, last, s)
		entries[name] = storedEntry{key, value}
	}
	one := codec.Message{Offset: 41, Timestamp: fixtureTime, Key: []byte("key"), Value: []byte("value")}
	two := codec.Message{Offset: 42, Timestamp: fixtureTime + 300, Value: []byte{}}
	three := codec.Message{Offset: 43, Timestamp: fixtureTime - 1, Key: []byte{}}
	late := codec.Message{Offset: 1 << 40, Timestamp: codec.NoTimestamp, Value: bytes.Repeat([]byte{'v'}, 128)}

	plain("plain-one", 1, 41, stamp, one)
	plain("plain-many", 1, 43, stamp, one, two, three)
	plain("plain-gaps", 1, 1<<40, stamp, one, three, late)
	plain("plain-log-append", 1, 43, appended, one, two, three)
	plain("plain-magic0", 0, 43, stamp, one, two, three)
	plain("plain-magic0-gaps", 0, 43, stamp, one, three)
	plain("plain-no-timestamp", 1, 41, codec.Stamp{Timestamp: codec.NoTimestamp, Clock: fixtureTime + 5}, late)

	v1, v0 := rawSnappy(0, 1, one, two), rawSnappy(41, 0, one, two)
	wrapper("wrapper", 42, stamp, codec.StoredWrapper{Compression: codec.Snappy, Magic: 1, Count: 2, Span: 1, Payload: v1})
	wrapper("wrapper-log-append", 42, appended, codec.StoredWrapper{Compression: codec.Snappy, Magic: 1, Count: 2, Span: 1, Payload: v1})
	wrapper("wrapper-magic0", 42, stamp, codec.StoredWrapper{Compression: codec.Snappy, Count: 2, Span: 1, Payload: v0})
	wrapper("wrapper-unknown-count", 42, stamp, codec.StoredWrapper{Compression: codec.Snappy, Magic: 1, Payload: v1})
	tags, err := codec.NewTags(fixtureTime-7, codec.AppTag{Key: "host", Value: "h1"})
	require.NoError(t, err)
	tagged, bare := one, two
	tagged.Tags = tags
	enriched := func(name string, last int64, control codec.ControlType, msgs ...codec.Message) {
		key, value := sealPlain(msgs, codec.PlainOptions{Magic: 1, Enriched: true, Control: control}, last, appended)
		entries[name] = storedEntry{key, value}
	}
	enriched("enriched-plain", 42, 0, tagged, bare)
	enriched("enriched-gaps", 1<<40, 0, tagged, codec.Message{Offset: 1 << 40, Value: []byte("v")})
	enriched("enriched-control", 41, codec.ControlCommit, codec.Message{Offset: 41, Value: []byte{0, 0, 0, 0, 0, 0, 0, 7}})
	wrapper("enriched-wrapper", 42, appended, codec.StoredWrapper{
		Compression: codec.Snappy, Magic: 1, Enriched: true, Tags: tags.WithTag(codec.TagNumMessages, 2),
		Count: 2, Span: 1, Payload: rawSnappyEnriched(tagged, bare),
	})
	for _, name := range []string{"plain-many", "wrapper"} {
		e := entries[name]
		entries[name+"-horizon"] = storedEntry{e.key, codec.AppendHorizon(nil, e.key, e.value, fixtureTime+86_400_000)}
	}
	return entries
}

// rawSnappy returns msgs, numbered from first on, as an inner set in one snappy
// literal. It needs no compressor, whose output may change between versions.
func rawSnappy(first int64, magic int8, msgs ...codec.Message) []byte {
	var set []byte
	for _, m := range msgs {
		m.Offset = first
		set = codec.AppendMessageFrame(set, &m, magic)
		first++
	}
	return snappyLiteral(set)
}

// rawSnappyEnriched is rawSnappy for the payload of an enriched wrapper.
func rawSnappyEnriched(msgs ...codec.Message) []byte {
	var set []byte
	for i, m := range msgs {
		set = codec.AppendEnrichedFrame(set, &codec.EnrichedFrame{Offset: int64(i), Tags: m.Tags, Key: m.Key, Value: m.Value})
	}
	return snappyLiteral(set)
}

func snappyLiteral(set []byte) []byte {
	const literalWithOneLengthByte = 60 << 2
	block := binary.AppendUvarint(nil, uint64(len(set)))
	return append(append(block, literalWithOneLengthByte, byte(len(set)-1)), set...)
}

// TestEntriesAreTheGoldenBytes pins every layout in a file of its own: key and
// value, then what they say.
func TestEntriesAreTheGoldenBytes(t *testing.T) {
	entries := goldenEntries(t)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		key, value := entries[name].key, entries[name].value
		e := parse(t, key, value)
		msgs, err := messagesOf(&e)
		require.NoError(t, err)

		var golden strings.Builder
		fmt.Fprintf(&golden, "key %x\nvalue %x\n\n", key, value)
		fmt.Fprintf(&golden, "%s %s magic %d, %s %s, clock %s\n", e.Kind, e.Compression, e.Magic, e.TimestampType, e.Timestamp, e.Clock)
		if e.Horizon != codec.NoTimestamp {
			fmt.Fprintf(&golden, "delete horizon %s\n", e.Horizon)
		}
		fmt.Fprintf(&golden, "%d messages, offsets %d to %d, largest timestamp %s at %d, %d bytes\n",
			e.Count, e.First, e.Last, e.MaxTimestamp, e.MaxOffset, e.KeyValueBytes)
		if e.Enriched {
			fmt.Fprintf(&golden, "enriched, control %s, tags %x\n", e.Control, []byte(e.Tags))
		}
		for _, m := range msgs {
			fmt.Fprintf(&golden, "%d %s %s %s %s", m.Offset, m.TimestampType, m.Timestamp, describeField(m.Key), describeField(m.Value))
			if m.Tags != nil {
				fmt.Fprintf(&golden, " tags %x", []byte(m.Tags))
			}
			fmt.Fprintln(&golden)
		}
		requireGolden(t, name, golden.String())
	}
}

func TestIndexRowIsTheGoldenBytes(t *testing.T) {
	key := indexKey(17)
	r := codec.IndexRow{Timestamp: fixtureTime, Offset: 17, Base: 10, ScanFrom: 12}
	value := codec.AppendIndexRow(nil, key, r)
	requireGolden(t, "index-row", fmt.Sprintf("key %x\nvalue %x\n\n%+v\n", key, value, r))
}

func describeField(field []byte) string {
	if field == nil {
		return "null"
	}
	return fmt.Sprintf("%q", field)
}

func requireGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "the layout of %s changed; it is on disk already", name)
}
