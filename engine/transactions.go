package engine

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

// transactions are those of one partition. Each has a row, in the same batch as its
// markers: under OpenEnd while it is open, under the offset of its end marker then.
// So what a removal of the log's head or tail takes is one range, and the open ones
// are read together when the partition is loaded.
type transactions struct {
	open map[int64]int64 // transaction to the offset of its start marker
	// ending ended, perhaps by a marker that is not readable yet.
	ending []span
}

// span is where a transaction starts and ends.
type span struct{ start, end int64 }

// transactionRow is the value of a transaction's key.
type transactionRow struct {
	Version uint8 `msgpack:"v"`
	ID      int64 `msgpack:"id"`
	Aborted bool  `msgpack:"a,omitempty"`
}

const transactionVersion = 1

func (p *Partition) setTransaction(batch *pebble.Batch, s span, id int64, aborted bool) error {
	value, err := encodeCompact(&transactionRow{transactionVersion, id, aborted})
	if err != nil {
		return err
	}
	return batch.Set(keys.AppendTransaction(nil, p.id(), s.end, s.start), value, nil)
}

// transactionRows calls each for the rows of transactions whose end marker is in
// [from, to).
func (p *Partition) transactionRows(from, to int64, each func(s span, row transactionRow)) error {
	r := keys.TransactionRange(p.id(), from, to)
	it, err := p.topic.db.newIter(r.Start, r.End)
	if err != nil {
		return err
	}
	defer it.close()
	ok, err := it.move(seekGE, r.Start)
	for ; ok && err == nil; ok, err = it.move(next, nil) {
		_, end, start, err := keys.DecodeTransaction(it.key)
		if err != nil {
			return p.corrupt(-1, err)
		}
		var row transactionRow
		if err := msgpack.Unmarshal(it.value, &row); err != nil {
			return p.corrupt(start, fmt.Errorf("row of a transaction: %w", err))
		}
		if row.Version > transactionVersion {
			return fmt.Errorf("%w: transaction row version %d", ErrNewerFormat, row.Version)
		}
		each(span{start, end}, row)
	}
	return p.readError(-1, err)
}

// loadTransactions reads the open transactions.
func (p *Partition) loadTransactions() (*transactions, error) {
	ts := &transactions{open: make(map[int64]int64)}
	err := p.transactionRows(keys.OpenEnd, maxOffset, func(s span, row transactionRow) { ts.open[row.ID] = s.start })
	return ts, err
}

func (p *Partition) transactionsLocked() *transactions {
	if p.mu.seldom == nil {
		return nil
	}
	return p.mu.seldom.transactions
}

// checkControlLocked refuses sets that belong to a transaction that is not open, and
// control messages that contradict the log.
func (p *Partition) checkControlLocked(preps []*prepared) error {
	var changed map[int64]bool // by control messages among the sets
	isOpen := func(id int64) bool {
		if open, ok := changed[id]; ok {
			return open
		}
		ts := p.transactionsLocked()
		if ts == nil {
			return false
		}
		_, open := ts.open[id]
		return open
	}
	for _, prep := range preps {
		for _, id := range prep.transactions {
			if !isOpen(id) {
				return &TransactionError{Topic: p.Topic(), Partition: p.Number(), ID: id}
			}
		}
		c := prep.control()
		switch c.typ {
		case 0:
			continue
		case codec.ControlLeaderEpoch:
			if err := p.checkEpochLocked(c.id); err != nil {
				return err
			}
			continue
		}
		if begins := c.typ == codec.ControlBegin; isOpen(c.id) == begins {
			return &TransactionError{Topic: p.Topic(), Partition: p.Number(), ID: c.id, Open: begins}
		}
		if changed == nil {
			changed = make(map[int64]bool)
		}
		changed[c.id] = c.typ == codec.ControlBegin
	}
	return nil
}

// controlled reports whether the set needs checkControlLocked.
func (prep *prepared) controlled() bool {
	return len(prep.transactions) > 0 || prep.control().typ != 0
}

// control returns the control message that the set is, or none.
func (prep *prepared) control() control {
	if len(prep.entries) == 1 {
		return prep.entries[0].control
	}
	return control{}
}

// beginLocked opens a transaction.
func (p *Partition) beginLocked(batch *pebble.Batch, id, offset int64) error {
	if p.transactionsLocked() == nil {
		p.seldomLocked().transactions = &transactions{open: make(map[int64]int64)}
		if err := p.setState(batch); err != nil {
			return err
		}
	}
	p.mu.seldom.transactions.open[id] = offset
	p.topic.db.transactional.add(p)
	return p.setTransaction(batch, span{offset, keys.OpenEnd}, id, false)
}

