// Command outbox is a small event-sourced service with exactly-once processing, to
// copy from:
//
//	go run ./examples/outbox -dir ./outbox-data -orders 1000
//
// A shop decides about orders by folding the events of each: an order can be paid
// once, and only if it was placed. Its events are the outbox: a biller reads them and
// writes one invoice for each payment. Kill the program anywhere and start it again:
// no event is lost or doubled, no payment is invoiced twice or not at all.
//
// What makes it so is in shop.go (Batch.Expect: decide against the state that was
// read) and biller.go (Batch.CommitOffset: the invoice and the progress in one
// atomic batch).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/cairnlog/cairn/engine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "outbox:", err)
		}
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("outbox", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", "outbox-data", "`directory` of the store")
	orders := flags.Int("orders", 1000, "how many orders to place and pay")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *orders < 0 {
		return fmt.Errorf("unexpected argument %q, or a negative number of orders", flags.Args())
	}
	db, err := engine.Open(*dir, engine.Options{}.SmallMemory())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return serve(ctx, db, *orders, stdout)
}

// serve runs the shop's customers and the biller at once, until every order is paid
// and invoiced.
func serve(ctx context.Context, db *engine.DB, orders int, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	shop, err := openShop(ctx, db)
	if err != nil {
		return err
	}
	biller, err := openBiller(ctx, db)
	if err != nil {
		return err
	}
	billed := make(chan error, 1)
	go func() { billed <- biller.run(ctx, orders) }()
	for n := range orders {
		id := fmt.Sprintf("order-%06d", n)
		for _, decide := range []decision{place, pay} {
			if err := shop.handle(ctx, id, decide); err != nil && !errors.Is(err, errRefused) {
				return err
			}
		}
		if n%100 == 99 {
			if _, err := fmt.Fprintf(stdout, "%d orders\n", n+1); err != nil {
				return err
			}
		}
	}
	if err := <-billed; err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%d orders paid, %d invoices\n", shop.paid(), biller.invoiced)
	return err
}
