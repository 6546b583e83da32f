package engine

import (
	"fmt"

	"github.com/cairnlog/cairn/codec"
)

// ConfigError says that a setting has a value it cannot have.
type ConfigError struct {
	Setting string // its Kafka name, or an Options field
	Value   string
	Reason  string // "must be at least 14"
}

// Error names setting, value and reason.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("setting %s (%.64q) %s", e.Setting, e.Value, e.Reason)
}

// KafkaCode returns InvalidConfig (40).
func (e *ConfigError) KafkaCode() codec.Code { return codec.CodeInvalidConfig }

// TopicNameError says why a string cannot be the name of a topic.
type TopicNameError struct {
	Name   string
	Reason string
}

// Error names the name and the reason.
func (e *TopicNameError) Error() string {
	return fmt.Sprintf("topic name %.64q %s", e.Name, e.Reason)
}

// KafkaCode returns InvalidTopic (17).
func (e *TopicNameError) KafkaCode() codec.Code { return codec.CodeInvalidTopic }

// maxTopicName is the longest topic name: Kafka's, which leaves room in a file
// name for the partition.
const maxTopicName = 249

// validateTopicName applies Kafka's rules; the error is a *TopicNameError.
func validateTopicName(name string) error {
	switch {
	case name == "":
		return &TopicNameError{name, "is empty"}
	case name == "." || name == "..":
		return &TopicNameError{name, `must not be "." or ".."`}
	case len(name) > maxTopicName:
		return &TopicNameError{name, fmt.Sprintf("is longer than %d", maxTopicName)}
	}
	for i := range len(name) {
		if !inTopicName(name[i]) {
			return &TopicNameError{name, "must consist of a-z, A-Z, 0-9, '.', '_' and '-'"}
		}
	}
	return nil
}

func inTopicName(b byte) bool {
	switch {
	case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9':
		return true
	default:
		return b == '.' || b == '_' || b == '-'
	}
}

// CompressionType is a topic's compression.type.
type CompressionType uint8

// The values of compression.type.
const (
	CompressUnset    CompressionType = iota // the default, producer
	CompressProducer                        // keep what the producer sent
	CompressNone                            // store uncompressed
	CompressGzip
	CompressSnappy
	CompressLZ4
)

var compressionNames = []string{"", "producer", "uncompressed", "gzip", "snappy", "lz4"}

// String returns the Kafka name, empty for CompressUnset.
func (c CompressionType) String() string { return nameOf(compressionNames, c) }

// MessageFormat is the format a topic keeps new messages in.
type MessageFormat uint8

// The message formats.
const (
	FormatUnset    MessageFormat = iota // the default, v1
	FormatV0                            // without timestamps, as before Kafka 0.10
	FormatV1                            // with timestamps, Kafka 0.10
	FormatEnriched                      // with tags and control messages (SPEC 10)
)

// formatNames are the values written for message.format.version: the newest
// version of each of Kafka's formats.
var formatNames = []string{"", "0.9.0", "0.10.2", "enriched"}

// String returns the newest Kafka version of the format, "enriched" for the one that
// no version has, empty for FormatUnset.
func (f MessageFormat) String() string { return nameOf(formatNames, f) }

// CleanupPolicy is what happens to a topic's old messages.
type CleanupPolicy uint8

// The values of cleanup.policy.
const (
	CleanupUnset         CleanupPolicy = iota // the default, delete
	CleanupDelete                             // retention deletes old segments
	CleanupCompact                            // compaction keeps the last message of each key
	CleanupCompactDelete                      // both
)

var cleanupNames = []string{"", "delete", "compact", "compact,delete"}

// String returns the Kafka name, empty for CleanupUnset.
func (p CleanupPolicy) String() string { return nameOf(cleanupNames, p) }

func (p CleanupPolicy) compacts() bool { return p == CleanupCompact || p == CleanupCompactDelete }

// TimeIndexMode is where a partition's time index comes from.
type TimeIndexMode uint8

// The values of time.index.mode.
const (
	IndexUnset     TimeIndexMode = iota // the default, local
	IndexLocal                          // every replica derives it from the timestamps in its log (KIP-33)
	IndexCompanion                      // followers copy the leader's append times; not in this version
)

var timeIndexNames = []string{"", "local", "companion"}

// String returns the name, empty for IndexUnset.
func (m TimeIndexMode) String() string { return nameOf(timeIndexNames, m) }

// Toggle is a boolean that can be left to the default.
type Toggle uint8

// The values of a Toggle.
const (
	Unset Toggle = iota
	On
	Off
)

var toggleNames = []string{"", "true", "false"}

// String returns true or false, empty for Unset.
func (t Toggle) String() string { return nameOf(toggleNames, t) }

// timestampTypeNames are the timestamp types a topic can have.
var timestampTypeNames = []string{"", "CreateTime", "LogAppendTime"}

// nameOf returns the name of an enumeration's value.
func nameOf[T ~uint8](names []string, v T) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("unknown (%d)", uint8(v))
}
