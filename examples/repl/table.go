package main

import (
	"bufio"
	"strings"
	"unicode/utf8"
)

// printer writes the records of one command: as a table, or with --json as one
// document a line. Records of one printer have the same fields.
//
// A table is written in chunks whose columns are as wide as all before, so that
// a long one needs no memory and begins at once. On a terminal the last column
// is cut to the width; a table that does not fit even so is written as a list of
// records instead.
type printer struct {
	out   *bufio.Writer
	width int // of the terminal, 0: no limit
	json  bool
	full  bool // show details, cut nothing
	live  bool // write each record at once

	chunk  [][]column
	widths []int
	total  int64
	list   bool // decided with the first chunk
}

// tableChunk is how many rows decide the width of columns.
const tableChunk = 200

// minLast is what is left of a last column that is cut.
const minLast = 16

// columnGap divides columns.
const columnGap = "  "

// print adds one record.
func (p *printer) print(r record) error {
	p.total++
	if p.json {
		text, err := r.json()
		if err != nil {
			return err
		}
		p.out.Write(text) // a bufio.Writer keeps its error for Flush
	} else {
		p.chunk = append(p.chunk, r.columns(p.full, false))
		if len(p.chunk) < tableChunk && !p.live {
			return nil
		}
		p.flushChunk()
	}
	if p.live {
		return p.out.Flush()
	}
	return nil
}

// close writes what is left. An empty table says so by saying nothing.
func (p *printer) close() { p.flushChunk() }

func (p *printer) flushChunk() {
	if len(p.chunk) == 0 {
		return
	}
	first := p.widths == nil
	if first {
		p.widths = make([]int, len(p.chunk[0]))
		for i, c := range p.chunk[0] {
			p.widths[i] = utf8.RuneCountInString(c.name)
		}
	}
	for _, row := range p.chunk {
		for i, c := range row {
			p.widths[i] = max(p.widths[i], utf8.RuneCountInString(c.text))
		}
	}
	if first {
		p.list = !p.fits()
		if !p.list {
			p.header(p.chunk[0])
		}
	}
	for i, row := range p.chunk {
		if p.list {
			p.record(p.total-int64(len(p.chunk)-i)+1, row)
		} else {
			p.row(row)
		}
	}
	p.chunk = p.chunk[:0]
}

// fits reports whether the table fits the terminal, with its last column cut if
// it may be.
func (p *printer) fits() bool {
	last := len(p.widths) - 1
	least := p.widths[last]
	if !p.full {
		least = min(minLast, least)
	}
	return p.width == 0 || p.before(last)+least <= p.width
}

// before returns the columns of the screen left of table column i.
func (p *printer) before(i int) int {
	sum := 0
	for _, w := range p.widths[:i] {
		sum += w + len(columnGap)
	}
	return sum
}

func (p *printer) header(row []column) {
	names := make([]column, len(row))
	for i, c := range row {
		names[i] = column{c.name, c.name, c.right}
	}
	p.row(names)
}

func (p *printer) row(row []column) {
	var line strings.Builder
	for i, c := range row {
		text := c.text
		last := i == len(row)-1
		if last && p.width > 0 && !p.full {
			text = truncate(text, max(minLast, p.width-p.before(i)))
		}
		pad := strings.Repeat(" ", max(0, p.widths[i]-utf8.RuneCountInString(text)))
		switch {
		case c.right:
			line.WriteString(pad + text)
		case last:
			line.WriteString(text)
		default:
			line.WriteString(text + pad)
		}
		if !last {
			line.WriteString(columnGap)
		}
	}
	p.out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

// record writes one record of a table that is too wide.
func (p *printer) record(number int64, row []column) {
	p.out.WriteString("- " + grouped(number) + " -\n")
	writeList(p.out, row)
}

// writeList writes columns below each other, the UTC of a time beside it.
func writeList(out *bufio.Writer, cols []column) {
	width := 0
	for _, c := range cols {
		width = max(width, utf8.RuneCountInString(c.name))
	}
	for i, c := range cols {
		if c.name == "utc" {
			continue
		}
		pad := strings.Repeat(" ", width-utf8.RuneCountInString(c.name))
		line := c.name + pad + columnGap + c.text
		if i+1 < len(cols) && cols[i+1].name == "utc" && cols[i+1].text != "-" {
			line += columnGap + cols[i+1].text
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}
