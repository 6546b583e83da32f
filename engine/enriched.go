package engine

import (
	"context"
	"slices"

	"github.com/cairnlog/cairn/codec"
)

// Appends in the enriched format (SPEC 10). The log's clock gives every message its
// receipt time; everything else a producer says is in tags.

// enrich returns msgs as the enriched format stores them: a timestamp that the
// producer chose is its sent time, the receipt time is the log's to set. Messages
// that name a transaction are noted.
func (prep *prepared) enrich(msgs []codec.Message, wrapper codec.Tags) ([]codec.Message, error) {
	if err := wrapper.Check(); err != nil {
		return nil, err
	}
	if _, ok := wrapper.Transaction(); ok {
		return nil, errTransactionTag
	}
	enriched := slices.Clone(msgs)
	var sent []byte // one array for the tags made here
	for i := range enriched {
		m := &enriched[i]
		if err := m.Tags.Check(); err != nil {
			return nil, err
		}
		m.Tags = m.Tags.Without(codec.TagReceiptTime)
		if !isUnset(m) && m.Timestamp >= 0 && m.Tags.SentTime() == codec.NoTimestamp {
			if m.Tags == nil {
				from := len(sent)
				sent = codec.AppendSentTime(sent, m.Timestamp)
				m.Tags = codec.Tags(sent[from:len(sent):len(sent)])
			} else {
				m.Tags = m.Tags.WithTag(codec.TagSentTime, int64(m.Timestamp))
			}
		}
		prep.noteTransaction(m.Tags)
		m.Timestamp, m.TimestampType = 0, codec.TimestampUnset
		if size := prep.settings.wireSize(m); size > prep.settings.maxMessageBytes {
			return nil, prep.settings.messageTooLarge(size)
		}
	}
	return enriched, nil
}

// noteTransaction notes the transaction that a frame's tags name.
func (prep *prepared) noteTransaction(t codec.Tags) {
	if id, ok := t.Transaction(); ok && !slices.Contains(prep.transactions, id) {
		prep.transactions = append(prep.transactions, id)
	}
}

// addEnrichedWrappers wraps msgs into compressed frames, each of one transaction or
// none: the wrapper names it, for who does not open it.
func (prep *prepared) addEnrichedWrappers(p *Partition, c codec.Compression, msgs []codec.Message, tags codec.Tags) error {
	most := len(msgs)
	for len(msgs) > 0 {
		n := min(prep.settings.wrapperCut(msgs), most, sameTransaction(msgs))
		run := slices.Clone(msgs[:n])
		own := tags.Without(codec.TagPositional).WithTag(codec.TagNumMessages, int64(n))
		if id, ok := run[0].Tags.Transaction(); ok {
			own = own.WithTag(codec.TagTransaction, id)
		}
		for i := range run {
			run[i].Offset, run[i].Tags = int64(i), run[i].Tags.Without(codec.TagTransaction)
		}
		payload, _, err := codec.BuildEnrichedWrapper(nil, c, run)
		if err != nil {
			return err
		}
		w := codec.StoredWrapper{Compression: c, Magic: 1, Enriched: true, Tags: own, Count: n, Span: int64(n) - 1, Payload: payload}
		if size := int64(w.EnrichedWireSize()); size > prep.settings.maxMessageBytes {
			if n == 1 {
				return prep.settings.messageTooLarge(size)
			}
			most = n / 2 // it did not shrink: the codec adds more than it takes away
			continue
		}
		if err := prep.addWrapper(p, w, codec.NoTimestamp); err != nil {
			return err
		}
		msgs = msgs[n:]
	}
	return nil
}

// sameTransaction returns how many of msgs are of the first one's transaction.
func sameTransaction(msgs []codec.Message) int {
	id, of := msgs[0].Tags.Transaction()
	for i := range msgs {
		if other, ok := msgs[i].Tags.Transaction(); ok != of || other != id {
			return i
		}
	}
	return len(msgs)
}

