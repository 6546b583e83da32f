package keys_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/keys"
)

var update = flag.Bool("update", false, "rewrite the golden files of layouts that changed on purpose")

// TestKeysAreTheGoldenBytes pins every space in a file of its own, one key a
// line: the key, then the fields it was made of.
func TestKeysAreTheGoldenBytes(t *testing.T) {
	partitions := []keys.Partition{
		{Topic: 1, Number: 0}, {Topic: 1, Number: -1}, {Topic: 0xa1b2c3d4, Number: math.MaxInt32}, {Topic: 0xa1b2c3d4, Number: math.MinInt32},
	}
	rows := []row{
		{name: "orders", offset: 0, time: 1_500_000_000_000, epoch: 0, start: 0},
		{name: "", offset: 41, time: -1, epoch: 7, start: 7},
		{name: "a\x00b\xff", offset: math.MaxInt64, time: math.MinInt64, epoch: math.MaxInt32, start: math.MaxInt32},
	}
	for _, s := range spaces {
		var golden strings.Builder
		for _, r := range rows {
			for _, p := range partitions {
				r.partition = p
				line := fmt.Sprintf("%x %s\n", s.append(nil, r), describe(s.fields(r)))
				if !strings.Contains(golden.String(), line) { // a space without partitions repeats itself
					golden.WriteString(line)
				}
			}
		}
		requireGolden(t, s.name, golden.String())
	}
}

func describe(fields []any) string {
	words := make([]string, len(fields))
	for i, field := range fields {
		words[i] = fmt.Sprintf("%v", field)
		if name, ok := field.(string); ok {
			words[i] = fmt.Sprintf("%q", name)
		}
	}
	return strings.Join(words, " ")
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
