package main

import (
	"strconv"
	"strings"

	"github.com/cairnlog/cairn/codec"
)

// arguments are what follows a command's name, parsed by its options.
type arguments struct {
	command *command
	// words are the positional arguments.
	words []token
	// tokens is everything in order, for commands that parse groups.
	tokens   []token
	options  map[string]token
	settings map[string]string
}

// parseArguments sorts tokens by what the command knows.
func parseArguments(c *command, tokens []token) (*arguments, error) {
	a, err := sortTokens(c, tokens, c.groups)
	if err != nil || c.groups {
		return a, err
	}
	return a, a.checkCount()
}

// sortTokens tells words, options and settings apart. grouped allows the options
// of a group again and again.
func sortTokens(c *command, tokens []token, grouped bool) (*arguments, error) {
	a := &arguments{command: c, tokens: tokens, options: map[string]token{}, settings: map[string]string{}}
	for _, t := range tokens {
		if err := a.add(t, grouped); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *arguments) checkCount() error {
	c := a.command
	switch n := len(a.words); {
	case n < c.minArgs && c.maxArgs == c.minArgs && n == 0:
		return usagef("%s is missing", c.args)
	case n < c.minArgs:
		return usagef("%d arguments are too few: %s", n, c.args)
	case c.maxArgs == 0 && n > 0:
		return usagef("unexpected argument %s", display([]byte(a.words[0].text)))
	case c.maxArgs >= 0 && n > c.maxArgs:
		return usagef("unexpected argument %s after %s", display([]byte(a.words[c.maxArgs].text)), c.args)
	}
	return nil
}

func (a *arguments) add(t token, grouped bool) error {
	if t.name == "" {
		a.words = append(a.words, t)
		return nil
	}
	o, ok := a.command.option(t.name)
	switch {
	case ok && o.flag() && !t.flag:
		return usagef("--%s takes no value", t.name)
	case ok && !o.flag() && t.flag:
		return usagef("%s needs a value: %s", t.name, o)
	case ok:
		if _, twice := a.options[t.name]; twice && !(grouped && o.grouped) {
			return usagef("%s is given twice", t.name)
		}
		a.options[t.name] = t
	case a.command.settings && !t.flag:
		if _, twice := a.settings[t.name]; twice {
			return usagef("%s is given twice", t.name)
		}
		a.settings[t.name] = t.text
	case t.flag:
		return usagef("unknown option --%s", t.name)
	default:
		return usagef(`unknown option %s; if it is a value, quote it: "%[1]s=..."`, t.name)
	}
	return nil
}

// has reports whether an option was given.
func (a *arguments) has(name string) bool {
	_, ok := a.options[name]
	return ok
}

// word returns the positional argument i, or "".
func (a *arguments) word(i int) string {
	if i < len(a.words) {
		return a.words[i].text
	}
	return ""
}

// text returns the value of an option, or byDefault.
func (a *arguments) text(name, byDefault string) string {
	if t, ok := a.options[name]; ok {
		return t.text
	}
	return byDefault
}

// number returns the value of an option as a whole number, or byDefault.
func (a *arguments) number(name string, byDefault int64) (int64, error) {
	t, ok := a.options[name]
	if !ok {
		return byDefault, nil
	}
	return parseNumber(name, t.text)
}

// all is what a count is when there is no limit.
const all = 0

// count returns the value of an option that is a positive number or "all".
func (a *arguments) count(name string, byDefault int64) (int64, error) {
	if a.text(name, "") == "all" {
		return all, nil
	}
	n, err := a.number(name, byDefault)
	if err == nil && a.has(name) && n < 1 {
		return 0, usagef("%s %d must be at least 1, or all", name, n)
	}
	return n, err
}

// compression returns the value of the compression option.
func (a *arguments) compression() (codec.Compression, error) {
	if !a.has("compression") {
		return codec.None, nil
	}
	return codec.ParseCompression(a.text("compression", ""))
}

// parseNumber reads a whole number; underscores may divide its digits.
func parseNumber(what, text string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	if err != nil {
		return 0, usagef("%s %q is not a whole number", what, text)
	}
	return n, nil
}
