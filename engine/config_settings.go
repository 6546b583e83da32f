package engine

import (
	"math"
	"strings"
	"time"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/retention"
)

// Setting describes one setting for people and tools.
type Setting struct {
	Name    string // Kafka's topic-level name, empty for a setting of the store
	Alias   string // another accepted name, empty for none
	Broker  string // the broker-level names, highest precedence first
	Field   string // the field of TopicConfig, empty for a setting of the store
	Default string
	Valid   string
	Doc     string
}

// Settings lists every setting of Kafka's log (SPEC 11), topic settings first.
// Those without a Name belong to a whole store; [ParseBrokerConfig] refuses them.
func Settings() []Setting {
	list := make([]Setting, 0, len(settingTable)+len(storeSettings))
	for i := range settingTable {
		s := settingTable[i].Setting
		s.Broker = settingTable[i].brokerNames()
		list = append(list, s)
	}
	return append(list, storeSettings...)
}

// settingRow is a row of the table that everything about topic settings follows:
// parsing, formatting, ranges, inheritance and documentation.
type settingRow struct {
	Setting
	brokers []brokerName
	binding
}

// brokerName is one broker-level name of a setting.
type brokerName struct {
	name string
	unit int64 // milliseconds of one, for names in minutes or hours; else 0
	min  int64 // stricter than the topic's range; with unlimited, -1 is allowed too

	unlimited bool
}

func (s *settingRow) brokerNames() string {
	var names []string
	for _, b := range s.brokers {
		names = append(names, b.name)
	}
	return strings.Join(names, ", ")
}

// binding ties a setting to its field. It hides the field's type.
type binding struct {
	parse   func(c *TopicConfig, text string) (reason string)
	format  func(c TopicConfig) string // empty when the field is zero
	check   func(c TopicConfig) (value, reason string)
	inherit func(c, from *TopicConfig) // when the field is zero
}

// bind makes the binding of a field.
func bind[T comparable](field func(*TopicConfig) *T, v settingValue[T]) binding {
	var zero T
	return binding{
		parse: func(c *TopicConfig, text string) (reason string) {
			parsed, reason := v.parse(text)
			if reason == "" {
				*field(c) = parsed
			}
			return reason
		},
		format: func(c TopicConfig) string {
			if *field(&c) == zero {
				return ""
			}
			return v.format(*field(&c))
		},
		check: func(c TopicConfig) (value, reason string) {
			if *field(&c) == zero {
				return "", ""
			}
			return v.format(*field(&c)), v.check(*field(&c))
		},
		inherit: func(c, from *TopicConfig) {
			if *field(c) == zero {
				*field(c) = *field(from)
			}
		},
	}
}

const (
	minuteMs = 60 * 1000
	hourMs   = 60 * minuteMs
)

// minIndexBytes is one row of a time index; an index refuses to be smaller.
const minIndexBytes = retention.IndexRowBytes

// minSegmentBytes is Kafka's: the smallest message.
const minSegmentBytes = 14

