package engine

import (
	"sync"
	"sync/atomic"
)

// Watch is a place in a log that a Watcher watches.
type Watch struct {
	w *Watcher
	p *Partition

	// The fields below belong to watches().mu.
	offset     int64
	cuts       uint64 // of the partition, that the watch knows
	state      watchState
	prev, next *Watch // in the partition's list while armed
}

// watchState says who has a watch.
type watchState uint8

const (
	watchHeld    watchState = iota // the caller: Wait has returned it
	watchArmed                     // the partition: nothing to read
	watchReady                     // the Watcher: there is
	watchStopped                   // nobody
)

// watches are the armed watches of a partition. Only those are looked at when
// something becomes readable, and none costs one atomic load.
type watches struct {
	armed atomic.Int64
	mu    sync.Mutex
	first *Watch
}

// watches returns those of the watch's partition.
func (x *Watch) watches() *watches { return &x.p.waitersOrNew().watches }

// Partition returns what is watched.
func (x *Watch) Partition() *Partition {
	if x == nil {
		return nil
	}
	return x.p
}

// Advance says that the caller goes on at offset and has the watch wait for
// messages from there on. It may move to any offset; the watch of one beyond the
// log's end is ready when the log gets there.
func (x *Watch) Advance(offset int64) {
	if x == nil || x.p == nil {
		return
	}
	ws := x.watches()
	ws.mu.Lock()
	ready := x.rearm(offset)
	ws.mu.Unlock()
	if ready {
		x.w.push(x)
	}
}

// rearm puts the watch into its partition's list, unless it is ready at once.
// watches().mu is held.
func (x *Watch) rearm(offset int64) (ready bool) {
	ws := x.watches()
	if x.state == watchStopped {
		return false
	}
	was := x.state
	x.offset = offset
	if was != watchArmed {
		ws.link(x)
	}
	if !x.due() { // after linking: who publishes now sees it
		x.state = watchArmed
		return false
	}
	ws.unlink(x)
	x.state = watchReady
	return was != watchReady // else it is in the Watcher's list
}

// due reports whether there is something to say about the watch.
func (x *Watch) due() bool {
	p := x.p
	return p.readable.Load() > x.offset || p.cuts.Load() != x.cuts || p.topic.dropped.Load()
}

// Stop ends the watch: Wait does not return it any more. A second Stop does
// nothing.
func (x *Watch) Stop() {
	if x == nil || x.p == nil {
		return
	}
	ws := x.watches()
	ws.mu.Lock()
	if x.state == watchArmed {
		ws.unlink(x)
	}
	x.state = watchStopped
	ws.mu.Unlock()
	x.w.mu.Lock()
	delete(x.w.mu.all, x)
	x.w.mu.Unlock()
}

// deliver makes a watch taken from the ready list the caller's. ok is false if it
// has nothing to say after all.
func (x *Watch) deliver() (r Ready, ok bool) {
	p := x.p
	ws := x.watches()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if x.state != watchReady {
		return r, false
	}
	x.state = watchHeld
	r = Ready{Watch: x, Offset: x.offset}
	if p.topic.dropped.Load() {
		r.Err = ErrUnknownTopic
	} else if cuts := p.cuts.Load(); cuts != x.cuts {
		if p.cutBelow(x.offset, x.cuts) {
			r.Err = p.outOfRange(x.offset)
		} else if x.cuts = cuts; !x.rearm(x.offset) { // a cut after it counts next time
			return r, false
		}
		x.state = watchHeld
	}
	if r.Err != nil {
		x.state = watchStopped
	}
	r.HighWatermark = p.readable.Load()
	return r, true
}

// wake hands the watches that are due to their Watchers. It is called after what
// they wait for has changed.
func (ws *watches) wake(p *Partition) {
	if ws.armed.Load() == 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for x := ws.first; x != nil; {
		next := x.next
		if x.due() {
			ws.unlink(x)
			x.state = watchReady
			x.w.push(x)
		}
		x = next
	}
}

func (ws *watches) link(x *Watch) {
	x.prev, x.next = nil, ws.first
	if ws.first != nil {
		ws.first.prev = x
	}
	ws.first = x
	ws.armed.Add(1)
}

func (ws *watches) unlink(x *Watch) {
	if x.prev != nil {
		x.prev.next = x.next
	} else {
		ws.first = x.next
	}
	if x.next != nil {
		x.next.prev = x.prev
	}
	x.prev, x.next = nil, nil
	ws.armed.Add(-1)
}
