package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/cairnlog/cairn/codec"
)

// printFrames prints a table of the frames of a set.
func (s *session) printFrames(set []byte) error {
	out := &printer{out: s.out, width: s.width()}
	defer out.close()
	for len(set) > 0 {
		f, n, err := codec.ReadFrame(set)
		if err != nil {
			return err
		}
		if n == 0 {
			out.close()
			fmt.Fprintf(s.out, "and %d bytes of a frame that the limit cut off\n", len(set))
			return nil
		}
		err = out.print(record{
			{name: "frame", value: f.Offset},
			{name: "bytes", value: n},
			{name: "magic", value: int(f.Magic)},
			{name: "compression", value: f.Compression.String()},
			{name: "timestamp type", value: f.TimestampType.String()},
			{name: "timestamp", value: f.Timestamp},
		})
		if err != nil {
			return err
		}
		set = set[n:]
	}
	return nil
}

// wireField is a field of a frame as it lies on the wire.
type wireField struct {
	name  string
	bytes []byte
	text  string // what the bytes say
}

// writeFields writes the fields of every frame with their bytes.
func writeFields(out *bufio.Writer, set []byte) error {
	for len(set) > 0 {
		f, n, err := codec.ReadFrame(set)
		if err != nil {
			return err
		}
		if n == 0 {
			fmt.Fprintf(out, "\n%d bytes of a frame that the limit cut off\n", len(set))
			return nil
		}
		out.WriteByte('\n')
		for _, field := range wireFields(&f, set[:n]) {
			writeField(out, field)
		}
		set = set[n:]
	}
	return nil
}

// wireFields splits the bytes of a frame that ReadFrame accepted (SPEC 1.1, 1.2).
func wireFields(f *codec.Frame, frame []byte) []wireField {
	at := 0
	take := func(n int) []byte {
		at += n
		return frame[at-n : at]
	}
	number := func(name string, n int) wireField {
		b := take(n)
		var v uint64
		for _, c := range b {
			v = v<<8 | uint64(c)
		}
		return wireField{name, b, fmt.Sprint(v)}
	}
	fields := []wireField{
		{"offset", take(8), fmt.Sprint(f.Offset)},
		number("message size", 4),
		{"crc", take(4), "CRC-32 of what follows"},
		number("magic", 1),
		{"attributes", take(1), f.Compression.String() + ", " + f.TimestampType.String()},
	}
	if f.Magic > 0 {
		fields = append(fields, wireField{"timestamp", take(8), f.Timestamp.String() + "  " + utc(f.Timestamp)})
	}
	for _, part := range []struct {
		name  string
		bytes []byte
	}{{"key", f.Key}, {"value", f.Value}} {
		length := take(4)
		fields = append(fields, wireField{part.name + " length", length, fmt.Sprint(int32(binary.BigEndian.Uint32(length)))})
		text := display(part.bytes)
		if part.name == "value" && f.Compression != codec.None {
			text = "a compressed message set"
		}
		fields = append(fields, wireField{part.name, take(len(part.bytes)), text})
	}
	return fields
}

// bytesPerLine is how many bytes a line of hex shows.
const bytesPerLine = 16

func writeField(out *bufio.Writer, f wireField) {
	name, text := f.name, f.text
	for rest := f.bytes; ; {
		n := min(len(rest), bytesPerLine)
		// A long value is shown in pieces, each beside its bytes.
		piece := text
		if len(f.bytes) > bytesPerLine && len(text) == len(f.bytes) {
			at := len(f.bytes) - len(rest)
			piece = text[at : at+n]
		} else if len(rest) < len(f.bytes) {
			piece = ""
		}
		line := fmt.Sprintf("%-12s  %-*s  %s", name, 3*bytesPerLine-1, fmt.Sprintf("% x", rest[:n]), piece)
		out.WriteString(strings.TrimRight(line, " ") + "\n")
		rest, name = rest[n:], ""
		if len(rest) == 0 {
			return
		}
	}
}
