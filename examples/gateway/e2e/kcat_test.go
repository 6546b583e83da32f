package e2e_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// kcat is librdkafka's command.
type kcat struct{}

func (kcat) String() string { return "kcat" }
func (kcat) seesType() bool { return true }

func (kcat) available(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("kcat")
	need(t, "kcat", err)
}

// produce writes in two runs: in the second, empty means null. kcat cannot set timestamps.
func (kcat) produce(t *testing.T, address, topic, codec string, messages []message) bool {
	t.Helper()
	var plain, null strings.Builder
	for _, m := range messages {
		key := ""
		if m.Key != nil {
			key = *m.Key + "\t"
		}
		if m.Value == nil {
			fmt.Fprintf(&null, "%s\n", key)
			continue
		}
		require.Zero(t, null.Len(), "null values are last")
		fmt.Fprintf(&plain, "%s%s\n", key, *m.Value)
	}
	args := []string{"-P", "-b", address, "-t", topic, "-p", "0", "-K", "\t", "-z", codec, "-X", "message.timeout.ms=20000", "-X", "queue.buffering.max.ms=50"}
	output(t, plain.String(), "kcat", args...)
	if null.Len() > 0 {
		output(t, null.String(), "kcat", append(args, "-Z")...)
	}
	return false
}

func (kcat) consume(t *testing.T, address, topic string, from position, n int) []message {
	t.Helper()
	at := fmt.Sprint(from.offset)
	if from.time != 0 {
		at = fmt.Sprintf("s@%d", from.time)
	}
	return fromKcat(t, output(t, "", "kcat", "-C", "-b", address, "-t", topic, "-p", "0", "-o", at, "-c", fmt.Sprint(n), "-J", "-q", "-X", "check.crcs=true"))
}

func (kcat) consumeGroup(t *testing.T, address, topic, group string, n int) []message {
	t.Helper()
	return fromKcat(t, output(t, "", "kcat", "-b", address, "-G", group, "-c", fmt.Sprint(n), "-J", "-q", "-X", "auto.offset.reset=earliest", topic))
}

func fromKcat(t *testing.T, out string) (got []message) {
	t.Helper()
	for line := range strings.Lines(out) {
		var m struct {
			Offset  int64   `json:"offset"`
			Type    string  `json:"tstype"`
			Time    int64   `json:"ts"`
			Key     *string `json:"key"`
			Payload *string `json:"payload"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &m), line)
		require.Contains(t, []string{"create", "logappend"}, m.Type)
		got = append(got, message{m.Offset, m.Time, m.Type == "logappend", m.Key, m.Payload})
	}
	return got
}
