package codec

import (
	"errors"
	"fmt"
)

// Code is an error code of the Kafka protocol (SPEC 2.9).
type Code int16

// The codes the log itself produces.
const (
	CodeUnknown              Code = -1
	CodeNone                 Code = 0
	CodeOffsetOutOfRange     Code = 1
	CodeCorruptMessage       Code = 2
	CodeUnknownPartition     Code = 3
	CodeMessageTooLarge      Code = 10
	CodeMetadataTooLarge     Code = 12
	CodeInvalidTopic         Code = 17
	CodeRecordListTooLarge   Code = 18
	CodeInvalidGroup         Code = 24
	CodeInvalidTimestamp     Code = 32
	CodeTopicExists          Code = 36
	CodeInvalidPartitions    Code = 37
	CodeInvalidConfig        Code = 40
	CodeInvalidRequest       Code = 42
	CodeUnsupportedForFormat Code = 43
	CodePolicyViolation      Code = 44
	CodeOutOfOrderSequence   Code = 45
	CodeDuplicateSequence    Code = 46
	CodeInvalidTransaction   Code = 48
	CodeTransactionOpen      Code = 51
	CodeKafkaStorage         Code = 56
)

// Error is a violation that the Kafka protocol has a code for. errors.Is
// matches two Errors by Code, so the sentinels below catch every detail.
type Error struct {
	Code   Code
	Detail string
}

// Error returns the detail, or the sentinel's text.
func (e *Error) Error() string { return e.Detail }

// KafkaCode returns the protocol's error code.
func (e *Error) KafkaCode() Code { return e.Code }

// Is reports whether target is an Error with the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// The sentinels, one per code a caller acts upon.
var (
	ErrCorruptMessage     = &Error{CodeCorruptMessage, "corrupt message"}
	ErrMessageTooLarge    = &Error{CodeMessageTooLarge, "message too large"}
	ErrRecordListTooLarge = &Error{CodeRecordListTooLarge, "message set larger than a segment"}
	ErrInvalidTimestamp   = &Error{CodeInvalidTimestamp, "invalid timestamp"}
)

// ErrTimestampExceededThreshold is KIP-32's draft name of ErrInvalidTimestamp
// (SPEC C9).
var ErrTimestampExceededThreshold = ErrInvalidTimestamp

// ErrDamaged says that stored bytes are not what was written: a checksum or a
// length does not fit. The engine turns it into a located CorruptionError.
var ErrDamaged = errors.New("stored bytes are damaged")

// Errorf returns an Error with a code and a formatted detail.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}
