package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// startRepl runs stdin and returns the program's output, its interrupts, and its
// exit status.
func startRepl(t *testing.T, stdin string) (*bufio.Reader, chan<- os.Signal, <-chan int) {
	t.Helper()
	reader, writer := io.Pipe()
	interrupts := make(chan os.Signal, 1)
	c := testConsole(stdin, writer, writer)
	c.interrupts = interrupts
	status := make(chan int, 1)
	dir := filepath.Join(t.TempDir(), "store")
	go func() {
		code := run([]string{"-dir", dir, "-small"}, c)
		_ = writer.Close()
		status <- code
	}()
	return bufio.NewReader(reader), interrupts, status
}

// awaitLine reads until a line has the text in it.
func awaitLine(t *testing.T, r *bufio.Reader, text string) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		require.NoError(t, err, "waiting for %q", text)
		if strings.Contains(line, text) {
			return
		}
	}
}

func TestInterruptEndsAFollowAndTheScriptGoesOn(t *testing.T) {
	out, interrupts, status := startRepl(t, "create t\nappend first\nread --follow\nappend second\nread --follow n=2")
	awaitLine(t, out, "null  first")
	interrupts <- os.Interrupt
	awaitLine(t, out, "append second")
	awaitLine(t, out, "null  second")
	_, err := io.Copy(io.Discard, out)
	require.NoError(t, err)
	require.Equal(t, exitOK, <-status)
}

func TestInterruptEndsAScript(t *testing.T) {
	lines := "create t\ngenerate 5000 $TMP/a.tsv\nload $TMP/a.tsv\nread n=all\necho not reached"
	out, interrupts, status := startRepl(t, lines)
	awaitLine(t, out, "offset      timestamp") // the header of read: it now waits for its reader
	interrupts <- os.Interrupt
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	last := string(rest[max(0, len(rest)-1000):])
	require.Contains(t, last, "error: stdin:4: interrupted")
	require.NotContains(t, last, "not reached")
	require.Equal(t, exitInterrupted, <-status)
}

// typed is a terminal whose lines are known beforehand.
type typed struct {
	lines     []string
	errs      map[string]error
	history   []string
	questions []string // the prompts that ask for leave
}

func (f *typed) Prompt(prompt string) (string, error) {
	if strings.HasSuffix(prompt, "[y/N] ") {
		f.questions = append(f.questions, prompt)
	}
	if len(f.lines) == 0 {
		return "", io.EOF
	}
	line := f.lines[0]
	f.lines = f.lines[1:]
	return line, f.errs[line]
}

func (f *typed) AppendHistory(line string) { f.history = append(f.history, line) }

func TestPromptGoesOnAfterErrorsAndRemembersLines(t *testing.T) {
	var out, errs bytes.Buffer
	s := newSession(testConsole("", &out, &errs), filepath.Join(t.TempDir(), "store"), engineOptions)
	terminal := &typed{
		lines: []string{"frobnicate", "", "^C", "create t", "append x", "exit", "not reached"},
		errs:  map[string]error{"^C": errAborted},
	}
	require.NoError(t, s.converse(terminal))
	require.NoError(t, s.close())
	require.Equal(t, []string{"frobnicate", "create t", "append x", "exit"}, terminal.history)
	require.Contains(t, errs.String(), `error: unknown command "frobnicate"`)
	require.Contains(t, out.String(), "offset           0\n")
	require.Equal(t, []string{"not reached"}, terminal.lines)
}

func TestEndOfInputLeavesThePrompt(t *testing.T) {
	var out bytes.Buffer
	s := newSession(testConsole("", &out, io.Discard), "store", engineOptions)
	require.NoError(t, s.converse(&typed{}))
	require.NoError(t, s.close())
	require.NoDirExists(t, "store")
}
