package engine

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

// entryBytes is where a large append is cut into entries. A point read pays for
// its whole entry and a scan for the number of entries; the measurements are in
// DESIGN.md, Tuning.
const entryBytes = 16 << 10

// prepared is a message set encoded into a Pebble batch before its offsets and
// its clock are known. It is made outside the append lock; stamp finishes it
// under the lock without moving a byte.
type prepared struct {
	settings *topicSettings
	batch    *pebble.Batch
	entries  []preparedEntry
	messages int64
	wire     int64 // v1 wire bytes of the frames
	stored   int64
	// min and max span the timestamps that the threshold holds for: those a
	// producer chose, other than none. Both are none if there is no such one.
	min, max codec.Timestamp
	// largest is the largest timestamp, chosen or not.
	largest codec.Timestamp
	// unset: every message takes the clock of the append.
	unset bool
	// base is the offset of the first message where it must be known while
	// encoding: in v0 wrappers, whose inner offsets are absolute (SPEC 1.3.13).
	base int64
	// transactions are those that messages of the set belong to, each once.
	transactions []int64
}

// preparedEntry is an unsealed entry and its key, both in the batch's memory.
type preparedEntry struct {
	key, value   []byte
	first, last  int64 // relative to the set until stamped
	timestamp    codec.Timestamp
	maxTimestamp codec.Timestamp
	maxOffset    int64 // relative like first and last; -1 none
	wire         int64
	messages     int64
	wrapper      bool
	control      control // of a control message
}

var preparedPool = sync.Pool{New: func() any { return new(prepared) }}

// batchSlack is room in a batch for what stamp adds to the entries: index rows
// and segment rows. More only costs a reallocation.
const batchSlack = 1 << 10

func (db *DB) newPrepared(settings *topicSettings) *prepared {
	prep := preparedPool.Get().(*prepared)
	entries := prep.entries[:0]
	*prep = prepared{settings: settings, entries: entries, transactions: prep.transactions[:0], min: codec.NoTimestamp, max: codec.NoTimestamp, largest: codec.NoTimestamp}
	return prep
}

// discard gives back a set that was refused.
func (prep *prepared) discard() {
	if prep.batch != nil {
		_ = prep.batch.Close() // never applied: nothing to fail
	}
	prep.recycle()
}

// recycle gives back a set whose batch went to the committer.
func (prep *prepared) recycle() {
	prep.batch = nil
	clear(prep.entries)
	preparedPool.Put(prep)
}

// clocked reports whether every message takes the clock of the append.
func (prep *prepared) clocked() bool {
	return (prep.unset || prep.settings.logAppends()) && prep.settings.magic != 0
}

// span widens the range of timestamps that producers chose.
func (prep *prepared) span(lo, hi codec.Timestamp) {
	if lo == codec.NoTimestamp || prep.settings.magic == 0 {
		return
	}
	prep.largest = max(prep.largest, hi)
	if prep.min == codec.NoTimestamp || lo < prep.min {
		prep.min = lo
	}
	prep.max = max(prep.max, hi)
}

// prepareMessages checks and encodes messages given through the Go API (SPEC
// 2.1, 2.2, 2.4). The messages are copied.
func (p *Partition) prepareMessages(msgs []codec.Message, o AppendOptions, base int64) (*prepared, error) {
	settings := p.topic.settings()
	prep := p.topic.db.newPrepared(settings)
	prep.base = base
	err := prep.checkMessages(msgs)
	switch {
	case err != nil:
	case settings.enriched:
		msgs, err = prep.enrich(msgs, o.Tags)
	case o.Tags != nil:
		err = ErrFormat
	}
	if err != nil {
		prep.discard()
		return nil, err
	}
	compression := settings.targetCompression(o.Compression)
	if !settings.enriched && hasUnset(msgs) && (compression != codec.None || !prep.unset) {
		msgs = prep.resolveUnset(msgs, max(p.topic.db.now(), 0))
	}
	switch {
	case settings.enriched:
		err = prep.addEnriched(p, compression, msgs, o.Tags)
	case compression == codec.None:
		err = prep.addPlain(p, msgs)
	default:
		err = prep.addCompressed(p, compression, msgs)
	}
	if err != nil {
		prep.discard()
		return nil, err
	}
	return prep, nil
}

