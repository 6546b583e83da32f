package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/compaction"
	"github.com/cairnlog/cairn/engine"
)

// In a bubble no time passes while a script runs, so that the maintenance loop
// does not come between its commands.
func TestRemovalGivesItsTranscript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { requireTranscript(t, "removal") })
}

func TestCompactionGivesItsTranscript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { requireTranscript(t, "compaction") })
}

// newTestSession returns a session with a topic t of segments of a message each,
// at offsets 0 to 9.
func newTestSession(t *testing.T) (s *session, out *bytes.Buffer) {
	t.Helper()
	out = &bytes.Buffer{}
	s = newSession(testConsole("", out, out), filepath.Join(t.TempDir(), "store"), engineOptions)
	t.Cleanup(func() { require.NoError(t, s.close()) })
	require.NoError(t, s.execute("create t segment.bytes=100"))
	for i := range 10 {
		require.NoError(t, s.execute(fmt.Sprintf("append %050d", i)))
	}
	out.Reset()
	return s, out
}

func requireOffsets(t *testing.T, s *session, start, end int64) {
	t.Helper()
	o, err := s.current.Offsets()
	require.NoError(t, err)
	require.Equal(t, engine.Offsets{Start: start, HighWatermark: end, End: end}, o)
}

func TestRemovalIsRefusedWithKafkasCodes(t *testing.T) {
	for _, c := range []struct {
		line string
		code codec.Code
	}{
		{"delete-before 11", codec.CodeOffsetOutOfRange},
		{"delete-before -2", codec.CodeOffsetOutOfRange},
		{"truncate -1", codec.CodeOffsetOutOfRange},
		{"reset -1", codec.CodeOffsetOutOfRange},
		{"drop topic=t/1", codec.CodeUnknownPartition},
		{"drop-topic u", codec.CodeUnknownPartition},
		{"retain u", codec.CodeUnknownPartition},
		{"retain --dry-run retention.ms=soon", codec.CodeInvalidConfig},
	} {
		s, _ := newTestSession(t)
		for _, line := range []string{c.line, c.line + " --dry-run"} {
			if strings.Contains(c.line, "--dry-run") && line != c.line {
				continue
			}
			require.Equal(t, c.code, engine.KafkaCode(s.execute(line)), line)
		}
		requireOffsets(t, s, 0, 10)
	}
}

func TestCompactedTopicRefusesDeleteBefore(t *testing.T) {
	s, _ := newTestSession(t)
	require.NoError(t, s.execute("alter t cleanup.policy=compact"))
	for _, line := range []string{"delete-before 5", "delete-before hw", "delete-before 0", "delete-before 99", "delete-before 5 --dry-run"} {
		require.Equal(t, codec.CodePolicyViolation, engine.KafkaCode(s.execute(line)), line)
	}
	requireOffsets(t, s, 0, 10)
	require.NoError(t, s.execute("alter t cleanup.policy=compact,delete"))
	require.NoError(t, s.execute("delete-before 5"))
	requireOffsets(t, s, 5, 10)
}

func TestDryRunChangesNothingAndSaysWhatHappens(t *testing.T) {
	for _, line := range []string{
		"delete-before 0", "delete-before 4", "delete-before hw", "truncate 0", "truncate 7", "truncate 10", "truncate 99",
		"reset 3", "drop", "drop-topic t", "retain", "retain t", "retain --all",
	} {
		s, out := newTestSession(t)
		require.NoError(t, s.execute(line+" --dry-run"), line)
		requireOffsets(t, s, 0, 10)
		expected := withoutDisk(out.String())
		require.True(t, strings.HasSuffix(expected, "dry run: nothing is changed\n"), expected)
		out.Reset()
		require.NoError(t, s.execute(line), line)
		require.Equal(t, strings.TrimSuffix(expected, "dry run: nothing is changed\n"), withoutDisk(out.String()), line)
	}
}

