package gen_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/examples/accesslog/gen"
)

func write(t *testing.T, seed uint64, n int64, f gen.Format) string {
	t.Helper()
	var b bytes.Buffer
	written, err := gen.New(seed).Write(t.Context(), &b, n, f)
	require.NoError(t, err)
	require.Equal(t, int64(b.Len()), written)
	return b.String()
}

func TestEqualSeedsGiveEqualLogs(t *testing.T) {
	require.Equal(t, write(t, 7, 1000, gen.TSV), write(t, 7, 1000, gen.TSV))
	require.NotEqual(t, write(t, 7, 1000, gen.TSV), write(t, 8, 1000, gen.TSV))
}

// The README and the tour name offsets and times of this log.
func TestFirstLineOfSeedOneIsPinned(t *testing.T) {
	require.Equal(t, "1767225502007\t10.109.218.57\t10.109.218.57 - - [31/Dec/2025:23:58:22 +0000] "+
		`"GET /products/2158 HTTP/1.1" 404 231 "-" "Mozilla/5.0 (Linux; Android 14) Chrome/131.0.6778.81 Mobile Safari/537.36"`+"\n",
		write(t, 1, 1, gen.TSV))
}

func TestOneLineInTwentyIsLateByUpToTwoMinutes(t *testing.T) {
	const lines = 20_000
	g := gen.New(1)
	var newest int64
	late, bytesOfLine := 0, 0
	for range lines {
		l := g.Next()
		bytesOfLine += len(l.Value)
		if l.Timestamp < newest {
			late++
			require.Less(t, newest-l.Timestamp, int64(121_000))
		}
		newest = max(newest, l.Timestamp)
	}
	require.InDelta(t, 0.05, float64(late)/lines, 0.01)
	require.InDelta(t, 86.4, float64(newest-gen.Start.UnixMilli())/lines, 5)
	require.InDelta(t, 175, float64(bytesOfLine)/lines, 25)
}

func TestTSVHasTimestampKeyAndValue(t *testing.T) {
	for line := range strings.Lines(write(t, 3, 500, gen.TSV)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, fields, 3)
		_, err := strconv.ParseInt(fields[0], 10, 64)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(fields[2], fields[1]+" - - ["), line)
	}
}

func TestJSONLHoldsWhatTSVHolds(t *testing.T) {
	var tsv strings.Builder
	for line := range strings.Lines(write(t, 3, 500, gen.JSONL)) {
		var m struct {
			Timestamp  int64
			Key, Value string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		tsv.WriteString(strconv.FormatInt(m.Timestamp, 10) + "\t" + m.Key + "\t" + m.Value + "\n")
	}
	require.Equal(t, write(t, 3, 500, gen.TSV), tsv.String())
}

func TestWriteEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := gen.New(1).Write(ctx, &bytes.Buffer{}, 10, gen.TSV)
	require.ErrorIs(t, err, context.Canceled)
}

func TestUnknownFormatIsRefused(t *testing.T) {
	_, err := gen.ParseFormat("xml")
	require.Error(t, err)
}

func BenchmarkNext(b *testing.B) {
	g := gen.New(1)
	b.ReportAllocs()
	for b.Loop() {
		b.SetBytes(int64(len(g.Next().Value)))
	}
}
