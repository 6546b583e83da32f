package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

// control is what a control message says: its type, and the leader epoch or the
// transaction.
type control struct {
	typ codec.ControlType
	id  int64
}

// value returns the bytes of the message: an epoch in 4, a transaction in 8 (SPEC
// 10.7.8).
func (c control) value() []byte {
	if c.typ == codec.ControlLeaderEpoch {
		return binary.BigEndian.AppendUint32(nil, uint32(c.id))
	}
	return binary.BigEndian.AppendUint64(nil, uint64(c.id))
}

// controlOf reads the one message of a control entry.
func controlOf(typ codec.ControlType, value []byte) (control, error) {
	c := control{typ: typ}
	switch {
	case typ == codec.ControlLeaderEpoch && len(value) == 4:
		c.id = int64(int32(binary.BigEndian.Uint32(value)))
	case typ != codec.ControlLeaderEpoch && len(value) == 8:
		c.id = int64(binary.BigEndian.Uint64(value))
	default:
		return c, errors.New("control message with a value of another size")
	}
	return c, nil
}

// prepareControl encodes a control message.
func (p *Partition) prepareControl(c control) (*prepared, error) {
	settings := p.topic.settings()
	if !settings.enriched {
		return nil, ErrFormat
	}
	prep := p.topic.db.newPrepared(settings)
	msgs := []codec.Message{{Value: c.value()}}
	prep.reserve(p.topic.db, msgs)
	prep.addPlainEntry(p, msgs, codec.PlainOptions{Magic: 1, Dense: true, Enriched: true, Control: c.typ})
	e := &prep.entries[0]
	e.control = c
	e.wire = int64(codec.MessageOverhead + len(msgs[0].Value)) // a control message has no receipt time
	prep.wire = e.wire
	return prep, nil
}

// control adds a control message to the batch.
func (b *Batch) control(p *Partition, c control) {
	b.add(p, func() (*batchSet, error) {
		prep, err := p.prepareControl(c)
		return &batchSet{p: p, prep: prep, receipt: emptyReceipt}, err
	})
}

// controlLocked carries out what a control message at offset says: its rows go into
// the batch.
func (p *Partition) controlLocked(batch *pebble.Batch, c control, offset int64) error {
	switch c.typ {
	case codec.ControlLeaderEpoch:
		return p.beginEpochLocked(batch, int32(c.id), offset)
	case codec.ControlBegin:
		return p.beginLocked(batch, c.id, offset)
	default:
		return p.endLocked(batch, c, offset)
	}
}

// Control is a control message of a log (SPEC 10.7).
type Control struct {
	Offset int64
	Type   codec.ControlType
	// ID is the leader epoch or the transaction.
	ID int64
	// Timestamp is the clock of the append.
	Timestamp codec.Timestamp
}

// ReadControl yields the control messages from offset from on, which Read and Fetch
// pass over. Bounds, errors and concurrency are Read's; MaxMessages counts control
// messages.
func (p *Partition) ReadControl(ctx context.Context, from int64, o ReadOptions) iter.Seq2[Control, error] {
	return func(yield func(Control, error) bool) {
		stopped, err := p.readControl(ctx, from, o, yield)
		if err != nil && !stopped {
			yield(Control{}, p.wrap("read control", err))
		}
	}
}

func (p *Partition) readControl(ctx context.Context, from int64, o ReadOptions, yield func(Control, error) bool) (stopped bool, err error) {
	bounds, err := p.readBounds(ctx, from, o)
	if err != nil {
		return false, err
	}
	scan := p.scanFrom(from, bounds.cuts)
	defer scan.close()
	for count := int64(0); scan.from < bounds.end && (o.MaxMessages == 0 || count < o.MaxMessages); {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		ok, err := scan.next()
		if err != nil || !ok {
			return false, err
		}
		if scan.entry.Control == 0 || scan.entry.Last >= bounds.end {
			continue
		}
		c, err := scan.control()
		if err != nil {
			return false, err
		}
		count++
		if !yield(Control{scan.entry.Last, c.typ, c.id, scan.entry.Timestamp}, nil) {
			return true, nil
		}
	}
	return false, nil
}

// control returns what the current entry, a control message, says.
func (s *entryScan) control() (control, error) {
	if err := s.open(); err != nil {
		return control{}, err
	}
	var m codec.Message
	s.cursor.Next(&m)
	if err := s.damage(); err != nil {
		return control{}, err
	}
	c, err := controlOf(s.entry.Control, m.Value)
	if err != nil {
		return c, s.p.corrupt(s.entry.Last, err)
	}
	return c, nil
}

