package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/peterh/liner"
)

// prompt reads and runs lines from the terminal until Ctrl-D or exit. An error
// is printed and the prompt goes on.
func (s *session) prompt() (err error) {
	db, err := s.store()
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "Store %s, topics: %d. Type help for the commands, Ctrl-D to leave.\n", s.dir, len(db.Topics()))
	if err := s.out.Flush(); err != nil {
		return err
	}
	line := liner.NewLiner()
	defer func() { err = errors.Join(err, line.Close()) }()
	line.SetCtrlCAborts(true)
	line.SetTabCompletionStyle(liner.TabPrints)
	line.SetWordCompleter(s.complete)
	s.loadHistory(line)
	defer s.saveHistory(line)
	return s.converse(line)
}

// lineReader is what a conversation needs of a line editor.
type lineReader interface {
	Prompt(prompt string) (string, error)
	AppendHistory(line string)
}

// converse runs the lines of a terminal.
func (s *session) converse(lines lineReader) error {
	s.lines = lines
	defer func() { s.lines = nil }()
	for {
		text, err := lines.Prompt(s.promptText())
		switch {
		case errors.Is(err, liner.ErrPromptAborted): // Ctrl-C drops the line
			continue
		case errors.Is(err, io.EOF):
			fmt.Fprintln(s.out)
			return s.out.Flush()
		case err != nil:
			return err
		}
		if strings.TrimSpace(text) != "" {
			lines.AppendHistory(text)
		}
		if err := s.execute(text); errors.Is(err, errExit) {
			return nil
		} else if err != nil {
			report(s.stderr, err)
		}
	}
}

// confirm asks on the terminal; only a yes is one.
func (s *session) confirm(question string) (bool, error) {
	if err := s.out.Flush(); err != nil {
		return false, err
	}
	answer, err := s.lines.Prompt(question + " [y/N] ")
	switch {
	case errors.Is(err, liner.ErrPromptAborted):
		return false, errInterrupted
	case errors.Is(err, io.EOF):
		return false, nil
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", err
}

// loadHistory reads the lines typed in earlier sessions; without them the prompt
// works as well.
func (s *session) loadHistory(line *liner.State) {
	if s.history == "" {
		return
	}
	if f, err := os.Open(s.history); err == nil {
		_, _ = line.ReadHistory(f) // a damaged history is not worth a message
		_ = f.Close()
	}
}

func (s *session) saveHistory(line *liner.State) {
	if s.history == "" {
		return
	}
	if err := writeHistory(s.history, line); err != nil {
		fmt.Fprintln(s.stderr, "history is not saved:", err)
	}
}

// writeHistory replaces the file, which only its owner can read: lines may hold
// data.
func writeHistory(path string, line *liner.State) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = line.WriteHistory(f)
	return errors.Join(err, f.Close())
}
