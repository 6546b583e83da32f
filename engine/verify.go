package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

// FindingKind says which invariant of a store is broken.
type FindingKind string

// The kinds of findings. Those that Repair mends by itself are rebuilt from the
// messages; the others lose something and are mended with RepairOptions.Quarantine, or
// not at all where that is said.
const (
	// DamagedEntry: a stored entry is not what was written, or cannot be read.
	DamagedEntry FindingKind = "damaged entry"
	// MisplacedEntry: an entry overlaps the one before it, or lies below the log start
	// or outside of its segment.
	MisplacedEntry FindingKind = "misplaced entry"
	// MissingOffsets: a log that was never compacted has no messages there.
	MissingOffsets FindingKind = "missing offsets"
	// MalformedRow: a row's key is none of its space.
	MalformedRow FindingKind = "malformed row"
	// BadProducer: what a partition remembers of a producer cannot be read, or cannot
	// be true of the log.
	BadProducer FindingKind = "producer"
	// BadConsumerOffset: the offset of a consumer group cannot be read.
	BadConsumerOffset FindingKind = "consumer offset"

	// BadSegment: a segment's row is damaged, or does not say what its entries do.
	BadSegment FindingKind = "segment"
	// BadEnd: the log ends at another offset than its entries do.
	BadEnd FindingKind = "log end"
	// BadIndex: rows of the time index are damaged, differ between the two places they
	// are kept in, are not true of the messages, or make a search miss some.
	BadIndex FindingKind = "time index"
	// BadState: the state row of a partition is damaged or contradicts its log. What
	// is rebuilt of a damaged one is a log start at the first message.
	BadState FindingKind = "partition state"
	// BadAlarm: maintenance would not look at the partition, or more than an hour late.
	// One that is less late may come of a clock that was set back.
	BadAlarm FindingKind = "alarm"
	// OrphanRows: rows of a topic or partition that does not exist. Repair removes
	// them, where there are entries among them only with RepairOptions.Quarantine.
	OrphanRows FindingKind = "orphan rows"

	// BadEpoch and BadTransaction: rows of leader epochs or transactions are damaged or
	// contradict the control messages. Repair leaves them.
	BadEpoch       FindingKind = "leader epoch"
	BadTransaction FindingKind = "transaction"
)

// Finding is a broken invariant, and where.
type Finding struct {
	// Topic is empty where the topic does not exist, and for what belongs to none.
	Topic     string
	Partition int32 // -1 for what belongs to none
	// Offset is that of a damaged entry's last message, of an index row, or the first
	// of a segment; -1 where there is none.
	Offset int64
	Kind   FindingKind
	Detail string
}

// String returns the finding as a line.
func (f Finding) String() string {
	return fmt.Sprintf("%s/%d at %d: %s: %s", f.Topic, f.Partition, f.Offset, f.Kind, f.Detail)
}

// MaxFindings bounds the findings that are listed.
const MaxFindings = 1000

// Verification is what Verify went over and found.
type Verification struct {
	// What was gone over. Bytes is the size of the stored entries.
	Topics, Partitions, Segments, Entries, Messages, Bytes int64
	// IndexRows counts both places of each row. Offsets are those of consumer groups.
	IndexRows, Epochs, Transactions, Producers, Offsets, Alarms int64
	// Found counts the findings, Findings are the first MaxFindings of them.
	Found    int64
	Findings []Finding
}

// Clean reports whether nothing was found.
func (v *Verification) Clean() bool { return v.Found == 0 }

// VerifyProgress is how far a verification has come.
type VerifyProgress struct {
	// Partition is the one that is gone over, "" before the first.
	Partition string
	// Done and Total are in bytes of stored entries; Total is what segments say.
	Done, Total int64
	Messages    int64
}

// Verify goes over everything the store holds and reports each invariant that is
// broken: checksums and order of entries, segment statistics, the log's end, the time
// index in both of its places against the messages, rows of what does not exist,
// consumer offsets, producers, leader epochs, transactions and alarms. Wrappers are
// opened.
//
// It verifies what the store held when it began, acknowledged appends included, at one
// instant between two atomic batches: what goes on meanwhile causes no finding. Until
// it returns, Pebble keeps what is deleted meanwhile. A compacted log may stand in the
// middle of a pass, where the sums of a segment are bounds and index rows need only be
// such that no search misses a message; that is what is verified of it.
//
// progress, if not nil, is called now and then by the caller's goroutine. Findings are
// no error. The error is ErrClosed, ErrNewerFormat, ctx.Err() or of I/O; the
// Verification is then what was gone over before.
func (db *DB) Verify(ctx context.Context, progress func(VerifyProgress)) (Verification, error) {
	v := &verifier{db: db, progress: progress}
	err := v.run(ctx)
	if err != nil {
		err = fmt.Errorf("engine: verify: %w", err)
	}
	return v.Verification, err
}

