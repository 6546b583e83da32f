package bench_test

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
)

// plainLog is one append-only file: each set one record with a length and a
// checksum, the records of all who wait written by one write and, where durable,
// one fdatasync. It can do nothing else and so shows what the disk allows.
type plainLog struct {
	file    *os.File
	durable bool

	mu      sync.Mutex
	pending *plainGroup
	wake    chan struct{} // 1
	ended   chan struct{}
}

// plainGroup is what one write takes to the disk.
type plainGroup struct {
	bytes []byte
	done  chan struct{} // closed when it is where it must be
	err   error
	last  bool
}

// maxPlainBuffer bounds what writers that do not wait may queue.
const maxPlainBuffer = 1 << 20

func newPlainGroup() *plainGroup { return &plainGroup{done: make(chan struct{})} }

func openPlain(tb testing.TB, dir string, durable bool) *plainLog {
	tb.Helper()
	require.NoError(tb, os.MkdirAll(dir, 0o755))
	f, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(tb, err)
	l := &plainLog{file: f, durable: durable, pending: newPlainGroup(), wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go l.run()
	return l
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// begin queues a set; the group it is in is done when the set is.
func (l *plainLog) begin(msgs []codec.Message) *plainGroup {
	l.mu.Lock()
	g := l.pending
	b := g.bytes
	at := len(b)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	for i := range msgs {
		b = binary.AppendUvarint(b, uint64(len(msgs[i].Value)))
		b = append(b, msgs[i].Value...)
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-8))
	binary.BigEndian.PutUint32(b[at+4:], crc32.Checksum(b[at+8:], castagnoli))
	g.bytes = b
	l.mu.Unlock()
	l.signal()
	return g
}

func (l *plainLog) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// append returns when the set is on the disk, or queued where not durable.
func (l *plainLog) append(_ int, msgs []codec.Message) error {
	g := l.begin(msgs)
	if !l.durable && len(g.bytes) < maxPlainBuffer {
		return nil
	}
	<-g.done
	return g.err
}

func (l *plainLog) run() {
	defer close(l.ended)
	var spare []byte
	for range l.wake {
		next := newPlainGroup()
		next.bytes = spare[:0]
		l.mu.Lock()
		g := l.pending
		l.pending = next
		l.mu.Unlock()
		if len(g.bytes) > 0 {
			_, g.err = l.file.Write(g.bytes)
		}
		if g.err == nil && l.durable {
			g.err = datasync(l.file)
		}
		spare = g.bytes
		close(g.done)
		if g.last {
			return
		}
	}
}

// drain returns when all that was queued has been written.
func (l *plainLog) drain() error {
	g := l.begin(nil)
	<-g.done
	return g.err
}

func (l *plainLog) close(tb testing.TB) {
	l.mu.Lock()
	l.pending.last = true
	l.mu.Unlock()
	l.signal()
	<-l.ended
	require.NoError(tb, l.file.Close())
}
