package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/peterh/liner"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/engine"
)

// errAborted is what the line editor returns for Ctrl-C.
var errAborted = liner.ErrPromptAborted

// engineOptions are for stores of tests.
var engineOptions = engine.Options{}.SmallMemory()

// writeFile writes a file and returns its path with slashes.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	return filepath.ToSlash(path)
}

func TestCompletion(t *testing.T) {
	s := newSession(testConsole("", &bytes.Buffer{}, &bytes.Buffer{}), filepath.Join(t.TempDir(), "store"), engineOptions)
	defer func() { require.NoError(t, s.close()) }()
	require.NoError(t, s.execute("create orders"))
	require.NoError(t, s.execute("create other"))
	path := writeFile(t, "access.tsv", "")
	dir := strings.TrimSuffix(path, "access.tsv")
	for line, want := range map[string]string{
		"cre":                    "create ",
		"! cre":                  "create ",
		"use o":                  "orders other",
		"use or":                 "orders ",
		"read topic=oth":         "topic=other ",
		"read --fo":              "--follow ",
		"read la":                "last=",
		"append compression=gz":  "compression=gzip ",
		"alter orders segment.b": "segment.bytes=",
		"load " + dir + "acc":    path + " ",
		"list-offsets e":         "earliest ",
		"help sea":               "search ",
		"delete-before h":        "hw ",
		"truncate --d":           "--dry-run ",
		"drop-t":                 "drop-topic ",
		"drop-topic oth":         "other ",
		"retain ord":             "orders ",
		"retain --dry-run rete":  "retention.ms= retention.bytes= retention.clamp.future=",
		"maintenance r":          "run ",
		"nonsense x":             "",
		"read n=":                "",
		"täglich":                "",
	} {
		head, words, tail := s.complete(line, len([]rune(line)))
		require.Equal(t, want, strings.Join(words, " "), "%q", line)
		require.True(t, strings.HasPrefix(line, head))
		require.Empty(t, tail)
	}
	head, words, tail := s.complete("use or x", 6)
	require.Equal(t, []any{"use ", []string{"orders"}, " x"}, []any{head, words, tail})
	_, words, _ = s.complete("", 0)
	require.Len(t, words, len(commands))
}
