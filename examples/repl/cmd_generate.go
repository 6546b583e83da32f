package main

import (
	"context"
	"errors"
	"os"

	"github.com/cairnlog/cairn/examples/accesslog/gen"
)

func init() {
	register(command{
		name: "generate", group: writeGroup, args: "LINES FILE", minArgs: 2, maxArgs: 2,
		summary: "write a synthetic access log to a file, for load",
		details: "Its timestamps are jittered and partly out of order. Equal seeds give equal files.",
		options: []option{
			{name: "seed", value: "N", doc: "of the random numbers; 1 if not given"},
			{name: "format", value: "tsv|jsonl", doc: "tsv if not given", values: oneOf("tsv", "jsonl")},
		},
		examples: []string{"generate 10000 $TMP/access.tsv", "generate 500 access.jsonl format=jsonl seed=7"},
		run:      runGenerate,
	})
}

func runGenerate(ctx context.Context, s *session, a *arguments) (err error) {
	lines, err := parseNumber("LINES", a.word(0))
	if err != nil {
		return err
	}
	seed, err := a.number("seed", 1)
	if err != nil {
		return err
	}
	format, err := gen.ParseFormat(a.text("format", "tsv"))
	if err != nil {
		return usagef("%v", err)
	}
	if lines < 0 {
		return usagef("LINES %d is negative", lines)
	}
	file, err := os.Create(a.word(1))
	if err != nil {
		return err
	}
	written, err := gen.New(uint64(seed)).Write(ctx, file, lines, format)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return s.show(a, record{
		{name: "file", value: a.word(1)},
		{name: "lines", value: lines},
		{name: "bytes", value: byteCount(written)},
	})
}
