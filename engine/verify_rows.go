package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// epochs verifies the leader epochs, which only grow, and what the state row says of
// the log.
func (c *logCheck) epochs(ctx context.Context) error {
	start := int64(-1)
	c.newestEpoch = -1
	err := c.each(ctx, keys.EpochRange(c.id, 0, maxEpoch), func(s *rowScan) error {
		_, epoch, err := keys.DecodeEpoch(s.key)
		if err != nil {
			return c.malformed(s, err)
		}
		c.Epochs++
		c.newestEpoch = epoch
		if len(s.value) != 8 {
			c.find(-1, BadEpoch, "row of epoch %d has %d bytes", epoch, len(s.value))
			return nil
		}
		at := int64(binary.BigEndian.Uint64(s.value))
		if at <= start || at >= c.end {
			c.find(at, BadEpoch, "epoch %d starts at %d, the one before at %d, the log ends at %d", epoch, at, start, c.end)
		}
		start = at
		return nil
	})
	switch {
	case err != nil:
		return err
	case !c.stateOK:
	case c.state.LogStart > c.end:
		c.find(c.state.LogStart, BadState, "the log starts at %d and ends at %d", c.state.LogStart, c.end)
	case c.state.Epochs != c.newestEpoch+1:
		c.find(-1, BadState, "the newest epoch is %d, the state says %d", c.newestEpoch, c.state.Epochs-1)
	case c.transactional && !c.state.Transactional:
		c.find(-1, BadState, "there are transactions, the state says none")
	}
	return nil
}

// producers verifies what the partition remembers of producers.
func (c *logCheck) producers(ctx context.Context) error {
	return c.each(ctx, keys.ProducerRange(c.id), func(s *rowScan) error {
		_, name, err := keys.DecodeProducer(s.key)
		if err != nil {
			return c.malformed(s, err)
		}
		c.Producers++
		r, err := decodeProducer(name, s.value)
		if errors.Is(err, ErrNewerFormat) {
			return err
		}
		if err == nil {
			err = r.check(c.end)
		}
		if err != nil {
			c.find(-1, BadProducer, "%q: %v", name, err)
			return c.removable(s)
		}
		return nil
	})
}

// check verifies that the sets of the producer can be in a log that ends at end.
func (r *producer) check(end int64) error {
	from := r.before
	for _, s := range r.sets {
		if s.Count < 1 || s.Offset < from {
			return fmt.Errorf("set of %d at %d, the one before ends at %d", s.Count, s.Offset, from)
		}
		from = s.end()
	}
	if r.end > end || len(r.sets) > 0 && r.end != from {
		return fmt.Errorf("its last set ends at %d, its receipts at %d, the log at %d", r.end, from, end)
	}
	return nil
}

// transactionCheck verifies the rows of transactions beside the control messages.
type transactionCheck struct {
	*logCheck
	rows *rowScan
	span span
	row  transactionRow
	more bool // span and row are of one that has ended
	// marked: its end marker was met. read: the first row was.
	marked, read bool
	// open is where the newest open transaction begins, -1 for none.
	open int64
}

func (c *logCheck) transactionCheck() *transactionCheck {
	return &transactionCheck{logCheck: c, open: -1, rows: c.view.scan(keys.TransactionRange(c.id, 0, maxOffset))}
}

func (t *transactionCheck) close() { t.rows.close() }

// advance moves to the next row of a transaction that has ended.
func (t *transactionCheck) advance(ctx context.Context) error {
	t.read, t.more, t.marked = true, false, false
	for {
		ok, err := t.rows.next(ctx)
		if err != nil || !ok {
			return err
		}
		_, end, start, err := keys.DecodeTransaction(t.rows.key)
		if err != nil {
			if err := t.malformed(t.rows, err); err != nil {
				return err
			}
			continue
		}
		t.Transactions++
		t.transactional = true
		t.span, t.row = span{start, end}, transactionRow{}
		switch err := msgpack.Unmarshal(t.rows.value, &t.row); {
		case err != nil:
			t.find(start, BadTransaction, "%v", err)
		case t.row.Version > transactionVersion:
			return fmt.Errorf("%w: transaction row version %d", ErrNewerFormat, t.row.Version)
		case start >= end:
			t.find(start, BadTransaction, "transaction %d begins at %d and ends at %d", t.row.ID, start, end)
		case end != keys.OpenEnd:
			t.more = true
			return nil
		}
		t.open = max(t.open, start)
	}
}

// to goes on to the rows of transactions that end at an offset or later. A row goes
// with its end marker, but where the log start moved within a segment.
func (t *transactionCheck) to(ctx context.Context, offset int64) error {
	for !t.read || t.more && t.span.end < offset {
		if t.more && !t.marked && t.span.end >= t.state.LogStart && !t.lossy {
			t.find(t.span.end, BadTransaction, "transaction %d has no end marker at %d", t.row.ID, t.span.end)
		}
		if err := t.advance(ctx); err != nil {
			return err
		}
	}
	return nil
}

// add verifies a control message.
func (t *transactionCheck) add(ctx context.Context, c control, offset int64) error {
	if c.typ != codec.ControlCommit && c.typ != codec.ControlAbort {
		return nil
	}
	if err := t.to(ctx, offset); err != nil {
		return err
	}
	aborted := c.typ == codec.ControlAbort
	t.marked = t.more && t.span.end == offset
	switch {
	case !t.marked:
		t.find(offset, BadTransaction, "the end marker of transaction %d has no row", c.id)
	case t.row.ID != c.id || t.row.Aborted != aborted:
		t.find(offset, BadTransaction, "row of transaction %d, aborted %t, at the end marker of %d, aborted %t", t.row.ID, t.row.Aborted, c.id, aborted)
	}
	return nil
}

func (t *transactionCheck) finish(ctx context.Context) error {
	if err := t.to(ctx, maxOffset); err != nil {
		return err
	}
	if t.open >= t.end {
		t.find(t.open, BadTransaction, "an open transaction begins at %d, the log ends at %d", t.open, t.end)
	}
	return nil
}

// lateAlarm is how much later than it should an alarm may ring without a finding: it may
// be one that was set for at once, or for a retry, before the clock was set back.
const lateAlarm = codec.Timestamp(time.Hour / time.Millisecond)

// alarm verifies that maintenance looks at the partition in time.
func (c *logCheck) alarm() {
	if len(c.segments) == 0 || c.broken[c.id] {
		return
	}
	segments := make([]retention.Segment, len(c.segments))
	for i := range c.segments {
		segments[i] = c.segments[i].Segment
	}
	active := segments[len(segments)-1].Base
	bounds := retention.Bounds{Start: c.state.LogStart, HighWatermark: c.end, End: c.end}
	due := retention.DueAt(segments, c.settings.retention, bounds, c.settings.rollPolicy(c.topics[c.id.Topic].name, c.id.Number, active))
	at, ok := c.alarms[c.id]
	switch {
	case due == retention.Never:
	case !ok:
		c.find(-1, BadAlarm, "due at %d and no alarm", int64(due))
	case at-lateAlarm > max(due, c.db.now()): // due may be the last instant there is
		c.find(-1, BadAlarm, "due at %d, the alarm rings at %d", int64(due), int64(at))
	}
}