func (s *topicSettings) messageTooLarge(size int64) error {
	return codec.Errorf(codec.CodeMessageTooLarge, "message of %d wire bytes exceeds max.message.bytes %d", size, s.maxMessageBytes)
}

// ProduceEnriched appends a set of enriched frames as Produce does one of v0 or v1:
// their receipt time becomes the log's clock, their payloads are stored as they came
// and every other tag is kept, known or not. A wrapper whose inner offsets are not
// 0..n-1 becomes a positional one, whose offsets inside are ignored (SPEC C22).
//
// Nothing in the bytes tells an enriched set from one of v1; call what the set is.
//
// Errors: control frames, reserved types and a num_messages that is not so (2);
// ErrFormat on a topic of another format; a transaction that is not open; and those
// of Produce.
func (p *Partition) ProduceEnriched(ctx context.Context, set []byte) (Receipt, error) {
	r, err := p.produceEnriched(ctx, set, false)
	return r, p.wrap("produce", err)
}

// Mirror is ProduceEnriched for frames that were fetched from another log: a
// wrapper is taken in unopened, with its payload and its size as they are, and its
// messages get the next offsets in their order, whatever their offsets were (SPEC
// S51, S52, S77). One that does not say how many messages it holds is inflated to
// count them. The source has checked what is inside; this log checks it when it is
// read. Transactions are the source's own: their tags are dropped, so mirror what
// is committed.
func (p *Partition) Mirror(ctx context.Context, set []byte) (Receipt, error) {
	r, err := p.produceEnriched(ctx, set, true)
	return r, p.wrap("mirror", err)
}

func (p *Partition) produceEnriched(ctx context.Context, set []byte, mirror bool) (Receipt, error) {
	if err := p.appendable(ctx); err != nil {
		return emptyReceipt, err
	}
	if !p.topic.settings().enriched {
		return emptyReceipt, ErrFormat
	}
	if len(set) == 0 {
		return emptyReceipt, nil
	}
	prep, err := p.prepareEnriched(set, mirror)
	if err != nil {
		return emptyReceipt, err
	}
	pending, err := p.submitPrepared(ctx, prep)
	if err != nil {
		return emptyReceipt, err
	}
	if err := p.topic.db.awaitCommit(ctx, pending.commit); err != nil {
		return emptyReceipt, err
	}
	return pending.receipt, nil
}

func (p *Partition) prepareEnriched(set []byte, mirror bool) (*prepared, error) {
	prep := p.topic.db.newPrepared(p.topic.settings())
	if err := prep.addEnrichedFrames(p, set, mirror); err != nil {
		prep.discard()
		return nil, err
	}
	return prep, nil
}

func (prep *prepared) addEnrichedFrames(p *Partition, set []byte, mirror bool) error {
	prep.batch = p.topic.db.pdb.NewBatchWithSize(batchSlack + len(set) + len(set)/entryBytes*64)
	var run []codec.Message
	for len(set) > 0 {
		f, n, err := prep.readEnrichedFrame(set, mirror)
		if err != nil {
			return err
		}
		set = set[n:]
		if f.Compression() == codec.None {
			if f.Key == nil && prep.settings.cleanupCompact {
				return codec.Errorf(codec.CodeCorruptMessage, "null key on a compacted topic")
			}
			run = append(run, codec.Message{Key: f.Key, Value: f.Value, Tags: f.Tags})
			continue
		}
		if err := prep.flushRun(p, &run); err != nil {
			return err
		}
		if err := prep.addEnrichedFrame(p, &f, mirror); err != nil {
			return err
		}
	}
	return prep.flushRun(p, &run)
}