// settingTable is the table of topic settings, in the order of SPEC 11.
var settingTable = []settingRow{
	{
		Setting: Setting{Name: "num.partitions", Field: "Partitions", Default: "1", Valid: "at least 1",
			Doc: "Number of partitions; can grow, never shrink."},
		brokers: []brokerName{{name: "num.partitions"}},
		binding: bind(func(c *TopicConfig) *int32 { return &c.Partitions }, countValue()),
	},
	{
		Setting: Setting{Name: "segment.bytes", Field: "SegmentBytes", Default: "1073741824", Valid: "14 to 2147483647",
			Doc: "Size of a segment, and so of the largest appended set, in v1 wire bytes."},
		brokers: []brokerName{{name: "log.segment.bytes"}},
		binding: bind(func(c *TopicConfig) *int64 { return &c.SegmentBytes }, sizeValue(minSegmentBytes, math.MaxInt32)),
	},
	{
		Setting: Setting{Name: "segment.ms", Field: "SegmentAge", Default: "604800000", Valid: "at least 0; broker at least 1",
			Doc: "Time a segment may span, or wait for an append, before it is rolled."},
		brokers: []brokerName{{name: "log.roll.ms", min: 1}, {name: "log.roll.hours", unit: hourMs, min: 1}},
		binding: bind(func(c *TopicConfig) *time.Duration { return &c.SegmentAge }, millisValue(0)),
	},
	{
		Setting: Setting{Name: "segment.jitter.ms", Field: "SegmentJitter", Default: "0", Valid: "0 to segment.ms",
			Doc: "Upper end of a share taken off segment.ms, fixed for each segment."},
		brokers: []brokerName{{name: "log.roll.jitter.ms"}, {name: "log.roll.jitter.hours", unit: hourMs}},
		binding: bind(func(c *TopicConfig) *time.Duration { return &c.SegmentJitter }, millisValue(0)),
	},
	{
		Setting: Setting{Name: "segment.index.bytes", Field: "SegmentIndexBytes", Default: "10485760", Valid: "12 to 2147483647",
			Doc: "Size of a segment's time index, 12 bytes a row, at which the segment is rolled."},
		brokers: []brokerName{{name: "log.index.size.max.bytes"}},
		binding: bind(func(c *TopicConfig) *int64 { return &c.SegmentIndexBytes }, sizeValue(minIndexBytes, math.MaxInt32)),
	},
	{
		Setting: Setting{Name: "index.interval.bytes", Field: "IndexIntervalBytes", Default: "4096", Valid: "0 to 2147483647",
			Doc: "Wire bytes between two rows of the time index."},
		brokers: []brokerName{{name: "log.index.interval.bytes"}},
		binding: bind(func(c *TopicConfig) *int64 { return &c.IndexIntervalBytes }, sizeValue(0, math.MaxInt32)),
	},
	{
		Setting: Setting{Name: "retention.ms", Field: "Retention.MaxAge", Default: "604800000", Valid: "any, negative is unlimited; broker -1 or at least 1",
			Doc: "Age of a segment's newest message beyond which the segment is deleted."},
		brokers: []brokerName{
			{name: "log.retention.ms", min: 1, unlimited: true},
			{name: "log.retention.minutes", unit: minuteMs, min: 1, unlimited: true},
			{name: "log.retention.hours", unit: hourMs, min: 1, unlimited: true},
		},
		binding: bind(func(c *TopicConfig) *time.Duration { return &c.Retention.MaxAge }, maxAgeValue()),
	},
	{
		Setting: Setting{Name: "retention.bytes", Field: "Retention.MaxBytes", Default: "-1", Valid: "any, negative is unlimited",
			Doc: "Size of a partition in v1 wire bytes below which nothing is deleted."},
		brokers: []brokerName{{name: "log.retention.bytes"}},
		binding: bind(func(c *TopicConfig) *int64 { return &c.Retention.MaxBytes }, maxBytesValue()),
	},
	{
		Setting: Setting{Name: "retention.clamp.future", Field: "Retention.ClampFuture", Default: "false", Valid: "true, false",
			Doc: "Not Kafka's. Count a segment's age from its last append when its timestamps are ahead of that. A store-level true cannot be taken back by a topic."},
		brokers: []brokerName{{name: "log.retention.clamp.future"}},
		binding: bind(func(c *TopicConfig) *bool { return &c.Retention.ClampFuture }, flagValue()),
	},
	{
		Setting: Setting{Name: "file.delete.delay.ms", Field: "Carried.FileDeleteDelay", Default: "60000", Valid: "at least 0",
			Doc: "No effect: there are no segment files."},
		brokers: []brokerName{{name: "log.segment.delete.delay.ms"}},
		binding: bind(func(c *TopicConfig) *time.Duration { return &c.Carried.FileDeleteDelay }, millisValue(0)),
	},
	{
		Setting: Setting{Name: "cleanup.policy", Field: "CleanupPolicy", Default: "delete", Valid: "list of delete, compact",
			Doc: "Delete old segments, compact by key, or both."},
		brokers: []brokerName{{name: "log.cleanup.policy"}},
		binding: bind(func(c *TopicConfig) *CleanupPolicy { return &c.CleanupPolicy }, cleanupValue()),
	},
	{
		Setting: Setting{Name: "delete.retention.ms", Field: "DeleteRetention", Default: "86400000", Valid: "at least 0",
			Doc: "Time for which compaction keeps a tombstone."},
		brokers: []brokerName{{name: "log.cleaner.delete.retention.ms"}},
		binding: bind(func(c *TopicConfig) *time.Duration { return &c.DeleteRetention }, millisValue(0)),
	},
	{
		Setting: Setting{Name: "min.compaction.lag.ms", Field: "MinCompactionLag", Default: "0", Valid: "at least 0",
			Doc: "Age below which a message is not compacted."},
		brokers: []brokerName{{name: "log.cleaner.min.compaction.lag.ms"}},
		binding: bind(func(c *TopicConfig) *time.Duration { return &c.MinCompactionLag }, millisValue(0)),
	},
	{
		Setting: Setting{Name: "min.cleanable.dirty.ratio", Field: "MinCleanableRatio", Default: "0.5", Valid: "0 to 1",
			Doc: "Dirty share of a log that must be exceeded for compaction."},
		brokers: []brokerName{{name: "log.cleaner.min.cleanable.ratio"}},
		binding: bind(func(c *TopicConfig) *float64 { return &c.MinCleanableRatio }, ratioValue()),
	},
	{
		Setting: Setting{Name: "max.message.bytes", Field: "MaxMessageBytes", Default: "1000012", Valid: "0 to 2147483647",
			Doc: "Size of the largest frame, with its 12 bytes of offset and size."},
		brokers: []brokerName{{name: "message.max.bytes"}},
		binding: bind(func(c *TopicConfig) *int64 { return &c.MaxMessageBytes }, sizeValue(0, math.MaxInt32)),
	},
	{
		Setting: Setting{Name: "message.format.version", Alias: "message.format", Field: "MessageFormat",
			Default: "0.10.2", Valid: "0.8.0 to 0.10.2, v0, v1, enriched",
			Doc: "Format of new messages: v0 up to 0.9, v1 from 0.10.0 on, or enriched."},
		brokers: []brokerName{{name: "log.message.format.version"}},
		binding: bind(func(c *TopicConfig) *MessageFormat { return &c.MessageFormat }, formatVersionValue()),
	},
	{
		Setting: Setting{Name: "message.timestamp.type", Field: "TimestampType", Default: "CreateTime", Valid: "CreateTime, LogAppendTime",
			Doc: "Who gives messages their timestamp: the producer or the leader's clock."},
		brokers: []brokerName{{name: "log.message.timestamp.type"}},
		binding: bind(func(c *TopicConfig) *codec.TimestampType { return &c.TimestampType }, nameValue[codec.TimestampType](timestampTypeNames)),
	},
	{
		Setting: Setting{Name: "message.timestamp.difference.max.ms", Alias: "max.message.time.difference.ms", Field: "MaxTimestampDifference",
			Default: "9223372036854775807", Valid: "at least 0",
			Doc: "Largest difference between a CreateTime timestamp and the leader's clock."},
		brokers: []brokerName{{name: "log.message.timestamp.difference.max.ms"}},
		binding: bind(func(c *TopicConfig) *time.Duration { return &c.MaxTimestampDifference }, millisValue(0)),
	},
	{
		Setting: Setting{Name: "compression.type", Field: "Compression", Default: "producer", Valid: "uncompressed, gzip, snappy, lz4, producer",
			Doc: "Compression of stored messages."},
		brokers: []brokerName{{name: "compression.type"}},
		binding: bind(func(c *TopicConfig) *CompressionType { return &c.Compression }, nameValue[CompressionType](compressionNames)),
	},
	{
		Setting: Setting{Name: "flush.messages", Field: "Carried.FlushMessages", Default: "9223372036854775807", Valid: "at least 0; broker at least 1",
			Doc: "No effect: Options.Durability decides when data is forced to disk."},
		brokers: []brokerName{{name: "log.flush.interval.messages", min: 1}},
		binding: bind(func(c *TopicConfig) *int64 { return &c.Carried.FlushMessages }, sizeValue(0, math.MaxInt64)),
	},
	{
		Setting: Setting{Name: "flush.ms", Field: "Carried.FlushInterval", Default: "9223372036854775807", Valid: "at least 0",
			Doc: "No effect: Options.Durability decides when data is forced to disk."},
		brokers: []brokerName{{name: "log.flush.interval.ms"}},
		binding: bind(func(c *TopicConfig) *time.Duration { return &c.Carried.FlushInterval }, millisValue(0)),
	},
	{
		Setting: Setting{Name: "preallocate", Field: "Carried.Preallocate", Default: "false", Valid: "true, false",
			Doc: "No effect: there are no segment files."},
		brokers: []brokerName{{name: "log.preallocate"}},
		binding: bind(func(c *TopicConfig) *Toggle { return &c.Carried.Preallocate }, toggleValue()),
	},
	{
		Setting: Setting{Name: "min.insync.replicas", Field: "MinInSyncReplicas", Default: "1", Valid: "at least 1",
			Doc: "For the layer that replicates the store; a store on its own ignores it."},
		brokers: []brokerName{{name: "min.insync.replicas"}},
		binding: bind(func(c *TopicConfig) *int32 { return &c.MinInSyncReplicas }, countValue()),
	},
	{
		Setting: Setting{Name: "unclean.leader.election.enable", Field: "UncleanElection", Default: "true", Valid: "true, false",
			Doc: "For the layer that replicates the store; a store on its own ignores it."},
		brokers: []brokerName{{name: "unclean.leader.election.enable"}},
		binding: bind(func(c *TopicConfig) *Toggle { return &c.UncleanElection }, toggleValue()),
	},
	{
		Setting: Setting{Name: "time.index.mode", Field: "TimeIndex", Default: "local", Valid: "local; companion is not supported by this version",
			Doc: "Not Kafka's. Where the time index comes from."},
		brokers: []brokerName{{name: "log.time.index.mode"}},
		binding: bind(func(c *TopicConfig) *TimeIndexMode { return &c.TimeIndex }, nameValue[TimeIndexMode](timeIndexNames)),
	},
	{
		Setting: Setting{Name: "time.index.interval.ms", Field: "TimeIndexInterval", Default: "60000", Valid: "at least 1, with time.index.mode=companion",
			Doc: "Time between two rows of a companion time index (KIP-33 drafts)."},
		brokers: []brokerName{{name: "log.time.index.interval.ms"}},
		binding: bind(func(c *TopicConfig) *time.Duration { return &c.TimeIndexInterval }, millisValue(1)),
	},
}

