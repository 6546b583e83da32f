package engine

import (
	"errors"
	"math"
	"time"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/compaction"
	"github.com/cairnlog/cairn/retention"
)

const (
	// Forever, as a duration setting, is Kafka's largest value: no limit.
	Forever = time.Duration(math.MaxInt64)
	// ExplicitZero, as a size or count setting, is the number zero where Kafka
	// allows it. The field's own zero means the default.
	ExplicitZero = -1
	// CleanAlways, as a MinCleanableRatio, is the ratio zero: any dirty byte makes
	// a log eligible for compaction.
	CleanAlways = math.SmallestNonzeroFloat64
)

// TopicConfig is the configuration of a topic. It is a plain value and may be
// compared with ==. Every field's zero value means the store's default, and
// where that is zero too, Kafka's (SPEC 11).
//
// Durations are kept in milliseconds, rounded down: a positive one below a
// millisecond is Kafka's 0 ms. [Forever] is no limit. The Kafka name of each
// setting is in parentheses; [Settings] lists them all, with their broker names.
type TopicConfig struct {
	// Partitions sets the number of partitions (num.partitions). Zero means 1. It
	// can grow later, never shrink.
	Partitions int32

	// TimestampType sets who gives messages their timestamp: the producer or the
	// leader's clock (message.timestamp.type). Unset means CreateTime.
	TimestampType codec.TimestampType
	// MaxTimestampDifference bounds how far a CreateTime timestamp may be from the
	// leader's clock, both ways, inclusive (message.timestamp.difference.max.ms,
	// in KIP-32 max.message.time.difference.ms). Zero means unlimited. Set it when
	// producers' clocks are not to be trusted: retention and time searches follow
	// the timestamps.
	MaxTimestampDifference time.Duration
	// Compression sets how messages are stored on a leader (compression.type).
	// Unset means as the producer sent them.
	Compression CompressionType
	// MessageFormat sets the format new messages are kept in
	// (message.format.version). Unset means v1. Messages of FormatEnriched have tags
	// and the log's clock as timestamp, the receipt time, whatever TimestampType says
	// where it is unset.
	MessageFormat MessageFormat
	// MaxMessageBytes bounds one frame, a wrapper counting as one, in v1 wire bytes
	// with its 12 bytes of offset and size (max.message.bytes). Zero means
	// 1,000,012.
	MaxMessageBytes int64

	// SegmentBytes bounds a segment in v1 wire bytes, and so one appended set
	// (segment.bytes). Zero means 1 GiB. Make it smaller for finer retention.
	SegmentBytes int64
	// SegmentAge bounds the time a segment spans or waits for an append
	// (segment.ms). Zero means seven days.
	SegmentAge time.Duration
	// SegmentJitter takes a random share of itself off SegmentAge, fixed for each
	// segment, so that partitions do not all roll at once (segment.jitter.ms). Zero
	// means none.
	SegmentJitter time.Duration
	// SegmentIndexBytes bounds the time index of a segment, at 12 bytes a row;
	// when it is full the segment is rolled (segment.index.bytes). Zero means
	// 10 MiB.
	SegmentIndexBytes int64
	// IndexIntervalBytes sets how many wire bytes pass between two rows of the time
	// index (index.interval.bytes), which is also about what a time search scans.
	// Zero means 4096, [ExplicitZero] a row wherever one can be.
	IndexIntervalBytes int64
	// TimeIndex sets where the time index comes from (time.index.mode). Unset means
	// IndexLocal.
	TimeIndex TimeIndexMode
	// TimeIndexInterval sets how often the companion index gets a row
	// (time.index.interval.ms). It needs IndexCompanion. Zero means one minute.
	TimeIndexInterval time.Duration

	// CleanupPolicy sets what happens to old messages (cleanup.policy). Unset
	// means CleanupDelete.
	CleanupPolicy CleanupPolicy
	// Retention sets when CleanupDelete deletes (retention.ms, retention.bytes,
	// retention.clamp.future).
	Retention retention.Policy
	// DeleteRetention sets how long compaction keeps a tombstone for readers to
	// see (delete.retention.ms). Zero means 24 hours.
	DeleteRetention time.Duration
	// MinCompactionLag keeps messages newer than this out of compaction
	// (min.compaction.lag.ms). Zero means no lag.
	MinCompactionLag time.Duration
	// MinCleanableRatio sets the share of a log that must be dirty before it is
	// compacted, strictly exceeded (min.cleanable.dirty.ratio). Zero means 0.5,
	// [CleanAlways] the ratio zero.
	MinCleanableRatio float64

	// MinInSyncReplicas (min.insync.replicas, zero means 1) and UncleanElection
	// (unclean.leader.election.enable, unset means on) are for the layer that
	// replicates the store; a store on its own is its only replica and ignores
	// them.
	MinInSyncReplicas int32
	UncleanElection   Toggle

	// Carried are settings without effect here.
	Carried Carried
}

