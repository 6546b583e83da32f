// Command windows counts events per window of event time, and counts again from any
// point in time:
//
//	go run ./examples/windows -dir ./windows-data -events 100000
//	go run ./examples/windows -dir ./windows-data -events 0 -from 2026-01-01T00:05:00Z -until 2026-01-01T00:08:00Z
//
// The first fills a log with clicks whose timestamps are up to -late out of order and
// counts them all; the second replays three minutes of it: it finds where to begin by
// time and reads no more than it needs. A service does that after a restart, or when
// the way it counts has changed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/retention"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "windows:", err)
		}
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("windows", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", "windows-data", "`directory` of the store")
	events := flags.Int("events", 100_000, "events to append before counting")
	var q query
	flags.DurationVar(&q.window, "window", time.Minute, "length of a window")
	flags.DurationVar(&q.late, "late", 10*time.Second, "how late an event may come")
	flags.Func("from", "count from this `time` on, as 2026-01-01T00:05:00Z", timeFlag(&q.from))
	flags.Func("until", "count up to this `time`", timeFlag(&q.until))
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *events < 0 || q.window <= 0 || q.late < 0:
		return errors.New("-events, -window and -late must not be negative, nor -window zero")
	}
	db, err := engine.Open(*dir, engine.Options{Durability: engine.SyncEvery(time.Second)}.SmallMemory())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	topic, err := db.EnsureTopic("clicks", engine.TopicConfig{Retention: keepAll})
	if err != nil {
		return err
	}
	clicks := topic.Partition(0)
	if err := generate(ctx, clicks, *events, q.late); err != nil {
		return err
	}
	counts, read, err := q.count(ctx, clicks)
	if err != nil {
		return err
	}
	for _, c := range counts {
		if _, err := fmt.Fprintf(stdout, "%s  %6d\n", c.start.Format(time.RFC3339), c.events); err != nil {
			return err
		}
	}
	offsets, err := clicks.Offsets()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%d of %d events read\n", read, offsets.End)
	return err
}

// keepAll is the retention of a log that is counted again.
var keepAll = retention.Policy{MaxAge: engine.Forever}

func timeFlag(t *time.Time) func(string) error {
	return func(text string) (err error) {
		*t, err = time.Parse(time.RFC3339, text)
		return err
	}
}
