package engine

import (
	"fmt"

	"github.com/cairnlog/cairn/codec"
)

// errForeign refuses a partition whose handle is not of the store, or of an
// earlier opening of it.
var errForeign = codec.Errorf(codec.CodeInvalidRequest, "partition of another store")

// MaxBatchBytes bounds what one Batch may hold, in stored bytes: it is in memory
// as a whole, in front of Pebble and in it.
const MaxBatchBytes = 64 << 20

// batchOpBytes is what an operation counts beside its bytes, so that their number
// is bounded too.
const batchOpBytes = 64

// Batch collects appends to any partitions of the store, conditions and consumer
// offsets, and Commit makes them happen all or not at all, with one sync. Nothing
// is locked and nothing is visible before. A crash never leaves a part; readers of
// several partitions may see the parts a moment apart.
//
// The sets appended to one partition form one set, in the order of the calls:
// their offsets follow one another without anybody else's between, one clock
// stamps them, they are never in two segments, and together they must fit
// segment.bytes. Every append has a receipt of its own.
//
// The methods that fill a Batch copy what they keep and return nothing: what is
// wrong with a call is Commit's error. A topic's settings are those of the call.
// Commit empties the Batch, whatever it returns, and it may be filled again. A
// Batch is for one goroutine; make one with DB.NewBatch.
type Batch struct {
	db      *DB
	sets    []*batchSet
	expects []expectation
	offsets []offsetCommit
	size    int64
	err     error // of the first bad call
	unnamed bool  // errors do not name the partition
}

// batchSet is one append of a batch.
type batchSet struct {
	p        *Partition
	prep     *prepared // nil: an empty set
	producer string
	sequence int64
	receipt  Receipt
	repeated bool
}

// expectation is a condition: the next offset of p is next.
type expectation struct {
	p    *Partition
	next int64
}

// NewBatch returns an empty Batch.
func (db *DB) NewBatch() *Batch { return &Batch{db: db} }

// Append adds a set as Partition.Append does.
func (b *Batch) Append(p *Partition, msgs ...codec.Message) { b.AppendSet(p, msgs, AppendOptions{}) }

// AppendSet adds a set as Partition.AppendSet does. A numbered set that the
// partition has already is skipped, and its receipt is the first one's; see
// Commit. Compressed sets of topics in the v0 format cannot be in a Batch
// (ErrFormat).
func (b *Batch) AppendSet(p *Partition, msgs []codec.Message, o AppendOptions) {
	b.add(p, func() (*batchSet, error) {
		set := &batchSet{p: p, producer: o.Producer, sequence: o.Sequence, receipt: emptyReceipt}
		if err := o.checkProducer(); err != nil || len(msgs) == 0 {
			return set, err
		}
		s := p.topic.settings()
		if s.magic == 0 && s.targetCompression(o.Compression) != codec.None {
			return nil, ErrFormat
		}
		var err error
		set.prep, err = p.prepareMessages(msgs, o, 0)
		return set, err
	})
}

// Produce adds a message set in the wire format, as Partition.Produce does.
// Compressed sets of topics in the v0 format cannot be in a Batch (ErrFormat).
func (b *Batch) Produce(p *Partition, set []byte) {
	b.add(p, func() (*batchSet, error) {
		produced := &batchSet{p: p, receipt: emptyReceipt}
		s := p.topic.settings()
		frames, err := s.readFrames(set)
		if err != nil || len(frames) == 0 {
			return produced, err
		}
		if s.magic == 0 && (hasWrapper(frames) || s.targetCompression(codec.None) != codec.None) {
			return nil, ErrFormat
		}
		produced.prep, err = p.prepareFrames(frames, 0)
		return produced, err
	})
}

// Expect makes the whole Batch depend on p's next offset: unless its first
// message would get that, Commit changes nothing and returns a *ConflictError.
// Who reads the end of a log, decides and appends with Expect knows that nobody
// has appended in between.
func (b *Batch) Expect(p *Partition, next int64) {
	if b.accepts(p, batchOpBytes) {
		b.expects = append(b.expects, expectation{p, next})
	}
}

// CommitOffset adds what Group.Commit does: offset is where the group goes on
// reading p. Of several for one partition the last holds.
func (b *Batch) CommitOffset(group string, p *Partition, offset int64, metadata string) {
	if !b.accepts(p, batchOpBytes+int64(len(group)+len(metadata))) {
		return
	}
	c := offsetCommit{group, p, offset, metadata}
	if err := c.check(); err != nil {
		b.fail(p, err)
		return
	}
	b.offsets = append(b.offsets, c)
}

// Size returns the stored bytes that the Batch holds; MaxBatchBytes is the limit.
func (b *Batch) Size() int64 {
	if b == nil {
		return 0
	}
	return b.size
}

// Reset empties the Batch without committing it.
func (b *Batch) Reset() {
	if b == nil {
		return
	}
	for _, set := range b.sets {
		set.discard()
	}
	*b = Batch{db: b.db}
}

// add prepares a set and takes it in.
func (b *Batch) add(p *Partition, prepare func() (*batchSet, error)) {
	if !b.accepts(p, batchOpBytes) {
		return
	}
	set, err := prepare()
	if err != nil {
		b.fail(p, err)
		return
	}
	b.sets = append(b.sets, set)
	if set.prep != nil {
		b.accepts(p, set.prep.stored)
	}
}

// accepts reports whether n more bytes for p can be taken in, and counts them. The
// partition is loaded afterwards.
func (b *Batch) accepts(p *Partition, n int64) bool {
	if b == nil || b.err != nil {
		return false
	}
	if b.db == nil {
		b.err = ErrClosed
		return false
	}
	err := p.ready()
	switch {
	case err != nil:
	case p.topic.db != b.db:
		err = errForeign
	case b.size+n > MaxBatchBytes:
		err = codec.Errorf(codec.CodeRecordListTooLarge, "batch exceeds %d stored bytes", int64(MaxBatchBytes))
	default:
		b.size += n
		return true
	}
	b.fail(p, err)
	return false
}

func (b *Batch) fail(p *Partition, err error) { b.err = fmt.Errorf("%s: %w", p, err) }

func (set *batchSet) discard() {
	if set.prep != nil {
		set.prep.discard()
		set.prep = nil
	}
}
