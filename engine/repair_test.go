package engine_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/keys"
)

func repair(t testing.TB, s *store, o engine.RepairOptions) engine.Repaired {
	t.Helper()
	r, err := s.Repair(t.Context(), o)
	require.NoError(t, err)
	return r
}

// quarantined reads a quarantine file.
func quarantined(t testing.TB, s *store, name string) (rows []engine.QuarantinedRow) {
	t.Helper()
	for row, err := range engine.ReadQuarantine(s.opts.FS, name) {
		require.NoError(t, err)
		rows = append(rows, row)
	}
	return rows
}

// requireMended: the log holds what it did but for what was lost, every search is right
// and the next append gets the next offset.
func (b *breakable) requireMended(t *testing.T, before []codec.Message, lost []int64) {
	t.Helper()
	b.p = b.log(engine.TopicConfig{})
	want := slices.DeleteFunc(slices.Clone(before), func(m codec.Message) bool { return slices.Contains(lost, m.Offset) })
	require.Equal(t, offsetsBut(lost...), offsetsOf(want))
	require.Equal(t, want, readAll(t, b.p, 2))
	for ts := t0 - 30; ts < t0+510; ts += 5 {
		a := answer{ts, none, notFound}
		if i := slices.IndexFunc(want, func(m codec.Message) bool { return m.Timestamp >= ts }); i >= 0 {
			a = answer{ts, want[i].Timestamp, want[i].Offset}
		}
		requireSearch(t, b.p, a)
	}
	require.EqualValues(t, 29, lead(t, b.p, t0+600))
}

// DESIGN 10: what is made from messages is made anew without losing any; what cannot be
// is left alone until it may be copied aside and removed. Afterwards there is nothing
// to find, now and after a reopen, and reads and searches are right.
func TestRepairMendsWhatIsBroken(t *testing.T) {
	for _, br := range slices.Concat(breaches, rowBreaches) {
		t.Run(br.name, func(t *testing.T) {
			b := newBreakable(t)
			before := readAll(t, b.p, 2)
			b.raw(func(pdb *pebble.DB) { br.do(t, b, pdb) })
			broken := verify(t, b.store)

			r := repair(t, b.store, engine.RepairOptions{})
			require.Equal(t, broken, r.Before)
			require.Empty(t, r.Quarantine)
			require.Zero(t, r.Quarantined)
			if br.lossy {
				require.Equal(t, br.want, places(r.After), "%v", r.After.Findings)
				r = repair(t, b.store, engine.RepairOptions{Quarantine: true})
			}
			require.Empty(t, r.After.Findings)
			require.NotZero(t, r.Done)
			require.Len(t, r.Actions, int(r.Done))
			require.Empty(t, verify(t, b.store).Findings)
			b.requireMended(t, before, br.lost)
			require.Empty(t, verify(t, b.store).Findings)
			b.reopen()
			require.Empty(t, verify(t, b.store).Findings)
			require.True(t, func() bool { again := repair(t, b.store, engine.RepairOptions{}); return again.Done == 0 }())
		})
	}
}

// The same of a partition that is in use: what it has in memory is what the rows say.
func TestRepairMendsPartitionsInUse(t *testing.T) {
	for _, br := range slices.Concat(breaches, rowBreaches) {
		t.Run(br.name, func(t *testing.T) {
			b := newBreakable(t)
			before := readAll(t, b.p, 2)
			b.raw(func(pdb *pebble.DB) { br.do(t, b, pdb) })
			b.p = b.log(engine.TopicConfig{})
			if _, err := b.p.Offsets(); err != nil { // it cannot be used
				require.ErrorIs(t, err, engine.ErrCorrupt)
			}
			r := repair(t, b.store, engine.RepairOptions{Quarantine: true})
			require.Empty(t, r.After.Findings)
			b.requireMended(t, before, br.lost)
			require.Empty(t, verify(t, b.store).Findings)
			segments, err := b.p.Segments()
			require.NoError(t, err)
			b.reopen()
			again, err := b.log(engine.TopicConfig{}).Segments()
			require.NoError(t, err)
			last := &again[len(again)-1] // Close has written its last row
			segments[len(segments)-1].IndexRows, segments[len(segments)-1].IndexedTimestamp = last.IndexRows, last.IndexedTimestamp
			segments[len(segments)-1].ScanFrom = last.ScanFrom
			require.Equal(t, segments, again)
		})
	}
}