// storeSettings are Kafka's settings of a whole broker. A store sets their like,
// if it has one, in its Options.
var storeSettings = []Setting{
	{Broker: "log.retention.check.interval.ms", Default: "300000", Valid: "at least 1", Doc: "Of the store: maintenance acts when something is due."},
	{Broker: "log.cleaner.enable", Default: "true", Valid: "true, false", Doc: "Of the store."},
	{Broker: "log.cleaner.threads", Default: "1", Valid: "at least 0", Doc: "Of the store: one goroutine compacts."},
	{Broker: "log.cleaner.backoff.ms", Default: "15000", Valid: "at least 0", Doc: "Of the store."},
	{Broker: "log.cleaner.dedupe.buffer.size", Default: "134217728", Valid: "more than 1 MiB per thread", Doc: "Of the store: memory of a compaction's offset map."},
	{Broker: "log.cleaner.io.buffer.load.factor", Default: "0.9", Valid: "0 to 1", Doc: "Of the store."},
	{Broker: "log.cleaner.io.buffer.size", Default: "524288", Valid: "at least 0", Doc: "Of the store."},
	{Broker: "log.flush.scheduler.interval.ms", Default: "9223372036854775807", Valid: "at least 0", Doc: "Of the store: Options.Durability."},
	{Broker: "log.flush.offset.checkpoint.interval.ms", Default: "60000", Valid: "at least 0", Doc: "Of the store: offsets are written with the data."},
	{Broker: "log.flush.start.offset.checkpoint.interval.ms", Default: "60000", Valid: "at least 0", Doc: "Of the store: the log start is written with the deletion."},
	{Broker: "replica.fetch.max.bytes", Default: "1048576", Valid: "at least 0", Doc: "Of the store: a fetch's own options."},
	{Broker: "replica.fetch.response.max.bytes", Default: "10485760", Valid: "at least 0", Doc: "Of the store: a fetch's own options."},
	{Broker: "replica.fetch.wait.max.ms", Default: "500", Valid: "at least 0", Doc: "Of the store: a fetch's own options."},
	{Broker: "replica.fetch.min.bytes", Default: "1", Valid: "at least 0", Doc: "Of the store: a fetch's own options."},
}
