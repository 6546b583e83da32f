// Command accesslog writes a synthetic web access log whose timestamps are
// jittered and partly out of order, for trying Cairn on something of size:
//
//	go run ./examples/accesslog -lines 1000000 -out access.tsv
//
// Equal seeds give equal bytes. Package gen describes the log.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/cairnlog/cairn/examples/accesslog/gen"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "accesslog:", err)
		}
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("accesslog", flag.ContinueOnError)
	flags.SetOutput(stderr)
	lines := flags.Int64("lines", 1_000_000, "number of lines")
	seed := flags.Uint64("seed", 1, "seed of the random numbers")
	out := flags.String("out", "", "`file` to write; standard output without one")
	format := flags.String("format", "tsv", "tsv (timestamp in ms, key, value) or jsonl")
	if err := flags.Parse(args); err != nil {
		return err
	}
	f, err := gen.ParseFormat(*format)
	switch {
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *lines < 0:
		return fmt.Errorf("-lines %d is negative", *lines)
	}
	w := stdout
	if *out != "" {
		file, createErr := os.Create(*out)
		if createErr != nil {
			return createErr
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		w = file
	}
	_, err = gen.New(*seed).Write(ctx, w, *lines, f)
	return err
}
