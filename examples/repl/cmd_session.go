package main

import (
	"context"
	"fmt"
	"strings"
)

func init() {
	register(command{
		name: "echo", group: sessionGroup, args: "TEXT...", maxArgs: -1, noData: true,
		summary:  "print text; variables are replaced",
		examples: []string{`echo "the search found $OFFSET"`},
		run:      runEcho,
	})
	register(command{
		name: "run", group: sessionGroup, args: "SCRIPT", minArgs: 1, maxArgs: 1, noData: true, values: fileNames, nested: true,
		summary: "run the commands in a file",
		run:     func(_ context.Context, s *session, a *arguments) error { return s.scriptFile(a.word(0)) },
	})
	register(command{
		name: "exit", group: sessionGroup, noData: true,
		summary: "leave, as Ctrl-D does",
		run:     func(context.Context, *session, *arguments) error { return errExit },
	})
}

func runEcho(_ context.Context, s *session, a *arguments) error {
	words := make([]string, len(a.words))
	for i, w := range a.words {
		words[i] = w.text
	}
	_, err := fmt.Fprintln(s.out, strings.Join(words, " "))
	return err
}
