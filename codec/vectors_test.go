package codec_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairnlog/cairn/codec"
	"github.com/stretchr/testify/require"
)

// vector is one file of testdata/vectors; its README describes the fields.
type vector struct {
	Name                 string           `json:"name"`
	Kind                 string           `json:"kind"`
	Hex                  string           `json:"hex"`
	LogHex               string           `json:"log_hex"`
	BaseOffset           int64            `json:"base_offset"`
	FetchOffset          int64            `json:"fetch_offset"`
	ExpectedProduceError *codec.Code      `json:"expected_produce_error"`
	Expected             []vectorExpected `json:"expected"`
}

type vectorExpected struct {
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

func loadVectors(t testing.TB) []vector {
	t.Helper()
	files, err := filepath.Glob("testdata/vectors/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := make([]vector, 0, len(files))
	for _, file := range files {
		all = append(all, loadVector(t, file))
	}
	return all
}

func loadVector(t testing.TB, file string) vector {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var v vector
	require.NoError(t, json.Unmarshal(data, &v), file)
	return v
}

// unhex decodes hex digits, ignoring spaces, slashes and line ends.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "/", "", "\n", "", "\t", "").Replace(s))
	require.NoError(t, err)
	return b
}

// collect reads a whole set.
func collect(set []byte) ([]codec.Message, error) {
	var all []codec.Message
	for m, err := range codec.Messages(set) {
		if err != nil {
			return all, err
		}
		all = append(all, m)
	}
	return all, nil
}

// leaderFrames runs the checks of a leader append that need no topic settings
// (SPEC 2.1, 2.4.22) and returns the frames and how many messages each holds.
func leaderFrames(set []byte) (frames []codec.Frame, counts []int, err error) {
	for len(set) > 0 {
		f, n, err := codec.ReadFrame(set)
		if err != nil {
			return nil, nil, err
		}
		if n == 0 {
			return nil, nil, codec.Errorf(codec.CodeCorruptMessage, "partial message")
		}
		if f.TimestampType == codec.LogAppendTime {
			return nil, nil, codec.Errorf(codec.CodeInvalidTimestamp, "timestamp type bit is set")
		}
		count := 1
		if f.Compression != codec.None {
			in, err := codec.InspectWrapper(&f, nil)
			if err != nil {
				return nil, nil, err
			}
			count = in.Count
		}
		frames, counts = append(frames, f), append(counts, count)
		set = set[n:]
	}
	return frames, counts, nil
}

func requireCorrupt(t testing.TB, err error, msgAndArgs ...any) {
	t.Helper()
	require.ErrorIs(t, err, codec.ErrCorruptMessage, msgAndArgs...)
}

func requireExpected(t *testing.T, want []vectorExpected, got []codec.Message) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		m := got[i]
		require.Equal(t, w.Offset, m.Offset, "message %d", i)
		switch {
		case w.TimestampType == nil:
			require.Equal(t, codec.NoTimestampType, m.TimestampType)
			require.Equal(t, codec.NoTimestamp, m.Timestamp)
		case *w.TimestampType == "append":
			require.Equal(t, codec.LogAppendTime, m.TimestampType)
			require.Equal(t, w.Timestamp, m.Timestamp)
		default:
			require.Equal(t, codec.CreateTime, m.TimestampType)
			require.Equal(t, w.Timestamp, m.Timestamp)
		}
		requireBytes(t, w.KeyHex, w.KeyLen, w.KeySHA, m.Key)
		requireBytes(t, w.ValueHex, w.ValueLen, w.ValueSHA, m.Value)
	}
}

func requireBytes(t *testing.T, wantHex *string, wantLen int, wantSHA string, got []byte) {
	t.Helper()
	switch {
	case wantSHA != "":
		require.Len(t, got, wantLen)
		sum := sha256.Sum256(got)
		require.Equal(t, wantSHA, hex.EncodeToString(sum[:]))
	case wantHex == nil:
		require.Nil(t, got)
	default:
		require.NotNil(t, got)
		require.Equal(t, *wantHex, hex.EncodeToString(got))
	}
}

// Sets of seven clients and the traps around them, testdata/vectors/README.md.
func TestVectorsOfClientsReadAndPassAsExpected(t *testing.T) {
	run := map[string]func(*testing.T, vector){
		"log": logVector, "produce": produceVector, "produce-rewrite": rewriteVector, "invalid": invalidVector,
	}
	for _, v := range loadVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			require.Contains(t, run, v.Kind)
			run[v.Kind](t, v)
		})
	}
}

func logVector(t *testing.T, v vector) {
	got, err := collect(unhex(t, v.Hex))
	require.NoError(t, err)
	for len(got) > 0 && got[0].Offset < v.FetchOffset {
		got = got[1:]
	}
	requireExpected(t, v.Expected, got)
}

func produceVector(t *testing.T, v vector) {
	frames, counts, err := leaderFrames(unhex(t, v.Hex))
	require.NoError(t, err)

	// Assigning offsets is all that an in-place append changes (SPEC 2.6.25).
	var stored []byte
	next := v.BaseOffset
	for i := range frames {
		f := &frames[i]
		if f.Compression != codec.None {
			in, err := codec.InspectWrapper(f, nil)
			require.NoError(t, err)
			require.True(t, in.Contiguous)
		}
		next += int64(counts[i])
		f.Offset = next - 1
		stored = codec.AppendFrame(stored, f)
	}
	require.Equal(t, unhex(t, v.LogHex), stored)

	got, err := collect(stored)
	require.NoError(t, err)
	requireExpected(t, v.Expected, got)
}

func rewriteVector(t *testing.T, v vector) {
	f, n, err := codec.ReadFrame(unhex(t, v.Hex))
	require.NoError(t, err)
	require.Equal(t, f.WireSize(), n)
	in, err := codec.InspectWrapper(&f, nil)
	require.NoError(t, err)
	require.False(t, in.Contiguous)

	msgs := in.AppendMessages(nil, v.BaseOffset)
	rebuilt, _, err := codec.BuildWrapper(nil, f.Compression, f.Magic, msgs)
	require.NoError(t, err)
	for _, set := range [][]byte{codec.AppendFrame(nil, &rebuilt), unhex(t, v.LogHex)} {
		got, err := collect(set)
		require.NoError(t, err)
		requireExpected(t, v.Expected, got)
	}
}

func invalidVector(t *testing.T, v vector) {
	set := unhex(t, v.Hex)
	_, _ = collect(set) // whatever a reader makes of it, it does not panic
	_, _, err := leaderFrames(set)
	if v.ExpectedProduceError == nil {
		return
	}
	detail, ok := errors.AsType[*codec.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, *v.ExpectedProduceError, detail.Code, "%v", err)
}

// A leader ignores the producer's wrapper offset (SPEC C21) where a reader may
// not go below zero (SPEC 1.3.17): what vector bad-wrapper-below-inner leaves open.
func TestWrapperOffsetBelowInnerIsRewrittenOnAppendAndRefusedOnRead(t *testing.T) {
	set := unhex(t, loadVector(t, "testdata/vectors/bad-wrapper-below-inner.json").Hex)
	f, _, err := codec.ReadFrame(set)
	require.NoError(t, err)
	in, err := codec.InspectWrapper(&f, nil)
	require.NoError(t, err)
	require.False(t, in.Contiguous)
	_, err = collect(set)
	requireCorrupt(t, err)
}
