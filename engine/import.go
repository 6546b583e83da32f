package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cairnlog/cairn/codec"
)

// ImportOptions say what is imported.
type ImportOptions struct {
	Format ExportFormat
	// Progress, if not nil, is called after every set with the messages imported and
	// the bytes read.
	Progress func(messages, bytes int64)
}

// Imported is what Import appended.
type Imported struct {
	// First is the offset of the first message, -1 without one.
	First    int64
	Messages int64
	Bytes    int64 // read
}

// Import appends what Export wrote, in its order, as producers' messages: keys,
// values, timestamps and compression stay, offsets are the log's next ones. A message
// whose timestamp a log gave it has it as a producer's now; a topic with LogAppendTime
// or tags gives new ones. It appends sets of about a megabyte, each atomic; after an
// error those before stay, and the result says how many messages they are.
//
// Errors: those of Append, codec.ErrCorruptMessage for input that is malformed or ends
// inside of a message, r's.
func (p *Partition) Import(ctx context.Context, r io.Reader, o ImportOptions) (Imported, error) {
	i := &importer{p: p, r: bufio.NewReaderSize(r, exportBuffer), o: o, done: Imported{First: -1}}
	err := i.run(ctx)
	return i.done, p.wrap("import", err)
}

// importSet is how many bytes are appended as one set, at least one message.
const importSet = 1 << 20

// maxImportLine bounds a line of JSON: a message of the largest size as hex digits.
const maxImportLine = 1 << 30

// importer is one Import.
type importer struct {
	p    *Partition
	r    *bufio.Reader
	o    ImportOptions
	done Imported

	msgs  []codec.Message
	size  int
	frame bytes.Buffer
}

func (i *importer) run(ctx context.Context) error {
	if err := i.p.appendable(ctx); err != nil {
		return err
	}
	next := i.nextFrame
	switch i.o.Format {
	case ExportSets:
	case ExportJSONL:
		next = i.nextLine
	default:
		return codec.Errorf(codec.CodeInvalidRequest, "unknown export format %d", i.o.Format)
	}
	for {
		err := next(ctx)
		if errors.Is(err, io.EOF) {
			return i.flush(ctx, codec.None)
		} else if err != nil {
			return fmt.Errorf("at byte %d: %w", i.done.Bytes, err)
		}
	}
}

// nextLine takes one line in; io.EOF at the end.
func (i *importer) nextLine(ctx context.Context) error {
	var line []byte
	for {
		part, err := i.r.ReadSlice('\n')
		line = append(line, part...)
		i.done.Bytes += int64(len(part))
		if len(line) > maxImportLine {
			return codec.Errorf(codec.CodeMessageTooLarge, "line longer than %d bytes", maxImportLine)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			return err
		}
		break
	}
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	m, err := parseJSON(line)
	if err != nil {
		return err
	}
	return i.add(ctx, m)
}

// nextFrame takes one frame in; io.EOF at the end.
func (i *importer) nextFrame(ctx context.Context) error {
	header, err := i.r.Peek(12)
	if len(header) == 0 {
		return err
	}
	if len(header) < 12 {
		return codec.Errorf(codec.CodeCorruptMessage, "input ends inside of a message")
	}
	size := int64(int32(binary.BigEndian.Uint32(header[8:])))
	if limit := i.p.topic.settings().segmentBytes; size < 0 || size > limit {
		return codec.Errorf(codec.CodeRecordListTooLarge, "message of %d bytes exceeds segment.bytes %d", size, limit)
	}
	i.frame.Reset()
	if _, err := io.CopyN(&i.frame, i.r, 12+size); errors.Is(err, io.EOF) { // grows with what is there
		return codec.Errorf(codec.CodeCorruptMessage, "input ends inside of a message")
	} else if err != nil {
		return err
	}
	frame := i.frame.Bytes()
	f, _, err := codec.ReadFrame(frame)
	if err != nil {
		return err
	}
	if f.Compression != codec.None {
		if err := i.flush(ctx, codec.None); err != nil {
			return err
		}
	}
	for m, err := range codec.Messages(frame) {
		if err != nil {
			return err
		}
		m.TimestampType = codec.CreateTime
		i.msgs = append(i.msgs, m)
	}
	i.done.Bytes += int64(len(frame))
	if f.Compression != codec.None {
		return i.flush(ctx, f.Compression)
	}
	m := &i.msgs[len(i.msgs)-1]
	m.Key, m.Value = bytes.Clone(m.Key), bytes.Clone(m.Value) // the frame's bytes are used again
	return i.grown(ctx, m)
}

func (i *importer) add(ctx context.Context, m codec.Message) error {
	i.msgs = append(i.msgs, m)
	return i.grown(ctx, &m)
}

// grown appends what has come together once it is large enough.
func (i *importer) grown(ctx context.Context, m *codec.Message) error {
	i.size += m.WireSize() + len(m.Tags)
	if int64(i.size) < min(importSet, i.p.topic.settings().segmentBytes/2) {
		return nil
	}
	return i.flush(ctx, codec.None)
}

func (i *importer) flush(ctx context.Context, c codec.Compression) error {
	if len(i.msgs) == 0 {
		return nil
	}
	r, err := i.p.AppendSet(ctx, i.msgs, AppendOptions{Compression: c})
	if err != nil {
		return err
	}
	if i.done.First < 0 {
		i.done.First = r.Offset
	}
	i.done.Messages += int64(r.Count)
	clear(i.msgs)
	i.msgs, i.size = i.msgs[:0], 0
	if i.o.Progress != nil {
		i.o.Progress(i.done.Messages, i.done.Bytes)
	}
	return nil
}
