package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

// errTransactionTag refuses a wrapper's own tags that name a transaction: its
// messages do.
var errTransactionTag = codec.Errorf(codec.CodeInvalidRequest, "AppendOptions.Tags name a transaction")

// Transaction appends to any partitions of topics in the enriched format, and Commit
// or Abort decides about all of it at once (SPEC 10.7). The messages are in the log
// from the start, between control messages that say where the transaction starts and
// how it ends; who reads with ReadCommitted sees them when it is committed, in their
// place, and never if it is aborted, and nothing behind the start of one that is
// open. Others see them at once.
//
// A transaction that nobody ended, because the process died, stays open: see
// DB.OpenTransactions and DB.Resume. Unlike a Batch, which is invisible until it is
// committed and needs no end, a transaction may be larger than memory and last.
//
// The methods may be called concurrently.
type Transaction struct {
	db *DB
	id int64

	mu      sync.Mutex
	parts   []*Partition // where it may be open
	offsets []offsetCommit
	ended   bool
}

// transactional knows the partitions that have had transactions and are loaded, and
// the transactions that have a handle.
type transactional struct {
	mu      sync.Mutex
	parts   map[*Partition]bool
	handles map[int64]bool
	// reopened is where truncations opened transactions again that have a handle.
	reopened map[int64][]*Partition
}

func (t *transactional) add(p *Partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.parts == nil {
		t.parts = make(map[*Partition]bool)
	}
	t.parts[p] = true
}

// take reserves a transaction for one handle.
func (t *transactional) take(id int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.handles[id] {
		return false
	}
	if t.handles == nil {
		t.handles = make(map[int64]bool)
	}
	t.handles[id] = true
	return true
}

func (t *transactional) release(id int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.handles, id)
	delete(t.reopened, id)
}

// reopen notes that a truncation opened a transaction again.
func (t *transactional) reopen(id int64, p *Partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.handles[id] {
		return
	}
	if t.reopened == nil {
		t.reopened = make(map[int64][]*Partition)
	}
	t.reopened[id] = append(t.reopened[id], p)
}

// reopenedIn returns where a transaction was opened again.
func (t *transactional) reopenedIn(id int64) []*Partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.reopened[id])
}

func (t *transactional) loaded() []*Partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	parts := make([]*Partition, 0, len(t.parts))
	for p := range t.parts {
		if p.topic.dropped.Load() { // nobody needs it any more
			delete(t.parts, p)
			continue
		}
		parts = append(parts, p)
	}
	return parts
}

// Begin starts a transaction. It writes nothing: the start message goes to each
// partition with the first append there. An id can be used again when its transaction
// has ended. Errors: *TransactionError for one that is open or has a handle,
// ErrFailed, ErrClosed.
func (db *DB) Begin(ctx context.Context, id int64) (*Transaction, error) {
	t, open, err := db.handle(ctx, id)
	if err == nil && open {
		db.transactional.release(id)
		err = &TransactionError{ID: id, Open: true}
	}
	if err != nil {
		return nil, fmt.Errorf("engine: begin: %w", err)
	}
	return t, nil
}

// Resume returns a handle on a transaction that is open but has none, after a crash
// or a reopen, to append more, commit or abort it. Errors: *TransactionError for one
// that is not open or has a handle, ErrFailed, ErrClosed.
func (db *DB) Resume(ctx context.Context, id int64) (*Transaction, error) {
	t, open, err := db.handle(ctx, id)
	if err == nil && !open {
		db.transactional.release(id)
		err = &TransactionError{ID: id}
	}
	if err != nil {
		return nil, fmt.Errorf("engine: resume: %w", err)
	}
	return t, nil
}

func (db *DB) handle(ctx context.Context, id int64) (t *Transaction, open bool, err error) {
	if err := db.writable(); err != nil {
		return nil, false, err
	}
	if !db.transactional.take(id) {
		return nil, false, &TransactionError{ID: id, Open: true}
	}
	t = &Transaction{db: db, id: id}
	all, err := db.openTransactions(ctx)
	if err != nil {
		db.transactional.release(id)
		return nil, false, err
	}
	for _, o := range all {
		if o.ID == id {
			for i := range o.Partitions {
				t.parts = append(t.parts, o.Partitions[i].p)
			}
			open = true
		}
	}
	return t, open, nil
}

// OpenTransaction is a transaction that has started and not ended.
type OpenTransaction struct {
	ID int64
	// Partitions are where it has started, in the order of topics and numbers.
	Partitions []OpenPartition
	// Handle: there is a Transaction for it; if not, it is abandoned.
	Handle bool
}

// OpenPartition is where a transaction has started in one partition.
type OpenPartition struct {
	Topic     string
	Partition int32
	Start     int64 // the offset of the start message

	p *Partition
}

// OpenTransactions returns the open transactions, in the order of their ids. It looks
// at every partition that ever had one.
func (db *DB) OpenTransactions(ctx context.Context) ([]OpenTransaction, error) {
	all, err := db.openTransactions(ctx)
	if err != nil {
		return nil, fmt.Errorf("engine: open transactions: %w", err)
	}
	return all, nil
}

