package main

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
)

// table prints records for a terminal of that width.
func table(t *testing.T, width int, full bool, records ...record) string {
	t.Helper()
	var b bytes.Buffer
	p := &printer{out: bufio.NewWriter(&b), width: width, full: full}
	for _, r := range records {
		require.NoError(t, p.print(r))
	}
	p.close()
	require.NoError(t, p.out.Flush())
	return b.String()
}

var row = record{
	{name: "n", value: 12345},
	{name: "hidden", value: "x", detail: true},
	{name: "text", value: "ünïcode " + strings.Repeat("x", 30)},
}

func TestTableCutsItsLastColumnToTheTerminal(t *testing.T) {
	require.Equal(t, "    n  text\n12345  ünïcode "+strings.Repeat("x", 30)+"\n", table(t, 0, false, row))
	require.Equal(t, "    n  text\n12345  ünïcode xxxxxxxxxxxxxx…\n", table(t, 30, false, row))
	require.Equal(t, "    n  hidden  text\n12345  x       ünïcode "+strings.Repeat("x", 30)+"\n", table(t, 60, true, row))
}

func TestTableTooWideForTheTerminalIsAList(t *testing.T) {
	require.Equal(t, "- 1 -\nn     12345\ntext  ünïcode "+strings.Repeat("x", 30)+"\n", table(t, 20, false, row))
	require.Equal(t, "- 1 -\nn       12345\nhidden  x\ntext    ünïcode "+strings.Repeat("x", 30)+"\n", table(t, 30, true, row))
}

func TestLongTableKeepsItsColumnsAligned(t *testing.T) {
	var records []record
	for i := range 3 * tableChunk {
		records = append(records, record{{name: "n", value: i * i}, {name: "t", value: codec.Timestamp(i)}})
	}
	lines := strings.Split(strings.TrimSpace(table(t, 0, false, records...)), "\n")
	require.Len(t, lines, 3*tableChunk+1)
	require.Equal(t, 1, strings.Count(strings.Join(lines, "\n"), "utc"))
	for i := 2; i < tableChunk; i++ {
		require.Len(t, lines[i], len(lines[1]))
	}
}

func TestBarShowsShareRateAndTimeLeft(t *testing.T) {
	now := fixedNow
	var b bytes.Buffer
	c := testConsole("", &b, &b)
	c.now = func() time.Time { return now }
	c.width = func() int { return 80 }
	c.interactive = true
	s := newSession(c, "store", engineOptions)
	p := s.newProgress(4 << 20)
	p.update(1<<20, 1000)
	require.Empty(t, b.String(), "not before the interval has passed")
	now = now.Add(time.Second)
	p.update(1<<20, 1234)
	require.Equal(t, "\r 25% [######..................] 1,234 messages  1.0 MiB/s  3s left\x1b[K", b.String())
	p.close()
	require.NoError(t, s.out.Flush())
	require.True(t, strings.HasSuffix(b.String(), "\r\x1b[K"))
}

func TestSizesForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 30: "5.0 GiB", 1 << 52: "4096.0 TiB"} {
		require.Equal(t, want, byteSize(n))
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		require.Equal(t, want, grouped(n))
	}
}