// checkMessages applies the checks that need no clock and notes the range of
// timestamps.
func (prep *prepared) checkMessages(msgs []codec.Message) error {
	prep.unset = true
	size := int64(0)
	for i := range msgs {
		m := &msgs[i]
		if err := prep.settings.checkMessage(m); err != nil {
			return err
		}
		size += prep.settings.wireSize(m)
		if size > maxPrepared { // far above any segment: a set that large is not even encoded
			return prep.settings.tooLarge(size)
		}
		if isUnset(m) {
			continue
		}
		prep.unset = false
		if m.Timestamp != codec.NoTimestamp {
			prep.span(m.Timestamp, m.Timestamp)
		}
	}
	return nil
}

func (s *topicSettings) checkMessage(m *codec.Message) error {
	switch {
	case m.TimestampType > codec.CreateTime:
		return codec.Errorf(codec.CodeInvalidTimestamp, "timestamp type %s is the log's to set", m.TimestampType)
	case m.Timestamp < codec.NoTimestamp:
		return codec.Errorf(codec.CodeInvalidTimestamp, "negative timestamp %d", int64(m.Timestamp))
	case m.Tags != nil && !s.enriched:
		return codec.Errorf(codec.CodeUnsupportedForFormat, "tags need the enriched format")
	case m.Key == nil && s.cleanupCompact:
		return codec.Errorf(codec.CodeCorruptMessage, "null key on a compacted topic")
	case s.wireSize(m) > s.maxMessageBytes:
		return codec.Errorf(codec.CodeMessageTooLarge, "message of %d wire bytes exceeds max.message.bytes %d", s.wireSize(m), s.maxMessageBytes)
	}
	return nil
}

// wireSize returns the bytes of m as one uncompressed frame of the topic's format.
func (s *topicSettings) wireSize(m *codec.Message) int64 {
	switch {
	case s.enriched:
		return int64(m.EnrichedWireSize())
	case s.magic == 0:
		return int64(m.WireSize()) - v0Saving
	default:
		return int64(m.WireSize())
	}
}

// v0Saving is what a v0 frame is shorter than a v1 frame: its timestamp.
const v0Saving = 8

// isUnset reports whether m asks for the clock of the append.
func isUnset(m *codec.Message) bool {
	return m.Timestamp == 0 && m.TimestampType == codec.TimestampUnset
}

func hasUnset(msgs []codec.Message) bool {
	for i := range msgs {
		if isUnset(&msgs[i]) {
			return true
		}
	}
	return false
}

// resolveUnset returns a copy of msgs in which unset timestamps are now: the
// producer's clock (SPEC 2.2.9), which the threshold does not hold for. It is for
// sets whose bytes depend on it before the append lock is taken: compressed ones,
// and those that mix set and unset timestamps.
func (prep *prepared) resolveUnset(msgs []codec.Message, now codec.Timestamp) []codec.Message {
	prep.unset = false
	if prep.settings.magic != 0 {
		prep.largest = max(prep.largest, now)
	}
	resolved := append([]codec.Message(nil), msgs...)
	for i := range resolved {
		if isUnset(&resolved[i]) {
			resolved[i].Timestamp, resolved[i].TimestampType = now, codec.CreateTime
		}
	}
	return resolved
}

// rangeOf returns the smallest and largest timestamp of msgs.
func rangeOf(msgs []codec.Message) (lo, hi codec.Timestamp) {
	lo, hi = codec.NoTimestamp, codec.NoTimestamp
	for i := range msgs {
		ts := msgs[i].Timestamp
		if ts == codec.NoTimestamp {
			continue
		}
		if lo == codec.NoTimestamp || ts < lo {
			lo = ts
		}
		hi = max(hi, ts)
	}
	return lo, hi
}

