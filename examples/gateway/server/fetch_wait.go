package server

import (
	"context"
	"time"

	"github.com/cairnlog/cairn/engine"
)

// millis is a duration of the protocol; a negative one is none.
func millis(ms int32) time.Duration { return max(0, time.Duration(ms)*time.Millisecond) }

// wait reads on as messages are appended, until there are enough, for at most d. It
// does not poll: an append wakes the Watcher. What it has when the time is over, or
// the server is shut down, is the answer.
func (f *fetch) wait(d time.Duration) {
	ctx, cancel := context.WithTimeout(f.c.server.stopping, d)
	defer cancel()
	w := f.c.server.db.NewWatcher()
	defer w.Close()
	parts := make(map[*engine.Watch]*fetchPart, len(f.parts))
	for i := range f.parts {
		part := &f.parts[i]
		if part.full {
			continue
		}
		watch, err := w.Add(part.p, part.next)
		if err != nil {
			f.fail(part, err)
			return
		}
		parts[watch] = part
	}
	for !f.enough() {
		ready, err := w.Wait(ctx)
		if err != nil {
			f.readRest() // the time is over: what came with its end belongs to the answer
			return
		}
		for _, r := range ready {
			f.wake(parts[r.Watch], r)
		}
	}
}

// readRest reads what may be there of partitions that are not full.
func (f *fetch) readRest() {
	for i := range f.parts {
		if part := &f.parts[i]; !part.full {
			f.read(part)
		}
	}
}

// wake reads a partition of which the Watcher says that it has more, or has ended.
func (f *fetch) wake(part *fetchPart, r engine.Ready) {
	if r.Err != nil {
		f.fail(part, r.Err)
		return
	}
	if !f.enough() {
		f.read(part)
	}
	if part.full {
		r.Stop()
		return
	}
	r.Advance(part.next)
}
