package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// command is one command of the REPL. A file that registers one in its init is
// all it takes to add it: parsing, usage, help, completion and --json follow
// from the fields.
type command struct {
	name string
	// group is the heading under which help lists the command.
	group group
	// args shows the positional arguments in the usage line; their number is
	// checked against minArgs and maxArgs, -1 being any.
	args             string
	minArgs, maxArgs int
	// summary is one line for the list of commands, in the imperative.
	summary string
	// details are further lines of help.
	details  string
	examples []string
	options  []option
	// settings: any other name=value is a topic or broker setting.
	settings bool
	// groups: the line holds several groups of arguments divided by lone commas,
	// and run parses them itself.
	groups bool
	// nested: run executes further commands, and Ctrl-C is theirs.
	nested bool
	// noData: the command prints nothing that --json could change.
	noData bool
	// values completes a positional argument; nil completes nothing.
	values func(s *session, prefix string) []string

	run func(ctx context.Context, s *session, a *arguments) error
}

// option is a name=value argument or, without a value, a --flag.
type option struct {
	name  string
	value string // what usage shows after name=
	doc   string
	// grouped: with command.groups, the option belongs to its group.
	grouped bool
	// values completes the value; nil completes nothing.
	values func(s *session, prefix string) []string
}

func (o option) flag() bool { return o.value == "" }

func (o option) String() string {
	if o.flag() {
		return "--" + o.name
	}
	return o.name + "=" + o.value
}

// group orders the commands in help.
type group int

const (
	storeGroup group = iota
	topicGroup
	writeGroup
	readGroup
	timeGroup
	wireGroup
	groupGroup
	inspectGroup
	retentionGroup
	sessionGroup
)

var groupNames = []string{"Store", "Topics", "Write", "Read", "Time", "Wire format", "Consumer groups", "Inspect", "Retention", "Session"}

func (g group) String() string { return groupNames[g] }

// commands by name. Only init functions change it.
var commands = map[string]*command{}

func register(c command) {
	if commands[c.name] != nil {
		panic("repl: command " + c.name + " is registered twice")
	}
	if !c.noData {
		c.options = append(c.options, option{name: "json", doc: "print JSON, one document a line"})
	}
	commands[c.name] = &c
}

// sortedCommands returns the commands as help lists them.
func sortedCommands() []*command {
	list := make([]*command, 0, len(commands))
	for _, c := range commands {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *command) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.name, b.name))
	})
	return list
}

// usage is the command's usage line.
func (c *command) usage() string {
	words := []string{c.name}
	if c.args != "" {
		words = append(words, c.args)
	}
	if c.settings {
		words = append(words, "[SETTING=VALUE]...")
	}
	for _, o := range c.options {
		words = append(words, "["+o.String()+"]")
	}
	return strings.Join(words, " ")
}

func (c *command) option(name string) (option, bool) {
	i := slices.IndexFunc(c.options, func(o option) bool { return o.name == name })
	if i < 0 {
		return option{}, false
	}
	return c.options[i], true
}

// findCommand returns the command of that name or says what else it may be.
func findCommand(name string) (*command, error) {
	if c, ok := commands[name]; ok {
		return c, nil
	}
	var similar []string
	for _, c := range sortedCommands() {
		if name != "" && (strings.HasPrefix(c.name, name) || strings.HasPrefix(name, c.name) || strings.Contains(c.name, name)) {
			similar = append(similar, c.name)
		}
	}
	if len(similar) > 0 {
		return nil, fmt.Errorf("unknown command %q; did you mean %s?", name, strings.Join(similar, ", "))
	}
	return nil, fmt.Errorf("unknown command %q; help lists the commands", name)
}

// usageError is a mistake in how a command was written.
type usageError struct{ reason string }

func (e *usageError) Error() string { return e.reason }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}
