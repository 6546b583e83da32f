package engine

import (
	"context"
	"log/slog"
	"sync"
)

// events carries what happened to Options.Logger. Things happen under the store's
// locks and under Pebble's, where no code of the user's may run: a handler may be
// slow, or call the store. So an event is queued, and one goroutine hands them on,
// in order and with no lock held.
type events struct {
	logger *slog.Logger // nil: nobody listens, nothing is queued

	mu struct {
		sync.Mutex
		queue    []event
		dropped  int
		stopping bool
	}
	wake  chan struct{} // 1: the queue is not empty, or stopping
	ended chan struct{}
}

type event struct {
	level slog.Level
	msg   string
	args  []any
}

// maxEvents bounds the events that wait for a slow handler. More are counted.
const maxEvents = 1024

func (e *events) start(logger *slog.Logger) {
	if logger == nil {
		return
	}
	e.logger = logger
	e.wake = make(chan struct{}, 1)
	e.ended = make(chan struct{})
	go e.run()
}

// stop returns when everything so far was handed on; what comes later is lost.
func (e *events) stop() {
	if e.logger == nil {
		return
	}
	e.mu.Lock()
	e.mu.stopping = true
	e.mu.Unlock()
	e.signal()
	<-e.ended
}

func (e *events) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// log queues an event for Options.Logger. It may be called with any lock held; args
// must not change afterwards.
func (db *DB) log(level slog.Level, msg string, args ...any) {
	e := &db.events
	if e.logger == nil {
		return
	}
	e.mu.Lock()
	switch {
	case e.mu.stopping:
	case len(e.mu.queue) < maxEvents:
		e.mu.queue = append(e.mu.queue, event{level, msg, args})
	default:
		e.mu.dropped++
	}
	e.mu.Unlock()
	e.signal()
}

func (e *events) run() {
	defer close(e.ended)
	for range e.wake {
		e.mu.Lock()
		queue, dropped, stopping := e.mu.queue, e.mu.dropped, e.mu.stopping
		e.mu.queue, e.mu.dropped = nil, 0
		e.mu.Unlock()
		for _, ev := range queue {
			e.logger.Log(context.Background(), ev.level, ev.msg, ev.args...)
		}
		if dropped > 0 {
			e.logger.Warn("events dropped: the log handler is too slow", "events", dropped)
		}
		if stopping {
			return
		}
	}
}
