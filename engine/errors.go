package engine

import (
	"errors"
	"fmt"

	"github.com/cairnlog/cairn/codec"
)

// The errors a caller acts upon. Protocol-level violations (a bad timestamp, a
// corrupt message, one too large) are codec.Errors; KafkaCode gives the code of
// any error.
var (
	// ErrClosed is returned by every use of a DB after Close.
	ErrClosed = errors.New("store is closed")
	// ErrFailed is returned by every write after the first failed write to the
	// disk, wrapped around the cause. Reads of acknowledged data go on. Close
	// the DB and open the directory again.
	ErrFailed = errors.New("store failed, reopen it")
	// ErrDiskFull matches every DiskFullError.
	ErrDiskFull = errors.New("disk full")
	// ErrCorrupt matches every CorruptionError.
	ErrCorrupt = errors.New("corrupt store")
	// ErrDataLoss says that the store came back with less than it had
	// acknowledged. See DataLossError.
	ErrDataLoss = errors.New("acknowledged data is missing")
	// ErrLocked says that the directory is open in this or another process.
	ErrLocked = errors.New("store is open elsewhere")
	// ErrNewerFormat says that a newer version of Cairn wrote the store.
	ErrNewerFormat = errors.New("store has a newer format")
	// ErrReadOnly is returned by every write to a store that was opened with
	// Options.ReadOnly.
	ErrReadOnly = errors.New("store is open for reading only")
	// ErrNotExist says that there is no store and Options.MustExist is set.
	ErrNotExist = errors.New("no store in this directory")
)

// The protocol-level errors of the engine itself; errors.Is matches by code.
var (
	ErrUnknownTopic = &codec.Error{Code: codec.CodeUnknownPartition, Detail: "unknown topic or partition"}
	ErrTopicExists  = &codec.Error{Code: codec.CodeTopicExists, Detail: "topic exists"}
	ErrOffsetRange  = &codec.Error{Code: codec.CodeOffsetOutOfRange, Detail: "offset out of range"}
	// ErrTransaction and ErrTransactionOpen are what a TransactionError matches.
	ErrTransaction     = &codec.Error{Code: codec.CodeInvalidTransaction, Detail: "transaction is not open"}
	ErrTransactionOpen = &codec.Error{Code: codec.CodeTransactionOpen, Detail: "transaction is open"}

	ErrFormat = &codec.Error{Code: codec.CodeUnsupportedForFormat, Detail: "not supported by the topic's message format"}
)

// CorruptionError says that stored bytes are not what was written, and where.
// Its neighbours stay readable.
type CorruptionError struct {
	Topic     string
	Partition int32
	// Offset is that of the damaged entry's last message, or where reading
	// stopped; -1 where no offset is known.
	Offset int64
	Err    error
}

func (e *CorruptionError) Error() string {
	if e.Topic == "" {
		return fmt.Sprintf("corrupt store: %v", e.Err)
	}
	return fmt.Sprintf("%s/%d is corrupt at offset %d: %v", e.Topic, e.Partition, e.Offset, e.Err)
}

// Unwrap lets errors.Is match ErrCorrupt and the cause.
func (e *CorruptionError) Unwrap() []error { return []error{ErrCorrupt, e.Err} }

// KafkaCode returns CorruptMessage (2).
func (e *CorruptionError) KafkaCode() codec.Code { return codec.CodeCorruptMessage }

// DataLossError says that recovery ended before a point that was known to be
// on disk. Options.AllowDataLoss opens the store all the same.
type DataLossError struct {
	// Acknowledged and Recovered count the store's commits: those known to be
	// durable when the watermark was written, and those found.
	Acknowledged, Recovered uint64
	Err                     error
}

func (e *DataLossError) Error() string {
	return fmt.Sprintf("%d commits were acknowledged as durable and %d came back: restore a checkpoint, or open with AllowDataLoss: %v",
		e.Acknowledged, e.Recovered, e.Err)
}

// Unwrap lets errors.Is match ErrDataLoss.
func (e *DataLossError) Unwrap() []error { return []error{ErrDataLoss, e.Err} }

// OffsetRangeError says that a read or search named an offset outside the log
// (Kafka code 1).
type OffsetRangeError struct {
	Topic      string
	Partition  int32
	Offset     int64
	Start, End int64 // the log holds [Start, End)
}

func (e *OffsetRangeError) Error() string {
	return fmt.Sprintf("offset %d of %s/%d is outside the log [%d, %d]", e.Offset, e.Topic, e.Partition, e.Start, e.End)
}

// Unwrap lets errors.Is match ErrOffsetRange.
func (e *OffsetRangeError) Unwrap() error { return ErrOffsetRange }

// TransactionError says that a transaction is not open where it should be, or is
// where it should not.
type TransactionError struct {
	Topic     string // empty for the whole store
	Partition int32
	ID        int64
	Open      bool
}

func (e *TransactionError) Error() string {
	state, where := "not open", "the store"
	if e.Open {
		state = "open"
	}
	if e.Topic != "" {
		where = fmt.Sprintf("%s/%d", e.Topic, e.Partition)
	}
	return fmt.Sprintf("transaction %d is %s in %s", e.ID, state, where)
}

// Unwrap lets errors.Is match ErrTransaction (Kafka code 48), or ErrTransactionOpen
// (51).
func (e *TransactionError) Unwrap() error {
	if e.Open {
		return ErrTransactionOpen
	}
	return ErrTransaction
}

// DiskFullError says that an append was refused because the file system has less
// free than Options.DiskReserve (Kafka code 56). It changed nothing. Reads,
// retention and deletes go on, and appends resume by themselves when space is back.
type DiskFullError struct {
	// Free is what was free when the file system was asked last, Reserve what stays
	// free, in bytes. Need is not 0 for a set that is too large for what is free
	// above the reserve, where smaller ones may fit.
	Free, Reserve, Need int64
}

func (e *DiskFullError) Error() string {
	if e.Need > 0 {
		return fmt.Sprintf("disk full: a set that takes %d bytes does not fit, %d bytes are free and %d stay so", e.Need, e.Free, e.Reserve)
	}
	return fmt.Sprintf("disk full: %d bytes are free, of %d that stay so", e.Free, e.Reserve)
}

// Unwrap lets errors.Is match ErrDiskFull.
func (e *DiskFullError) Unwrap() error { return ErrDiskFull }

// KafkaCode returns KafkaStorageError (56).
func (e *DiskFullError) KafkaCode() codec.Code { return codec.CodeKafkaStorage }

// KafkaCode returns the Kafka protocol's code of err (SPEC 2.9): 0 for nil, 56
// for a failed store and a full disk, -1 where the protocol has none.
func KafkaCode(err error) codec.Code {
	var coded interface{ KafkaCode() codec.Code }
	switch {
	case err == nil:
		return codec.CodeNone
	case errors.As(err, &coded):
		return coded.KafkaCode()
	case errors.Is(err, ErrFailed), errors.Is(err, ErrClosed):
		return codec.CodeKafkaStorage
	default:
		return codec.CodeUnknown
	}
}
