package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cairnlog/cairn/codec"
)

// Pebble's own checkpoint is not a point in time while there are writes, and one in
// ten copies then does not open. So the committer stands still while it is made: what
// it holds is a prefix of the queue. Before that the log is flushed, so that there is
// little of it to copy and the pause is short; the tables are linked. The copy is
// made inside of the store's directory, where links always work, and then brought to
// its place, opened for reading and checked, while the store goes on.

// checkpointStage is where Pebble makes the copy. One that a crash left is removed by
// the next Open.
const checkpointStage = "CHECKPOINT.tmp"

// checkpointSuffix, and a number of its own, is what a copy is called beside its place
// until it is whole. What a crash leaves under such a name nobody removes: it cannot be
// told from somebody else's.
const checkpointSuffix = ".incomplete"

// Checkpoint makes a copy of the store in dir, which must not exist, while appends go
// on: a store of its own, that Open opens at once and that shares nothing with this
// one but files that neither of them changes (hard links, where dir is on the same
// file system; elsewhere they are copied). It holds everything appended before the
// call, and of what is appended meanwhile a prefix, batches as a whole. It is on
// stable storage and was opened and checked when Checkpoint returns nil; after an
// error there is nothing at dir. Appends pause while it is made, for milliseconds.
//
// As long as the copy exists it holds the disk space of files that both share. One
// checkpoint is made at a time; another waits, with its context.
//
// Errors: fs.ErrExist if there is something at dir, codec.CodeInvalidRequest (42) for
// a dir inside of the store, an error of the file system of dir, which leaves the store
// as it is, ErrReadOnly, ErrFailed, ErrClosed, ctx.Err().
func (db *DB) Checkpoint(ctx context.Context, dir string) error {
	if err := db.checkpoint(ctx, dir); err != nil {
		return fmt.Errorf("engine: checkpoint to %s: %w", dir, err)
	}
	return nil
}

func (db *DB) checkpoint(ctx context.Context, dir string) error {
	if err := db.writable(); err != nil {
		return err
	}
	dir, err := db.checkpointPlace(dir)
	if err != nil {
		return err
	}
	select {
	case db.checkpointing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-db.closed:
		return ErrClosed
	case <-db.failed:
		return db.failedErr()
	}
	started := db.opts.Now()
	done := make(chan error, 1)
	c := &checkpoint{db: db, ctx: ctx, fs: db.opts.FS, dir: dir, temp: fmt.Sprintf("%s%s-%016x", dir, checkpointSuffix, rand.Uint64())}
	go func() { // any of its calls may be parked behind the fence
		err := c.make()
		<-db.checkpointing
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			db.log(slog.LevelInfo, "checkpoint made", "dir", dir, "took", db.opts.Now().Sub(started), "pause", c.pause)
		}
		return err
	case <-db.failed:
		return db.failedErr()
	}
}

// checkpointPlace returns the one name of dir, which must not exist.
func (db *DB) checkpointPlace(dir string) (string, error) {
	raw := db.opts.FS
	if dir == "" {
		return "", codec.Errorf(codec.CodeInvalidRequest, "no directory")
	}
	if _, err := raw.Stat(dir); err == nil {
		return "", fmt.Errorf("%s: %w", dir, os.ErrExist)
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if raw == vfs.Default {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		dir = abs
	}
	if err := db.outside(dir); err != nil {
		return "", err
	}
	if err := makeDir(raw, raw.PathDir(dir)); err != nil {
		return "", err
	}
	if raw == vfs.Default { // a link may lead into the store
		parent, err := filepath.EvalSymlinks(raw.PathDir(dir))
		if err != nil {
			return "", err
		}
		dir = raw.PathJoin(parent, raw.PathBase(dir))
	}
	return dir, db.outside(dir)
}

// outside refuses a directory inside of the store.
func (db *DB) outside(dir string) error {
	raw := db.opts.FS
	inside := raw.PathJoin(dir, "x")
	if prefix := raw.PathDir(raw.PathJoin(db.dir, "x")); strings.HasPrefix(inside, prefix+string(filepath.Separator)) {
		return codec.Errorf(codec.CodeInvalidRequest, "%s is inside of the store", dir)
	}
	return nil
}

// checkpoint is one on its way.
type checkpoint struct {
	db    *DB
	ctx   context.Context
	fs    vfs.FS
	dir   string
	temp  string
	pause time.Duration
	ends  map[*Partition]checkedEnd
}

// checkedEnd is what a copy must hold of a partition.
type checkedEnd struct {
	start, end int64
	cuts       uint64
}

func (c *checkpoint) make() (err error) {
	stage := c.fs.PathJoin(c.db.dir, checkpointStage)
	if _, err := c.fs.Stat(c.temp); !errors.Is(err, os.ErrNotExist) { // not ours to remove
		return errors.Join(err, fmt.Errorf("%s: %w", c.temp, os.ErrExist))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(c.fs.RemoveAll(c.temp)))
		}
	}()
	defer func() { err = errors.Join(err, ignoreMissing(c.fs.RemoveAll(stage))) }()
	if err := ignoreMissing(c.fs.RemoveAll(stage)); err != nil { // of a checkpoint that was parked
		return err
	}
	c.noteEnds()
	for _, step := range []func(stage string) error{c.flush, c.cut, c.carry, c.check} {
		if err := c.interrupted(); err != nil {
			return err
		}
		if err := step(stage); err != nil {
			return err
		}
	}
	if err := c.fs.Rename(c.temp, c.dir); err != nil {
		return err
	}
	if err := syncDir(c.fs, c.fs.PathDir(c.dir)); err != nil { // it may or may not survive
		return errors.Join(err, c.fs.RemoveAll(c.dir))
	}
	return nil
}

