package engine

import (
	"bytes"
	"cmp"
	"container/list"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

// producers are those a partition remembers. They are read from Pebble when the
// first numbered set comes, or before a truncation: from then on memory is what
// the rows will be when everything queued is written. p.mu guards them.
type producers struct {
	byName map[string]*list.Element
	// recent holds *producer values in order of their last sets' offsets.
	recent list.List
}

// producerRow is the value of a producer key.
type producerRow struct {
	Version uint8 `msgpack:"v"`
	Last    int64 `msgpack:"l"`
	End     int64 `msgpack:"e"`
	Before  int64 `msgpack:"b"`
	// Sets are receipts: offset, count, timestamp, log append time.
	Sets [][4]int64 `msgpack:"s"`
}

const producerVersion = 1

// loadProducers reads the partition's producers once.
func (p *Partition) loadProducers() error {
	if p.producers.Load() != nil {
		return nil
	}
	p.loading.Lock()
	defer p.loading.Unlock()
	if p.producers.Load() != nil {
		return nil
	}
	rows, err := p.readProducers()
	if err != nil {
		return err
	}
	ps := new(producers)
	ps.replace(rows)
	p.producers.Store(ps)
	return nil
}

func (p *Partition) readProducers() ([]*producer, error) {
	r := keys.ProducerRange(p.id())
	it, err := p.topic.db.newIter(r.Start, r.End)
	if err != nil {
		return nil, err
	}
	defer it.close()
	var rows []*producer
	ok, err := it.move(seekGE, r.Start)
	for ; ok && err == nil; ok, err = it.move(next, nil) {
		_, name, err := keys.DecodeProducer(it.key)
		if err != nil {
			return nil, p.corrupt(-1, err)
		}
		row, err := decodeProducer(name, it.value)
		if err != nil && !errors.Is(err, ErrNewerFormat) {
			err = p.corrupt(-1, fmt.Errorf("producer %q: %w", name, err))
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, p.readError(-1, err)
}

func decodeProducer(name string, value []byte) (*producer, error) {
	var row producerRow
	if err := msgpack.Unmarshal(value, &row); err != nil {
		return nil, err
	}
	if row.Version > producerVersion {
		return nil, fmt.Errorf("%w: producer version %d", ErrNewerFormat, row.Version)
	}
	if len(row.Sets) > SequenceWindow || row.Last < noneBefore || row.End < 0 {
		return nil, fmt.Errorf("%d sets, last %d, end %d", len(row.Sets), row.Last, row.End)
	}
	r := &producer{name: name, last: row.Last, end: row.End, before: row.Before}
	for _, s := range row.Sets {
		r.sets = append(r.sets, Receipt{s[0], int(s[1]), codec.Timestamp(s[2]), codec.Timestamp(s[3])})
	}
	return r, nil
}

// set writes the producer's row.
func (r *producer) set(batch *pebble.Batch, id keys.Partition) error {
	row := producerRow{Version: producerVersion, Last: r.last, End: r.end, Before: r.before}
	for _, s := range r.sets {
		row.Sets = append(row.Sets, [4]int64{s.Offset, int64(s.Count), int64(s.Timestamp), int64(s.LogAppendTime)})
	}
	value, err := encodeCompact(&row)
	if err != nil {
		return err
	}
	return batch.Set(keys.AppendProducer(nil, id, r.name), value, nil)
}

// encodeCompact is msgpack with numbers as short as they are, for rows that are
// written often.
func encodeCompact(row any) ([]byte, error) {
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	e.UseCompactInts(true)
	err := e.Encode(row)
	return b.Bytes(), err
}

// get returns a producer, nil if it is unknown.
func (ps *producers) get(name string) *producer {
	if e, ok := ps.byName[name]; ok {
		return e.Value.(*producer)
	}
	return nil
}

// put adds a producer as the one used last.
func (ps *producers) put(r *producer) {
	if ps.byName == nil {
		ps.byName = make(map[string]*list.Element)
	}
	ps.byName[r.name] = ps.recent.PushBack(r)
}

// replace makes rows all there are.
func (ps *producers) replace(rows []*producer) {
	ps.byName = nil
	ps.recent.Init()
	slices.SortFunc(rows, func(a, b *producer) int { return cmp.Compare(a.end, b.end) })
	for _, r := range rows {
		ps.put(r)
	}
}

// producedLocked notes a numbered set that is appended, in memory and in the
// batch. One producer too many takes the place of that unused for the longest
// part of the log.
func (p *Partition) producedLocked(batch *pebble.Batch, name string, sequence int64, receipt Receipt) error {
	ps := p.producers.Load()
	r := ps.get(name)
	if r == nil {
		if len(ps.byName) >= MaxProducers {
			oldest := ps.recent.Front().Value.(*producer)
			if err := batch.Delete(keys.AppendProducer(nil, p.id(), oldest.name), nil); err != nil {
				return err
			}
			ps.recent.Remove(ps.byName[oldest.name])
			delete(ps.byName, oldest.name)
		}
		r = &producer{name: name, before: noneBefore}
		ps.put(r)
	}
	r.add(sequence, receipt)
	ps.recent.MoveToBack(ps.byName[name])
	return r.set(batch, p.id())
}

// cutProducersLocked makes the partition forget the sets that a log cut at offset
// does not hold, or every producer.
func (p *Partition) cutProducersLocked(batch *pebble.Batch, offset int64, all bool) error {
	ps := p.producers.Load()
	var left []*producer
	for e := ps.recent.Front(); e != nil; e = e.Next() {
		r := e.Value.(*producer)
		changed, known := r.cut(offset)
		var err error
		if all || !known {
			err = batch.Delete(keys.AppendProducer(nil, p.id(), r.name), nil)
		} else if left = append(left, r); changed {
			err = r.set(batch, p.id())
		}
		if err != nil {
			return err
		}
	}
	ps.replace(left)
	return nil
}
