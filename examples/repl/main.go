// Command repl opens a Cairn store and runs commands on it: from a prompt, from
// script files, or from standard input.
//
//	go run ./examples/repl                            a prompt on ./cairn-data
//	go run ./examples/repl examples/repl/tour.cairn   the tour
//	echo topics | go run ./examples/repl -dir DIR     one command
//
// A script ends at its first error, with exit status 1. On a terminal the prompt
// stays open after a script. The command help describes the rest.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/term"

	"github.com/cairnlog/cairn/engine"
)

// Exit statuses.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitInterrupted = 130 // 128 + SIGINT, as shells have it
)

func main() {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	os.Exit(run(os.Args[1:], console{
		stdin:       os.Stdin,
		stdout:      os.Stdout,
		stderr:      os.Stderr,
		interactive: isTerminal(os.Stdin) && isTerminal(os.Stdout),
		width:       terminalWidth,
		interrupts:  interrupts,
		now:         time.Now,
		history:     historyFile(),
	}))
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func terminalWidth() int {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// historyFile returns the file for the prompt's history, "" if there is no place
// for it.
func historyFile() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "cairn", "repl_history")
}

// run is the program: it returns the exit status.
func run(args []string, c console) (status int) {
	flags := flag.NewFlagSet("repl", flag.ContinueOnError)
	flags.SetOutput(c.stderr)
	dir := flags.String("dir", "cairn-data", "`directory` of the store, made if it is missing")
	durability := flags.String("durability", "always", durabilityDoc)
	small := flags.Bool("small", false, "use little memory")
	flags.Usage = func() {
		fmt.Fprintln(c.stderr, "usage: repl [FLAGS] [SCRIPT]...")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return exitOK
	} else if err != nil {
		return exitUsage
	}
	var opts engine.Options
	var err error
	if opts.Durability, err = parseDurability(*durability); err != nil {
		fmt.Fprintln(c.stderr, "error:", err)
		return exitUsage
	}
	if *small {
		opts = opts.SmallMemory()
	}
	s := newSession(c, *dir, opts)
	defer func() {
		if err := s.close(); err != nil {
			status = max(status, report(c.stderr, err))
		}
	}()
	if err := s.main(flags.Args()); err != nil && !errors.Is(err, errExit) {
		_ = s.out.Flush() // close reports it
		return report(c.stderr, err)
	}
	return exitOK
}

// main runs the scripts, then the prompt or standard input. At a terminal Ctrl-C
// ends a script and not the program.
func (s *session) main(scripts []string) error {
	for _, path := range scripts {
		err := s.scriptFile(path)
		if s.interactive && errors.Is(err, errInterrupted) {
			report(s.stderr, err)
			break
		}
		if err != nil {
			return err
		}
	}
	switch {
	case s.interactive:
		return s.prompt()
	case len(scripts) == 0:
		return s.script("stdin", s.stdin)
	}
	return nil
}

// report prints an error and returns the exit status for it.
func report(w io.Writer, err error) int {
	fmt.Fprintln(w, "error:", explain(err))
	if errors.Is(err, errInterrupted) {
		return exitInterrupted
	}
	return exitError
}
