package engine

import (
	"context"

	"github.com/cairnlog/cairn/codec"
)

// AppendOptions change one append.
type AppendOptions struct {
	// Compression stores the set as compressed wrappers, where the topic's
	// compression.type leaves the choice to the producer.
	Compression codec.Compression
	// Tags are those of the wrappers that a compressed set of the enriched format is
	// stored in, readable without inflating them; the messages keep their own.
	Tags codec.Tags

	// Producer, if not empty, numbers the set: a set that the partition has
	// already is not appended again and gets the receipt of the first time, also
	// while that is on its way, after a crash and after a reopen. It names who
	// appends, in at most 255 bytes.
	//
	// Sequence is the number of the set, one more than that of the producer's last
	// set in this partition; the first may have any number from 0 on. A gap, and a
	// repetition of one that is not among the last SequenceWindow, is a
	// *SequenceError. An empty set has no number. The partition remembers the
	// MaxProducers that appended last; of others it takes any number. A set that
	// was removed from the end of the log, TruncateTo's, is forgotten.
	//
	// Numbered sets of topics in the v0 format cannot be compressed (ErrFormat).
	Producer string
	Sequence int64
}

// Receipt says where a set landed.
type Receipt struct {
	// Offset is that of the first message; the others follow without a gap. -1
	// for an empty set.
	Offset int64
	// Count is the number of messages.
	Count int
	// Timestamp is the largest timestamp of the set as it was stored; -1 if no
	// message has one.
	Timestamp codec.Timestamp
	// LogAppendTime is the clock of the append on a LogAppendTime topic, -1 on
	// a CreateTime topic: what ProduceResponse v2 carries (SPEC 2.8.28).
	LogAppendTime codec.Timestamp
}

var emptyReceipt = Receipt{Offset: -1, Timestamp: codec.NoTimestamp, LogAppendTime: codec.NoTimestamp}

// MessageTimestamp returns the timestamp a producer reports for one message of
// the set: the log's if it set one, else the message's own (SPEC 2.8.29).
func (r Receipt) MessageTimestamp(own codec.Timestamp) codec.Timestamp {
	if r.LogAppendTime != codec.NoTimestamp {
		return r.LogAppendTime
	}
	return own
}

// Append adds one atomic set of messages to the end of the partition and
// returns where it landed. When Append returns nil the set is on stable storage
// (under Options.Durability SyncAlways). After ctx.Err or ErrFailed its outcome
// is unknown: it may or may not be there. No other error changes anything.
//
// A message with the zero Timestamp and TimestampType takes the clock of the
// append; with NoTimestamp it has none. On a LogAppendTime topic all take the
// clock of the append. A null key is nil, an empty one is not. Append copies
// what it keeps. It may be called concurrently; offsets are dense and in order
// of return within one caller.
//
// Errors (with KafkaCode): codec.ErrInvalidTimestamp (32), a null key on a
// compacted topic (2), codec.ErrMessageTooLarge (10), codec.ErrRecordListTooLarge
// (18), *SequenceError (45, 46), ErrUnknownTopic (3), ErrDiskFull (56), ErrFailed,
// ErrClosed. An empty set succeeds with Offset -1.
func (p *Partition) Append(ctx context.Context, msgs ...codec.Message) (Receipt, error) {
	return p.AppendSet(ctx, msgs, AppendOptions{})
}

// AppendSet is Append with options.
func (p *Partition) AppendSet(ctx context.Context, msgs []codec.Message, o AppendOptions) (Receipt, error) {
	pending, err := p.submit(ctx, msgs, o)
	if err != nil {
		return emptyReceipt, p.wrap("append", err)
	}
	if err := p.topic.db.awaitCommit(ctx, pending.commit); err != nil {
		return emptyReceipt, p.wrap("append", err)
	}
	return pending.receipt, nil
}

// Pending is an append on its way to the disk.
type Pending struct {
	partition *Partition
	commit    *commit // nil: nothing to wait for
	receipt   Receipt
}

// Submit begins an append and returns without waiting for the disk, so that one
// goroutine can keep many appends in flight. Offsets are assigned in the order
// of the calls. The set is durable when Wait returns nil; a caller that does
// not wait learns of a failure from its next call. Submit blocks while
// Options.MaxQueuedBytes are in flight.
func (p *Partition) Submit(ctx context.Context, msgs []codec.Message, o AppendOptions) (*Pending, error) {
	pending, err := p.submit(ctx, msgs, o)
	if err != nil {
		return nil, p.wrap("append", err)
	}
	return &pending, nil
}

// Receipt returns where the set lands if it survives.
func (w *Pending) Receipt() Receipt { return w.receipt }

// Wait returns when the set is on stable storage, or its error as Append's. A
// second Wait returns at once with the receipt of the first. Wait is for one
// goroutine.
func (w *Pending) Wait(ctx context.Context) (Receipt, error) {
	if w.commit == nil {
		return w.receipt, nil
	}
	if err := w.partition.topic.db.awaitCommit(ctx, w.commit); err != nil {
		return emptyReceipt, w.partition.wrap("append", err)
	}
	w.commit = nil
	return w.receipt, nil
}

// awaitCommit waits for a commit that somebody owns; nil is one nobody does.
func (db *DB) awaitCommit(ctx context.Context, cm *commit) error {
	if cm == nil {
		return nil
	}
	return db.wait(ctx, cm)
}

