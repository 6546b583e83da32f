package engine

import (
	"fmt"

	"github.com/cairnlog/cairn/codec"
)

// A producer that gives its sets numbers may repeat one whose outcome it does not
// know. What a partition remembers for that, a window of each producer's last
// receipts, is written in the same atomic batch as the sets, so it says exactly
// what the log holds, after a crash too.

const (
	// SequenceWindow is how many of a producer's last sets a partition knows the
	// receipts of. A producer that keeps more in flight may find, after a crash,
	// that a set was appended but not where.
	SequenceWindow = 8
	// MaxProducers is how many producers a partition remembers. One more takes
	// the place of that whose last set is the oldest in the log.
	MaxProducers = 1024
	// maxProducerName bounds the name of a producer, in bytes.
	maxProducerName = 255
)

// SequenceError says that a numbered set neither follows the producer's last one
// nor repeats one whose receipt is known (Kafka codes 45 and 46). It changes
// nothing.
type SequenceError struct {
	Topic     string
	Partition int32
	Producer  string
	// Sequence is the number of the set, Next the one the partition expects.
	Sequence, Next int64
}

// Duplicate reports whether the set was appended before. It is not appended
// again, but its receipt is no longer known.
func (e *SequenceError) Duplicate() bool { return e.Sequence < e.Next }

func (e *SequenceError) Error() string {
	if e.Duplicate() {
		return fmt.Sprintf("set %d of producer %q is in %s/%d already, its receipt is forgotten; the next is %d",
			e.Sequence, e.Producer, e.Topic, e.Partition, e.Next)
	}
	return fmt.Sprintf("set %d of producer %q leaves a gap in %s/%d: the next is %d", e.Sequence, e.Producer, e.Topic, e.Partition, e.Next)
}

// KafkaCode returns OutOfOrderSequenceNumber (45) or DuplicateSequenceNumber (46).
func (e *SequenceError) KafkaCode() codec.Code {
	if e.Duplicate() {
		return codec.CodeDuplicateSequence
	}
	return codec.CodeOutOfOrderSequence
}

// checkProducer refuses a sequence that cannot be one.
func (o *AppendOptions) checkProducer() error {
	switch {
	case len(o.Producer) > maxProducerName:
		return codec.Errorf(codec.CodeInvalidRequest, "producer of %d bytes is longer than %d", len(o.Producer), maxProducerName)
	case o.Producer == "" && o.Sequence != 0:
		return codec.Errorf(codec.CodeInvalidRequest, "sequence %d without a producer", o.Sequence)
	case o.Sequence < 0:
		return codec.Errorf(codec.CodeInvalidRequest, "negative sequence %d", o.Sequence)
	}
	return nil
}

// producer is what a partition remembers of one producer.
type producer struct {
	name string
	// last is the sequence of its last set, end the offset after it. Sets have
	// numbers without a gap.
	last, end int64
	// sets are the receipts of the last ones, oldest first.
	sets []Receipt
	// before is the offset after the set before the oldest of sets; noneBefore if
	// there was none.
	before int64
}

const noneBefore = -1

// find returns the receipt of a repeated set, false for the one that is next.
func (r *producer) find(sequence int64) (receipt Receipt, repeated, ok bool) {
	if sequence == r.last+1 {
		return Receipt{}, false, true
	}
	back := r.last - sequence // 0: the last
	if back < 0 || back >= int64(len(r.sets)) {
		return Receipt{}, false, false
	}
	return r.sets[len(r.sets)-1-int(back)], true, true
}

// add notes the next set.
func (r *producer) add(sequence int64, receipt Receipt) {
	if len(r.sets) == SequenceWindow {
		r.before = r.sets[0].end()
		r.sets = append(r.sets[:0], r.sets[1:]...)
	}
	r.last, r.end = sequence, receipt.end()
	r.sets = append(r.sets, receipt)
}

// cut forgets the sets of which the log, cut at offset, no longer holds the whole.
// known is false if nothing is left to know: the producer begins anew.
func (r *producer) cut(offset int64) (changed, known bool) {
	for len(r.sets) > 0 && r.sets[len(r.sets)-1].end() > offset {
		r.sets = r.sets[:len(r.sets)-1]
		r.last--
		changed = true
	}
	switch {
	case !changed && len(r.sets) == 0 && r.end > offset: // an earlier cut left no set, this one reaches below
		return true, false
	case !changed:
		return false, true
	case len(r.sets) > 0:
		r.end = r.sets[len(r.sets)-1].end()
		return true, true
	case r.before == noneBefore || r.before > offset: // which set is the last is not known
		return true, false
	}
	r.end = r.before
	return true, true
}

// end returns the offset after the set.
func (r Receipt) end() int64 { return r.Offset + int64(r.Count) }
