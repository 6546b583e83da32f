package e2e_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience ends a test that hangs.
const patience = 60 * time.Second

// binary is the gateway, built for the tests.
var binary string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gateway")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "gateway")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	args := []string{"build", "-o", binary}
	if raceEnabled {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "..")...).CombinedOutput(); err != nil {
		fmt.Println(err, string(out))
		return 1
	}
	return m.Run()
}

// gateway is a process.
type gateway struct {
	t       *testing.T
	cmd     *exec.Cmd
	dir     string
	address string
	ended   chan struct{}
}

// start runs a gateway on a directory, and kills it at the end of the test if it is still
// there. The topics it makes keep messages of any age: a day of 2017 is what the tests
// write.
func start(t *testing.T, dir string, args ...string) *gateway {
	t.Helper()
	args = append([]string{"-dir", dir, "-listen", "127.0.0.1:0", "-auto-create"}, args...)
	g := &gateway{t: t, cmd: exec.Command(binary, args...), dir: dir, ended: make(chan struct{})}
	stderr, err := g.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, g.cmd.Start())
	found := make(chan string, 1)
	var log strings.Builder
	go func() {
		defer close(g.ended)
		line := regexp.MustCompile(`msg=listening address=(\S+)`)
		for s := bufio.NewScanner(stderr); s.Scan(); {
			if m := line.FindStringSubmatch(s.Text()); m != nil {
				found <- m[1]
			}
			fmt.Fprintln(&log, s.Text())
		}
	}()
	t.Cleanup(func() {
		g.kill()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	select {
	case g.address = <-found:
	case <-g.ended:
		t.Fatal("it ended at once")
	case <-time.After(patience):
		t.Fatal("it does not start")
	}
	return g
}

// kill is kill -9.
func (g *gateway) kill() {
	if g.cmd.ProcessState != nil {
		return
	}
	_ = g.cmd.Process.Kill() // error ignored: it may have ended
	<-g.ended
	_ = g.cmd.Wait() // error ignored: it was killed
}

// stop is a polite end.
func (g *gateway) stop() {
	g.t.Helper()
	require.NoError(g.t, g.cmd.Process.Signal(syscall.SIGTERM))
	<-g.ended
	require.NoError(g.t, g.cmd.Wait())
}

// need skips a test without a program, or fails it where all are to be there.
func need(t *testing.T, what string, err error) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv("CAIRN_E2E") == "all":
		t.Fatalf("%s is not here: %v", what, err)
	default:
		t.Skipf("%s is not here: %v", what, err)
	}
}

// output runs a program of a client with an input and returns what it prints.
func output(t *testing.T, input string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("%s %v: %v\n%s", name, args, err, exit.Stderr)
	}
	require.NoError(t, err)
	return string(out)
}
