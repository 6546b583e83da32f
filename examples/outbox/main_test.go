package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/engine"
)

func TestEveryPaymentIsInvoicedOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	for range 2 { // the second time there is nothing left to do
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), []string{"-dir", dir, "-orders", "250"}, &out, io.Discard))
		require.Contains(t, out.String(), "250 orders paid, 250 invoices\n")
	}
	requireExactlyOnce(t, dir, 250)
}

// requireExactlyOnce checks the logs: each order is placed and paid once, in this
// order, and invoiced once.
func requireExactlyOnce(t *testing.T, dir string, orders int) {
	t.Helper()
	db, err := engine.Open(dir, engine.Options{ReadOnly: true}.SmallMemory())
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	events, invoices := map[string]string{}, map[string]int{}
	for name, each := range map[string]func(key, value string){
		"orders":   func(key, value string) { events[key] += value + " " },
		"invoices": func(key, _ string) { invoices[key]++ },
	} {
		topic, ok := db.Topic(name)
		require.True(t, ok)
		for m, err := range topic.Partition(0).Read(t.Context(), 0, engine.ReadOptions{}) {
			require.NoError(t, err)
			each(string(m.Key), string(m.Value))
		}
	}
	require.Len(t, events, orders)
	require.Len(t, invoices, orders)
	for order, list := range events {
		require.Equal(t, "placed paid ", list, order)
		require.Equal(t, 1, invoices[order], order)
	}
}

// Two shops on one log decide about the same orders: conflicts are decided again.
func TestTwoShopsDecideOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db, err := engine.Open(dir, engine.Options{}.SmallMemory())
	require.NoError(t, err)
	var shops sync.WaitGroup
	for range 2 {
		s, err := openShop(t.Context(), db)
		require.NoError(t, err)
		shops.Go(func() {
			for n := range 50 {
				for _, decide := range []decision{place, pay} {
					if err := s.handle(t.Context(), fmt.Sprint(n), decide); err != nil && !errors.Is(err, errRefused) {
						t.Error(err)
					}
				}
			}
		})
	}
	shops.Wait()
	b, err := openBiller(t.Context(), db)
	require.NoError(t, err)
	require.NoError(t, b.run(t.Context(), 50))
	require.NoError(t, db.Close())
	requireExactlyOnce(t, dir, 50)
}

// The program is killed again and again, with SIGKILL, and started anew: the end is
// the same.
func TestKilledAnywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	const orders = 150
	dir := filepath.Join(t.TempDir(), "store")
	for kills := 0; ; kills++ {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestServeUntilKilled$")
		cmd.Env = append(os.Environ(), "OUTBOX_DIR="+dir, fmt.Sprint("OUTBOX_ORDERS=", orders))
		require.NoError(t, cmd.Start())
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		limit := time.Duration(50+50*kills) * time.Millisecond
		select {
		case err := <-done:
			require.NoError(t, err)
			require.NotZero(t, kills, "it was never killed")
			requireExactlyOnce(t, dir, orders)
			return
		case <-time.After(limit):
			if err := cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) { // it may just have ended
				require.NoError(t, err)
			}
			<-done
		}
	}
}

// TestServeUntilKilled is the process that TestKilledAnywhere kills.
func TestServeUntilKilled(t *testing.T) {
	dir := os.Getenv("OUTBOX_DIR")
	if dir == "" {
		t.Skip("for TestKilledAnywhere")
	}
	require.NoError(t, run(t.Context(), []string{"-dir", dir, "-orders", os.Getenv("OUTBOX_ORDERS")}, io.Discard, io.Discard))
}

func TestBadArgumentsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-orders", "-1"}, {"surplus"}, {"-nope"}} {
		require.Error(t, run(t.Context(), args, io.Discard, io.Discard), "%q", args)
	}
}
