package compaction

import (
	"cmp"
	"context"
	"slices"

	"github.com/cairnlog/cairn/codec"
)

// Transaction is one that has ended: its messages are between its start and its end
// marker.
type Transaction struct {
	ID         int64
	Start, End int64 // the offsets of the markers
	Aborted    bool
}

// WithTransactions returns the plan for a log with transactions: all that ended in it,
// in the order of their end markers. A pass drops the messages of aborted ones, which
// must not cost an older message of their key, and the markers nobody needs any more
// (SPEC 9.15). Messages of transactions that have not ended must lie at or above the
// high watermark the plan was made with.
func (p Plan) WithTransactions(ended []Transaction) Plan {
	p.transactions = ended
	return p
}

// control is what a pass knows of transactions.
type control struct {
	ended   []Transaction           // by End
	starts  []int64                 // sorted
	aborted map[int64][]Transaction // by ID
	// live are the transactions of which a message is left, since their last end.
	live map[int64]bool
	// id is the transaction of the entry gone over, if that is a wrapper of one.
	id int64
	of bool
}

func newControl(ended []Transaction) control {
	c := control{ended: ended}
	if len(ended) == 0 {
		return c
	}
	c.aborted, c.live = make(map[int64][]Transaction), make(map[int64]bool)
	for _, t := range ended {
		c.starts = append(c.starts, t.Start)
		if t.Aborted {
			c.aborted[t.ID] = append(c.aborted[t.ID], t)
		}
	}
	slices.Sort(c.starts)
	return c
}

// enter begins with the next entry.
func (c *control) enter(e *codec.Entry) {
	if c.of = false; e.Kind == codec.KindWrapper && len(c.ended) > 0 {
		c.id, c.of = e.Tags.Transaction()
	}
}

// transaction returns that of a message of the entry; false for none, and where there
// are no transactions at all.
func (c *control) transaction(m *codec.Message) (id int64, ok bool) {
	if c.of || len(c.ended) == 0 {
		return c.id, c.of
	}
	return m.Tags.Transaction()
}

// isAborted reports whether a message is of an aborted transaction.
func (c *control) isAborted(m *codec.Message) bool {
	id, ok := c.transaction(m)
	if !ok {
		return false
	}
	return slices.ContainsFunc(c.aborted[id], func(t Transaction) bool { return t.Start < m.Offset && m.Offset < t.End })
}

// left notes that a message stays.
func (c *control) left(m *codec.Message) {
	if id, ok := c.transaction(m); ok {
		c.live[id] = true
	}
}

// endedAt returns the transaction with an end marker.
func (c *control) endedAt(offset int64) (Transaction, bool) {
	i, ok := slices.BinarySearchFunc(c.ended, offset, func(t Transaction, end int64) int { return cmp.Compare(t.End, end) })
	if !ok {
		return Transaction{}, false
	}
	return c.ended[i], true
}

// verdict is what becomes of a control message.
type verdict uint8

const (
	stays verdict = iota
	stamped
	goes
)

// judgeMarker decides about a control message (SPEC 9.15). A leader epoch is never
// dropped. An end marker stays while a message of its transaction does, and then until
// its horizon, as a tombstone. A start marker stays while its transaction is known,
// which is until its end marker has gone: to the next pass.
func (p *pass) judgeMarker(e *codec.Entry) verdict {
	c := &p.control
	switch e.Control {
	case codec.ControlBegin:
		if _, known := slices.BinarySearch(c.starts, e.Last); known {
			return stays
		}
		return goes
	case codec.ControlCommit, codec.ControlAbort:
		t, known := c.endedAt(e.Last)
		live := known && c.live[t.ID]
		delete(c.live, t.ID)
		switch {
		case live:
			return stays
		case e.Horizon == codec.NoTimestamp:
			return stamped
		case p.expired:
			return goes
		}
	}
	return stays
}

// filterMarker is filter for a control message.
func (p *pass) filterMarker(ctx context.Context, e codec.Entry, key, value []byte) (codec.Entry, []byte, error) {
	p.stats.Messages++
	v := stays
	switch {
	case e.Last >= p.mapped:
	case e.Last < p.plan.log.Bounds.Start:
		v = goes
	default:
		v = p.judgeMarker(&e)
	}
	if v == stays {
		p.step.kept()
		return e, value, nil
	}
	if err := p.change(ctx); err != nil {
		return e, nil, err
	}
	if v == stamped {
		return p.replace(&e, &codec.Filtered{Kept: 1}, key, value, true)
	}
	p.stats.Markers++
	p.stats.Emptied++
	p.step.delete(e.Last)
	if t, ok := p.control.endedAt(e.Last); ok && e.Control != codec.ControlBegin {
		p.step.Ended = append(p.step.Ended, t)
	}
	return codec.Entry{}, nil, nil
}
