package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/cairnlog/cairn/engine"
)

// execute runs one line. A line that begins with ! must fail: its error is
// printed, and success is the error.
func (s *session) execute(line string) error {
	command, mustFail := strings.CutPrefix(strings.TrimSpace(line), "!")
	err := s.executeCommand(command)
	switch {
	case !mustFail, errors.Is(err, errExit), errors.Is(err, errInterrupted):
		return err
	case err == nil:
		return errors.New("this was to fail, and did not")
	}
	fmt.Fprintln(s.out, "fails, as it should:", explain(err))
	return s.out.Flush()
}

// executeCommand runs the command on a line, if there is one.
func (s *session) executeCommand(line string) error {
	tokens, err := splitLine(line, s.variable)
	if err != nil || len(tokens) == 0 {
		return err
	}
	if tokens[0].name != "" {
		return errors.New("a line begins with a command; help lists them")
	}
	c, err := findCommand(tokens[0].text)
	if err != nil {
		return err
	}
	a, err := parseArguments(c, tokens[1:])
	if err == nil {
		err = s.run(c, a)
	}
	// Only the command's own mistake: one inside a file or a script that it
	// reads is wrapped, and the usage would not help.
	if bad, ok := err.(*usageError); ok {
		return fmt.Errorf("%s: %w\nusage: %s", c.name, bad, c.usage())
	}
	return err
}

// run runs one command under a context that Ctrl-C ends.
func (s *session) run(c *command, a *arguments) error {
	if c.nested {
		return c.run(context.Background(), s, a)
	}
	ctx, done := s.commandContext()
	defer done()
	err := c.run(ctx, s, a)
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), errInterrupted) {
		err = errInterrupted
	}
	if flushErr := s.out.Flush(); err == nil {
		err = flushErr
	}
	return err
}

// explain is an error for people: with the Kafka code where there is one.
func explain(err error) string {
	if code := engine.KafkaCode(err); code > 0 {
		return fmt.Sprintf("%v (Kafka error %d)", err, code)
	}
	return err.Error()
}

// scriptError is where a script failed.
type scriptError struct {
	script string
	line   int
	err    error
}

func (e *scriptError) Error() string { return fmt.Sprintf("%s:%d: %s", e.script, e.line, e.err) }

func (e *scriptError) Unwrap() error { return e.err }

const (
	// maxScriptLine bounds one line of a script: a message set as hex.
	maxScriptLine = 64 << 20
	// maxScriptDepth bounds scripts that run scripts.
	maxScriptDepth = 16
)

// script runs the lines of r, echoing each as if it were typed, until one fails.
// Ctrl-C ends a follow, as it would at the prompt, and otherwise the script.
func (s *session) script(name string, r io.Reader) error {
	if s.depth++; s.depth > maxScriptDepth {
		return fmt.Errorf("%s: scripts run each other more than %d deep", name, maxScriptDepth)
	}
	defer func() { s.depth-- }()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxScriptLine)
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimRight(lines.Text(), " \t\r")
		if n == 1 {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		s.echo(line)
		if err := s.execute(line); err != nil {
			if errors.Is(err, errExit) {
				return err
			}
			return &scriptError{name, n, err}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w", name, n+1, err)
	}
	return nil
}

func (s *session) echo(line string) {
	if line == "" {
		fmt.Fprintln(s.out)
		return
	}
	if strings.HasPrefix(line, "#") {
		fmt.Fprintln(s.out, line)
	} else {
		fmt.Fprintln(s.out, s.promptText()+line)
	}
	_ = s.out.Flush() // an error comes again with the command's own flush
}

// scriptFile runs the script in a file.
func (s *session) scriptFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // only read
	return s.script(path, f)
}

// promptText names what commands work on.
func (s *session) promptText() string {
	if s.current != nil {
		return s.current.String() + "> "
	}
	return "cairn> "
}
