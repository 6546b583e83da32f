package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

func TestReplayFromATimeCountsWhatAllDoes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	output := func(args ...string) (lines []string) {
		t.Helper()
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), append([]string{"-dir", dir}, args...), &out, io.Discard))
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}
	all := output("-events", "60000") // ten minutes
	require.Equal(t, "60000 of 60000 events read", all[len(all)-1])
	require.Len(t, all, 11)
	replayed := output("-events", "0", "-from", "2026-01-01T00:05:00Z", "-until", "2026-01-01T00:08:00Z")
	require.Equal(t, all[5:8], replayed[:3])
	require.Len(t, replayed, 4)
	require.NotEqual(t, all[len(all)-1], replayed[3])
	var read, of int
	_, err := fmt.Sscanf(replayed[3], "%d of %d events read", &read, &of)
	require.NoError(t, err)
	require.Less(t, read, 22_000, "three minutes, and a little on both sides")
	require.Greater(t, read, 18_000)
}

// Whatever the order of the events, a range counts what a look at every event does.
func TestCountsAgreeWithALookAtEveryEvent(t *testing.T) {
	db, err := engine.Open("store", engine.Options{FS: vfs.NewMem()}.SmallMemory())
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	topic, err := db.CreateTopic("clicks", engine.TopicConfig{Retention: keepAll})
	require.NoError(t, err)
	p := topic.Partition(0)
	const late = 7 * time.Second
	require.NoError(t, generate(t.Context(), p, 5000, late))
	for from := range 50 {
		q := query{window: time.Second, late: late, from: began.Add(time.Duration(from) * 700 * time.Millisecond)}
		q.until = q.from.Add(5 * time.Second)
		want := 0
		for m, err := range p.Read(t.Context(), 0, engine.ReadOptions{}) {
			require.NoError(t, err)
			if m.Timestamp >= codec.TimestampOf(q.from) && m.Timestamp < codec.TimestampOf(q.until) {
				want++
			}
		}
		windows, _, err := q.count(t.Context(), p)
		require.NoError(t, err)
		got := 0
		for i, w := range windows {
			got += w.events
			require.True(t, i == 0 || windows[i-1].start.Before(w.start))
		}
		require.Equal(t, want, got, q.from)
	}
}

func TestNothingToCount(t *testing.T) {
	var out bytes.Buffer
	dir := filepath.Join(t.TempDir(), "store")
	require.NoError(t, run(t.Context(), []string{"-dir", dir, "-events", "0"}, &out, io.Discard))
	require.Equal(t, "0 of 0 events read\n", out.String())
}

func TestBadArgumentsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-events", "-1"}, {"-window", "0"}, {"-late", "-1s"}, {"-from", "noon"}, {"surplus"}, {"-nope"}} {
		require.Error(t, run(t.Context(), args, io.Discard, io.Discard), "%q", args)
	}
}
