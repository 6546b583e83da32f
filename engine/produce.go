package engine

import (
	"context"

	"github.com/cairnlog/cairn/codec"
)

// Produce appends a message set in the wire format, v0 or v1, as a Kafka leader
// does (SPEC 2): offsets are assigned, LogAppendTime is stamped, compressed
// frames are stored as they came unless the topic's compression.type or message
// format asks for another form or their inner offsets are not 0..n-1 (SPEC
// 2.5). The set is atomic; set itself is never changed and may be reused when
// Produce returns. Durability, concurrency and outcomes are Append's.
//
// The receipt carries what ProduceResponse v2 does: Offset and LogAppendTime.
//
// Errors (KafkaCode): corrupt frames, a partial one at the end among them (2),
// timestamps (32), sizes (10, 18), and Append's. An empty set succeeds with
// Offset -1.
func (p *Partition) Produce(ctx context.Context, set []byte) (Receipt, error) {
	receipt, err := p.produce(ctx, set)
	return receipt, p.wrap("produce", err)
}

func (p *Partition) produce(ctx context.Context, set []byte) (Receipt, error) {
	if err := p.appendable(ctx); err != nil {
		return emptyReceipt, err
	}
	if len(set) == 0 {
		return emptyReceipt, nil
	}
	frames, err := p.topic.settings().readFrames(set)
	if err != nil {
		return emptyReceipt, err
	}
	pending, err := p.submitFrames(ctx, frames)
	if err != nil {
		return emptyReceipt, err
	}
	if err := p.topic.db.awaitCommit(ctx, pending.commit); err != nil {
		return emptyReceipt, err
	}
	return pending.receipt, nil
}

func (p *Partition) submitFrames(ctx context.Context, frames []codec.Frame) (Pending, error) {
	if s := p.topic.settings(); s.magic == 0 && (hasWrapper(frames) || s.targetCompression(codec.None) != codec.None) {
		size := int64(0)
		for i := range frames {
			size += int64(frames[i].WireSize())
		}
		return p.submitAt(ctx, size, func(base int64) (*prepared, error) { return p.prepareFrames(frames, base) })
	}
	prep, err := p.prepareFrames(frames, 0)
	if err != nil {
		return Pending{}, err
	}
	return p.submitPrepared(ctx, prep)
}

// readFrames is the shallow pass (SPEC 2.1.1-3): sizes, then checksums.
func (s *topicSettings) readFrames(set []byte) ([]codec.Frame, error) {
	var frames []codec.Frame
	for len(set) > 0 {
		size, err := codec.FrameSize(set)
		if err != nil {
			return nil, err
		}
		if int64(size) > s.maxMessageBytes {
			return nil, codec.Errorf(codec.CodeMessageTooLarge, "frame of %d wire bytes exceeds max.message.bytes %d", size, s.maxMessageBytes)
		}
		f, n, err := codec.ReadFrame(set)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, codec.Errorf(codec.CodeCorruptMessage, "set ends in a partial message of %d bytes", len(set))
		}
		if f.TimestampType == codec.LogAppendTime {
			return nil, codec.Errorf(codec.CodeInvalidTimestamp, "producer set the LogAppendTime bit")
		}
		frames = append(frames, f)
		set = set[n:]
	}
	return frames, nil
}

func hasWrapper(frames []codec.Frame) bool {
	for i := range frames {
		if frames[i].Compression != codec.None {
			return true
		}
	}
	return false
}

// prepareFrames encodes the frames of a produced set, each for itself (SPEC
// C19); neighbouring plain frames share entries.
func (p *Partition) prepareFrames(frames []codec.Frame, base int64) (*prepared, error) {
	prep := p.topic.db.newPrepared(p.topic.settings())
	prep.base = base
	if err := prep.addFrames(p, frames); err != nil {
		prep.discard()
		return nil, err
	}
	return prep, nil
}