// verifier is one run of Verify or, over some partitions, of Repair.
type verifier struct {
	Verification
	db       *DB
	view     *view
	progress func(VerifyProgress)
	at       VerifyProgress
	reported int64

	topics map[uint32]verifiedTopic
	logs   []keys.Partition // that have rows, in order
	alarms map[keys.Partition]codec.Timestamp
	// broken are the logs with findings.
	broken map[keys.Partition]bool
	// orphans are the topics and partitions that do not exist and have rows.
	orphans []keys.Partition
	offsets []badOffset
	// remove, if not nil, is told of each row that must go for a finding to go: what it
	// holds cannot be made anew. The bytes are valid during the call.
	remove  func(key, value []byte) error
	cursor  codec.Cursor
	message codec.Message
}

// verifiedTopic is a topic of the catalog.
type verifiedTopic struct {
	name     string
	settings topicSettings
}

func (v *verifier) run(ctx context.Context) error {
	if err := v.begin(ctx); err != nil {
		return err
	}
	defer v.view.close()
	for _, id := range v.logs {
		if err := v.log(ctx, id); err != nil {
			return err
		}
	}
	v.at.Done = v.at.Total
	v.report()
	return v.consumerOffsets(ctx)
}

// begin takes the view and finds out what is in it.
func (v *verifier) begin(ctx context.Context) error {
	if err := v.db.settleOffsets(ctx); err != nil { // what was acknowledged is in the view
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{v.catalog, v.partitions, v.dues, v.sum} {
		if err := step(ctx); err != nil {
			v.view.close()
			return err
		}
	}
	v.report()
	return nil
}

// open takes the view while no topic is made or altered: a new partition may be
// appended to before the row that says so is written.
func (v *verifier) open() (err error) {
	v.db.catalog.ddl.Lock()
	defer v.db.catalog.ddl.Unlock()
	v.view, err = v.db.newView()
	return err
}

// each visits the rows of a range.
func (v *verifier) each(ctx context.Context, r keys.Range, visit func(s *rowScan) error) error {
	s := v.view.scan(r)
	defer s.close()
	ok, err := s.next(ctx)
	for ; ok && err == nil; ok, err = s.next(ctx) {
		if err := visit(s); err != nil {
			return err
		}
	}
	return err
}

// catalog reads the topics. Open has refused a catalog that cannot be read.
func (v *verifier) catalog(ctx context.Context) error {
	v.topics = make(map[uint32]verifiedTopic)
	return v.each(ctx, keys.CatalogRange(), func(s *rowScan) error {
		name, err := keys.DecodeCatalog(s.key)
		if err != nil {
			return &CorruptionError{Offset: -1, Err: err}
		}
		id, _, settings, err := v.db.decodeTopic(name, s.value)
		if err != nil {
			return err
		}
		v.topics[id] = verifiedTopic{name, settings}
		v.Topics++
		return nil
	})
}

// partitions finds the partitions with rows, by one seek a partition and space.
func (v *verifier) partitions(ctx context.Context) error {
	found := make(map[keys.Partition]bool)
	for _, r := range keys.PartitionSpaces() {
		err := v.each(ctx, r, func(s *rowScan) error {
			id, after, err := keys.DecodePartition(s.key)
			if err != nil {
				return v.malformed(s, err)
			}
			if id.IsCompanion() {
				id = id.Companion()
			}
			found[id] = true
			s.skip(after)
			return nil
		})
		if err != nil {
			return err
		}
	}
	v.logs = slices.SortedFunc(maps.Keys(found), comparePartitionIDs)
	return nil
}

func comparePartitionIDs(a, b keys.Partition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Number, b.Number))
}

