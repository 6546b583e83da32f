package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/cairnlog/cairn/engine"
)

func init() {
	register(command{
		name: "offsets", group: inspectGroup, args: "[TOPIC]", maxArgs: 1, values: topicNames,
		summary:  "list log start, high watermark and log end of the partitions",
		examples: []string{"offsets", "offsets orders"},
		run:      runOffsets,
	})
	register(command{
		name: "stats", group: inspectGroup,
		summary: "show what the store holds and the disk it takes",
		details: `messages are those that can be read. wire bytes are what the segments take in
Kafka's v1 format; stored bytes are those of the stored entries; disk bytes are
those of all files of the store, the log of recent writes included. du shows more
where Pebble has allocated a file ahead of what is written.`,
		run: runStats,
	})
}

// partitions returns every partition of one topic, or of all without a name.
func (s *session) partitions(topic string) ([]*engine.Partition, error) {
	db, err := s.store()
	if err != nil {
		return nil, err
	}
	topics := db.Topics()
	if topic != "" {
		t, err := s.topic(topic)
		if err != nil {
			return nil, err
		}
		topics = []*engine.Topic{t}
	}
	var list []*engine.Partition
	for _, t := range topics {
		for n := range t.Partitions() {
			list = append(list, t.Partition(n))
		}
	}
	return list, nil
}

func runOffsets(ctx context.Context, s *session, a *arguments) error {
	list, err := s.partitions(a.word(0))
	if err != nil {
		return err
	}
	out := s.records(a)
	defer out.close()
	for _, p := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		offsets, err := p.Offsets()
		if err == nil {
			err = out.print(record{
				{name: "partition", value: p.String()},
				{name: "log start", value: offsets.Start},
				{name: "high watermark", value: offsets.HighWatermark},
				{name: "log end", value: offsets.End},
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func runStats(ctx context.Context, s *session, a *arguments) error {
	list, err := s.partitions("")
	if err != nil {
		return err
	}
	sum, err := s.holdings(ctx, list...)
	if err != nil {
		return err
	}
	if err := sum.measure(s); err != nil {
		return err
	}
	return s.show(a, record{
		{name: "topics", value: len(s.db.Topics())},
		{name: "partitions", value: len(list)},
		{name: "segments", value: sum.segments},
		{name: "messages", value: sum.messages},
		{name: "index rows", value: sum.rows},
		{name: "wire bytes", value: byteCount(sum.wire)},
		{name: "stored bytes", value: byteCount(sum.stored)},
		{name: "disk bytes", value: sum.disk},
	})
}

// diskBytes adds up the files of a directory. Files that Pebble removes
// meanwhile count as nothing.
func diskBytes(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return ignoreMissing(err)
		}
		info, err := entry.Info()
		if err == nil {
			sum += info.Size()
		}
		return ignoreMissing(err)
	})
	return sum, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
