package engine

import (
	"errors"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/codec"
)

// iterator is a Pebble iterator that Close can take away at any time. What it
// stands on is copied out, so the bytes stay valid after that.
type iterator struct {
	set *iterSet
	mu  sync.Mutex
	it  *pebble.Iterator // nil once closed
	// key and value of the current position, valid until the next move or close:
	// then others use the buffers.
	key, value []byte
	buffers    *iterBuffers
	// headers leaves the payloads of wrappers behind; size is that of the whole value.
	headers bool
	size    int
}

// iterBuffers are what an iterator copies into. A point read would otherwise
// allocate an entry's 16 KiB.
type iterBuffers struct{ key, value []byte }

var iterBufferPool = sync.Pool{New: func() any { return new(iterBuffers) }}

// maxKeptValue bounds the buffers that go back to the pool.
const maxKeptValue = 1 << 20

// iterSet knows the open iterators: Pebble panics when it is closed under one.
type iterSet struct {
	mu    sync.Mutex
	open  map[*iterator]struct{}
	views map[*view]struct{} // the same of snapshots
}

// move is a step of an iterator.
type move uint8

const (
	seekGE move = iota
	seekLT
	next
	last
)

// newIter returns an iterator over [lower, upper).
func (db *DB) newIter(lower, upper []byte) (*iterator, error) {
	db.life.RLock()
	defer db.life.RUnlock()
	if db.isClosed() {
		return nil, ErrClosed
	}
	return db.newIterOf(db.pdb, lower, upper)
}

// newIterOf is newIter over the store or a snapshot of it. db.life is held.
func (db *DB) newIterOf(r pebble.Reader, lower, upper []byte) (*iterator, error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, err
	}
	i := &iterator{set: &db.iters, it: it, buffers: iterBufferPool.Get().(*iterBuffers)}
	i.key, i.value = i.buffers.key[:0], i.buffers.value[:0]
	db.iters.mu.Lock()
	if db.iters.open == nil {
		db.iters.open = make(map[*iterator]struct{})
	}
	db.iters.open[i] = struct{}{}
	db.iters.mu.Unlock()
	return i, nil
}

// move steps the iterator and copies what it then stands on; false with a nil
// error is the end.
func (i *iterator) move(m move, key []byte) (bool, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.it == nil {
		return false, ErrClosed
	}
	var ok bool
	switch m {
	case seekGE:
		ok = i.it.SeekGE(key)
	case seekLT:
		ok = i.it.SeekLT(key)
	case next:
		ok = i.it.Next()
	case last:
		ok = i.it.Last()
	}
	if !ok {
		return false, damagedBlock(i.it.Error())
	}
	value, err := i.it.ValueAndErr()
	if err != nil {
		return false, damagedBlock(err)
	}
	i.key = append(i.key[:0], i.it.Key()...)
	if i.size = len(value); i.headers {
		value = value[:codec.HeaderSize(value)]
	}
	i.value = append(i.value[:0], value...)
	return true, nil
}

// damagedBlock makes a CorruptionError of Pebble's. Who knows of which partition it is
// says so with readError.
func damagedBlock(err error) error {
	if err != nil && pebble.IsCorruptionError(err) {
		return &CorruptionError{Offset: -1, Err: err}
	}
	return err
}

// close releases the iterator. It has no error to give on a read path: what
// went wrong was returned by move.
func (i *iterator) close() {
	i.detach() // first: closeAll must find what is still open
	i.set.mu.Lock()
	delete(i.set.open, i)
	i.set.mu.Unlock()
	if i.buffers != nil && cap(i.value) <= maxKeptValue {
		i.buffers.key, i.buffers.value = i.key, i.value
		iterBufferPool.Put(i.buffers)
	}
	i.buffers, i.key, i.value = nil, nil, nil
}

func (i *iterator) detach() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.it != nil {
		_ = i.it.Close()
		i.it = nil
	}
}

// closeAll detaches every open iterator and closes every view; their next use returns
// ErrClosed.
func (s *iterSet) closeAll() {
	s.mu.Lock()
	open, views := s.open, s.views
	s.open, s.views = nil, nil
	s.mu.Unlock()
	for i := range open {
		i.detach()
	}
	for v := range views {
		v.detach()
	}
}

// get returns a copy of the value of key, nil if there is none.
func (db *DB) get(key []byte) ([]byte, error) {
	db.life.RLock()
	defer db.life.RUnlock()
	if db.isClosed() {
		return nil, ErrClosed
	}
	return db.getOpen(key)
}

// getOpen is get for a store that is opening or closing.
func (db *DB) getOpen(key []byte) ([]byte, error) {
	value, closer, err := db.pdb.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, damagedBlock(err)
	}
	return append([]byte{}, value...), closer.Close()
}