// dues reads the earliest alarm of each partition. One of a deleted topic is what is
// left of it, until it rings.
func (v *verifier) dues(ctx context.Context) error {
	v.alarms = make(map[keys.Partition]codec.Timestamp)
	return v.each(ctx, keys.DuesRange(), func(s *rowScan) error {
		at, id, err := keys.DecodeDue(s.key)
		if err != nil {
			return v.malformed(s, err)
		}
		v.Alarms++
		if _, ok := v.alarms[id]; !ok {
			v.alarms[id] = codec.Timestamp(at)
		}
		return nil
	})
}

// log verifies one partition. A table of Pebble's that cannot be read ends it: what it
// held is not known.
func (v *verifier) log(ctx context.Context, id keys.Partition) error {
	t, ok := v.topics[id.Topic]
	if !ok || id.Number >= t.settings.partitions {
		v.orphans = append(v.orphans, id)
		v.find(id, -1, OrphanRows, "%s does not exist", id)
		return nil
	}
	v.at.Partition = fmt.Sprintf("%s/%d", t.name, id.Number)
	v.Partitions++
	c := &logCheck{verifier: v, id: id, settings: &t.settings}
	err := c.run(ctx)
	if err != nil && pebble.IsCorruptionError(err) {
		v.find(id, c.next, DamagedEntry, "table: %v", err)
		err = nil
	}
	return err
}

// find notes a finding. id is a partition, also one that does not exist.
func (v *verifier) find(id keys.Partition, offset int64, kind FindingKind, format string, args ...any) {
	if v.broken == nil {
		v.broken = make(map[keys.Partition]bool)
	}
	v.broken[id] = true
	v.add(Finding{v.topics[id.Topic].name, id.Number, offset, kind, fmt.Sprintf(format, args...)})
}

func (v *verifier) add(f Finding) {
	v.Found++
	if len(v.Findings) < MaxFindings {
		v.Findings = append(v.Findings, f)
	}
}

func (v *verifier) malformed(s *rowScan, err error) error {
	v.add(Finding{Partition: -1, Offset: -1, Kind: MalformedRow, Detail: err.Error()})
	return v.removable(s)
}

func (v *verifier) removable(s *rowScan) error {
	if v.remove == nil {
		return nil
	}
	return v.remove(s.key, s.value)
}

// verifyReportBytes is how much is gone over between two calls of progress.
const verifyReportBytes = 1 << 20

// advance counts an entry that was gone over.
func (v *verifier) advance(bytes int) {
	v.Bytes += int64(bytes)
	v.at.Done = min(v.at.Done+int64(bytes), v.at.Total)
	if v.Bytes-v.reported >= verifyReportBytes {
		v.report()
	}
}

func (v *verifier) report() {
	v.reported = v.Bytes
	if v.progress != nil {
		v.at.Messages = v.Messages
		v.progress(v.at)
	}
}

// consumerOffsets verifies the offsets of consumer groups. One beyond the log is what
// a truncation leaves.
func (v *verifier) consumerOffsets(ctx context.Context) error {
	return v.each(ctx, keys.OffsetsRange(), func(s *rowScan) error {
		group, id, err := keys.DecodeOffset(s.key)
		if err != nil {
			return v.malformed(s, err)
		}
		v.Offsets++
		t, ok := v.topics[id.Topic]
		f := Finding{Topic: t.name, Partition: id.Number, Offset: -1}
		switch err := checkOffset(group, s.value); {
		case !ok || id.Number < 0 || id.Number >= t.settings.partitions:
			f.Kind, f.Detail = OrphanRows, fmt.Sprintf("offset of group %q for %s, which does not exist", group, id)
		case errors.Is(err, ErrNewerFormat):
			return err
		case err != nil:
			f.Kind, f.Detail = BadConsumerOffset, err.Error()
		default:
			return nil
		}
		v.add(f)
		if len(v.offsets) < maxBadOffsets {
			v.offsets = append(v.offsets, badOffset{group, id, f.Kind})
		}
		return nil
	})
}

// badOffset is a consumer offset that is found to be wrong.
type badOffset struct {
	group string
	id    keys.Partition
	kind  FindingKind
}

// maxBadOffsets bounds how many one Repair mends.
const maxBadOffsets = 1 << 20

func checkOffset(group string, value []byte) error {
	row, err := decodeOffset(group, value)
	if err == nil && row.Offset < 0 {
		err = fmt.Errorf("group %q: offset %d", group, row.Offset)
	}
	return err
}
