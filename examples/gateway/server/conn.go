package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// conn is a client's connection. Everything in it belongs to its goroutine, but for
// nc, which Shutdown may interrupt and close.
type conn struct {
	server *Server
	nc     net.Conn
	in     *bufio.Reader
	log    *slog.Logger
	turn   int // counts fetches: see fetch.read
	// refusals counts errors in the answer to one request; a Produce counts from several
	// goroutines.
	refusals atomic.Int64
	// sets are those of a Fetch response, one for each partition: see splice. They are
	// buffers of the pool.
	sets [][]byte
	// tails are what follows each set, for followers: see splice.
	tails [][]byte
}

// errHangUp ends a connection without an answer where the protocol wants it so. Its
// reason is in what wraps it.
var errHangUp = errors.New("hang up")

// errIdle ends a connection that has been silent for Options.IdleTimeout.
var errIdle = errors.New("idle")

func (s *Server) newConn(nc net.Conn) *conn {
	return &conn{server: s, nc: nc, in: bufio.NewReaderSize(nc, 4<<10), log: s.log.With("remote", nc.RemoteAddr().String())}
}

// interrupt ends the wait for a request, at once and for all that follow.
func (c *conn) interrupt() { _ = c.nc.SetReadDeadline(time.Unix(1, 0)) } // error ignored: then it is closed

// serve answers requests until the client leaves, does what it may not, or the
// server is shut down.
func (c *conn) serve() {
	c.log.Debug("connected")
	err := c.loop()
	_ = c.nc.Close() // error ignored: all that was to be written has been
	if c.server.stopping.Err() != nil || usual(err) {
		c.log.Debug("disconnected", "reason", err)
		return
	}
	c.log.Warn("connection closed", "err", err)
}

// usual reports whether a connection has ended as connections do: the client has closed
// it, maybe with an answer on its way, or has been silent for long.
func usual(err error) bool {
	for _, end := range []error{io.EOF, errIdle, syscall.EPIPE, syscall.ECONNRESET} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

func (c *conn) loop() error {
	for c.server.stopping.Err() == nil {
		if err := c.next(); err != nil {
			return err
		}
	}
	return net.ErrClosed
}

// next answers one request.
func (c *conn) next() error {
	frame, err := c.readRequest()
	if err != nil {
		return err
	}
	defer putBuffer(frame)
	stats := &c.server.stats
	stats.requests.Add(1)
	stats.requestBytes.Add(uint64(4 + len(frame)))
	r, err := c.server.decode(frame)
	if err != nil {
		return err
	}
	out := getBuffer(0)
	defer func() { putBuffer(out) }()
	defer c.release()
	resp, err := r.handle(c, r.body)
	if n := c.refusals.Swap(0); n > maxLogged {
		c.log.Info("refused more", "request", kmsg.NameForKey(r.body.Key()), "errors", n)
	}
	if err != nil {
		return fmt.Errorf("%s v%d: %w", kmsg.NameForKey(r.body.Key()), r.body.GetVersion(), err)
	}
	if resp == nil {
		return nil // acks=0: there is none
	}
	out = appendResponse(out, r.correlation, resp)
	pieces := net.Buffers{out}
	if fetched, ok := resp.(*kmsg.FetchResponse); ok {
		pieces = splice(out, fetched, c.sets, c.tails)
	}
	return c.write(pieces)
}

// release gives back what the response was made of.
func (c *conn) release() {
	for i, b := range c.sets {
		putBuffer(b)
		c.sets[i] = nil
	}
	c.sets, c.tails = c.sets[:0], c.tails[:0]
}

func (c *conn) write(pieces net.Buffers) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(c.server.opts.TransferTimeout)); err != nil {
		return err
	}
	n, err := pieces.WriteTo(c.nc)
	c.server.stats.responseBytes.Add(uint64(n))
	if err != nil {
		return fmt.Errorf("write response: %w", err)
	}
	return nil
}

// readRequest returns the bytes of a request without its length. They are a buffer
// of the pool.
func (c *conn) readRequest() ([]byte, error) {
	o := &c.server.opts
	if err := c.deadline(o.IdleTimeout); err != nil {
		return nil, err
	}
	head, err := c.in.Peek(requestHead)
	if err != nil {
		switch {
		case len(head) > 0:
			err = noEOF(err)
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = errIdle
		}
		return nil, err
	}
	size, err := c.server.checkHead(head)
	if err != nil {
		return nil, err
	}
	if err := c.deadline(o.TransferTimeout); err != nil {
		return nil, err
	}
	if _, err := c.in.Discard(4); err != nil {
		return nil, err
	}
	return readGrowing(c.in, size)
}

// deadline bounds the reads that follow, unless the server has been shut down.
func (c *conn) deadline(d time.Duration) error {
	if err := c.nc.SetReadDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	if c.server.stopping.Err() != nil {
		c.interrupt() // Shutdown did so too, but maybe before the line above
	}
	return nil
}

// context is that of a request's work in the store. A durable write is not given up
// half way, so it does not end with the server: Shutdown waits for it.
func (c *conn) context() context.Context { return context.Background() }