// Carried are settings of a file-per-segment broker that a store on Pebble has
// no use for. They are checked, stored with the topic and returned by
// [TopicConfig.Settings], so that a configuration passes through unharmed, and
// they have no other effect.
type Carried struct {
	// FileDeleteDelay (file.delete.delay.ms, zero means one minute): deleted
	// segments stay readable for iterators that are open, and for no one else.
	FileDeleteDelay time.Duration
	// FlushMessages and FlushInterval (flush.messages, flush.ms, zero means never):
	// Options.Durability decides when data is forced to disk.
	FlushMessages int64
	FlushInterval time.Duration
	// Preallocate (preallocate, unset means off): there are no segment files.
	Preallocate Toggle
}

// The defaults that are no other package's (SPEC 11).
const (
	defaultMaxMessageBytes    = 1_000_012 // 1,000,000 and a frame's 12
	defaultSegmentBytes       = 1 << 30
	defaultSegmentMs          = 7 * 24 * 60 * 60 * 1000
	defaultSegmentIndexBytes  = 10 << 20
	defaultIndexIntervalBytes = 4096
	defaultTimeIndexMs        = 60_000
	defaultDeleteRetentionMs  = 24 * 60 * 60 * 1000
	defaultCleanableRatio     = 0.5
	defaultFileDeleteDelayMs  = 60_000
)

// companionIndex says whether this version builds the companion time index. Until
// it does, asking for one is refused rather than ignored.
const companionIndex = false

// topicSettings is a TopicConfig with every default applied, in Kafka's units.
type topicSettings struct {
	partitions               int32
	timestampType            codec.TimestampType
	maxTimestampDifferenceMs int64
	compression              CompressionType
	magic                    int8
	enriched                 bool
	maxMessageBytes          int64

	segmentBytes        int64
	segmentMs           int64
	segmentJitterMs     int64
	segmentIndexBytes   int64
	indexIntervalBytes  int64
	companion           bool
	timeIndexIntervalMs int64

	cleanupDelete      bool
	cleanupCompact     bool
	retention          retention.Limits // NoLimits unless cleanupDelete
	deleteRetentionMs  int64
	minCompactionLagMs int64
	minCleanableRatio  float64

	minInSyncReplicas int32
	uncleanElection   bool
}

// resolve applies Kafka's defaults. The error joins a *ConfigError for every
// violation.
func (c TopicConfig) resolve() (topicSettings, error) {
	if err := c.validate(); err != nil {
		return topicSettings{}, err
	}
	s := topicSettings{
		partitions:               max(1, c.Partitions),
		timestampType:            c.TimestampType,
		maxTimestampDifferenceMs: millisOr(c.MaxTimestampDifference, math.MaxInt64),
		compression:              max(c.Compression, CompressProducer),
		magic:                    1,
		maxMessageBytes:          sizeOr(c.MaxMessageBytes, defaultMaxMessageBytes),
		segmentBytes:             sizeOr(c.SegmentBytes, defaultSegmentBytes),
		segmentMs:                c.segmentMs(),
		segmentJitterMs:          millisOr(c.SegmentJitter, 0),
		segmentIndexBytes:        sizeOr(c.SegmentIndexBytes, defaultSegmentIndexBytes),
		indexIntervalBytes:       sizeOr(c.IndexIntervalBytes, defaultIndexIntervalBytes),
		companion:                c.TimeIndex == IndexCompanion,
		timeIndexIntervalMs:      millisOr(c.TimeIndexInterval, defaultTimeIndexMs),
		cleanupDelete:            c.CleanupPolicy != CleanupCompact,
		cleanupCompact:           c.CleanupPolicy.compacts(),
		retention:                c.Retention.Limits(),
		deleteRetentionMs:        millisOr(c.DeleteRetention, defaultDeleteRetentionMs),
		minCompactionLagMs:       millisOr(c.MinCompactionLag, 0),
		minCleanableRatio:        defaultCleanableRatio,
		minInSyncReplicas:        max(1, c.MinInSyncReplicas),
		uncleanElection:          c.UncleanElection != Off,
	}
	if c.TimestampType == codec.TimestampUnset {
		s.timestampType = codec.CreateTime
	}
	switch c.MessageFormat {
	case FormatV0:
		s.magic = 0
	case FormatEnriched: // the receipt time is the log's to set (SPEC 10.3)
		s.enriched, s.timestampType = true, codec.LogAppendTime
	}
	if c.MinCleanableRatio != 0 {
		s.minCleanableRatio = kafkaRatio(c.MinCleanableRatio)
	}
	if !s.cleanupDelete {
		s.retention = retention.NoLimits()
	}
	return s, nil
}

