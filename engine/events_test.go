package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// recorder is a log handler that keeps what it gets, and calls on each if that is
// set.
type recorder struct {
	mu    sync.Mutex
	lines []string
	each  func(msg string)
}

func (r *recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r *recorder) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *recorder) WithGroup(string) slog.Handler            { return r }

func (r *recorder) Handle(_ context.Context, rec slog.Record) error {
	line := rec.Message
	rec.Attrs(func(a slog.Attr) bool { line += fmt.Sprintf(" %s=%v", a.Key, a.Value); return true })
	r.mu.Lock()
	r.lines = append(r.lines, line)
	each := r.each
	r.mu.Unlock()
	if each != nil {
		each(rec.Message)
	}
	return nil
}

func (r *recorder) set(each func(msg string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.each = each
}

// about returns the recorded events of a name.
func (r *recorder) about(msg string) (lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines {
		if strings.HasPrefix(line, msg) {
			lines = append(lines, line)
		}
	}
	return lines
}

// What a service sees in its log: each event with what it is about, in order.
func TestEventsTellWhatHappens(t *testing.T) {
	var r recorder
	fs := newSpaceFS(1 << 40)
	s := newStoreWith(t, engine.Options{Logger: slog.New(&r), FS: fs, DiskReserve: reserve})
	p := s.log(engine.TopicConfig{SegmentBytes: 300, SegmentAge: ms(1000), Retention: maxAge(5000)})
	leadEach(t, p, t0, t0, t0, t0)
	require.NoError(t, p.Roll(t.Context()))
	lead(t, p, t0)
	s.clock.add(2000)
	s.maintain()
	lead(t, p, t0+2000)
	s.clock.add(hour)
	s.maintain()

	q := s.named("compacted", engine.TopicConfig{SegmentBytes: 200, CleanupPolicy: engine.CleanupCompact})
	now := s.clock.read()
	leadEach(t, q, now, now, now)
	_, err := q.Compact(t.Context(), engine.CompactOptions{})
	require.NoError(t, err)
	fs.free.Store(0)
	s.CheckSpace(t)
	fs.free.Store(1 << 40)
	s.CheckSpace(t)
	require.NoError(t, s.Close())

	require.Equal(t, []string{
		"roll partition=t/0 base=3 reason=size",
		"roll partition=t/0 base=4 reason=request",
		"roll partition=t/0 base=5 reason=idle",
		"roll partition=t/0 base=6 reason=retention",
	}, r.about("roll partition=t/0"))
	require.Equal(t, []string{
		"retention partition=t/0 segments=4 by_time=4 by_size=0 by_log_start=0 messages=6 bytes=600 start=6",
	}, r.about("retention"))
	require.Equal(t, []string{"compaction partition=compacted/0 dropped=1 bytes=100 clean=2 overtaken=false"}, r.about("compaction"))
	require.Equal(t, []string{"disk full: appends are refused free=0 reserve=67108864"}, r.about("disk full"))
	require.Equal(t, []string{"disk has space again: appends resume free=1099511627776 reserve=67108864"}, r.about("disk has"))
	require.Equal(t, "store opened dir=store topics=0", r.lines[0])
	require.Equal(t, "store closed dir=store", r.lines[len(r.lines)-1], "Close waits for what is on its way")

	s.open()
	s.Fail(errors.New("broken disk"))
	require.NoError(t, s.Close())
	require.Equal(t, []string{"store failed: no further write is accepted err=broken disk"}, r.about("store failed"))
	s.opts.Logger = nil
	s.open()
}

// No user code runs under a lock: a handler may use the store, the very partition
// that it hears of, whatever it hears.
func TestLogHandlerMayUseTheStore(t *testing.T) {
	var r recorder
	fs := newSpaceFS(1 << 40)
	s := newStoreWith(t, engine.Options{Logger: slog.New(&r), FS: fs, DiskReserve: reserve})
	p := s.log(engine.TopicConfig{SegmentBytes: 500, Retention: maxAge(5000)})
	q := s.named("compacted", engine.TopicConfig{SegmentBytes: 200, CleanupPolicy: engine.CleanupCompact})
	now := s.clock.read()
	leadEach(t, q, now, now, now)
	used := make(map[string]bool) // of the handler's goroutine until Close
	r.set(func(msg string) {
		s.Metrics()
		_, err := s.Maintenance()
		_, appendErr := p.Append(context.Background(), codec.Message{Value: []byte("from the handler")})
		_, settled := p.Offsets()
		_, topic := s.EnsureTopic("logged", engine.TopicConfig{})
		if err := errors.Join(err, settled, topic); err != nil && !errors.Is(err, engine.ErrClosed) && !errors.Is(err, engine.ErrFailed) {
			t.Error(msg, err)
		}
		used[msg] = appendErr == nil
	})
	lead(t, p, t0, t0, t0)
	lead(t, p, t0, t0, t0)
	require.NoError(t, p.Roll(t.Context()))
	s.clock.add(hour)
	s.maintain()
	_, err := q.Compact(t.Context(), engine.CompactOptions{})
	require.NoError(t, err)
	fs.free.Store(0)
	s.CheckSpace(t)
	s.Fail(errors.New("broken disk"))
	require.NoError(t, s.Close())
	for _, msg := range []string{"roll", "retention", "compaction", "disk full: appends are refused",
		"store failed: no further write is accepted", "store closed"} {
		require.Contains(t, used, msg)
	}
	require.False(t, used["store closed"])
	s.opts.Logger = nil
	fs.free.Store(1 << 40)
	s.open()
}

// A handler that takes its time holds up no append and grows no memory: what it
// cannot take is dropped, and it is told how many.
func TestSlowLogHandlerHoldsUpNobody(t *testing.T) {
	var r recorder
	s := newStoreWith(t, engine.Options{Logger: slog.New(&r)})
	p := s.log(engine.TopicConfig{SegmentBytes: 100})
	busy, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r.set(func(msg string) {
		if msg == "roll" {
			once.Do(func() { close(busy) })
			<-release
		}
	})
	leadEach(t, p, t0, t0)
	<-busy
	const more = engine.MaxEvents + 100
	for range more {
		lead(t, p, t0)
	}
	close(release)
	require.NoError(t, s.Close())
	require.Equal(t, []string{"events dropped: the log handler is too slow events=100"}, r.about("events dropped"))
	require.Len(t, r.about("roll"), 1+engine.MaxEvents)
	s.opts.Logger = nil
	s.open()
}

// An Open that fails hands on what it has to say first.
func TestFailedOpenHandsItsEventsOn(t *testing.T) {
	var r recorder
	s := newStore(t)
	_, err := engine.Open(s.dir, engine.Options{FS: s.opts.FS, Logger: slog.New(&r)})
	require.ErrorIs(t, err, engine.ErrLocked)
	require.Empty(t, r.about("store opened"))
}