// BeginEpoch appends the control message of a leader that takes over with an epoch
// and returns its offset: where the epoch starts (SPEC 10.7.8, S80). Epochs of a
// partition only grow; one that does not is refused (42). The partition's topic must
// have the enriched format (ErrFormat).
func (p *Partition) BeginEpoch(ctx context.Context, epoch int32) (start int64, err error) {
	start, err = p.beginEpoch(ctx, epoch)
	return start, p.wrap("begin epoch", err)
}

func (p *Partition) beginEpoch(ctx context.Context, epoch int32) (int64, error) {
	if err := p.appendable(ctx); err != nil {
		return 0, err
	}
	prep, err := p.prepareControl(control{codec.ControlLeaderEpoch, int64(epoch)})
	if err != nil {
		return 0, err
	}
	pending, err := p.submitPrepared(ctx, prep)
	if err == nil {
		err = p.topic.db.awaitCommit(ctx, pending.commit)
	}
	return pending.receipt.Offset, err
}

// checkEpochLocked refuses an epoch that is not newer than all there were.
func (p *Partition) checkEpochLocked(epoch int64) error {
	last := int64(-1)
	if s := p.mu.seldom; s != nil {
		last = int64(s.epochs) - 1
	}
	if epoch <= last {
		return codec.Errorf(codec.CodeInvalidRequest, "epoch %d does not follow epoch %d", epoch, last)
	}
	return nil
}

func (p *Partition) beginEpochLocked(batch *pebble.Batch, epoch int32, offset int64) error {
	p.seldomLocked().epochs = epoch + 1
	value := binary.BigEndian.AppendUint64(nil, uint64(offset))
	if err := batch.Set(keys.AppendEpoch(nil, p.id(), epoch), value, nil); err != nil {
		return err
	}
	return p.setState(batch)
}

// Epoch is when a leader epoch starts.
type Epoch struct {
	Epoch int32
	Start int64
}

// Epochs returns the leader epochs of the partition in order.
func (p *Partition) Epochs(ctx context.Context) ([]Epoch, error) {
	epochs, err := p.epochs(ctx)
	return epochs, p.wrap("epochs", err)
}

func (p *Partition) epochs(ctx context.Context) ([]Epoch, error) {
	if err := p.ready(); err != nil {
		return nil, err
	}
	if err := p.settled(ctx); err != nil && !errors.Is(err, ErrFailed) {
		return nil, err
	}
	return p.storedEpochs()
}

func (p *Partition) storedEpochs() (epochs []Epoch, err error) {
	r := keys.EpochRange(p.id(), 0, maxEpoch)
	it, err := p.topic.db.newIter(r.Start, r.End)
	if err != nil {
		return nil, err
	}
	defer it.close()
	ok, err := it.move(seekGE, r.Start)
	for ; ok && err == nil; ok, err = it.move(next, nil) {
		_, epoch, err := keys.DecodeEpoch(it.key)
		if err != nil || len(it.value) != 8 {
			return nil, p.corrupt(-1, errors.Join(err, errors.New("row of a leader epoch is malformed")))
		}
		epochs = append(epochs, Epoch{epoch, int64(binary.BigEndian.Uint64(it.value))})
	}
	return epochs, p.readError(-1, err)
}

// EpochEnd returns the offset after the last message of an epoch: where the next one
// starts, the end of the log for the newest or one that is newer still. A follower
// whose log reaches further in that epoch truncates itself to it (KIP-101, S60). An
// epoch from before all that the log knows ends where those begin.
func (p *Partition) EpochEnd(ctx context.Context, epoch int32) (int64, error) {
	epochs, err := p.epochs(ctx)
	if err != nil {
		return 0, p.wrap("epoch end", err)
	}
	for _, e := range epochs {
		if e.Epoch > epoch {
			return e.Start, nil
		}
	}
	offsets, err := p.Offsets()
	return offsets.End, err
}

// cutEpochsLocked forgets the epochs that start at or above offset.
func (p *Partition) cutEpochsLocked(batch *pebble.Batch, epochs []Epoch, offset int64) error {
	left := int32(0)
	for _, e := range epochs {
		if e.Start < offset {
			left = e.Epoch + 1
			continue
		}
		if err := batch.Delete(keys.AppendEpoch(nil, p.id(), e.Epoch), nil); err != nil {
			return err
		}
	}
	if len(epochs) > 0 {
		p.seldomLocked().epochs = left
	}
	return nil
}