// maxPrepared bounds the uncompressed size of a set: Pebble's batches end at
// 4 GiB, and segment.bytes at 2 GiB.
const maxPrepared = 2 << 30

func (s *topicSettings) tooLarge(size int64) error {
	return codec.Errorf(codec.CodeRecordListTooLarge, "set of %d wire bytes exceeds segment.bytes %d", size, s.segmentBytes)
}

// addPlain packs msgs into entries of about entryBytes.
func (prep *prepared) addPlain(p *Partition, msgs []codec.Message) error {
	size := prep.wire
	for i := range msgs {
		size += prep.settings.wireSize(&msgs[i])
	}
	if size > prep.settings.segmentBytes {
		return prep.settings.tooLarge(size)
	}
	prep.reserve(p.topic.db, msgs)
	opts := codec.PlainOptions{Magic: prep.settings.magic, Dense: true, Enriched: prep.settings.enriched}
	for len(msgs) > 0 {
		n := entryCut(msgs)
		prep.addPlainEntry(p, msgs[:n], opts)
		msgs = msgs[n:]
	}
	return nil
}

// entryCut returns how many of msgs go into one entry, at least one.
func entryCut(msgs []codec.Message) int {
	size := 0
	for i := range msgs {
		size += len(msgs[i].Key) + len(msgs[i].Value) + len(msgs[i].Tags) + plainMessageCost
		if size > entryBytes && i > 0 {
			return i
		}
	}
	return len(msgs)
}

// plainMessageCost is about what a packed message costs beside its bytes.
const plainMessageCost = 4

// reserve makes the batch large enough for msgs as plain entries, so that the
// entries in it never move.
func (prep *prepared) reserve(db *DB, msgs []codec.Message) {
	if prep.batch != nil {
		return
	}
	size := batchSlack
	for i := range msgs {
		size += len(msgs[i].Key) + len(msgs[i].Value) + len(msgs[i].Tags) + 3*plainMessageCost
	}
	size += (size/entryBytes + 2) * 2 * (keys.LogSize + codec.EntryOverhead)
	prep.batch = db.pdb.NewBatchWithSize(size)
}

func (prep *prepared) addPlainEntry(p *Partition, msgs []codec.Message, o codec.PlainOptions) {
	n := codec.PlainSize(msgs, o)
	e := prep.newEntry(p, n)
	codec.AppendPlain(e.value[:0], msgs, o)
	e.last = e.first + int64(len(msgs)) - 1
	e.messages = int64(len(msgs))
	e.timestamp = msgs[0].Timestamp
	for i := range msgs {
		e.wire += prep.settings.wireSize(&msgs[i])
		if ts := msgs[i].Timestamp; ts > e.maxTimestamp {
			e.maxTimestamp, e.maxOffset = ts, e.first+int64(i)
		}
	}
	if o.Magic == 0 {
		e.timestamp, e.maxTimestamp, e.maxOffset = codec.NoTimestamp, codec.NoTimestamp, -1
	}
	prep.account(e)
}

// addWrapper stores a compressed frame's payload verbatim. Its error is that the
// set has grown larger than a segment (SPEC 2.1.7).
func (prep *prepared) addWrapper(p *Partition, w codec.StoredWrapper, timestamp codec.Timestamp) error {
	if prep.batch == nil {
		prep.batch = p.topic.db.pdb.NewBatchWithSize(len(w.Payload) + 4*codec.EntryOverhead + batchSlack)
	}
	e := prep.newEntry(p, w.Size())
	codec.AppendStoredWrapper(e.value[:0], w)
	e.last = e.first + w.Span
	e.messages = int64(w.Count)
	e.wrapper = true
	e.timestamp = timestamp
	if timestamp >= 0 {
		e.maxTimestamp, e.maxOffset = timestamp, e.last
	}
	e.wire = int64(len(w.Payload) + codec.MessageOverhead)
	if w.Magic == 0 {
		e.wire -= v0Saving
	}
	if w.Enriched {
		e.wire = int64(w.EnrichedWireSize())
	}
	prep.account(e)
	if prep.wire > prep.settings.segmentBytes {
		return prep.settings.tooLarge(prep.wire)
	}
	return nil
}

