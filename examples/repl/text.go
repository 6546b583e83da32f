package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// display returns a key or value for a table, in the spelling that append takes:
// null, "" for the empty one, printable text as it is, anything else in quotes.
func display(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) == 0, string(b) == "null", !printable(b), b[0] == '"', b[0] == ' ', b[len(b)-1] == ' ':
		return quote(b)
	default:
		return string(b)
	}
}

func printable(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	for _, r := range string(b) {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// quote returns b as a double-quoted word of a command line.
func quote(b []byte) string {
	var q strings.Builder
	q.WriteByte('"')
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == '"' || r == '\\' || r == '$':
			q.WriteByte('\\')
			q.WriteRune(r)
		case r == '\n':
			q.WriteString(`\n`)
		case r == '\t':
			q.WriteString(`\t`)
		case r == '\r':
			q.WriteString(`\r`)
		case unicode.IsPrint(r) && (r != utf8.RuneError || n > 1):
			q.WriteRune(r)
		default:
			for _, c := range b[:n] {
				fmt.Fprintf(&q, `\x%02x`, c)
			}
		}
		b = b[n:]
	}
	q.WriteByte('"')
	return q.String()
}

// truncate cuts s to width columns and marks the cut.
func truncate(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	for i := range s {
		if width--; width == 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// byteSize returns n for people: 1536 is "1.5 KiB".
func byteSize(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n)/(1<<10), 0
	for size >= 1<<10 && unit < len(byteUnits)-1 {
		size /= 1 << 10
		unit++
	}
	return fmt.Sprintf("%.1f %s", size, byteUnits[unit])
}

var byteUnits = []string{"KiB", "MiB", "GiB", "TiB"}

// grouped returns n with commas between thousands.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}
