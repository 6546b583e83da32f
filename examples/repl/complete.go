package main

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cairnlog/cairn/engine"
)

// complete proposes words for the one that ends at pos: the command, its
// options, the values of an option, topics, files.
func (s *session) complete(line string, pos int) (head string, words []string, tail string) {
	// liner counts characters
	runes := []rune(line)
	before, tail := string(runes[:pos]), string(runes[pos:])
	start := strings.LastIndexAny(before, " \t") + 1
	head, prefix := before[:start], before[start:]
	fields := strings.Fields(head)
	if len(fields) > 0 && fields[0] == "!" {
		fields = fields[1:]
	}
	if len(fields) == 0 {
		words = commandNames(s, prefix)
	} else if c, ok := commands[fields[0]]; ok {
		words = s.completeArgument(c, prefix)
	}
	if len(words) == 1 && tail == "" && !strings.HasSuffix(words[0], "=") && !strings.HasSuffix(words[0], "/") {
		words[0] += " " // the word is whole
	}
	return head, words, tail
}

func (s *session) completeArgument(c *command, prefix string) []string {
	if name, value, ok := strings.Cut(strings.TrimPrefix(prefix, "--"), "="); ok {
		o, known := c.option(name)
		if !known || o.values == nil {
			return nil
		}
		var words []string
		for _, v := range o.values(s, value) {
			words = append(words, name+"="+v)
		}
		return words
	}
	var words []string
	if c.values != nil {
		words = c.values(s, prefix)
	}
	for _, o := range c.options {
		word := "--" + o.name
		if !o.flag() {
			word = o.name + "="
		}
		if strings.HasPrefix(word, prefix) {
			words = append(words, word)
		}
	}
	if c.settings {
		words = append(words, settingNames(prefix)...)
	}
	return words
}

func commandNames(_ *session, prefix string) []string {
	var names []string
	for _, c := range sortedCommands() {
		if strings.HasPrefix(c.name, prefix) {
			names = append(names, c.name)
		}
	}
	slices.Sort(names)
	return names
}

// topicNames lists the topics of the open store; it does not open one.
func topicNames(s *session, prefix string) []string {
	if s.db == nil {
		return nil
	}
	var names []string
	for _, t := range s.db.Topics() {
		if strings.HasPrefix(t.Name(), prefix) {
			names = append(names, t.Name())
		}
	}
	return names
}

func settingNames(prefix string) []string {
	var names []string
	for _, setting := range engine.Settings() {
		if setting.Name != "" && strings.HasPrefix(setting.Name, prefix) {
			names = append(names, setting.Name+"=")
		}
	}
	return names
}

func compressionNames(_ *session, prefix string) []string {
	return oneOf("none", "gzip", "snappy", "lz4")(nil, prefix)
}

// oneOf completes a fixed list of words.
func oneOf(words ...string) func(*session, string) []string {
	return func(_ *session, prefix string) []string {
		return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, prefix) })
	}
}

// fileNames completes a path.
func fileNames(_ *session, prefix string) []string {
	dir, base := filepath.Split(prefix)
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		switch {
		case !strings.HasPrefix(e.Name(), base), strings.ContainsAny(e.Name(), ` "'\`):
		case e.IsDir():
			names = append(names, dir+e.Name()+"/")
		default:
			names = append(names, dir+e.Name())
		}
	}
	return names
}
