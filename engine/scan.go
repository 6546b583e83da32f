package engine

import (
	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

// entryScan steps through the stored entries of a partition, from the one that
// holds an offset onward. It belongs to one goroutine; DB.Close may end it.
type entryScan struct {
	p     *Partition
	it    *iterator
	bytes int64           // read from it
	steps int             // taken by it
	since codec.Timestamp // when it was made
	cuts  uint64          // of the partition when the scan was decided on
	entry codec.Entry
	// damaged: the current entry cannot be read; the scan can go on after it.
	damaged bool
	// headers: entries are not checked and wrappers cannot be opened.
	headers bool
	// from is where the scan goes on: the offset after the current entry.
	from   int64
	cursor codec.Cursor
}

// An open iterator pins memory and deleted files. A long scan therefore takes a
// new one now and then; offsets never change, so it goes on where it was.
const (
	maxIterBytes = 64 << 20
	maxIterAge   = 5000 // ms
	ageCheck     = 16   // entries between looks at the clock
)

// scanFrom returns a scan of the entries that end at or after from. It ends with
// an *OffsetRangeError once the log was cut since the cuts given were counted:
// count them before deciding what to scan.
func (p *Partition) scanFrom(from int64, cuts uint64) *entryScan {
	return &entryScan{p: p, from: from, cuts: cuts}
}

// next moves to the next entry; false with a nil error is the end of what Pebble
// holds. The entry is valid until the next call.
func (s *entryScan) next() (bool, error) {
	step, key := next, []byte(nil)
	if s.it != nil && (s.bytes > maxIterBytes || s.steps%ageCheck == 0 && s.p.topic.db.now()-s.since > maxIterAge) {
		s.close()
	}
	if s.it == nil {
		if err := s.reopen(); err != nil {
			return false, err
		}
		step, key = seekGE, keys.AppendLog(nil, s.p.id(), s.from)
	}
	ok, err := s.it.move(step, key)
	if err != nil || !ok {
		return false, s.p.readError(s.from, err)
	}
	s.bytes += int64(len(s.it.value))
	s.steps++
	_, offset, err := keys.DecodeLog(s.it.key)
	if err != nil {
		return false, s.p.corrupt(s.from, err)
	}
	s.from = offset + 1
	if s.headers {
		s.entry, err = codec.ParseHeader(s.it.key, s.it.value, s.it.size)
	} else {
		s.entry, err = codec.ParseEntry(s.it.key, s.it.value)
		s.p.topic.db.stats.readBytes.Add(uint64(len(s.it.value)))
	}
	s.damaged = err != nil
	if err != nil {
		return false, s.p.corrupt(offset, err)
	}
	return true, nil
}

// reopen takes an iterator that begins where the scan stands. The log start and
// the cuts are checked after it is made: they move before the deletion that
// follows them, so what the iterator sees is whole.
func (s *entryScan) reopen() error {
	r := keys.LogRange(s.p.id(), s.from, maxOffset) // never below the log start: range tombstones live there
	it, err := s.p.topic.db.newIter(r.Start, r.End)
	if err != nil {
		return err
	}
	it.headers = s.headers
	s.it, s.bytes, s.since = it, 0, s.p.topic.db.now()
	if s.p.topic.dropped.Load() {
		return ErrUnknownTopic
	}
	if s.from < s.p.logStart.Load() || s.cuts != s.p.cuts.Load() {
		return s.p.outOfRange(s.from)
	}
	return nil
}

// open points the cursor at the current entry's messages.
func (s *entryScan) open() error {
	if s.entry.Kind == codec.KindWrapper {
		s.p.topic.db.stats.inflations.Add(1)
	}
	if err := s.cursor.Reset(&s.entry); err != nil {
		return s.p.corrupt(s.entry.Last, err)
	}
	return nil
}

// damage returns the error of the cursor, located.
func (s *entryScan) damage() error {
	if err := s.cursor.Err(); err != nil {
		return s.p.corrupt(s.entry.Last, err)
	}
	return nil
}

func (s *entryScan) close() {
	if s.it != nil {
		s.it.close()
		s.it = nil
	}
}
