package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Internal: it runs the command's own run.

// started runs the command and returns the address that it logs under a message.
func started(t *testing.T, message string, args ...string) (address string, stop func() error) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stderr := os.Stderr
	os.Stderr = w
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, append([]string{"-dir", t.TempDir(), "-listen", "127.0.0.1:0"}, args...)) }()
	found := make(chan string, 1)
	go func() {
		line := regexp.MustCompile(`msg=` + message + ` address=(\S+)`)
		for s := bufio.NewScanner(r); s.Scan(); {
			if m := line.FindStringSubmatch(s.Text()); m != nil {
				found <- m[1]
			}
		}
	}()
	select {
	case address = <-found:
	case <-time.After(20 * time.Second):
		t.Fatal("it does not start")
	}
	return address, func() error {
		cancel()
		err := <-ended
		os.Stderr = stderr
		require.NoError(t, w.Close())
		return err
	}
}

func TestMetricsAreServed(t *testing.T) {
	address, stop := started(t, "metrics", "-metrics", "127.0.0.1:0")
	resp, err := http.Get("http://" + address + "/metrics")
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	for _, series := range []string{"cairn_gateway_connections 0", "cairn_gateway_requests_total 0", "cairn_commits_total"} {
		require.Contains(t, string(body), "\n"+series)
	}
	require.NoError(t, stop())
	_, err = http.Get("http://" + address + "/metrics")
	require.Error(t, err)
}

func TestFlagsAreChecked(t *testing.T) {
	for _, bad := range [][]string{{"stray"}, {"-max-connections", "-1"}, {"-advertise", "nowhere"}, {"-partitions", "many"}, {"-log", "LOUD"}, {"-listen", "nowhere"}, {"-metrics", "nowhere"}} {
		err := run(t.Context(), append([]string{"-dir", t.TempDir()}, bad...))
		require.Error(t, err, bad)
	}
}
