package enginetest

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
	"github.com/cairnlog/cairn/retention"
)

// Audit reads the rows of a closed store from Pebble and compares them with each
// other, without the engine and without a model: entries are whole and dense,
// every segment's sums are those of its entries, both places of the time index
// say the same, every row is true of the messages and a search that follows it
// misses nothing, and the last row of a segment is its largest timestamp
// (SPEC 5.1, 5.2, S31).
//
// A segment that lost messages to the log start is counted only as far as that
// goes. The audit is for logs without holes, as compaction and followers make them.
func Audit(fs vfs.FS, dir string) (err error) {
	pdb, err := pebble.Open(dir, &pebble.Options{
		FS: fs, ReadOnly: true, FormatMajorVersion: pebble.FormatTableFormatV6, Logger: silent{},
	})
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	defer func() {
		if cerr := pdb.Close(); err == nil {
			err = cerr
		}
	}()
	a := &audit{logs: make(map[keys.Partition]*auditLog), topics: make(map[uint32]bool)}
	if err := a.read(pdb); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	for p, l := range a.logs {
		if !a.topics[p.Topic] {
			return fmt.Errorf("audit: partition %s has rows and no topic", p)
		}
		if err := l.check(); err != nil {
			return fmt.Errorf("audit: partition %s: %w", p, err)
		}
	}
	return nil
}

// silent is a Pebble logger.
type silent struct{}

func (silent) Infof(string, ...any)              {}
func (silent) Errorf(string, ...any)             {}
func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

type audit struct {
	logs   map[keys.Partition]*auditLog
	topics map[uint32]bool // in the catalog
}

// auditLog is what lies in Pebble of one partition.
type auditLog struct {
	start    int64
	entries  []codec.Entry
	stored   []int64 // sizes of the entries' values
	segments []retention.Segment
	rows     []retention.IndexRow // the companion's
	times    []retention.IndexRow // the timestamp keyspace's
}

func (a *audit) log(p keys.Partition) *auditLog {
	if p.IsCompanion() {
		p = p.Companion()
	}
	l := a.logs[p]
	if l == nil {
		l = new(auditLog)
		a.logs[p] = l
	}
	return l
}

func (a *audit) read(pdb *pebble.DB) error {
	it, err := pdb.NewIter(nil)
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if err := a.add(bytes.Clone(it.Key()), bytes.Clone(it.Value())); err != nil {
			_ = it.Close()
			return fmt.Errorf("key %x: %w", it.Key(), err)
		}
	}
	return it.Close()
}

// add files a row with its partition; rows of spaces that are not checked are
// passed over.
func (a *audit) add(key, value []byte) error {
	if p, _, err := keys.DecodeLog(key); err == nil {
		l := a.log(p)
		if p.IsCompanion() {
			row, err := codec.ParseIndexRow(key, value)
			l.rows = append(l.rows, row)
			return err
		}
		e, err := codec.ParseEntry(key, value)
		l.entries = append(l.entries, e)
		l.stored = append(l.stored, int64(len(value)))
		return err
	}
	if p, _, _, err := keys.DecodeTimestamp(key); err == nil {
		row, err := codec.ParseTimestampRow(key, value)
		l := a.log(p)
		l.times = append(l.times, row)
		return err
	}
	if p, base, err := keys.DecodeSegment(key); err == nil {
		l := a.log(p)
		s, err := retention.DecodeSegment(value)
		if err == nil && s.Base != base {
			err = fmt.Errorf("segment row of base %d", s.Base)
		}
		l.segments = append(l.segments, s)
		return err
	}
	return a.addRow(key, value)
}

// addRow takes what is needed of state and catalog.
func (a *audit) addRow(key, value []byte) error {
	if p, err := keys.DecodeState(key); err == nil {
		var state struct {
			LogStart int64 `msgpack:"ls"`
		}
		err := msgpack.Unmarshal(value, &state)
		a.log(p).start = state.LogStart
		return err
	}
	if _, err := keys.DecodeCatalog(key); err == nil {
		var topic struct {
			ID uint32 `msgpack:"id"`
		}
		err := msgpack.Unmarshal(value, &topic)
		a.topics[topic.ID] = true
		return err
	}
	return nil
}

