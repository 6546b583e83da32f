package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOutFileHoldsWhatStandardOutputGets(t *testing.T) {
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-lines", "100"}, &stdout, io.Discard))
	require.Equal(t, 100, bytes.Count(stdout.Bytes(), []byte("\n")))

	file := filepath.Join(t.TempDir(), "access.tsv")
	require.NoError(t, run(t.Context(), []string{"-lines", "100", "-out", file}, io.Discard, io.Discard))
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, stdout.String(), string(written))
}

func TestBadArgumentsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-lines", "-1"}, {"-format", "xml"}, {"surplus"}, {"-nope"}, {"-out", t.TempDir()}} {
		require.Error(t, run(t.Context(), args, io.Discard, io.Discard), "%q", args)
	}
}