// Only a person at the prompt is asked, who sees what would go.
func TestRemovalAsksOnATerminal(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("delete-before 8"), 0o600))
	for _, c := range []struct {
		typed      []string
		start, end int64
		answered   int // questions
	}{
		{[]string{"delete-before 5", "n"}, 0, 10, 1},
		{[]string{"delete-before 5", ""}, 0, 10, 1},
		{[]string{"delete-before 5"}, 0, 10, 1}, // Ctrl-D
		{[]string{"delete-before 5", "^C"}, 0, 10, 1},
		{[]string{"delete-before 5", "Yes"}, 5, 10, 1},
		{[]string{"delete-before 5 --yes"}, 5, 10, 0},
		{[]string{"delete-before 5 --dry-run"}, 0, 10, 0},
		{[]string{"delete-before 0"}, 0, 10, 0},
		{[]string{"truncate 9", "y"}, 0, 9, 1},
		{[]string{"truncate 9", "no"}, 0, 10, 1},
		{[]string{"reset 20", "y"}, 20, 20, 1},
		{[]string{"reset 20", "x"}, 0, 10, 1},
		{[]string{"drop", "y"}, 0, 0, 1},
		{[]string{"drop --json", "yes"}, 0, 0, 1},
		{[]string{"drop", "drop"}, 0, 10, 1},
		{[]string{"drop-topic t", "n"}, 0, 10, 1},
		{[]string{"run " + filepath.ToSlash(script)}, 8, 10, 0},
		{[]string{"retain"}, 0, 10, 0},
	} {
		s, out := newTestSession(t)
		terminal := &typed{lines: c.typed, errs: map[string]error{"^C": errAborted}}
		require.NoError(t, s.converse(terminal))
		requireOffsets(t, s, c.start, c.end)
		require.Empty(t, terminal.lines)
		require.Len(t, terminal.questions, c.answered, "%q", c.typed)
		if c.answered > 0 && c.start == 0 && c.end == 10 && !strings.Contains(out.String(), "interrupted") {
			require.Contains(t, out.String(), "nothing is changed")
			require.Contains(t, out.String(), "removed ")
		}
	}
}

func TestDroppedTopicIsNoLongerInUse(t *testing.T) {
	s, _ := newTestSession(t)
	require.NoError(t, s.execute("create u"))
	require.NoError(t, s.execute("drop-topic t"))
	require.Equal(t, "u/0", s.current.String())
	require.NoError(t, s.execute("drop-topic u"))
	require.ErrorIs(t, s.execute("read"), errNoTopic)
}

func TestMaintenanceShowsWhatFailed(t *testing.T) {
	s, _ := newTestSession(t)
	r := s.maintenanceRecord(&engine.MaintenanceStatus{LastRun: fixedNow, Err: errors.Join(errors.New("one"), errors.New("two"))})
	text, err := r.json()
	require.NoError(t, err)
	require.JSONEq(t, `{"last_run":1767323045678,"last_run_utc":"2026-01-02T03:04:05.678Z","next_alarm":null,"error":"one; two"}`, string(text))
}

// Old timestamps under the default settings: what is loaded goes within a second.
func TestLoadSaysWhatRetentionTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, out := newTestSession(t)
		require.NoError(t, s.execute("alter t retention.ms=1000 segment.bytes=1000"))
		file := writeFile(t, "old.tsv", strings.Repeat("1000\tk\tv\n", 3))
		require.NoError(t, s.execute("load '"+file+"'"))
		require.NotContains(t, out.String(), "removed already")
		require.NoError(t, s.execute("delete-before 12"))

		out.Reset()
		l := &loading{partition: s.current, first: 10, end: 13}
		require.NoError(t, s.sayIfExpired(&arguments{}, l))
		require.NoError(t, s.out.Flush())
		require.Equal(t, "2 of them are removed already, by retention: retention.ms=-1 keeps old timestamps\n", out.String())
	})
}

// The bar of compact begins anew with each stage.
func TestCompactionBar(t *testing.T) {
	s, out := newTestSession(t)
	now := fixedNow
	s.interactive, s.width, s.now = true, func() int { return 100 }, func() time.Time { return now }
	bar := compactionBar{session: s}
	bar.update(compaction.Progress{Stage: compaction.Mapping, Total: 1000})
	now = now.Add(time.Second)
	bar.update(compaction.Progress{Stage: compaction.Mapping, Done: 500, Total: 1000, Stats: compaction.Stats{Mapped: 7}})
	bar.update(compaction.Progress{Stage: compaction.Cleaning, Total: 4000})
	now = now.Add(time.Second)
	bar.update(compaction.Progress{Stage: compaction.Cleaning, Done: 1000, Total: 4000, Stats: compaction.Stats{Messages: 1234}})
	bar.close()
	require.NoError(t, s.out.Flush())
	require.Equal(t, "\r 50% [############............] 7 messages  500 B/s  1s left\x1b[K\r\x1b[K"+
		"\r 25% [######..................] 1,234 messages  1000 B/s  3s left\x1b[K\r\x1b[K", out.String())
}
