package engine_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// clientVector is one message set of a real client; the README beside the files
// describes the fields.
type clientVector struct {
	Name                 string          `json:"name"`
	Kind                 string          `json:"kind"`
	Hex                  string          `json:"hex"`
	LogHex               string          `json:"log_hex"`
	BaseOffset           int64           `json:"base_offset"`
	ExpectedProduceError *codec.Code     `json:"expected_produce_error"`
	Expected             []clientMessage `json:"expected"`
}

type clientMessage struct {
	Offset        int64           `json:"offset"`
	Timestamp     codec.Timestamp `json:"timestamp"`
	TimestampType *string         `json:"timestamp_type"`
	KeyHex        *string         `json:"key_hex"`
	KeyLen        int             `json:"key_len"`
	KeySHA        string          `json:"key_sha256"`
	ValueHex      *string         `json:"value_hex"`
	ValueLen      int             `json:"value_len"`
	ValueSHA      string          `json:"value_sha256"`
}

// eachClientVector runs f for every vector of a kind.
func eachClientVector(t *testing.T, kind string, f func(t *testing.T, v clientVector)) {
	t.Helper()
	files, err := filepath.Glob("../codec/testdata/vectors/*.json")
	require.NoError(t, err)
	found := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var v clientVector
		require.NoError(t, json.Unmarshal(data, &v), file)
		if v.Kind == kind {
			found++
			t.Run(v.Name, func(t *testing.T) { f(t, v) })
		}
	}
	require.NotZero(t, found)
}

// requireClientMessages compares what was read with what a consumer must see.
func requireClientMessages(t *testing.T, want []clientMessage, got []codec.Message) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		require.Equal(t, w.Offset, got[i].Offset)
		require.Equal(t, codec.CreateTime, got[i].TimestampType)
		require.Equal(t, w.Timestamp, got[i].Timestamp)
		requireClientBytes(t, w.KeyHex, w.KeyLen, w.KeySHA, got[i].Key)
		requireClientBytes(t, w.ValueHex, w.ValueLen, w.ValueSHA, got[i].Value)
	}
}

func requireClientBytes(t *testing.T, digits *string, length int, sha string, got []byte) {
	t.Helper()
	switch {
	case sha != "":
		require.Len(t, got, length)
		sum := sha256.Sum256(got)
		require.Equal(t, sha, hex.EncodeToString(sum[:]))
	case digits == nil:
		require.Nil(t, got)
	default:
		require.NotNil(t, got)
		require.Equal(t, *digits, hex.EncodeToString(got))
	}
}

// roomy accepts the largest vectors, of a little over 1 MiB.
var roomy = engine.TopicConfig{MaxMessageBytes: 4 << 20, SegmentBytes: 8 << 20}

// leaderForm is log_hex as a leader stores it: a wrapper's timestamp is the
// largest of its messages, which no client sends (SPEC 2.2.16).
func leaderForm(t *testing.T, v clientVector) []byte {
	t.Helper()
	var set []byte
	expected := v.Expected
	for rest := unhex(t, v.LogHex); len(rest) > 0; {
		f, n, err := codec.ReadFrame(rest)
		require.NoError(t, err)
		require.NotZero(t, n)
		if f.Compression != codec.None {
			f.Timestamp = none
		}
		for ; len(expected) > 0 && expected[0].Offset <= f.Offset; expected = expected[1:] {
			if f.Compression != codec.None {
				f.Timestamp = max(f.Timestamp, expected[0].Timestamp)
			}
		}
		set = codec.AppendFrame(set, &f)
		rest = rest[n:]
	}
	return set
}

// Produced by a client, stored with offsets and else as it came, read as every
// client reads it.
func TestVectorsProducedByClientsAreStoredAndRead(t *testing.T) {
	eachClientVector(t, "produce", func(t *testing.T, v clientVector) {
		s := newStore(t)
		p := s.log(roomy)
		p.StartAt(t, v.BaseOffset)
		r := produce(t, p, unhex(t, v.Hex))
		require.Equal(t, v.BaseOffset, r.Offset)
		require.Equal(t, len(v.Expected), r.Count)
		require.Equal(t, leaderForm(t, v), fetchAll(t, p, v.BaseOffset))
		requireClientMessages(t, v.Expected, readAll(t, p, v.BaseOffset))
		require.Zero(t, s.Recompressions())
		s.reopen()
		p = s.log(roomy)
		require.Equal(t, leaderForm(t, v), fetchAll(t, p, v.BaseOffset))
		requireClientMessages(t, v.Expected, readAll(t, p, v.BaseOffset))
	})
}

// Inner offsets other than 0..n-1 are assigned anew, which recompresses.
func TestVectorsWithOddInnerOffsetsAreRewritten(t *testing.T) {
	eachClientVector(t, "produce-rewrite", func(t *testing.T, v clientVector) {
		s := newStore(t)
		p := s.log(roomy)
		p.StartAt(t, v.BaseOffset)
		produce(t, p, unhex(t, v.Hex))
		requireClientMessages(t, v.Expected, readAll(t, p, v.BaseOffset))
		var last int64
		for m, err := range codec.Messages(fetchAll(t, p, v.BaseOffset)) {
			require.NoError(t, err)
			last = m.Offset
		}
		require.Equal(t, v.Expected[len(v.Expected)-1].Offset, last)
		require.EqualValues(t, 1, s.Recompressions())
	})
}

// What must be refused is, alone and behind a good message, and changes nothing.
func TestInvalidVectorsAreRefused(t *testing.T) {
	eachClientVector(t, "invalid", func(t *testing.T, v clientVector) {
		s := newStore(t)
		p := s.log(roomy)
		set := unhex(t, v.Hex)
		if v.ExpectedProduceError == nil { // a judgement: only its offset is odd (SPEC C21)
			produce(t, p, set)
			return
		}
		refuse(t, p, set, *v.ExpectedProduceError)
		lead(t, p, t0)
		refuse(t, p, append(plainFrame(t0), set...), *v.ExpectedProduceError)
		require.Equal(t, bytes.Clone(fetchAll(t, p, 0)), fetchAll(t, p, 0))
	})
}

// The same messages through the Go API give the same messages back, under every
// codec.
func TestVectorsAppendedNativelyReadTheSame(t *testing.T) {
	eachClientVector(t, "produce", func(t *testing.T, v clientVector) {
		s := newStore(t)
		var msgs []codec.Message
		for m, err := range codec.Messages(unhex(t, v.LogHex)) {
			require.NoError(t, err)
			msgs = append(msgs, codec.Message{Timestamp: m.Timestamp, TimestampType: codec.CreateTime, Key: m.Key, Value: m.Value})
		}
		for _, c := range []codec.Compression{codec.None, codec.Gzip, codec.Snappy, codec.LZ4} {
			p := s.named("t-"+c.String(), roomy)
			p.StartAt(t, v.BaseOffset)
			_, err := p.AppendSet(t.Context(), msgs, engine.AppendOptions{Compression: c})
			require.NoError(t, err)
			requireClientMessages(t, v.Expected, readAll(t, p, v.BaseOffset))
			var fromWire []codec.Message
			for m, err := range codec.Messages(fetchAll(t, p, v.BaseOffset)) {
				require.NoError(t, err)
				fromWire = append(fromWire, m)
			}
			requireClientMessages(t, v.Expected, fromWire)
		}
	})
}
