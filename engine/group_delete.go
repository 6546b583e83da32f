package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

// groups keeps commits of offsets and the removal of idle groups apart. A sweep
// reads the rows first and deletes then: meanwhile commits note their groups, and
// those stay.
type groups struct {
	sweeping sync.Mutex // one sweep at a time
	nextScan codec.Timestamp

	mu struct {
		sync.Mutex
		touched map[string]struct{} // nil: no sweep
	}
}

// enqueue queues a commit with offsets in it.
func (g *groups) enqueue(c *committer, cm *commit, offsets []offsetCommit) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.touched != nil {
		for i := range offsets {
			g.mu.touched[offsets[i].group] = struct{}{}
		}
	}
	return c.enqueue(cm)
}

// Groups returns the names of all groups that have offsets, in order of their
// bytes.
func (db *DB) Groups(ctx context.Context) ([]string, error) {
	if err := db.settleOffsets(ctx); err != nil {
		return nil, err
	}
	var names []string
	err := db.eachOffset(ctx, keys.OffsetsRange(), func(row groupRow) (bool, error) {
		if row.topic == nil {
			return false, nil
		}
		names = append(names, row.group)
		return true, nil
	})
	return names, err
}

// Delete forgets the group: all its offsets. It is on stable storage when Delete
// returns; a group that does not exist is deleted already.
func (g *Group) Delete(ctx context.Context) error {
	err := g.check(ctx)
	if err == nil {
		err = g.remove(ctx, func(batch *pebble.Batch) error {
			return deleteRanges(batch, []keys.Range{keys.OffsetGroupRange(g.name)})
		})
	}
	return g.wrap("delete", err)
}

// Forget removes what the group has committed for one partition. It is on stable
// storage when Forget returns; what is not there is forgotten already.
func (g *Group) Forget(ctx context.Context, p *Partition) error {
	err := g.checkPartition(ctx, p)
	if err == nil {
		err = g.remove(ctx, func(batch *pebble.Batch) error {
			return batch.Delete(keys.AppendOffset(nil, g.name, p.id()), nil)
		})
	}
	return g.wrap("forget", err)
}

func (g *Group) remove(ctx context.Context, fill func(*pebble.Batch) error) error {
	batch := g.db.pdb.NewBatch()
	if err := fill(batch); err != nil {
		return err
	}
	return g.db.commitSync(ctx, batch)
}

// ExpireGroups forgets every group that has committed nothing for longer than a
// duration, on the store's clock, and returns their names. It is on stable storage
// when ExpireGroups returns. Its cost grows with the number of offsets. The
// maintenance loop does it by itself where Options.GroupExpiry is set.
func (db *DB) ExpireGroups(ctx context.Context, olderThan time.Duration) ([]string, error) {
	if olderThan < 0 {
		return nil, codec.Errorf(codec.CodeInvalidRequest, "engine: expire groups: negative age %v", olderThan)
	}
	if err := db.writable(); err != nil {
		return nil, err
	}
	expired, err := db.expireGroups(ctx, db.now()-codec.Timestamp(olderThan.Milliseconds()))
	if err != nil {
		return nil, fmt.Errorf("engine: expire groups: %w", err)
	}
	return expired, nil
}

// Bounds of how often the maintenance loop looks for idle groups: that often in
// the time it takes one to expire, within these limits.
const (
	groupScansPerExpiry = 4
	minGroupScan        = codec.Timestamp(time.Second / time.Millisecond)
	maxGroupScan        = codec.Timestamp(10 * time.Minute / time.Millisecond)
)

// expireIdleGroups is ExpireGroups when the maintenance loop is due to look.
func (db *DB) expireIdleGroups(ctx context.Context, now codec.Timestamp) (int, error) {
	age := codec.Timestamp(db.opts.GroupExpiry.Milliseconds())
	if db.opts.GroupExpiry == 0 || now < db.groups.nextScan {
		return 0, nil
	}
	expired, err := db.expireGroups(ctx, now-age)
	if err == nil {
		db.groups.nextScan = now + min(max(age/groupScansPerExpiry, minGroupScan), maxGroupScan)
	}
	return len(expired), err
}

// expireGroups forgets the groups without a commit since a time, and rows of
// topics that are no more.
func (db *DB) expireGroups(ctx context.Context, since codec.Timestamp) (expired []string, err error) {
	g := &db.groups
	g.sweeping.Lock()
	defer g.sweeping.Unlock()
	g.watch(true)
	defer g.watch(false)
	if err := db.drainQueue(ctx); err != nil { // what is committed from here on is noted
		return nil, err
	}
	sweep := groupSweep{since: since, batch: db.pdb.NewBatch()}
	if err := db.eachOffset(ctx, keys.OffsetsRange(), sweep.visit); err != nil {
		return nil, err
	}
	sweep.next("")
	cm, expired, err := db.queueSweep(&sweep)
	if err != nil || cm == nil {
		return nil, err
	}
	return expired, db.wait(ctx, cm)
}

// watch begins or ends the noting of groups that commit.
func (g *groups) watch(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.touched = nil
	if on {
		g.mu.touched = make(map[string]struct{})
	}
}

// groupSweep looks for idle groups among rows in order of groups.
type groupSweep struct {
	since codec.Timestamp
	batch *pebble.Batch // deletes rows of deleted topics
	idle  []string

	group string          // "": none yet
	last  codec.Timestamp // its last commit; none if all it has is of deleted topics
}

func (s *groupSweep) visit(row groupRow) (skip bool, err error) {
	if row.group != s.group {
		s.next(row.group)
	}
	if row.topic == nil {
		return false, s.batch.Delete(keys.AppendOffset(nil, row.group, row.id), nil)
	}
	o, err := decodeOffset(row.group, row.value)
	s.last = max(s.last, o.Time)
	return false, err
}

// next ends a group and begins another.
func (s *groupSweep) next(group string) {
	if s.group != "" && s.last != codec.NoTimestamp && s.last < s.since {
		s.idle = append(s.idle, s.group)
	}
	s.group, s.last = group, codec.NoTimestamp
}

// queueSweep queues the deletion of the idle groups but for those that have
// committed since the sweep began: no commit comes between the look and the queue.
// A nil commit is nothing to delete.
func (db *DB) queueSweep(s *groupSweep) (cm *commit, expired []string, err error) {
	g := &db.groups
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range s.idle {
		if _, touched := g.mu.touched[name]; touched {
			continue
		}
		if err := deleteRanges(s.batch, []keys.Range{keys.OffsetGroupRange(name)}); err != nil {
			return nil, nil, err
		}
		expired = append(expired, name)
	}
	if s.batch.Empty() {
		return nil, nil, s.batch.Close()
	}
	cm = db.newCommit(s.batch)
	cm.sync = true
	return cm, expired, db.committer.enqueue(cm)
}
