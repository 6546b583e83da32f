package e2e_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// kafkaPython runs testdata/client.py.
type kafkaPython struct{}

func (kafkaPython) String() string { return "kafka-python" }
func (kafkaPython) seesType() bool { return true }

// python is the interpreter that has the packages. Debian's is asked first, for they come
// from Debian.
var python = sync.OnceValues(func() (found string, err error) {
	for _, found = range []string{"/usr/bin/python3", "python3"} {
		if err = exec.Command(found, "-c", "import kafka, snappy, lz4.frame").Run(); err == nil {
			break
		}
	}
	return found, err
})

func (kafkaPython) available(t *testing.T) {
	t.Helper()
	_, err := python()
	need(t, "kafka-python with snappy and lz4", err)
}

// run has the script do one thing; it prints messages, one a line.
func (kafkaPython) run(t *testing.T, command map[string]any) (got []message) {
	t.Helper()
	input, err := json.Marshal(command)
	require.NoError(t, err)
	interpreter, err := python()
	require.NoError(t, err)
	for line := range strings.Lines(output(t, string(input), interpreter, "testdata/client.py")) {
		var m message
		require.NoError(t, json.Unmarshal([]byte(line), &m), line)
		got = append(got, m)
	}
	return got
}

func (k kafkaPython) produce(t *testing.T, address, topic, codec string, messages []message) bool {
	t.Helper()
	k.run(t, map[string]any{"do": "produce", "address": address, "topic": topic, "codec": codec, "messages": messages})
	return true
}

func (k kafkaPython) consume(t *testing.T, address, topic string, from position, n int) []message {
	t.Helper()
	return k.run(t, map[string]any{"do": "consume", "address": address, "topic": topic, "offset": from.offset, "time": from.time, "n": n})
}

func (k kafkaPython) consumeGroup(t *testing.T, address, topic, group string, n int) []message {
	t.Helper()
	return k.run(t, map[string]any{"do": "group", "address": address, "topic": topic, "group": group, "n": n})
}