func (l *auditLog) check() error {
	if len(l.segments) == 0 {
		if len(l.entries)+len(l.rows)+len(l.times) > 0 {
			return fmt.Errorf("%d entries and %d index rows without a segment", len(l.entries), len(l.rows))
		}
		return nil
	}
	for i, e := range l.entries {
		if e.Last < l.start {
			return fmt.Errorf("entry %d to %d lies below the log start %d", e.First, e.Last, l.start)
		}
		if i > 0 && e.First != l.entries[i-1].Last+1 {
			return fmt.Errorf("entry %d to %d follows one that ends at %d", e.First, e.Last, l.entries[i-1].Last)
		}
	}
	if err := l.checkPlaces(); err != nil {
		return err
	}
	for i := range l.segments {
		if err := l.checkSegment(i); err != nil {
			return fmt.Errorf("segment %d: %w", l.segments[i].Base, err)
		}
	}
	return nil
}

// checkPlaces: the two places of the time index say the same.
func (l *auditLog) checkPlaces() error {
	if len(l.rows) != len(l.times) {
		return fmt.Errorf("%d index rows in the companion, %d by timestamp", len(l.rows), len(l.times))
	}
	for i := range l.rows {
		if l.rows[i] != l.times[i] {
			return fmt.Errorf("index row %+v in the companion, %+v by timestamp", l.rows[i], l.times[i])
		}
	}
	return nil
}

// checkSegment counts segment i again.
func (l *auditLog) checkSegment(i int) error {
	got := l.segments[i]
	active := i == len(l.segments)-1
	if got.Sealed == active {
		return fmt.Errorf("sealed %t, but segment %d of %d", got.Sealed, i+1, len(l.segments))
	}
	want := retention.NewSegment(got.Base)
	for j, e := range l.entries {
		if e.First < got.Base || !active && e.Last >= l.segments[i+1].Base {
			continue
		}
		if want.Entries == 0 {
			want.FirstTimestamp, want.FirstAppend = e.Timestamp, e.Clock
		}
		if e.MaxTimestamp > want.MaxTimestamp {
			want.MaxTimestamp, want.MaxOffset = e.MaxTimestamp, e.MaxOffset
		}
		want.End, want.LastAppend = e.Last+1, e.Clock
		want.Bytes += int64(e.WireSize())
		want.StoredBytes += l.stored[j]
		want.Messages += int64(e.Count)
		want.Entries++
	}
	var rows []retention.IndexRow
	for _, r := range l.rows {
		if r.Base == got.Base {
			rows = append(rows, r)
		}
	}
	want.IndexRows = int64(len(rows))
	if len(rows) > 0 {
		want.IndexedTimestamp = rows[len(rows)-1].Timestamp
	}
	want.Sealed, want.SinceIndex, want.ScanFrom = got.Sealed, got.SinceIndex, got.ScanFrom
	if got.Base < l.start { // its head is gone, and still counted
		if got.Messages < want.Messages || got.MaxTimestamp < want.MaxTimestamp || got.IndexRows != want.IndexRows {
			return fmt.Errorf("row %+v, what is left of its entries gives %+v", got, want)
		}
		return nil
	}
	if got != want {
		return fmt.Errorf("row %+v, its entries give %+v", got, want)
	}
	if want.IndexedTimestamp != want.MaxTimestamp {
		return fmt.Errorf("last index row %d, largest timestamp %d", want.IndexedTimestamp, want.MaxTimestamp)
	}
	return l.checkRowsOf(rows)
}

// checkRowsOf proves a segment's index rows from its entries.
func (l *auditLog) checkRowsOf(rows []retention.IndexRow) error {
	previous := codec.NoTimestamp
	for _, r := range rows {
		if r.Timestamp <= previous {
			return fmt.Errorf("index row %+v does not exceed the one before it, %d", r, previous)
		}
		largest := codec.NoTimestamp
		for _, e := range l.entries {
			if e.First < r.Base || e.First > r.Offset {
				continue
			}
			largest = max(largest, e.MaxTimestamp)
			if e.Last < r.ScanFrom && e.MaxTimestamp > previous {
				return fmt.Errorf("index row %+v: ScanFrom skips entry %d with timestamp %d", r, e.Last, e.MaxTimestamp)
			}
		}
		if largest != r.Timestamp {
			return fmt.Errorf("index row %+v, but the largest timestamp up to there is %d", r, largest)
		}
		previous = r.Timestamp
	}
	return nil
}
