package engine

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

// view is the rows of the store as they were at one instant, between two atomic
// batches: whatever holds after every batch holds in it. DB.Close may take it away.
//
// While a view is open, Pebble keeps what is deleted or replaced.
type view struct {
	db   *DB
	mu   sync.Mutex
	snap *pebble.Snapshot // nil once closed
}

// newView returns a view of what Pebble has now. Close it.
func (db *DB) newView() (*view, error) {
	db.life.RLock()
	defer db.life.RUnlock()
	if db.isClosed() {
		return nil, ErrClosed
	}
	v := &view{db: db, snap: db.pdb.NewSnapshot()}
	db.iters.mu.Lock()
	defer db.iters.mu.Unlock()
	if db.iters.views == nil {
		db.iters.views = make(map[*view]struct{})
	}
	db.iters.views[v] = struct{}{}
	return v, nil
}

func (v *view) close() {
	v.detach()
	v.db.iters.mu.Lock()
	defer v.db.iters.mu.Unlock()
	delete(v.db.iters.views, v)
}

func (v *view) detach() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.snap != nil {
		_ = v.snap.Close() // only read from
		v.snap = nil
	}
}

func (v *view) newIter(r keys.Range) (*iterator, error) {
	v.db.life.RLock()
	defer v.db.life.RUnlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.snap == nil || v.db.isClosed() {
		return nil, ErrClosed
	}
	return v.db.newIterOf(v.snap, r.Start, r.End)
}

// get returns a copy of the value of key, nil if there is none.
func (v *view) get(key []byte) ([]byte, error) {
	v.db.life.RLock()
	defer v.db.life.RUnlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.snap == nil || v.db.isClosed() {
		return nil, ErrClosed
	}
	value, closer, err := v.snap.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return append([]byte{}, value...), closer.Close()
}

// rowScan steps through the rows of a range of a view, through iterators that are
// replaced now and then, as those of entryScan are. Close it.
type rowScan struct {
	v     *view
	r     keys.Range // what is still to be visited
	it    *iterator  // nil: to be made
	bytes int64
	steps int
	since codec.Timestamp
	// key and value of the current row, valid until the next step.
	key, value []byte
	seek       bool // the next step is a seek to r.Start
}

func (v *view) scan(r keys.Range) *rowScan { return &rowScan{v: v, r: r} }

// next moves to the next row; false with a nil error is the end.
func (s *rowScan) next(ctx context.Context) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if bytes.Compare(s.r.Start, s.r.End) >= 0 {
		return false, nil
	}
	if s.it != nil && (s.bytes > maxIterBytes || s.steps%ageCheck == 0 && s.v.db.now()-s.since > maxIterAge) {
		if !s.seek {
			s.r.Start = append(slices.Clone(s.key), 0)
		}
		s.close()
	}
	step, key := next, []byte(nil)
	if s.it == nil {
		it, err := s.v.newIter(s.r)
		if err != nil {
			return false, err
		}
		s.it, s.bytes, s.since, s.seek = it, 0, s.v.db.now(), true
	}
	if s.seek {
		step, key, s.seek = seekGE, s.r.Start, false
	}
	ok, err := s.it.move(step, key)
	if err != nil || !ok {
		return false, err
	}
	s.key, s.value = s.it.key, s.it.value
	s.bytes += int64(len(s.value))
	s.steps++
	return true, nil
}

// skip makes next go on at key, which lies behind the current row.
func (s *rowScan) skip(key []byte) { s.r.Start, s.seek = key, true }

func (s *rowScan) close() {
	if s.it != nil {
		s.it.close()
		s.it = nil
	}
}