// endLocked commits or aborts a transaction.
func (p *Partition) endLocked(batch *pebble.Batch, c control, offset int64) error {
	ts := p.transactionsLocked()
	if ts == nil {
		return errors.New("end of a transaction that is not open")
	}
	s := span{ts.open[c.id], offset}
	delete(ts.open, c.id)
	ts.ending = append(ts.ending, s)
	if err := batch.Delete(keys.AppendTransaction(nil, p.id(), keys.OpenEnd, s.start), nil); err != nil {
		return err
	}
	if err := p.setTransaction(batch, s, c.id, c.typ == codec.ControlAbort); err != nil {
		return err
	}
	if p.topic.settings().cleanupCompact { // it held compaction back
		return p.scheduleLocked(batch)
	}
	return nil
}

// stable returns the first unstable offset, or the readable end if nothing below it
// is: what a reader of committed messages may read.
func (p *Partition) stable() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stableLocked(p.readable.Load())
}

func (p *Partition) stableLocked(end int64) int64 {
	ts := p.transactionsLocked()
	if ts == nil {
		return end
	}
	for _, start := range ts.open {
		end = min(end, start)
	}
	readable, kept := p.readable.Load(), ts.ending[:0]
	for _, s := range ts.ending {
		if s.end < readable { // its marker can be read: it is over for every reader
			continue
		}
		kept = append(kept, s)
		end = min(end, s.start)
	}
	ts.ending = kept
	return max(end, p.logStart.Load())
}

// forgetTransactions deletes the rows of transactions that ended in segments that are
// removed, with bases in [low, high).
func (p *Partition) forgetTransactionsLocked(batch *pebble.Batch, low, high int64) error {
	if p.transactionsLocked() == nil {
		return nil
	}
	return deleteRanges(batch, []keys.Range{keys.TransactionRange(p.id(), low, high)})
}

// reopened returns the transactions that a cut at offset opens again: those that
// began below it and ended at or above. The log is drained.
func (p *Partition) reopened(offset int64) (map[int64]int64, error) {
	p.mu.Lock()
	none := p.transactionsLocked() == nil
	p.mu.Unlock()
	if none {
		return nil, nil
	}
	open := make(map[int64]int64)
	err := p.transactionRows(offset, keys.OpenEnd, func(s span, row transactionRow) {
		if s.start < offset {
			open[row.ID] = s.start
		}
	})
	return open, err
}

// cutTransactionsLocked makes the rows and the state in memory those of a log that
// ends at offset.
func (p *Partition) cutTransactionsLocked(batch *pebble.Batch, reopened map[int64]int64, offset int64) error {
	ts := p.transactionsLocked()
	if ts == nil {
		return nil
	}
	if err := deleteRanges(batch, []keys.Range{keys.TransactionRange(p.id(), offset, maxOffset)}); err != nil {
		return err
	}
	left := &transactions{open: reopened}
	if left.open == nil {
		left.open = make(map[int64]int64)
	}
	for id, start := range ts.open {
		if start < offset {
			left.open[id] = start
		}
	}
	for id := range reopened {
		p.topic.db.transactional.reopen(id, p)
	}
	for id, start := range left.open {
		if err := p.setTransaction(batch, span{start, keys.OpenEnd}, id, false); err != nil {
			return err
		}
	}
	p.mu.seldom.transactions = left
	return nil
}

// aborted answers which messages belong to aborted transactions, asked in the order
// of the log. What a reader of committed messages asks about lies below the first
// unstable offset, so its transaction has ended; the rows are read when that has
// moved past those known.
type aborted struct {
	p     *Partition
	known int64 // the first unstable offset when the rows were read
	spans map[int64][]span
}

// has reports whether the message at offset of a transaction was aborted.
func (a *aborted) has(id, offset int64) (bool, error) {
	if a.spans == nil || offset >= a.known {
		a.known = a.p.stable()
		a.spans = make(map[int64][]span)
		err := a.p.transactionRows(offset, keys.OpenEnd, func(s span, row transactionRow) {
			if row.Aborted {
				a.spans[row.ID] = append(a.spans[row.ID], s)
			}
		})
		if err != nil {
			a.spans = nil
			return false, err
		}
	}
	for _, s := range a.spans[id] {
		if s.start < offset && offset < s.end {
			return true, nil
		}
	}
	return false, nil
}

// hides reports whether a message is of an aborted transaction. A wrapper names that
// of its messages. A nil aborted hides nothing.
func (a *aborted) hides(e *codec.Entry, m *codec.Message) (bool, error) {
	if a == nil || !e.Enriched {
		return false, nil
	}
	tags := m.Tags
	if e.Kind == codec.KindWrapper {
		tags = e.Tags
	}
	id, ok := tags.Transaction()
	if !ok {
		return false, nil
	}
	return a.has(id, m.Offset)
}

// hiding is aborted for fetches, whose entries decide message by message.
type hiding struct {
	*aborted
	err error
}

// of returns what hides messages of e, nil if nothing does. A nil hiding hides none.
func (h *hiding) of(e *codec.Entry) func(*codec.Message) bool {
	if h == nil || !e.Enriched {
		return nil
	}
	return func(m *codec.Message) bool {
		hidden, err := h.hides(e, m)
		if err != nil {
			h.err = err
		}
		return hidden
	}
}