// No message is removed before it is on stable storage elsewhere, byte for byte.
func TestRepairCopiesWhatItRemoves(t *testing.T) {
	b := newBreakable(t)
	var want []engine.QuarantinedRow
	b.raw(func(pdb *pebble.DB) {
		for _, offset := range []int64{4, 12, 28} {
			key := logKey(b.id, offset)
			flip(t, pdb, key)
			want = append(want, engine.QuarantinedRow{Key: key, Value: row(t, pdb, key)})
		}
	})
	r := repair(t, b.store, engine.RepairOptions{Quarantine: true})
	require.Equal(t, want, quarantined(t, b.store, r.Quarantine))
	require.EqualValues(t, 3, r.Quarantined)
	require.Equal(t, offsetsBut(4, 12, 28), offsetsOf(readAll(t, b.log(engine.TopicConfig{}), 2)))

	b.raw(func(pdb *pebble.DB) { flip(t, pdb, logKey(b.id, 5)) })
	again := repair(t, b.store, engine.RepairOptions{Quarantine: true})
	require.NotEqual(t, r.Quarantine, again.Quarantine, "a file is never written twice")
	require.Len(t, quarantined(t, b.store, again.Quarantine), 1)
	require.Len(t, quarantined(t, b.store, r.Quarantine), 3)
}

// What cannot be copied stays where it is: the file cannot be made, written or synced.
func TestRepairRemovesNothingItCannotCopy(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileSync} {
		var armed atomic.Bool
		s := newStoreWith(t, engine.Options{FS: errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if armed.Load() && op.Kind == kind && strings.Contains(op.Path, "QUARANTINE") {
				return errInjected
			}
			return nil
		}))})
		p := s.log(engine.TopicConfig{})
		leadEach(t, p, t0, t0+1, t0+2)
		id := p.TestKeys()
		s.raw(func(pdb *pebble.DB) { flip(t, pdb, logKey(id, 1)) })
		armed.Store(true)
		_, err := s.Repair(t.Context(), engine.RepairOptions{Quarantine: true})
		require.ErrorIs(t, err, errInjected, "%v", kind)
		require.Equal(t, found(1, engine.DamagedEntry), places(verify(t, s)))
		armed.Store(false)
		require.Empty(t, repair(t, s, engine.RepairOptions{Quarantine: true}).After.Findings)
	}
}

// A log is appended to and searched while it is mended again and again, and another
// beside it.
func TestRepairRacesWithUse(t *testing.T) {
	b := newBreakable(t)
	other := b.named("other", engine.TopicConfig{})
	var running sync.WaitGroup
	stop := make(chan struct{})
	for _, p := range []*engine.Partition{b.p, other} {
		running.Go(func() {
			for n := codec.Timestamp(0); ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				r, err := p.Append(t.Context(), at(t0+600+n))
				if err != nil {
					t.Errorf("append: %v", err)
					return
				}
				got, err := p.OffsetFor(t0 + 600 + n)
				if err != nil || got.Offset != r.Offset {
					t.Errorf("search: %+v %v, want %d", got, err, r.Offset)
					return
				}
			}
		})
	}
	for n := range int64(rounds(t, 20)) {
		b.Overwrite(t, keys.AppendTimestamp(nil, b.id, 10, int64(t0+100)), []byte("?"))
		b.Overwrite(t, keys.AppendSegment(nil, b.id, 20), []byte("?"))
		b.Overwrite(t, logKey(b.id, 3+n), []byte("?"))
		r := repair(t, b.store, engine.RepairOptions{Quarantine: true})
		require.NotEmpty(t, r.Before.Findings)
		require.EqualValues(t, 1, r.Quarantined)
		require.Empty(t, r.After.Findings)
	}
	close(stop)
	running.Wait()
	require.Empty(t, verify(t, b.store).Findings)
}

// SPEC 9: the index of a compacted log, and of one in the middle of a pass, is made anew
// as a whole; what is left is what was, and compaction goes on from there.
func TestRepairOfACompactedLog(t *testing.T) {
	for name, interrupted := range map[string]bool{"whole": false, "in the middle of a pass": true} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			config := compacting(3000)
			config.IndexIntervalBytes = 100
			p := s.log(config)
			for i := range int64(500) {
				m := keyedAt(i)
				m.Value = make([]byte, 3000)
				if i%2 == 0 {
					m.Key = fmt.Append(nil, "only ", i)
				}
				_, err := p.Append(t.Context(), m)
				require.NoError(t, err)
			}
			if s.interruptCompaction(p); !interrupted {
				_, err := p.Compact(t.Context(), engine.CompactOptions{})
				require.NoError(t, err)
			}
			before, id := readAll(t, p, 0), p.TestKeys()
			s.raw(func(pdb *pebble.DB) {
				key := []byte(rowKeys(t, pdb, keys.TimestampRange(id, 0, 1))[40])
				r, err := codec.ParseTimestampRow(key, row(t, pdb, key))
				require.NoError(t, err)
				r.ScanFrom = r.Offset + 1
				set(t, pdb, key, codec.AppendTimestampRow(nil, key, r))
			})
			v := verify(t, s)
			require.EqualValues(t, 1, v.Found, "%v", v.Findings)
			require.Equal(t, engine.BadIndex, v.Findings[0].Kind)
			require.Empty(t, repair(t, s, engine.RepairOptions{}).After.Findings)
			p = s.log(config)
			require.Equal(t, before, readAll(t, p, 0))
			for _, m := range before {
				requireSearch(t, p, answer{m.Timestamp, m.Timestamp, m.Offset})
			}
			_, err := p.Compact(t.Context(), engine.CompactOptions{})
			require.NoError(t, err)
			require.Empty(t, verify(t, s).Findings)
		})
	}
}

