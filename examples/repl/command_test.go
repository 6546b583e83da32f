package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryExampleIsWrittenCorrectly(t *testing.T) {
	s := newSession(testConsole("", nil, nil), "store", engineOptions)
	s.vars["SET"], s.vars["OFFSET"] = "00", "0"
	defer func() { require.NoError(t, s.close()) }()
	for _, c := range sortedCommands() {
		require.NotEmpty(t, c.summary, c.name)
		require.Less(t, int(c.group), len(groupNames), c.name)
		for _, example := range c.examples {
			tokens, err := splitLine(example, s.variable)
			require.NoError(t, err, example)
			require.Equal(t, c.name, tokens[0].text, example)
			_, err = parseArguments(c, tokens[1:])
			require.NoError(t, err, example)
		}
	}
}

func TestHelpDescribesEveryCommand(t *testing.T) {
	var lines strings.Builder
	lines.WriteString("help\nhelp lines\n")
	for name := range commands {
		lines.WriteString("help " + name + "\n")
	}
	stdout, stderr, status := runRepl(t, lines.String())
	require.Empty(t, stderr)
	require.Equal(t, exitOK, status)
	for name, c := range commands {
		require.Contains(t, stdout, name+": "+c.summary+"\n\nusage: "+c.usage()+"\n")
	}
}

// jsonLines has every command with data, in an order in which all succeed.
const jsonLines = `
open --temp --json
create t num.partitions=2 --json
alter t segment.bytes=5000 --json
topics --json
describe t --json
settings --json
generate 5 $TMP/a.tsv --json
load $TMP/a.tsv --json
append key="\x00\xff" ts=5 null --json
append ts=none "a\n\"b\"" --json
read --json
read --follow n=2 --json
search 2026-01-01 --json
search 9999999999999 --json
maxts --json
list-offsets 5 --json
list-offsets latest version=0 --json
fetch max=100 --json
produce $SET --json
segments --json
index --json
offsets --json
stats --json
metrics --json
retain --json
delete-before 1 --json
truncate 6 --json
maintenance --json
reset 9 --json
drop --json
drop-topic t --json
create t cleanup.policy=compact --json
compact --json
create tagged message.format=enriched --json
append tx=5 tags=a=b one --json
begin-epoch 1 --json
headers --json
controls --json
transactions --json
commit g 1 --json
groups --json
groups g --json
reset-group g earliest --json
batch two group=g offset=1 --json
expire-groups 0s --json
checkpoint $TMP/copy --json
export $TMP/a.jsonl --json
import $TMP/a.jsonl --json
verify --json
repair --quarantine --json
`

func TestJSONOutputParsesForEveryCommandWithData(t *testing.T) {
	stdout, stderr, status := runRepl(t, jsonLines)
	require.Empty(t, stderr)
	require.Equal(t, exitOK, status)
	documents := map[string]int{}
	command := ""
	for line := range strings.Lines(stdout) {
		if _, typed, ok := strings.Cut(line, "> "); ok && !strings.HasPrefix(line, "{") {
			command = strings.Fields(typed)[0]
			continue
		}
		if line == "\n" {
			continue
		}
		var document map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &document), "%s: %s", command, line)
		require.NotEmpty(t, document, command)
		documents[command]++
	}
	for name, c := range commands {
		if !c.noData {
			require.Positive(t, documents[name], "%s --json printed no document", name)
		}
	}
}

func TestJSONTellsNullEmptyAndBytesApart(t *testing.T) {
	stdout, _, _ := runRepl(t, "create t\nappend key=null ts=none \"\"\nappend key=\"\\xff\" ts=0 a<b\nread --json")
	_, got, _ := strings.Cut(stdout, "--json\n")
	require.Equal(t, `{"offset":0,"timestamp":null,"type":"CreateTime","key":null,"value":""}
{"offset":1,"timestamp":0,"timestamp_utc":"1970-01-01T00:00:00.000Z","type":"CreateTime","key_hex":"ff","value":"a<b"}
`, got)
}

// What read --json prints, load reads.
func TestJSONOutputLoadsBack(t *testing.T) {
	const fill = "create t\nappend key=\"\\xff\\x00\" ts=7 \"a\\nb\" , ts=none null , key=\"\" ts=0 \"\"\nread --json"
	stdout, _, _ := runRepl(t, fill)
	_, messages, _ := strings.Cut(stdout, "--json\n")
	require.Equal(t, 3, strings.Count(messages, "\n"))

	file := writeFile(t, "a.jsonl", messages)
	stdout, stderr, _ := runRepl(t, "create copy\nload '"+file+"'\nread --json")
	require.Empty(t, stderr)
	_, copied, _ := strings.Cut(stdout, "read --json\n")
	require.Equal(t, messages, copied)
}

func TestAlterKeepsOtherSettingsAndKnowsAliases(t *testing.T) {
	stdout, stderr, _ := runRepl(t, `create t max.message.time.difference.ms=5 segment.ms=1000
alter t max.message.time.difference.ms=9
alter t max.message.time.difference.ms=`)
	require.Empty(t, stderr)
	require.Contains(t, stdout, "settings    message.timestamp.difference.max.ms=9 segment.ms=1000\n")
	require.True(t, strings.HasSuffix(stdout, "settings    segment.ms=1000\n"), stdout)
}

func TestBrokerSettingsAreTheDefaultsOfTopics(t *testing.T) {
	stdout, stderr, _ := runRepl(t, "open --temp log.segment.bytes=5000 --small\ncreate t segment.ms=7\ndescribe --json")
	require.Empty(t, stderr)
	require.Contains(t, stdout, `{"setting":"segment.bytes","value":"5000","from":"store",`)
	require.Contains(t, stdout, `{"setting":"segment.ms","value":"7","from":"topic",`)
	require.Contains(t, stdout, `{"setting":"index.interval.bytes","value":"4096","from":"Kafka",`)
}
