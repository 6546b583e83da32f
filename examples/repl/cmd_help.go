package main

import (
	"context"
	"fmt"
	"strings"
)

func init() {
	register(command{
		name: "help", group: sessionGroup, args: "[COMMAND]", maxArgs: 1, noData: true,
		summary: "list the commands, or describe one with examples",
		values:  commandNames,
		details: "help lines describes how a line is written.",
		run:     runHelp,
	})
}

const linesHelp = `A line is a command and its arguments, divided by spaces.

  name=value      an option; --name is one without a value
  "a b"  'a b'    one word; in double quotes escapes and variables are replaced
  \n \t \r \0     escapes, in and out of double quotes; also \\ \" \' \$ \# \=
  \x00 \u00e9     a byte, a character
  null  ""        the null key or value, the empty one; "null" is the word
  # ...           a comment, where a word could begin
  ! command       runs a command that must fail

Variables:

  $TMP            a directory that is removed at the end
  $DIR            the directory of the store
  $OFFSET         the offset found by the last search, or given by the last append
  $SET            the message set of the last fetch, as hex

Times are milliseconds since the epoch or RFC 3339; without a zone they are UTC.
`

func runHelp(_ context.Context, s *session, a *arguments) error {
	switch topic := a.word(0); topic {
	case "":
		s.listCommands()
	case "lines":
		fmt.Fprint(s.out, linesHelp)
	default:
		c, err := findCommand(topic)
		if err != nil {
			return err
		}
		s.describeCommand(c)
	}
	return nil
}

func (s *session) listCommands() {
	list := sortedCommands()
	width := 0
	for _, c := range list {
		width = max(width, len(c.name))
	}
	last := group(-1)
	for _, c := range list {
		if c.group != last {
			last = c.group
			fmt.Fprintf(s.out, "%s\n", last)
		}
		fmt.Fprintf(s.out, "  %-*s  %s\n", width, c.name, c.summary)
	}
	fmt.Fprintln(s.out, "\nhelp COMMAND describes a command with examples; help lines how a line is written.")
}

func (s *session) describeCommand(c *command) {
	fmt.Fprintf(s.out, "%s: %s\n\nusage: %s\n", c.name, c.summary, c.usage())
	if c.details != "" {
		fmt.Fprintf(s.out, "\n%s\n", c.details)
	}
	if len(c.options) > 0 {
		fmt.Fprintln(s.out)
		width := 0
		for _, o := range c.options {
			width = max(width, len(o.String()))
		}
		for _, o := range c.options {
			fmt.Fprintf(s.out, "  %-*s  %s\n", width, o, o.doc)
		}
	}
	if len(c.examples) > 0 {
		fmt.Fprintf(s.out, "\nexamples:\n  %s\n", strings.Join(c.examples, "\n  "))
	}
}