func (p *Partition) submit(ctx context.Context, msgs []codec.Message, o AppendOptions) (Pending, error) {
	if err := p.appendable(ctx); err != nil {
		return Pending{}, err
	}
	if err := o.checkProducer(); err != nil {
		return Pending{}, err
	}
	if len(msgs) == 0 {
		return Pending{partition: p, receipt: emptyReceipt}, nil
	}
	if o.Producer != "" {
		return p.submitNumbered(ctx, msgs, o)
	}
	settings := p.topic.settings()
	if settings.magic == 0 && settings.targetCompression(o.Compression) != codec.None {
		size := int64(0)
		for i := range msgs {
			size += int64(msgs[i].WireSize())
		}
		return p.submitAt(ctx, size, func(base int64) (*prepared, error) { return p.prepareMessages(msgs, o, base) })
	}
	prep, err := p.prepareMessages(msgs, o, 0)
	if err != nil {
		return Pending{}, err
	}
	return p.submitPrepared(ctx, prep)
}

// submitAt is submitPrepared for sets that cannot be encoded before their first
// offset is known: v0 wrappers, which are compressed under the append lock as
// Kafka's leader does it.
func (p *Partition) submitAt(ctx context.Context, size int64, prepare func(base int64) (*prepared, error)) (Pending, error) {
	db := p.topic.db
	admitted, err := db.admit(ctx, size)
	if err != nil {
		return Pending{}, err
	}
	pending, err := p.prepareAndAppend(ctx, prepare, admitted)
	if err != nil {
		db.gate.release(admitted)
	}
	return pending, err
}

func (p *Partition) prepareAndAppend(ctx context.Context, prepare func(base int64) (*prepared, error), admitted int64) (Pending, error) {
	db := p.topic.db
	if err := p.lockChange(ctx); err != nil {
		return Pending{}, err
	}
	defer p.mu.Unlock()
	prep, err := prepare(p.mu.end)
	if err != nil {
		return Pending{}, err
	}
	pending, err := p.appendLocked(prep, admitted)
	if err != nil {
		prep.discard()
		return Pending{}, err
	}
	db.stats.appended(prep)
	prep.recycle()
	return pending, nil
}

// appendable returns why the partition takes no append, or nil.
func (p *Partition) appendable(ctx context.Context) error {
	if err := p.ready(); err != nil {
		return err
	}
	if err := p.topic.db.writable(); err != nil {
		return err
	}
	return ctx.Err()
}

// submitPrepared stamps and applies a prepared set under the append lock and
// queues it for the disk. It owns prep.
func (p *Partition) submitPrepared(ctx context.Context, prep *prepared) (Pending, error) {
	db := p.topic.db
	admitted, err := db.admit(ctx, prep.stored)
	if err != nil {
		prep.discard()
		return Pending{}, err
	}
	pending := Pending{}
	if err = p.lockChange(ctx); err == nil {
		pending, err = p.appendLocked(prep, admitted)
		p.mu.Unlock()
	}
	if err != nil {
		db.gate.release(admitted)
		prep.discard()
		return Pending{}, err
	}
	db.stats.appended(prep)
	prep.recycle()
	return pending, nil
}

// admit refuses an append of size bytes if the disk is full, waits until the queue
// has room for it and returns what the commit must give back.
func (db *DB) admit(ctx context.Context, size int64) (int64, error) {
	if err := db.space.admit(ctx, size); err != nil {
		return 0, err
	}
	return db.enter(ctx, size)
}

// enter is admit for what may write to a full disk.
func (db *DB) enter(ctx context.Context, size int64) (int64, error) {
	admitted, err := db.gate.acquire(ctx, size)
	if err != nil {
		if closing := db.writable(); closing != nil {
			return 0, closing
		}
	}
	return admitted, err
}

// appendLocked is the part of an append under the lock: memory only.
func (p *Partition) appendLocked(prep *prepared, admitted int64) (Pending, error) {
	db := p.topic.db
	if err := p.writableLocked(); err != nil {
		return Pending{}, err
	}
	st, err := p.stampLocked(db.now(), prep)
	if err != nil {
		return Pending{}, err
	}
	if err := p.applyLocked(prep.batch, st); err != nil {
		return Pending{}, p.broken(err)
	}
	p.appendedLocked()
	cm := db.newCommit(prep.batch)
	cm.bytes = admitted
	cm.addEndLocked(p)
	pending := Pending{partition: p, receipt: prep.receipt(st)}
	waited, err := db.queueAcked(cm, nil)
	if err != nil {
		return Pending{}, p.broken(err)
	}
	pending.commit = waited
	return pending, nil
}

// appendedLocked notes that the partition was appended to.
func (p *Partition) appendedLocked() {
	if !p.mu.active {
		p.mu.active = true
		p.topic.db.activePartitions.Add(1)
	}
}

// receipt describes a stamped set.
func (prep *prepared) receipt(st stamped) Receipt {
	r := Receipt{Offset: st.base, Count: int(prep.messages), Timestamp: prep.largest, LogAppendTime: codec.NoTimestamp}
	if prep.clocked() {
		r.Timestamp = max(st.clock, 0)
		if prep.settings.logAppends() {
			r.LogAppendTime = r.Timestamp
		}
	}
	return r
}
