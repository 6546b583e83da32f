// Command gateway serves a Cairn store to Kafka clients of the 0.10 era, and to newer
// ones that still speak to it. It shows how a service puts the log behind a protocol:
// see README.md, and package server for the protocol.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/examples/gateway/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string) (err error) {
	o, err := parseFlags(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: o.level}))
	o.server.Logger, o.store.Logger = log, log.With("part", "store")

	db, err := engine.Open(o.dir, o.store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	srv, err := server.New(db, o.server)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	stopMetrics, err := serveMetrics(o.metrics, db, srv, log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer stopMetrics()
	log.Info("listening", "address", l.Addr().String(), "dir", o.dir)
	return serve(ctx, srv, l, o.grace, log)
}

// serve runs the server until ctx ends, and then lets requests under way finish.
func serve(ctx context.Context, srv *server.Server, l net.Listener, grace time.Duration, log *slog.Logger) error {
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	var failed error
	select {
	case failed = <-served: // the listener broke
		served <- nil
	case <-ctx.Done():
		log.Info("shutting down", "grace", grace)
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := srv.Shutdown(limit); err != nil {
		log.Warn("connections cut off", "err", err)
	}
	if err := <-served; !errors.Is(err, server.ErrClosed) {
		failed = errors.Join(failed, err)
	}
	return failed
}