// readEnrichedFrame is the shallow check of the frame at the head of set, whose
// receipt time is dropped.
func (prep *prepared) readEnrichedFrame(set []byte, mirror bool) (codec.EnrichedFrame, int, error) {
	size, err := codec.EnrichedFrameSize(set)
	if err != nil {
		return codec.EnrichedFrame{}, 0, err
	}
	if int64(size) > prep.settings.maxMessageBytes {
		return codec.EnrichedFrame{}, 0, prep.settings.messageTooLarge(int64(size))
	}
	f, n, err := codec.ReadEnrichedFrame(set)
	switch {
	case err != nil:
		return f, 0, err
	case n == 0:
		return f, 0, codec.Errorf(codec.CodeCorruptMessage, "set ends in a partial message of %d bytes", len(set))
	case f.Control() != 0:
		return f, 0, codec.Errorf(codec.CodeCorruptMessage, "control message (%s) from a client", f.Control())
	case f.Type > uint8(codec.LZ4):
		return f, 0, codec.Errorf(codec.CodeCorruptMessage, "reserved message type %d", f.Type)
	}
	f.Tags = f.Tags.Without(codec.TagReceiptTime)
	if mirror {
		f.Tags = f.Tags.Without(codec.TagTransaction)
	}
	prep.noteTransaction(f.Tags)
	return f, n, nil
}

// addEnrichedFrame stores a wrapper, verbatim unless compression.type asks for
// another codec.
func (prep *prepared) addEnrichedFrame(p *Partition, f *codec.EnrichedFrame, mirror bool) error {
	n, known := f.Tags.NumMessages()
	target := prep.settings.targetCompression(f.Compression())
	positional := f.Tags.Positional() || mirror
	if !mirror || !known || target != f.Compression() {
		if !known {
			p.topic.db.stats.uncounted.Add(1)
		}
		scratch := inflatePool.Get().(*inflateBuffer)
		defer scratch.release()
		inner, err := codec.InspectEnriched(f, scratch.bytes[:0])
		if err != nil {
			return err
		}
		scratch.bytes = inner.Messages
		p.topic.db.stats.inflations.Add(1)
		if inner.NullKey && prep.settings.cleanupCompact {
			return codec.Errorf(codec.CodeCorruptMessage, "null key on a compacted topic inside a compressed message")
		}
		if target != f.Compression() {
			return prep.rewriteEnriched(p, f, target, &inner)
		}
		n, positional = inner.Count, positional || !inner.Contiguous
	}
	if n < 1 {
		return codec.Errorf(codec.CodeCorruptMessage, "wrapper holds %d messages", n)
	}
	tags := f.Tags
	if positional && !tags.Positional() {
		tags = tags.Without(codec.TagPositional).WithTag(codec.TagPositional, 1)
	}
	return prep.addWrapper(p, codec.StoredWrapper{
		Compression: f.Compression(), Magic: 1, Enriched: true, Tags: tags, Count: n, Span: int64(n) - 1, Payload: f.Value,
	}, codec.NoTimestamp)
}

// rewriteEnriched stores the messages of a wrapper in another compression.
func (prep *prepared) rewriteEnriched(p *Partition, f *codec.EnrichedFrame, target codec.Compression, inner *codec.EnrichedInner) error {
	p.topic.db.stats.recompressions.Add(1)
	msgs := inner.AppendMessages(make([]codec.Message, 0, inner.Count), 0)
	if id, ok := f.Tags.Transaction(); ok {
		for i := range msgs {
			msgs[i].Tags = msgs[i].Tags.WithTag(codec.TagTransaction, id)
		}
	}
	msgs, err := prep.enrich(msgs, f.Tags.Without(codec.TagTransaction))
	if err != nil {
		return err
	}
	return prep.addEnriched(p, target, msgs, f.Tags)
}

// addEnriched stores enriched messages, compressed or not.
func (prep *prepared) addEnriched(p *Partition, c codec.Compression, msgs []codec.Message, wrapper codec.Tags) error {
	if c == codec.None {
		return prep.addPlain(p, msgs)
	}
	return prep.addEnrichedWrappers(p, c, msgs, wrapper)
}
