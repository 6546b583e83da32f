package engine_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/cairnlog/cairn/"

// arrows are the imports among our packages that DESIGN.md allows.
var arrows = map[string][]string{
	"keys":           {},
	"codec":          {"keys"},
	"retention":      {"keys", "codec"},
	"compaction":     {"keys", "codec", "retention"},
	"engine/fencefs": {},
	"engine":         {"keys", "codec", "retention", "compaction", "engine/fencefs"},
}

// mayUsePebble are the folders that may import Pebble.
var mayUsePebble = []string{"engine", "bench", "examples"}

// DESIGN 1: nothing imports against the arrows, and only the engine knows Pebble.
func TestImportArrows(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		for _, imported := range fields[1:] {
			if strings.HasPrefix(imported, "github.com/cockroachdb/pebble") {
				top, _, _ := strings.Cut(pkg, "/")
				require.Contains(t, mayUsePebble, top, "%s imports Pebble", pkg)
			}
			ours, ok := strings.CutPrefix(imported, module)
			if allowed, listed := arrows[pkg]; ok && listed {
				require.True(t, slices.Contains(allowed, ours), "%s imports %s", pkg, ours)
			}
		}
	}
}
