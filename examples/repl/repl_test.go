// The tests of this package are internal: a command cannot be imported.
package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden transcripts")

// fixedNow is the clock of the tests: 2026-01-02T03:04:05.678Z.
var fixedNow = time.UnixMilli(1767323045678)

// testConsole is a console without a terminal, whose clock stands still.
func testConsole(stdin string, stdout, stderr io.Writer) console {
	return console{
		stdin:  strings.NewReader(stdin),
		stdout: stdout,
		stderr: stderr,
		width:  func() int { return 0 },
		now:    func() time.Time { return fixedNow },
	}
}

// runRepl runs the program on standard input and scripts, in a store of its own.
func runRepl(t *testing.T, stdin string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"-dir", filepath.Join(t.TempDir(), "store"), "-small"}, args...)
	status = run(args, testConsole(stdin, &out, &errs))
	return out.String(), errs.String(), status
}

// temporaryNames differ from run to run.
var temporaryNames = regexp.MustCompile(`\S*cairn-repl-[0-9]+(/store-[0-9]+)?`)

// diskSizes differ from run to run.
var diskSizes = regexp.MustCompile(`(?m)^((?:before|removed|after) .*?)[ \d-]{10}$|("disk_bytes":)\d+|^(disk bytes +)\d.*$`)

// withoutDisk takes out the disk sizes of a transcript.
func withoutDisk(text string) string {
	return diskSizes.ReplaceAllString(text, "${1}${2}${3}DISK")
}

// requireTranscript runs a script, whose output must be what it was.
func requireTranscript(t *testing.T, name string) {
	t.Helper()
	stdout, stderr, status := runRepl(t, "", "testdata/"+name+".cairn")
	require.Empty(t, stderr)
	require.Equal(t, exitOK, status)
	got := withoutDisk(temporaryNames.ReplaceAllString(stdout, "TMP"))
	golden := "testdata/" + name + ".out"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestScriptsGiveTheirTranscripts(t *testing.T) {
	for _, name := range []string{"basics", "wire", "mistakes", "load", "enriched", "checkpoint", "export", "groups", "verify"} {
		t.Run(name, func(t *testing.T) { requireTranscript(t, name) })
	}
}

func TestTourRunsFromAnyDirectoryRepeatedly(t *testing.T) {
	tour, err := filepath.Abs("tour.cairn")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	for range 2 {
		var out, errs bytes.Buffer
		status := run([]string{tour}, testConsole("", &out, &errs))
		require.Empty(t, errs.String())
		require.Equal(t, exitOK, status)
		require.Contains(t, out.String(), "messages             10000")
		require.Contains(t, out.String(), "2026-01-01T00:10:00.006Z")
	}
	left, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Empty(t, left, "the tour leaves nothing behind")
}

func TestPipedInputRunsAndEchoes(t *testing.T) {
	stdout, stderr, status := runRepl(t, "create t\n\n# comment\nappend hello")
	require.Empty(t, stderr)
	require.Equal(t, exitOK, status)
	require.Equal(t, `cairn> create t
topic       t
partitions  1
settings

# comment
t/0> append hello
offset           0
messages         1
timestamp        1767323045678  2026-01-02T03:04:05.678Z
log append time  none
`, stdout)
}

func TestFirstErrorEndsAScriptWithItsPlace(t *testing.T) {
	stdout, stderr, status := runRepl(t, "create t\nread 7\necho not reached")
	require.Equal(t, exitError, status)
	require.NotContains(t, stdout, "not reached")
	require.Contains(t, stderr, "error: stdin:2: ")
	require.Contains(t, stderr, "(Kafka error 1)")

	_, stderr, status = runRepl(t, "echo not read", "testdata/nested-error.cairn")
	require.Equal(t, exitError, status)
	require.Contains(t, stderr, "error: testdata/nested-error.cairn:2: help: ")
	require.Contains(t, stderr, "usage: help [COMMAND]")
}

func TestSuccessWhereFailureIsExpectedIsAnError(t *testing.T) {
	_, stderr, status := runRepl(t, "! topics")
	require.Equal(t, exitError, status)
	require.Contains(t, stderr, "stdin:1: this was to fail")
}

func TestExitEndsEverything(t *testing.T) {
	stdout, stderr, status := runRepl(t, "echo a\nexit\necho b")
	require.Equal(t, exitOK, status)
	require.Empty(t, stderr)
	require.Equal(t, "cairn> echo a\na\ncairn> exit\n", stdout)
}

func TestMissingScriptAndBadFlagsAreRefused(t *testing.T) {
	_, stderr, status := runRepl(t, "", "no-such.cairn")
	require.Equal(t, exitError, status)
	require.Contains(t, stderr, "no-such.cairn")

	for _, args := range [][]string{{"-nope"}, {"-durability", "often"}} {
		_, _, status = runRepl(t, "", args...)
		require.Equal(t, exitUsage, status, "%q", args)
	}
	_, stderr, status = runRepl(t, "", "-h")
	require.Equal(t, exitOK, status)
	require.Contains(t, stderr, "usage: repl")
}

func TestScriptsThatRunEachOtherEnd(t *testing.T) {
	script := filepath.ToSlash(filepath.Join(t.TempDir(), "loop.cairn"))
	require.NoError(t, os.WriteFile(script, []byte("run '"+script+"'\n"), 0o644))
	_, stderr, status := runRepl(t, "", script)
	require.Equal(t, exitError, status)
	require.Contains(t, stderr, "more than 16 deep")
}

func TestStoreIsThereAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	for _, stdin := range []string{"create t\nappend key=a b", "use t\nread"} {
		var out, errs bytes.Buffer
		require.Equal(t, exitOK, run([]string{"-dir", dir, "-small"}, testConsole(stdin, &out, &errs)), errs.String())
		if strings.HasPrefix(stdin, "use") {
			require.Contains(t, out.String(), "     0  1767323045678  2026-01-02T03:04:05.678Z  a    b\n")
		}
	}
}

func TestTemporaryStoreIsRemoved(t *testing.T) {
	var out, errs bytes.Buffer
	require.Equal(t, exitOK, run(nil, testConsole("open --temp --json\ncreate t", &out, &errs)), errs.String())
	dir := regexp.MustCompile(`"store":"([^"]+)"`).FindStringSubmatch(out.String())
	require.NotNil(t, dir, out.String())
	require.NoDirExists(t, dir[1])
	require.NoDirExists(t, filepath.Dir(dir[1]))
}