// interrupted returns why the checkpoint ends early, or nil.
func (c *checkpoint) interrupted() error {
	if err := c.db.writable(); err != nil {
		return err
	}
	return c.ctx.Err()
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func syncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// noteEnds notes where the partitions in use stand: the copy must reach that far.
func (c *checkpoint) noteEnds() {
	c.ends = make(map[*Partition]checkedEnd)
	for _, t := range c.db.Topics() {
		for _, p := range t.opened() {
			if !p.loaded.Load() {
				continue
			}
			p.mu.Lock()
			if p.mu.active {
				c.ends[p] = checkedEnd{p.logStart.Load(), p.readable.Load(), p.cuts.Load()}
			}
			p.mu.Unlock()
		}
	}
}

// flush puts what is in memory into tables, which are linked, not copied.
func (c *checkpoint) flush(string) error {
	flushed, err := c.db.pdb.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-flushed:
	case <-c.ctx.Done():
	case <-c.db.closed:
	}
	return nil
}

// cut has the committer make the copy between two commits.
func (c *checkpoint) cut(stage string) error {
	made := make(chan error, 1)
	cm := c.db.newCommit(nil)
	cm.internal = true
	cm.run = func() {
		started := c.db.opts.Now()
		err := c.db.pdb.Checkpoint(stage, pebble.WithFlushedWAL())
		c.pause = c.db.opts.Now().Sub(started)
		made <- err
	}
	if err := c.db.enqueueWait(context.Background(), cm); err != nil {
		return err
	}
	return <-made
}

// carry brings the copy from the stage to beside its place: by links where that works.
func (c *checkpoint) carry(stage string) error {
	if err := c.fs.MkdirAll(c.temp, 0o755); err != nil {
		return err
	}
	names, err := c.fs.List(stage)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := c.interrupted(); err != nil {
			return err
		}
		from, to := c.fs.PathJoin(stage, name), c.fs.PathJoin(c.temp, name)
		if c.fs.Link(from, to) == nil {
			continue
		}
		if err := c.copy(from, to); err != nil {
			return err
		}
	}
	if err := createWatermark(c.fs, c.temp); err != nil {
		return err
	}
	return syncDir(c.fs, c.temp)
}

const copyBytes = 1 << 20

// copy copies one file and syncs it.
func (c *checkpoint) copy(from, to string) (err error) {
	in, err := c.fs.Open(from, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := c.fs.Create(to, watermarkCategory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	buf := make([]byte, copyBytes)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			if _, err := out.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return out.Sync()
		}
		if err = errors.Join(err, c.interrupted()); err != nil {
			return err
		}
	}
}

// check opens the copy for reading, compares it with what it must hold, and writes
// its watermark.
func (c *checkpoint) check(string) (err error) {
	opts := Options{FS: c.fs, Now: c.db.opts.Now, Defaults: c.db.opts.Defaults, ReadOnly: true}.SmallMemory()
	copied, err := Open(c.temp, opts)
	if err != nil {
		return fmt.Errorf("the copy does not open: %w", err)
	}
	err = c.compare(copied)
	mark := copied.marked
	if err = errors.Join(err, copied.Close()); err != nil {
		return err
	}
	water, _, err := openWatermark(c.fs, c.temp)
	if err != nil {
		return err
	}
	return errors.Join(water.Write(watermark(mark)), water.Close())
}

func (c *checkpoint) compare(copied *DB) error {
	for p, want := range c.ends {
		if err := c.interrupted(); err != nil {
			return err
		}
		t, ok := copied.Topic(p.Topic())
		if !ok || p.cuts.Load() != want.cuts || p.topic.dropped.Load() {
			continue // cut or deleted meanwhile
		}
		got, err := t.Partition(p.Number()).Offsets()
		if err != nil {
			return err
		}
		if got.Start < want.start || got.End < want.end {
			return fmt.Errorf("the copy of %s holds [%d, %d), which must be [%d, %d) at least", p, got.Start, got.End, want.start, want.end)
		}
	}
	return nil
}
