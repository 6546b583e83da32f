package engine

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cairnlog/cairn/engine/fencefs"
)

// space keeps appends from filling the disk: a store whose log cannot be written
// has failed, and one whose tables cannot be written has no way to give space back.
// Below the reserve appends are refused; what reads, and what removes, goes on.
//
// An append takes its bytes out of what was left when the file system was asked
// last, which is one atomic subtraction. The file system is asked about once a
// second, and by an append that finds nothing left: so neither a burst between two
// ticks nor a disk that others fill goes far into the reserve. It may hang in its
// answer. Then only appends that have used up what was left wait, and Close does
// not.
type space struct {
	db      *DB
	reserve int64 // 0: appends are never refused

	full  atomic.Bool
	left  atomic.Int64                  // stored bytes that may be appended before the next question
	usage atomic.Pointer[vfs.DiskUsage] // the last answer; nil unknown
	blind atomic.Bool                   // the file system does not tell

	ask chan struct{} // 1: an answer is wanted
	mu  struct {
		sync.Mutex
		answered chan struct{} // closed after the next question asked; nil if nobody waits
	}
	cancel context.CancelFunc
	ended  chan struct{}
}

const (
	// spaceFactor is what a stored byte may take on disk until its log is given
	// back: in the log, and in a table.
	spaceFactor = 2
	// spaceStep is the least that may be appended between two questions, and so how
	// far appends may reach into the reserve, beside what is in flight.
	spaceStep = 256 << 10
	// unbounded is left over where nothing is to be kept free.
	unbounded = math.MaxInt64 / 2
	// maxSlack bounds what must be free above the reserve before appends resume: an
	// eighth of it, so that they do not stop again at once.
	maxSlack = 64 << 20
)

// init prepares what Pebble's callbacks may use while the store opens.
func (s *space) init(db *DB) {
	s.db = db
	s.ask = make(chan struct{}, 1)
	s.ended = make(chan struct{})
	s.reserve = max(0, db.opts.DiskReserve)
	if s.reserve == 0 {
		s.left.Store(unbounded)
	}
}

func (s *space) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go s.run(ctx)
	s.request()
}

// stop ends the goroutine, which never waits for the file system alone.
func (s *space) stop() {
	s.cancel()
	<-s.ended
}

// request has the file system asked, soon. It never blocks.
func (s *space) request() {
	if s.blind.Load() {
		return
	}
	select {
	case s.ask <- struct{}{}:
	default:
	}
}

// admit refuses an append of n stored bytes if the disk is full.
func (s *space) admit(ctx context.Context, n int64) error {
	if s.full.Load() {
		return s.refuse(0)
	}
	if s.left.Add(-n) >= 0 {
		return nil
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	if s.full.Load() {
		return s.refuse(0)
	}
	if n > spaceStep && s.left.Load() < n {
		return s.refuse(n)
	}
	s.left.Add(-n) // a few may pass here together: Options.MaxQueuedBytes bounds them
	return nil
}

func (s *space) refuse(need int64) error {
	s.db.stats.diskFull.Add(1)
	return &DiskFullError{Free: max(0, s.free()), Reserve: s.reserve, Need: need * spaceFactor}
}

// check returns when the file system has answered a question asked after the call.
func (s *space) check(ctx context.Context) error {
	s.mu.Lock()
	if s.mu.answered == nil {
		s.mu.answered = make(chan struct{})
	}
	answered := s.mu.answered
	s.mu.Unlock()
	s.request()
	if s.blind.Load() { // found out meanwhile: request may not have asked
		return nil
	}
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.db.closed:
		return ErrClosed
	case <-s.db.failed:
		return s.db.failedErr()
	}
}

func (s *space) run(ctx context.Context) {
	defer close(s.ended)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.db.failed:
			return
		case <-s.ask:
		}
		s.mu.Lock()
		waited := s.mu.answered
		s.mu.answered = nil
		s.mu.Unlock()
		usage, err := s.measure(ctx)
		if ctx.Err() != nil || s.db.hasFailed() {
			return
		}
		s.settle(usage, err)
		if waited != nil {
			close(waited)
		}
	}
}

// measure asks the file system, which may hang, in a goroutine that nobody waits
// for. There is one at a time.
func (s *space) measure(ctx context.Context) (vfs.DiskUsage, error) {
	type answer struct {
		usage vfs.DiskUsage
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		usage, err := s.db.fence.GetDiskUsage(s.db.dir)
		answered <- answer{usage, err}
	}()
	select {
	case a := <-answered:
		return a.usage, a.err
	case <-ctx.Done():
		return vfs.DiskUsage{}, ctx.Err()
	case <-s.db.failed:
		return vfs.DiskUsage{}, s.db.failedErr()
	}
}

// settle decides by an answer. Without one things stay as they are.
func (s *space) settle(usage vfs.DiskUsage, err error) {
	switch {
	case errors.Is(err, vfs.ErrUnsupported):
		s.blind.Store(true)
		s.left.Store(unbounded)
		return
	case err != nil:
		s.db.log(slog.LevelWarn, "free space is not known", "err", err)
		if s.reserve > 0 {
			s.left.Store(max(spaceStep, s.reserve/spaceFactor/2))
		}
		return
	}
	s.usage.Store(&usage)
	if s.reserve == 0 {
		return
	}
	free := s.free()
	was, need := s.full.Load(), s.reserve
	if was {
		need += min(s.reserve/8, maxSlack)
	}
	full := free < need
	s.left.Store(max(spaceStep, (free-s.reserve)/spaceFactor))
	s.full.Store(full)
	switch {
	case full && !was:
		s.db.log(slog.LevelError, "disk full: appends are refused", "free", free, "reserve", s.reserve)
	case was && !full:
		s.db.log(slog.LevelInfo, "disk has space again: appends resume", "free", free, "reserve", s.reserve)
	}
}

// free is what was free at the last answer, -1 if there was none.
func (s *space) free() int64 {
	usage := s.usage.Load()
	if usage == nil {
		return -1
	}
	return int64(min(usage.AvailBytes, math.MaxInt64))
}

// toldFS is the file system that Pebble gets. Pebble asks for the free space with
// its locks held, at each flush and each removal of a file: it gets the last answer,
// and a file system that hangs does not hang the store.
type toldFS struct {
	*fencefs.FS
	space *space
}

// GetDiskUsage implements vfs.FS.
func (f toldFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	usage := f.space.usage.Load()
	if usage == nil {
		return vfs.DiskUsage{}, vfs.ErrUnsupported
	}
	return *usage, nil
}

// Unwrap implements vfs.FS.
func (f toldFS) Unwrap() vfs.FS { return f.FS }
