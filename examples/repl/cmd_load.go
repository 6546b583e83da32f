package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

func init() {
	register(command{
		name: "load", group: writeGroup, args: "FILE", minArgs: 1, maxArgs: 1, values: fileNames,
		summary: "append the lines of a file",
		details: `lines   each line is a value, without a key, at the time of the append
tsv     timestamp, key and value divided by tabs; \N is null; an empty or missing
        timestamp is the time of the append, none is none
jsonl   objects with timestamp, key and value, as read --json prints them
A format that is not given follows from the file's name. Batches are submitted
without waiting for the disk and awaited in order. Messages older than the topic's
retention.ms, seven days if it is not set, are removed soon after.`,
		options: []option{
			{name: "format", value: "lines|tsv|jsonl", doc: "of the file", values: oneOf("lines", "tsv", "jsonl")},
			{name: "batch", value: "COUNT", doc: "messages in one set; 1000 if not given"},
			{name: "compression", value: "CODEC", doc: "store the sets compressed", values: compressionNames},
			{name: "n", value: "COUNT", doc: "how many messages at most"},
			topicOption,
		},
		examples: []string{"load access.tsv", "load /var/log/syslog", "load messages.jsonl compression=gzip batch=5000"},
		run:      runLoad,
	})
}

const (
	defaultBatch = 1000
	// batchBytes ends a batch early, so that lines of any length fit a set.
	batchBytes = 512 << 10
	// loadWindow is how many sets wait for the disk at a time: enough to keep it
	// busy, few enough to stop soon.
	loadWindow = 16
	// maxLine bounds one line of a file.
	maxLine = 64 << 20
)

// loading is one run of load.
type loading struct {
	partition *engine.Partition
	parse     lineParser
	options   engine.AppendOptions
	batchSize int64
	limit     int64
	progress  *progress

	batch   []codec.Message
	arena   []byte // holds the keys and values of batch
	pending []*engine.Pending

	line  int64 // of the file
	bytes int64 // read
	// first and end are where the messages landed, first -1 before any; stored
	// counts those that are on disk.
	first, end int64
	stored     int64
	messages   int64
}

func runLoad(ctx context.Context, s *session, a *arguments) error {
	l, err := s.newLoading(a)
	if err != nil {
		return err
	}
	path := a.word(0)
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() // only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	l.progress = s.newProgress(info.Size())
	err = l.run(ctx, bufio.NewScanner(file))
	l.progress.close()
	if err != nil {
		hint := ""
		if engine.KafkaCode(err) == codec.CodeRecordListTooLarge {
			hint = "; a smaller batch= may fit"
		}
		return fmt.Errorf("%s:%d: %w%s; messages stored: %d", path, l.line, err, hint, l.stored)
	}
	if l.first >= 0 {
		s.remember(l.first)
	}
	if err := s.show(a, l.record()); err != nil {
		return err
	}
	return s.sayIfExpired(a, l)
}

// sayIfExpired warns where retention was at once: old timestamps and the default
// settings do that.
func (s *session) sayIfExpired(a *arguments, l *loading) error {
	o, err := l.partition.Offsets()
	if gone := min(o.Start, l.end) - l.first; err == nil && l.first >= 0 && gone > 0 {
		s.say(a, "%s of them are removed already, by retention: retention.ms=-1 keeps old timestamps", grouped(gone))
	}
	return err
}

func (s *session) newLoading(a *arguments) (*loading, error) {
	p, err := s.partition(a)
	if err != nil {
		return nil, err
	}
	compression, err := a.compression()
	if err != nil {
		return nil, err
	}
	parse, err := findParser(a.text("format", ""), a.word(0))
	if err != nil {
		return nil, err
	}
	batch, err := a.number("batch", defaultBatch)
	if err != nil {
		return nil, err
	}
	if batch < 1 {
		return nil, usagef("batch %d must be at least 1", batch)
	}
	limit, err := a.count("n", all)
	if err != nil {
		return nil, err
	}
	return &loading{
		partition: p, parse: parse, options: engine.AppendOptions{Compression: compression},
		batchSize: batch, limit: limit, first: -1,
	}, nil
}

// run appends the lines and waits for all of them. After an error it still waits
// for what was submitted, to know what is stored.
func (l *loading) run(ctx context.Context, lines *bufio.Scanner) error {
	lines.Buffer(make([]byte, 0, 256<<10), maxLine)
	lines.Split(l.split)
	err := l.readAll(ctx, lines)
	for len(l.pending) > 0 {
		err = errors.Join(err, l.waitOldest(ctx))
	}
	return err
}

// split is bufio.ScanLines, and counts the bytes with the line ends.
func (l *loading) split(data []byte, atEOF bool) (advance int, line []byte, err error) {
	advance, line, err = bufio.ScanLines(data, atEOF)
	l.bytes += int64(advance)
	return advance, line, err
}

func (l *loading) readAll(ctx context.Context, lines *bufio.Scanner) error {
	for (l.limit == all || l.messages < l.limit) && lines.Scan() {
		l.line++
		if err := l.add(lines.Bytes()); err != nil {
			return errors.Join(err, l.submit(ctx))
		}
		if int64(len(l.batch)) >= l.batchSize || len(l.arena) >= batchBytes {
			if err := l.submit(ctx); err != nil {
				return err
			}
		}
	}
	return errors.Join(lines.Err(), l.submit(ctx))
}

// add parses a line into the batch, which keeps its own copy.
func (l *loading) add(line []byte) error {
	var m codec.Message
	if err := l.parse(line, &m); err != nil {
		return err
	}
	m.Key, m.Value = l.keep(m.Key), l.keep(m.Value)
	l.batch = append(l.batch, m)
	l.messages++
	return nil
}

// keep copies b into the arena; null stays null.
func (l *loading) keep(b []byte) []byte {
	if b == nil {
		return nil
	}
	start := len(l.arena)
	l.arena = append(l.arena, b...)
	return l.arena[start:len(l.arena):len(l.arena)]
}

// submit begins the append of the batch. The engine has copied it when Submit
// returns.
func (l *loading) submit(ctx context.Context) error {
	if len(l.batch) == 0 {
		return nil
	}
	if len(l.pending) == loadWindow {
		if err := l.waitOldest(ctx); err != nil {
			return err
		}
	}
	pending, err := l.partition.Submit(ctx, l.batch, l.options)
	if err != nil {
		return err
	}
	l.pending = append(l.pending, pending)
	l.batch, l.arena = l.batch[:0], l.arena[:0]
	l.progress.update(l.bytes, l.messages)
	return nil
}

func (l *loading) waitOldest(ctx context.Context) error {
	receipt, err := l.pending[0].Wait(ctx)
	l.pending = l.pending[1:]
	if err != nil {
		return err
	}
	if l.first < 0 {
		l.first = receipt.Offset
	}
	l.end = receipt.Offset + int64(receipt.Count)
	l.stored += int64(receipt.Count)
	return nil
}

func (l *loading) record() record {
	elapsed := l.progress.elapsed()
	seconds := max(elapsed, time.Millisecond).Seconds()
	return record{
		{name: "messages", value: l.stored},
		{name: "first offset", value: l.first},
		{name: "end offset", value: l.end},
		{name: "input bytes", value: byteCount(l.bytes)},
		{name: "time", value: elapsed},
		{name: "messages per second", value: int64(float64(l.stored) / seconds)},
		{name: "bytes per second", value: byteCount(float64(l.bytes) / seconds)},
	}
}