// What Repair does not mend it says is left.
func TestRepairLeavesTransactionsAndEpochs(t *testing.T) {
	s, p := enrichedLog(t)
	_, err := p.BeginEpoch(t.Context(), 4)
	require.NoError(t, err)
	id := p.TestKeys()
	s.raw(func(pdb *pebble.DB) { set(t, pdb, keys.AppendEpoch(nil, id, 4), epochRow(7)) })
	r := repair(t, s, engine.RepairOptions{Quarantine: true})
	require.Equal(t, found(7, engine.BadEpoch), places(r.After))
	require.Zero(t, r.Quarantined)
}

func TestRepairOfAReadOnlyOrClosedStoreIsRefused(t *testing.T) {
	s := newStore(t)
	lead(t, s.log(engine.TopicConfig{}), t0)
	require.NoError(t, s.Close())
	_, err := s.Repair(t.Context(), engine.RepairOptions{})
	require.ErrorIs(t, err, engine.ErrClosed)
	opts := s.opts
	opts.ReadOnly = true
	db, err := engine.Open(s.dir, opts)
	require.NoError(t, err)
	v, err := db.Verify(t.Context(), nil)
	require.NoError(t, err)
	require.True(t, v.Clean())
	require.EqualValues(t, 1, v.Messages)
	_, err = db.Repair(t.Context(), engine.RepairOptions{})
	require.ErrorIs(t, err, engine.ErrReadOnly)
	require.NoError(t, db.Close())
}

// The layout of a quarantine file, and what is not one.
func TestQuarantineLayout(t *testing.T) {
	fs := vfs.NewMem()
	write := func(name string, b []byte) {
		f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
		require.NoError(t, err)
		_, err = f.Write(b)
		require.NoError(t, errors.Join(err, f.Close()))
	}
	read := func(b []byte) (rows []engine.QuarantinedRow, err error) {
		write("f", b)
		for row, err := range engine.ReadQuarantine(fs, "f") {
			if err != nil {
				return rows, err
			}
			rows = append(rows, row)
		}
		return rows, nil
	}
	whole := append([]byte("CAIRNQ\x00\x01"), "\x00\x00\x00\x02\x00\x00\x00\x03kkvvv"...)
	whole = binary.BigEndian.AppendUint32(whole, crc32.Checksum(whole[8:], crc32.MakeTable(crc32.Castagnoli)))
	rows, err := read(whole)
	require.NoError(t, err)
	require.Equal(t, []engine.QuarantinedRow{{Key: []byte("kk"), Value: []byte("vvv")}}, rows)
	for n := range whole {
		if n == 8 { // a file without rows
			continue
		}
		_, err := read(whole[:n])
		require.ErrorIs(t, err, engine.ErrCorrupt, "%d bytes", n)
		bad := slices.Clone(whole)
		bad[n] ^= 0x40
		_, err = read(bad)
		require.Error(t, err, "byte %d", n)
	}

	b := newBreakable(t)
	b.raw(func(pdb *pebble.DB) { set(t, pdb, logKey(b.id, 28), []byte("vvv")) })
	r := repair(t, b.store, engine.RepairOptions{Quarantine: true})
	require.Equal(t, "store/QUARANTINE-000001", r.Quarantine)
	f, err := b.opts.FS.Open(r.Quarantine)
	require.NoError(t, err)
	content := make([]byte, 8+8+keys.LogSize+3+4)
	_, err = f.ReadAt(content, 0)
	require.NoError(t, errors.Join(err, f.Close()))
	require.Equal(t, "CAIRNQ\x00\x01\x00\x00\x00\x11\x00\x00\x00\x03", string(content[:16]))
}
