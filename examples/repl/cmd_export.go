package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

func init() {
	register(command{
		name: "export", group: wireGroup, args: "FILE", minArgs: 1, maxArgs: 1, values: fileNames,
		summary: "write a range of offsets or of time to a new file",
		details: `As v1 message sets, compressed frames as they are stored; with format=jsonl, or to a
file named .jsonl, as a JSON object a line. import reads both back.`,
		options: []option{
			{name: "format", value: "FORMAT", doc: "sets or jsonl", values: oneOf("sets", "jsonl")},
			{name: "from", value: "OFFSET", doc: "begin at an offset"},
			{name: "to", value: "OFFSET", doc: "end before an offset"},
			{name: "time", value: "TIME", doc: "begin at the first message at or after a time"},
			{name: "until", value: "TIME", doc: "end before the first message at or after a time"},
			{name: "committed", doc: "only what transactions have committed"},
			topicOption,
		},
		examples: []string{"export orders.sets", "export day.jsonl time=2026-01-01 until=2026-01-02"},
		run:      runExport,
	})
	register(command{
		name: "import", group: wireGroup, args: "FILE", minArgs: 1, maxArgs: 1, values: fileNames,
		summary: "append what export wrote",
		options: []option{
			{name: "format", value: "FORMAT", doc: "sets or jsonl", values: oneOf("sets", "jsonl")},
			topicOption,
		},
		examples: []string{"import orders.sets", "import day.jsonl topic=copy"},
		run:      runImport,
	})
}

// exportFormat is the one named, or that of the file's name.
func exportFormat(a *arguments) (engine.ExportFormat, error) {
	name := a.text("format", "")
	if name == "" && strings.ToLower(filepath.Ext(a.word(0))) == ".jsonl" {
		name = "jsonl"
	}
	switch name {
	case "", "sets":
		return engine.ExportSets, nil
	case "jsonl":
		return engine.ExportJSONL, nil
	default:
		return 0, usagef("format %q is not sets or jsonl", name)
	}
}

func (s *session) exportOptions(a *arguments) (o engine.ExportOptions, err error) {
	if o.Format, err = exportFormat(a); err != nil {
		return o, err
	}
	if o.From, err = a.number("from", 0); err != nil {
		return o, err
	}
	if o.To, err = a.number("to", 0); err != nil {
		return o, err
	}
	for name, at := range map[string]*codec.Timestamp{"time": &o.Since, "until": &o.Until} {
		if a.has(name) {
			if *at, err = parseTime(a.text(name, ""), s.now()); err != nil {
				return o, err
			}
		}
	}
	if a.has("committed") {
		o.Isolation = engine.ReadCommitted
	}
	return o, nil
}

func runExport(ctx context.Context, s *session, a *arguments) (err error) {
	p, err := s.partition(a)
	if err != nil {
		return err
	}
	o, err := s.exportOptions(a)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(a.word(0), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	progress := s.newProgress(0)
	o.Progress = func(e engine.Exported) { progress.update(e.Bytes, e.Messages) }
	e, err := p.Export(ctx, file, o)
	progress.close()
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return s.show(a, record{{name: "messages", value: e.Messages}, {name: "first", value: e.First}, {name: "next", value: e.Next}, {name: "bytes", value: e.Bytes}})
}

func runImport(ctx context.Context, s *session, a *arguments) error {
	p, err := s.partition(a)
	if err != nil {
		return err
	}
	format, err := exportFormat(a)
	if err != nil {
		return err
	}
	file, err := os.Open(a.word(0))
	if err != nil {
		return err
	}
	defer file.Close() // only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	progress := s.newProgress(info.Size())
	i, err := p.Import(ctx, file, engine.ImportOptions{Format: format, Progress: func(messages, bytes int64) { progress.update(bytes, messages) }})
	progress.close()
	if err != nil {
		return err
	}
	if i.First >= 0 {
		s.remember(i.First)
	}
	return s.show(a, record{{name: "messages", value: i.Messages}, {name: "offset", value: i.First}, {name: "bytes", value: i.Bytes}})
}
