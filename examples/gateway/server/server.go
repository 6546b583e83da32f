package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/examples/gateway/coordinator"
)

// ErrClosed is returned by Serve after Shutdown.
var ErrClosed = errors.New("server is closed")

// Server serves a store to Kafka clients. The store stays the caller's: open it
// before, and close it after Shutdown.
type Server struct {
	db     *engine.DB
	opts   Options
	log    *slog.Logger
	apis   map[int16]api
	groups *coordinator.Coordinator

	// stopping is done when Shutdown begins: what waits for messages answers with
	// what it has.
	stopping context.Context
	stop     context.CancelFunc

	stats counters
	mu    struct {
		sync.Mutex
		listeners map[net.Listener]struct{}
		conns     map[*conn]struct{}
		refused   int       // connections beyond the limit that were not logged
		logged    time.Time // when one was
	}
	partitions partitionCount
	done       sync.WaitGroup // the connections
}

// New returns a Server of the store. The error joins every bad setting.
func New(db *engine.DB, o Options) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Server{db: db, opts: o.withDefaults()}
	s.log = s.opts.Logger
	s.apis = s.table()
	s.partitions.init(db)
	s.groups = coordinator.New(s.opts.Groups)
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.mu.listeners = make(map[net.Listener]struct{})
	s.mu.conns = make(map[*conn]struct{})
	return s, nil
}

// Serve accepts connections until Shutdown, and then returns ErrClosed. It closes
// the listener. It may be called for several listeners.
func (s *Server) Serve(l net.Listener) error {
	defer func() { _ = l.Close() }() // error ignored: nothing is lost with a listener
	if !s.track(l) {
		return ErrClosed
	}
	defer s.forget(l)
	pause := time.Duration(0)
	for {
		nc, err := l.Accept()
		switch {
		case s.stopping.Err() != nil:
			if err == nil {
				_ = nc.Close() // error ignored: never used
			}
			return ErrClosed
		case err == nil:
			pause = 0
			s.start(nc)
			continue
		case errors.Is(err, net.ErrClosed):
			return err
		}
		// No file descriptors, as a rule. Wait for some to be closed.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		s.log.Warn("accept", "err", err, "retry", pause)
		select {
		case <-time.After(pause):
		case <-s.stopping.Done():
		}
	}
}

func (s *Server) track(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Err() != nil {
		return false
	}
	s.mu.listeners[l] = struct{}{}
	return true
}

func (s *Server) forget(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.listeners, l)
}

// start serves a new connection in a goroutine of its own, or closes it if there
// are too many.
func (s *Server) start(nc net.Conn) {
	c := s.newConn(nc)
	s.mu.Lock()
	ok := len(s.mu.conns) < s.opts.MaxConnections && s.stopping.Err() == nil
	if ok {
		s.mu.conns[c] = struct{}{}
		s.done.Add(1)
	} else {
		s.refuseLocked(nc)
	}
	s.mu.Unlock()
	if !ok {
		_ = nc.Close() // error ignored: never used
		return
	}
	s.stats.accepted.Add(1)
	go func() {
		defer s.done.Done()
		c.serve()
		s.mu.Lock()
		delete(s.mu.conns, c)
		s.mu.Unlock()
	}()
}

// refuseLocked logs connections beyond the limit, at most one line a second.
func (s *Server) refuseLocked(nc net.Conn) {
	s.mu.refused++
	s.stats.refused.Add(1)
	if now := time.Now(); now.Sub(s.mu.logged) >= time.Second {
		s.log.Warn("too many connections", "limit", s.opts.MaxConnections, "refused", s.mu.refused, "remote", nc.RemoteAddr().String())
		s.mu.refused, s.mu.logged = 0, now
	}
}

// Shutdown stops the server: it takes no more requests, answers those it has, and
// returns when all connections are closed. If ctx ends first, it cuts off those that
// are left and returns ctx.Err(): what they had asked for may have happened or not,
// and they know no better. Everything acknowledged is in the store either way.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stop()
	for l := range s.mu.listeners {
		_ = l.Close() // error ignored: nothing is lost with a listener
	}
	for c := range s.mu.conns {
		c.interrupt()
	}
	s.mu.Unlock()

	idle := make(chan struct{})
	go func() {
		s.done.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for c := range s.mu.conns {
		_ = c.nc.Close() // error ignored: it is being cut off
	}
	s.mu.Unlock()
	<-idle
	return ctx.Err()
}
