package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cairnlog/cairn/engine"
)

// console is what a session has around it.
type console struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	// interactive: stdin and stdout are terminals.
	interactive bool
	// width returns the columns of stdout, 0 if it is no terminal.
	width func() int
	// interrupts brings Ctrl-C while a command runs.
	interrupts <-chan os.Signal
	now        func() time.Time
	// history is the file that keeps the lines typed, "" for none.
	history string
}

// session is the state that commands share.
type session struct {
	console
	out *bufio.Writer // over stdout, flushed after each command

	// db is nil until the first command that needs it opens dir.
	db        *engine.DB
	dir       string
	temporary bool
	opts      engine.Options

	// current is what commands without topic= work on; nil without one.
	current *engine.Partition
	vars    map[string]string
	// transactions are those the session holds.
	transactions map[int64]*engine.Transaction
	scratch      string // the directory behind $TMP, "" until it is used
	depth        int    // of scripts that run scripts
	// lines is the terminal that a conversation is held on; nil without one.
	lines lineReader
}

func newSession(c console, dir string, opts engine.Options) *session {
	opts.Now = c.now
	return &session{console: c, out: bufio.NewWriterSize(c.stdout, 64<<10), dir: dir, opts: opts, vars: map[string]string{}}
}

// errExit ends the program as if its input had ended.
var errExit = errors.New("exit")

// errInterrupted is a command that Ctrl-C ended.
var errInterrupted = errors.New("interrupted")

// store returns the open store; the first call opens or creates it.
func (s *session) store() (*engine.DB, error) {
	if s.db != nil {
		return s.db, nil
	}
	db, err := engine.Open(s.dir, s.opts)
	if err != nil {
		return nil, err
	}
	s.db = db
	return db, nil
}

// closeStore closes the store, and removes a temporary one.
func (s *session) closeStore() error {
	if s.db == nil {
		return nil
	}
	err := s.db.Close()
	s.db, s.current, s.transactions = nil, nil, nil
	if s.temporary {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// close ends the session.
func (s *session) close() error {
	err := errors.Join(s.out.Flush(), s.closeStore())
	if s.scratch != "" {
		err = errors.Join(err, os.RemoveAll(s.scratch))
	}
	return err
}

// scratchDir returns a directory that lives as long as the session.
func (s *session) scratchDir() (string, error) {
	if s.scratch == "" {
		dir, err := os.MkdirTemp("", "cairn-repl-")
		if err != nil {
			return "", err
		}
		s.scratch = filepath.ToSlash(dir)
	}
	return s.scratch, nil
}

// variable returns the value of a $NAME.
func (s *session) variable(name string) (string, bool) {
	switch name {
	case "TMP":
		dir, err := s.scratchDir()
		return dir, err == nil
	case "DIR":
		return s.dir, true
	}
	value, ok := s.vars[name]
	return value, ok
}

// remember sets $OFFSET, the offset that the last command was about.
func (s *session) remember(offset int64) { s.vars["OFFSET"] = strconv.FormatInt(offset, 10) }

// topic returns an existing topic.
func (s *session) topic(name string) (*engine.Topic, error) {
	db, err := s.store()
	if err != nil {
		return nil, err
	}
	t, ok := db.Topic(name)
	if !ok {
		return nil, fmt.Errorf("topic %s: %w; topics lists those there are", display([]byte(name)), engine.ErrUnknownTopic)
	}
	return t, nil
}

// findPartition returns the partition called TOPIC or TOPIC/N.
func (s *session) findPartition(name string) (*engine.Partition, error) {
	topic, number := name, int64(0)
	if head, tail, ok := strings.Cut(name, "/"); ok {
		n, err := strconv.ParseInt(tail, 10, 32)
		if err != nil {
			return nil, usagef("%q is no partition: give TOPIC or TOPIC/NUMBER", name)
		}
		topic, number = head, n
	}
	t, err := s.topic(topic)
	if err != nil {
		return nil, err
	}
	if number < 0 || number >= int64(t.Partitions()) {
		return nil, fmt.Errorf("%s: %w; the partitions of %s are 0 to %d", name, engine.ErrUnknownTopic, topic, t.Partitions()-1)
	}
	return t.Partition(int32(number)), nil
}

// topicOption names the partition of one command.
var topicOption = option{name: "topic", value: "TOPIC[/N]", doc: "the partition to work on, instead of the one in use", values: topicNames}

var errNoTopic = errors.New("no topic is in use: say use TOPIC first, or topic=TOPIC")

// partition returns what a command works on.
func (s *session) partition(a *arguments) (*engine.Partition, error) {
	if a.has("topic") {
		return s.findPartition(a.text("topic", ""))
	}
	if s.current == nil {
		return nil, errNoTopic
	}
	return s.current, nil
}

// records returns the printer of a command's table.
func (s *session) records(a *arguments) *printer {
	return &printer{out: s.out, width: s.width(), json: a.has("json"), full: a.has("full")}
}

// show prints a result that is a single record.
func (s *session) show(a *arguments, r record) error {
	if a.has("json") {
		text, err := r.json()
		s.out.Write(text)
		return err
	}
	writeList(s.out, r.columns(true, true))
	return nil
}

// say prints a line for people, which --json leaves out.
func (s *session) say(a *arguments, format string, args ...any) {
	if !a.has("json") {
		fmt.Fprintf(s.out, format+"\n", args...)
	}
}

// commandContext returns the context of one command, which Ctrl-C ends, and a
// function to call after the command.
func (s *session) commandContext() (context.Context, func()) {
	select {
	case <-s.interrupts: // came when nothing was running
	default:
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-s.interrupts:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}