// newEntry adds room for an entry of n value bytes to the batch. Growing the
// batch moves it: entries already there are found again.
func (prep *prepared) newEntry(p *Partition, n int) *preparedEntry {
	moved := cap(prep.batch.Repr())-prep.batch.Len() < n+keys.LogSize+16
	op := prep.batch.SetDeferred(keys.LogSize, n)
	keys.AppendLog(op.Key[:0], p.id(), 0)
	first := prep.messages
	prep.entries = append(prep.entries, preparedEntry{key: op.Key, value: op.Value, first: first,
		maxTimestamp: codec.NoTimestamp, maxOffset: -1})
	_ = op.Finish() // fails only on an indexed batch
	if moved {
		reader := prep.batch.Reader()
		prep.relocate(&reader)
	}
	return &prep.entries[len(prep.entries)-1]
}

// relocate points the entries to where a reader finds them after they moved.
func (prep *prepared) relocate(reader *batchrepr.Reader) {
	for i := range prep.entries {
		_, key, value, ok, err := reader.Next()
		if !ok || err != nil {
			panic("engine: a batch lost an entry it was given")
		}
		prep.entries[i].key, prep.entries[i].value = key, value
	}
}

func (prep *prepared) account(e *preparedEntry) {
	prep.messages = e.last + 1
	prep.wire += e.wire
	prep.stored += int64(len(e.value))
}

// addCompressed wraps msgs into compressed frames, each small enough for
// max.message.bytes.
func (prep *prepared) addCompressed(p *Partition, c codec.Compression, msgs []codec.Message) error {
	most := len(msgs)
	for len(msgs) > 0 {
		n := min(prep.settings.wrapperCut(msgs), most)
		run := make([]codec.Message, n)
		var base int64 // v1: relative offsets
		if prep.settings.magic == 0 {
			base = prep.base + prep.messages
		}
		for i := range run {
			run[i] = codec.Message{Offset: base + int64(i), Timestamp: msgs[i].Timestamp, Key: msgs[i].Key, Value: msgs[i].Value}
		}
		frame, _, err := codec.BuildWrapper(nil, c, prep.settings.magic, run)
		if err != nil {
			return err
		}
		if err := prep.settings.checkFrame(&frame); err != nil {
			if n == 1 {
				return err
			}
			most = n / 2 // it did not shrink: the codec adds more than it takes away
			continue
		}
		w := codec.StoredWrapper{Compression: c, Magic: frame.Magic, Count: n, Span: int64(n) - 1, Payload: frame.Value}
		if err := prep.addWrapper(p, w, frame.Timestamp); err != nil {
			return err
		}
		msgs = msgs[n:]
	}
	return nil
}

// wrapperCut returns how many of msgs go into one compressed frame, at least
// one: all whose inner frames stay below max.message.bytes.
func (s *topicSettings) wrapperCut(msgs []codec.Message) int {
	size := int64(codec.MessageOverhead)
	for i := range msgs {
		size += s.wireSize(&msgs[i])
		if size > s.maxMessageBytes && i > 0 {
			return i
		}
	}
	return len(msgs)
}

func (s *topicSettings) checkFrame(f *codec.Frame) error {
	if size := int64(f.WireSize()); size > s.maxMessageBytes {
		return codec.Errorf(codec.CodeMessageTooLarge, "frame of %d wire bytes exceeds max.message.bytes %d", size, s.maxMessageBytes)
	}
	return nil
}

// targetCompression returns how a set that came in with compression source is
// stored (compression.type).
func (s *topicSettings) targetCompression(source codec.Compression) codec.Compression {
	switch s.compression {
	case CompressNone:
		return codec.None
	case CompressGzip:
		return codec.Gzip
	case CompressSnappy:
		return codec.Snappy
	case CompressLZ4:
		return codec.LZ4
	default:
		return source
	}
}

// logAppends reports whether the leader's clock gives messages their timestamp.
func (s *topicSettings) logAppends() bool { return s.timestampType == codec.LogAppendTime }
