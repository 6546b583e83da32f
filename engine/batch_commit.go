package engine

import (
	"context"
	"fmt"

	"github.com/cairnlog/cairn/codec"
)

// ConflictError says that the next offset of a partition is not the expected one:
// somebody else has appended, or the log was cut. It changes nothing; read what is
// new, decide again and retry.
type ConflictError struct {
	Topic     string
	Partition int32
	// Expected is what Batch.Expect was given, Next where the log is.
	Expected, Next int64
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("next offset of %s/%d is %d, not the expected %d", e.Topic, e.Partition, e.Next, e.Expected)
}

// Commit makes everything in the batch happen, atomically, and returns a receipt
// for each append in the order of the calls. When Commit returns nil all of it is
// on stable storage, under Options.Durability SyncAlways; it took one sync. After
// ctx.Err or ErrFailed the outcome is unknown: all of it is there or nothing.
// After any other error nothing has changed.
//
// A set with a sequence that its partition has already is not appended again and
// gets the receipt of the first time. A batch whose every set is such a repetition
// was committed before as a whole, and Commit does nothing but return the
// receipts: conditions do not have to hold, consumer offsets do not move. So a
// batch whose outcome is unknown may simply be filled and committed again, if all
// of its sets have sequences.
//
// Errors: *ConflictError, *SequenceError, ErrUnknownTopic for a topic deleted
// meanwhile, codec.ErrRecordListTooLarge for sets that fit no segment together or a
// batch above MaxBatchBytes, ErrDiskFull for a batch that appends, those of Append, Produce and Group.Commit, ErrFailed,
// ErrClosed. An empty batch succeeds.
func (b *Batch) Commit(ctx context.Context) ([]Receipt, error) {
	receipts, err := b.commit(ctx)
	if err != nil {
		return nil, fmt.Errorf("engine: batch: %w", err)
	}
	return receipts, nil
}

func (b *Batch) commit(ctx context.Context) ([]Receipt, error) {
	if b == nil || b.db == nil {
		return nil, ErrClosed
	}
	cm, receipts, err := b.submit(ctx)
	if err == nil {
		err = b.db.awaitCommit(ctx, cm)
	}
	return receipts, err
}

// submit empties the batch into a write and queues that. A nil commit is nothing
// to wait for.
func (b *Batch) submit(ctx context.Context) (*commit, []Receipt, error) {
	defer b.Reset()
	switch {
	case b.err != nil:
		return nil, nil, b.err
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	}
	w := newWrite(b)
	defer w.release()
	cm, err := w.submit(ctx)
	if err != nil {
		return nil, nil, err
	}
	receipts := make([]Receipt, len(b.sets))
	for i, set := range b.sets {
		receipts[i] = set.receipt
	}
	return cm, receipts, nil
}

// submitNumbered is submit for a set with a sequence: a batch of one.
func (p *Partition) submitNumbered(ctx context.Context, msgs []codec.Message, o AppendOptions) (Pending, error) {
	set := &batchSet{p: p, producer: o.Producer, sequence: o.Sequence, receipt: emptyReceipt}
	if s := p.topic.settings(); s.magic == 0 && s.targetCompression(o.Compression) != codec.None {
		return Pending{}, ErrFormat
	}
	var err error
	if set.prep, err = p.prepareMessages(msgs, o, 0); err != nil {
		return Pending{}, err
	}
	b := Batch{db: p.topic.db, sets: []*batchSet{set}, unnamed: true}
	cm, receipts, err := b.submit(ctx)
	if err != nil {
		return Pending{}, err
	}
	return Pending{partition: p, commit: cm, receipt: receipts[0]}, nil
}