func (prep *prepared) addFrames(p *Partition, frames []codec.Frame) error {
	size := batchSlack
	for i := range frames {
		size += len(frames[i].Key) + len(frames[i].Value) + 3*plainMessageCost + codec.EntryOverhead
	}
	prep.batch = p.topic.db.pdb.NewBatchWithSize(size + size/entryBytes*64)
	var run []codec.Message
	for i := range frames {
		f := &frames[i]
		if f.Compression != codec.None {
			if err := prep.flushRun(p, &run); err != nil {
				return err
			}
			if err := prep.addFrame(p, f); err != nil {
				return err
			}
			continue
		}
		m, err := prep.checkPlainFrame(f)
		if err != nil {
			return err
		}
		run = append(run, m)
	}
	return prep.flushRun(p, &run)
}

// flushRun encodes a run of plain frames.
func (prep *prepared) flushRun(p *Partition, run *[]codec.Message) error {
	msgs := *run
	if len(msgs) == 0 {
		return nil
	}
	*run = msgs[:0]
	c := prep.settings.targetCompression(codec.None)
	if c != codec.None {
		p.topic.db.stats.recompressions.Add(1)
	}
	switch {
	case prep.settings.enriched:
		enriched, err := prep.enrich(msgs, nil)
		if err != nil {
			return err
		}
		return prep.addEnriched(p, c, enriched, nil)
	case c != codec.None:
		return prep.addCompressed(p, c, msgs)
	default:
		return prep.addPlain(p, msgs)
	}
}

// checkPlainFrame returns the frame as a message of the topic's format.
func (prep *prepared) checkPlainFrame(f *codec.Frame) (codec.Message, error) {
	m := codec.Message{Timestamp: f.Timestamp, TimestampType: codec.CreateTime, Key: f.Key, Value: f.Value}
	if prep.settings.magic == 0 {
		m.Timestamp = codec.NoTimestamp
	}
	if err := prep.settings.checkMessage(&m); err != nil {
		return m, err
	}
	prep.span(m.Timestamp, m.Timestamp)
	return m, nil
}

// addFrame checks a compressed frame deeply and stores it, verbatim where the
// rules allow (SPEC 1.3, 2.5).
func (prep *prepared) addFrame(p *Partition, f *codec.Frame) error {
	s := prep.settings
	scratch := inflatePool.Get().(*inflateBuffer)
	defer scratch.release()
	inner, err := codec.InspectWrapper(f, scratch.bytes[:0])
	if err != nil {
		return err
	}
	scratch.bytes = inner.Messages
	p.topic.db.stats.inflations.Add(1)
	switch {
	case inner.NegativeTimestamp && !s.logAppends():
		return codec.Errorf(codec.CodeInvalidTimestamp, "negative timestamp inside a compressed message")
	case inner.NullKey && s.cleanupCompact:
		return codec.Errorf(codec.CodeCorruptMessage, "null key on a compacted topic inside a compressed message")
	}
	target := s.targetCompression(f.Compression)
	if target == f.Compression && inner.Contiguous && f.Magic == s.magic && s.magic != 0 && !s.enriched {
		if !s.logAppends() {
			prep.span(inner.MinTimestamp, inner.MaxTimestamp)
		}
		return prep.addWrapper(p, codec.StoredWrapper{
			Compression: f.Compression, Magic: f.Magic, Count: inner.Count, Span: int64(inner.Count) - 1, Payload: f.Value,
		}, inner.MaxTimestamp)
	}
	return prep.rewriteFrame(p, target, &inner)
}

// rewriteFrame stores a compressed frame in another form: the one case that
// compresses again.
func (prep *prepared) rewriteFrame(p *Partition, target codec.Compression, inner *codec.Inner) error {
	p.topic.db.stats.recompressions.Add(1)
	msgs := inner.AppendMessages(make([]codec.Message, 0, inner.Count), 0) // numbered by position (SPEC C22)
	for i := range msgs {
		msgs[i].TimestampType = codec.CreateTime
		if prep.settings.magic == 0 {
			msgs[i].Timestamp = codec.NoTimestamp
		}
	}
	prep.span(rangeOf(msgs))
	if prep.settings.enriched {
		enriched, err := prep.enrich(msgs, nil)
		if err != nil {
			return err
		}
		return prep.addEnriched(p, target, enriched, nil)
	}
	if target == codec.None {
		for i := range msgs {
			if err := prep.settings.checkMessage(&msgs[i]); err != nil {
				return err
			}
		}
		return prep.addPlain(p, msgs)
	}
	return prep.addCompressed(p, target, msgs)
}
