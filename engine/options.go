package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Durability says when an append is acknowledged. The zero value is the safe
// one.
type Durability time.Duration

const (
	// SyncAlways acknowledges an append when it is on stable storage: it
	// survives kill -9, an operating-system crash and power loss.
	SyncAlways Durability = 0
	// SyncNever acknowledges an append when it is in the engine's memory and
	// leaves writing it back to Pebble and the operating system. A process
	// crash can lose the last milliseconds, an operating-system crash or power
	// loss more. DB.Sync and Close force the data to disk.
	SyncNever Durability = -1
)

// SyncEvery acknowledges as SyncNever does and forces the data to disk every d:
// what is older than d survives everything.
func SyncEvery(d time.Duration) Durability { return Durability(d) }

// Options configure a DB. The zero value is valid and durable.
type Options struct {
	// Durability says when an append is acknowledged; zero is SyncAlways.
	Durability Durability
	// Now is the only clock the store reads; nil means time.Now. Tests set it.
	Now func() time.Time
	// Logger gets the store's events: opened and closed, segments rolled and why,
	// retention, compaction passes, a full disk, and what fails in the background
	// or fails the store. Its handler runs in a goroutine of its own and with none of
	// the store's locks held: it may be slow, and use the store, but not close it.
	// Close waits for it. Nil discards the events.
	Logger *slog.Logger
	// Defaults are the settings a topic has where its own do not say: the
	// broker level of Kafka's configuration. Zero fields mean Kafka's defaults.
	Defaults TopicConfig

	// MemTableBytes sets the size of one write buffer; up to four exist at a
	// time. Zero means 64 MiB; SmallMemory sets it for a small embedder. Larger
	// ones save write amplification (DESIGN.md, Tuning).
	MemTableBytes int64
	// CacheBytes sets the block cache; zero means 128 MiB.
	CacheBytes int64
	// MaxQueuedBytes bounds the bytes of appends that wait for the disk; an
	// append beyond it blocks. Zero means 32 MiB.
	MaxQueuedBytes int64
	// CompactionMapBytes bounds the map of newest offsets of a compaction pass, 40
	// bytes a key; with more keys a log takes several passes
	// (log.cleaner.dedupe.buffer.size). A pass takes no more than its log can need,
	// and one runs at a time. Zero means 128 MiB.
	CompactionMapBytes int64

	// DiskReserve sets how many bytes of its file system the store leaves free: with
	// less, appends return ErrDiskFull, while reads, retention and deletes go on, and
	// resume by themselves when space is back. What is in memory still has to become
	// tables then, so zero means the size of all write buffers, four MemTableBytes,
	// and at least 64 MiB. NoDiskReserve turns it off: a disk that runs full then
	// fails the store.
	DiskReserve int64

	// GroupExpiry makes the store forget the offsets of consumer groups that have
	// committed nothing for so long (Kafka's offsets.retention.minutes). Zero means
	// never.
	GroupExpiry time.Duration

	// ReadOnly opens a store that nobody has open for writing, and writes not a byte
	// to its directory: every write to the store returns ErrReadOnly, nothing is
	// maintained. Several may do so at a time. What a crash left in the log is read
	// into memory. A store that is open for writing, here or in another process, is
	// refused with ErrLocked: make a checkpoint there and open that. A store of
	// which acknowledged data is missing is refused as ever.
	ReadOnly bool
	// MustExist makes Open fail with ErrNotExist instead of creating a store.
	MustExist bool
	// AllowDataLoss opens a store of which acknowledged data is missing: Open
	// logs the DataLossError instead of returning it.
	AllowDataLoss bool

	// FS is the file system; nil means the operating system's. Tests inject
	// faults and crashes here.
	FS vfs.FS
}

// SmallMemory returns o with the memory settings for a small embedder: about
// 24 MiB in all and 4 MiB while a log is compacted, at the price of more write amplification.
func (o Options) SmallMemory() Options {
	o.MemTableBytes = 4 << 20
	o.CacheBytes = 8 << 20
	o.MaxQueuedBytes = 4 << 20
	o.CompactionMapBytes = 4 << 20
	return o
}

// NoDiskReserve, as Options.DiskReserve, lets appends fill the disk.
const NoDiskReserve = -1

const (
	minReserve      = 64 << 20
	defaultMemTable = 64 << 20
	defaultCache    = 128 << 20
	defaultQueue    = 32 << 20
	defaultMap      = 128 << 20
	minMemTable     = 64 << 10
	maxMemTable     = 1 << 30
)

func (o Options) withDefaults() Options {
	if o.ReadOnly { // nothing is queued
		o.Durability = SyncAlways
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = defaultMemTable
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCache
	}
	if o.MaxQueuedBytes == 0 {
		o.MaxQueuedBytes = defaultQueue
	}
	if o.CompactionMapBytes == 0 {
		o.CompactionMapBytes = defaultMap
	}
	if o.DiskReserve == 0 {
		o.DiskReserve = max(minReserve, memTables*o.MemTableBytes)
	}
	return o
}

// validate reports every setting that is out of range.
func (o Options) validate() error {
	var errs []error
	check := func(ok bool, name string, value any, must string) {
		if !ok {
			errs = append(errs, &ConfigError{Setting: name, Value: fmt.Sprint(value), Reason: "must be " + must})
		}
	}
	check(o.Durability >= SyncNever, "Durability", time.Duration(o.Durability), ">= 0, or SyncNever")
	check(o.MemTableBytes == 0 || o.MemTableBytes >= minMemTable && o.MemTableBytes <= maxMemTable, "MemTableBytes", o.MemTableBytes, "64 KiB to 1 GiB")
	check(o.CacheBytes >= 0, "CacheBytes", o.CacheBytes, ">= 0")
	check(o.MaxQueuedBytes >= 0, "MaxQueuedBytes", o.MaxQueuedBytes, ">= 0")
	check(o.DiskReserve >= NoDiskReserve, "DiskReserve", o.DiskReserve, ">= 0, or NoDiskReserve")
	check(o.GroupExpiry >= 0, "GroupExpiry", o.GroupExpiry, ">= 0")
	check(o.CompactionMapBytes >= 0, "CompactionMapBytes", o.CompactionMapBytes, ">= 0")
	errs = append(errs, o.Defaults.validate())
	return errors.Join(errs...)
}
