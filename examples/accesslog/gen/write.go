package gen

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// Format is how a log is written to a file.
type Format uint8

const (
	// TSV is timestamp, key and value separated by tabs, one line a message.
	TSV Format = iota
	// JSONL is one JSON object a line with the fields timestamp, key and value.
	JSONL
)

// ParseFormat returns the format called tsv or jsonl.
func ParseFormat(name string) (Format, error) {
	switch name {
	case "tsv":
		return TSV, nil
	case "jsonl":
		return JSONL, nil
	default:
		return TSV, fmt.Errorf("unknown format %q: tsv or jsonl", name)
	}
}

// contextInterval is how many lines are written between two looks at a context.
const contextInterval = 4096

// Write writes the next n lines to w and returns the bytes written. It ends
// early with ctx.Err() or w's error.
func (g *Generator) Write(ctx context.Context, w io.Writer, n int64, f Format) (written int64, err error) {
	out := bufio.NewWriterSize(w, 256<<10)
	var line []byte
	for i := range n {
		if i%contextInterval == 0 && ctx.Err() != nil {
			return written, ctx.Err()
		}
		line = f.appendLine(line[:0], g.Next())
		written += int64(len(line))
		if _, err := out.Write(line); err != nil {
			return written, err
		}
	}
	return written, out.Flush()
}

func (f Format) appendLine(b []byte, l Line) []byte {
	if f == JSONL {
		b = append(b, `{"timestamp":`...)
		b = strconv.AppendInt(b, l.Timestamp, 10)
		b = append(b, `,"key":`...)
		b = appendJSON(b, l.Key)
		b = append(b, `,"value":`...)
		b = appendJSON(b, l.Value)
		return append(b, "}\n"...)
	}
	b = strconv.AppendInt(b, l.Timestamp, 10)
	b = append(b, '\t')
	b = append(b, l.Key...)
	b = append(b, '\t')
	b = append(b, l.Value...)
	return append(b, '\n')
}

func appendJSON(b, text []byte) []byte {
	quoted, err := json.Marshal(string(text))
	if err != nil {
		panic("gen: a string has no JSON form") // every string has one
	}
	return append(b, quoted...)
}