func (c TopicConfig) segmentMs() int64 { return millisOr(c.SegmentAge, defaultSegmentMs) }

// rollPolicy returns when a segment of the topic ends that starts at base.
func (s *topicSettings) rollPolicy(topic string, partition int32, base int64) retention.RollPolicy {
	return retention.RollPolicy{
		SegmentBytes: s.segmentBytes,
		SegmentMs:    s.segmentMs,
		JitterMs:     retention.Jitter(topic, partition, base, s.segmentJitterMs, s.segmentMs),
		IndexBytes:   s.segmentIndexBytes,
	}
}

// compactionPolicy returns how the topic is compacted.
func (s *topicSettings) compactionPolicy() compaction.Policy {
	return compaction.Policy{
		MinLagMs:          s.minCompactionLagMs,
		MinCleanableRatio: s.minCleanableRatio,
		DeleteRetentionMs: s.deleteRetentionMs,
		SegmentBytes:      s.segmentBytes,
		IndexBytes:        s.segmentIndexBytes,
		IndexInterval:     s.indexIntervalBytes,
	}
}

// withDefaults returns c with the fields of defaults where its own are zero.
func (c TopicConfig) withDefaults(defaults TopicConfig) TopicConfig {
	for i := range settingTable {
		settingTable[i].inherit(&c, &defaults)
	}
	return c
}

// validate reports every violation as a *ConfigError.
func (c TopicConfig) validate() error {
	errs := c.rangeErrors()
	errs = append(errs, c.conflicts(c.segmentMs())...)
	return errors.Join(errs...)
}

// rangeErrors checks each setting by itself.
func (c TopicConfig) rangeErrors() []error {
	var errs []error
	for i := range settingTable {
		if value, reason := settingTable[i].check(c); reason != "" {
			errs = append(errs, &ConfigError{settingTable[i].Name, value, reason})
		}
	}
	return errs
}

// conflicts checks settings against each other. segmentMs is what a jitter is
// measured by.
func (c TopicConfig) conflicts(segmentMs int64) []error {
	var errs []error
	if jitter := kafkaMillis(c.SegmentJitter); segmentMs >= 0 && jitter > segmentMs {
		errs = append(errs, &ConfigError{"segment.jitter.ms", formatInt(jitter), "must not exceed segment.ms"})
	}
	if c.MessageFormat == FormatEnriched && c.TimestampType == codec.CreateTime {
		errs = append(errs, &ConfigError{"message.timestamp.type", c.TimestampType.String(), "must be LogAppendTime in the enriched format"})
	}
	if c.TimeIndex != IndexCompanion {
		if c.TimeIndexInterval != 0 {
			errs = append(errs, &ConfigError{"time.index.interval.ms", formatInt(kafkaMillis(c.TimeIndexInterval)), "needs time.index.mode=companion"})
		}
		return errs
	}
	if !companionIndex {
		errs = append(errs, &ConfigError{"time.index.mode", c.TimeIndex.String(), "is not supported by this version"})
	}
	if c.CleanupPolicy.compacts() {
		// After compaction a segment's first message need not sit at its base, which
		// is what a companion row says (SPEC 5.9.30).
		errs = append(errs, &ConfigError{"time.index.mode", c.TimeIndex.String(), "needs cleanup.policy=delete"})
	}
	return errs
}
