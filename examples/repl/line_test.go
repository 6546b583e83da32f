package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func testVariable(name string) (string, bool) {
	return "value of " + name, name == "X" || name == "LONG_2"
}

func TestSplitLine(t *testing.T) {
	word := func(text string) token { return token{text: text} }
	quoted := func(text string) token { return token{text: text, quoted: true} }
	for line, want := range map[string][]token{
		"":                    nil,
		" \t\r":               nil,
		"# all comment":       nil,
		"read # the rest":     {word("read")},
		"a#b":                 {word("a#b")},
		`"#b"`:                {quoted("#b")},
		" read  100\t5 ":      {word("read"), word("100"), word("5")},
		"n=5":                 {{name: "n", text: "5"}},
		"--n=5":               {{name: "n", text: "5"}},
		"--follow":            {{name: "follow", flag: true}},
		"--follow x":          {{name: "follow", flag: true}, word("x")},
		"segment.index-x_2=a": {{name: "segment.index-x_2", text: "a"}},
		"key=":                {{name: "key"}},
		`key=""`:              {{name: "key", quoted: true}},
		"key=null":            {{name: "key", text: "null"}},
		`key="null"`:          {{name: "key", text: "null", quoted: true}},
		`key=a" b "c`:         {{name: "key", text: "a b c", quoted: true}},
		`key=a=b`:             {{name: "key", text: "a=b"}},
		`"key=a"`:             {quoted("key=a")},
		`key\=a`:              {quoted("key=a")},
		"=a":                  {word("=a")},
		"5=a":                 {word("5=a")},
		"-1":                  {word("-1")},
		"--":                  {word("--")},
		"--1":                 {word("--1")},
		"a , b":               {word("a"), word(","), word("b")},
		`"," \,`:              {quoted(","), quoted(",")},
		`'a\b "$X"'`:          {quoted(`a\b "$X"`)},
		`"a\"b\\\n\t\r\0"`:    {quoted("a\"b\\\n\t\r\x00")},
		`\x00\xff\u00e9`:      {quoted("\x00\xff\u00e9")},
		`a\ b`:                {quoted("a b")},
		"$X":                  {word("value of X")},
		`"$X"/y`:              {quoted("value of X/y")},
		"$LONG_2.":            {word("value of LONG_2.")},
		`$5 \$X a$`:           {word("$5"), quoted("$X"), word("a$")},
		`\é`:                  {quoted("é")},
		"täglich":             {word("täglich")},
	} {
		got, err := splitLine(line, testVariable)
		require.NoError(t, err, "%q", line)
		require.Equal(t, want, got, "%q", line)
	}
}

func TestSplitLineRefusesWhatIsAmbiguous(t *testing.T) {
	for _, line := range []string{`"a`, `'a`, `a"`, `don't`, `\`, `"a\`, `\q`, `\1`, `\x`, `\x1`, `\xgg`, `\u12`, `\u12"`, "$Y", `"$Y"`} {
		_, err := splitLine(line, testVariable)
		require.Error(t, err, "%q", line)
	}
}

// A key or value as a table shows it can be pasted into a command.
func TestQuotedBytesReadBack(t *testing.T) {
	for _, b := range []string{"", " ", "null", "a b", "\x00\xff", "é\u200b", `"'\$X`, "line\nend\t\r", "#", ",", "\xed\xa0\x80"} {
		tokens, err := splitLine("append "+quote([]byte(b)), testVariable)
		require.NoError(t, err, "%q", b)
		require.Equal(t, []token{{text: "append"}, {text: b, quoted: true}}, tokens)
	}
	require.Equal(t, "null", display(nil))
	require.Equal(t, `""`, display([]byte{}))
	require.Equal(t, `"null"`, display([]byte("null")))
	require.Equal(t, `say "hi"`, display([]byte(`say "hi"`)))
	require.Equal(t, `"\"hi\""`, display([]byte(`"hi"`)))
}

func FuzzSplitLine(f *testing.F) {
	for _, seed := range []string{"", `append key="a b" \x00 '$' $X , # c`, `--a=--b "\u0041`, "\xff=\xfe"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		tokens, err := splitLine(line, testVariable)
		if err != nil {
			require.Empty(t, tokens)
		}
		back, err := splitLine(quote([]byte(line)), testVariable)
		require.NoError(t, err)
		require.Equal(t, []token{{text: line, quoted: true}}, back)
	})
}