func (db *DB) openTransactions(ctx context.Context) ([]OpenTransaction, error) {
	if db == nil || db.isClosed() {
		return nil, ErrClosed
	}
	if err := db.loadTransactional(ctx); err != nil {
		return nil, err
	}
	byID := make(map[int64]*OpenTransaction)
	for _, p := range db.transactional.loaded() {
		for id, start := range p.openTransactions() {
			if byID[id] == nil {
				byID[id] = &OpenTransaction{ID: id}
			}
			byID[id].Partitions = append(byID[id].Partitions, OpenPartition{p.Topic(), p.Number(), start, p})
		}
	}
	all := make([]OpenTransaction, 0, len(byID))
	db.transactional.mu.Lock()
	defer db.transactional.mu.Unlock()
	for id, o := range byID {
		o.Handle = db.transactional.handles[id]
		slices.SortFunc(o.Partitions, func(a, b OpenPartition) int {
			return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
		})
		all = append(all, *o)
	}
	slices.SortFunc(all, func(a, b OpenTransaction) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// loadTransactional loads every partition that has open transactions. It goes from
// one partition's open ones to the next's.
func (db *DB) loadTransactional(ctx context.Context) error {
	all := keys.TransactionsRange()
	it, err := db.newIter(all.Start, all.End)
	if err != nil {
		return err
	}
	defer it.close()
	var found []keys.Partition
	ok, err := it.move(seekGE, all.Start)
	for ok && err == nil {
		id, end, _, err := keys.DecodeTransaction(it.key)
		if err != nil {
			return &CorruptionError{Offset: -1, Err: err}
		}
		open := keys.TransactionRange(id, keys.OpenEnd, maxOffset)
		if end == keys.OpenEnd {
			found = append(found, id)
			open.Start = open.End
		}
		if ok, err = it.move(seekGE, open.Start); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err != nil {
		return err
	}
	for _, id := range found {
		if _, err := db.partitionByID(id); err != nil && !errors.Is(err, ErrUnknownTopic) { // deleted meanwhile
			return err
		}
	}
	return nil
}

// openTransactions returns the partition's, with their starts.
func (p *Partition) openTransactions() map[int64]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	open := make(map[int64]int64)
	if ts := p.transactionsLocked(); ts != nil && !p.mu.dropped {
		maps.Copy(open, ts.open)
	}
	return open
}

// ID returns the transaction's id.
func (t *Transaction) ID() int64 {
	if t == nil {
		return 0
	}
	return t.id
}

// Append adds messages of the transaction to the end of a partition, as
// Partition.Append does.
func (t *Transaction) Append(ctx context.Context, p *Partition, msgs ...codec.Message) (Receipt, error) {
	return t.AppendSet(ctx, p, msgs, AppendOptions{})
}

// AppendSet is Append with options. Errors are those of Partition.AppendSet, and
// *TransactionError when the transaction has ended.
func (t *Transaction) AppendSet(ctx context.Context, p *Partition, msgs []codec.Message, o AppendOptions) (Receipt, error) {
	if t == nil || t.db == nil {
		return emptyReceipt, ErrClosed
	}
	tagged := slices.Clone(msgs)
	for i := range tagged {
		if err := tagged[i].Tags.Check(); err != nil {
			return emptyReceipt, p.wrap("append", err)
		}
		tagged[i].Tags = tagged[i].Tags.WithTag(codec.TagTransaction, t.id)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return emptyReceipt, p.wrap("append", &TransactionError{ID: t.id})
	}
	if len(msgs) == 0 {
		return emptyReceipt, nil
	}
	b := t.db.NewBatch()
	if err := p.ready(); err != nil {
		return emptyReceipt, p.wrap("append", err)
	}
	if _, open := p.openTransactions()[t.id]; !open {
		b.control(p, control{codec.ControlBegin, t.id})
	}
	b.AppendSet(p, tagged, o)
	if !slices.Contains(t.parts, p) {
		t.parts = append(t.parts, p)
	}
	receipts, err := b.Commit(ctx)
	if err != nil {
		return emptyReceipt, err
	}
	return receipts[len(receipts)-1], nil
}

// CommitOffset makes a consumer offset part of the transaction: Commit moves the
// group, Abort does not. Its errors are Commit's.
func (t *Transaction) CommitOffset(group string, p *Partition, offset int64, metadata string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.offsets = append(t.offsets, offsetCommit{group, p, offset, metadata})
}

// Commit makes everything that was appended in the transaction visible to readers of
// committed messages, atomically in all partitions, and commits its consumer offsets.
// It is on stable storage when Commit returns nil, under SyncAlways. After ctx.Err
// the outcome is unknown: call it again. When it returns nil the handle is used up.
func (t *Transaction) Commit(ctx context.Context) error { return t.end(ctx, codec.ControlCommit) }

// Abort hides everything that was appended in the transaction from readers of
// committed messages for ever; its consumer offsets are forgotten. As Commit.
func (t *Transaction) Abort(ctx context.Context) error { return t.end(ctx, codec.ControlAbort) }

func (t *Transaction) end(ctx context.Context, how codec.ControlType) error {
	if t == nil || t.db == nil {
		return ErrClosed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return fmt.Errorf("engine: %s: %w", how, &TransactionError{ID: t.id})
	}
	for _, p := range t.db.transactional.reopenedIn(t.id) {
		if !slices.Contains(t.parts, p) {
			t.parts = append(t.parts, p)
		}
	}
	b := t.db.NewBatch()
	for _, p := range t.parts {
		if _, open := p.openTransactions()[t.id]; open { // not in a topic that was deleted, nor after a cut below its start
			b.control(p, control{how, t.id})
		}
	}
	if how == codec.ControlCommit {
		for _, c := range t.offsets {
			b.CommitOffset(c.group, c.p, c.offset, c.metadata)
		}
	}
	if _, err := b.Commit(ctx); err != nil {
		return err
	}
	for _, p := range t.parts { // an end of before whose outcome nobody waited for
		if err := p.drained(ctx); err != nil && !errors.Is(err, ErrUnknownTopic) {
			return p.wrap(how.String(), err)
		}
	}
	t.ended = true
	t.db.transactional.release(t.id)
	return nil
}
