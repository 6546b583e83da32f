// In package engine: what a topic runs by is unexported.
package engine

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/retention"
)

// SPEC 11, column "default".
func TestZeroConfigResolvesToKafkasDefaults(t *testing.T) {
	s, err := TopicConfig{}.resolve()
	require.NoError(t, err)
	require.Equal(t, topicSettings{
		partitions:               1,
		timestampType:            codec.CreateTime,
		maxTimestampDifferenceMs: math.MaxInt64,
		compression:              CompressProducer,
		magic:                    1,
		maxMessageBytes:          1_000_012,
		segmentBytes:             1_073_741_824,
		segmentMs:                604_800_000,
		segmentIndexBytes:        10_485_760,
		indexIntervalBytes:       4096,
		timeIndexIntervalMs:      60_000,
		cleanupDelete:            true,
		retention:                retention.Limits{AgeMs: 604_800_000, Bytes: -1},
		deleteRetentionMs:        86_400_000,
		minCleanableRatio:        0.5,
		minInSyncReplicas:        1,
		uncleanElection:          true,
	}, s)
}

// The documented default of each setting is what its zero field resolves to.
func TestDocumentedDefaultsAreTheDefaults(t *testing.T) {
	zero, err := TopicConfig{}.resolve()
	require.NoError(t, err)
	for _, row := range settingTable {
		var c TopicConfig
		require.Empty(t, row.parse(&c, row.Default), row.Name)
		if row.Name == "time.index.interval.ms" {
			require.EqualValues(t, zero.timeIndexIntervalMs, c.TimeIndexInterval.Milliseconds())
			continue
		}
		s, err := c.resolve()
		require.NoError(t, err, row.Name)
		require.Equal(t, zero, s, row.Name)
	}
}

func TestResolveInKafkasUnits(t *testing.T) {
	s, err := TopicConfig{
		Partitions:             3,
		TimestampType:          codec.LogAppendTime,
		MaxTimestampDifference: time.Nanosecond,
		MessageFormat:          FormatV0,
		MaxMessageBytes:        ExplicitZero,
		SegmentAge:             Forever,
		SegmentJitter:          1500 * time.Microsecond,
		IndexIntervalBytes:     ExplicitZero,
		CleanupPolicy:          CleanupCompactDelete,
		Retention:              retention.Policy{MaxAge: retention.Immediate, MaxBytes: retention.KeepNothing},
		DeleteRetention:        time.Nanosecond,
		MinCleanableRatio:      CleanAlways,
		UncleanElection:        Off,
	}.resolve()
	require.NoError(t, err)
	require.EqualValues(t, 3, s.partitions)
	require.Equal(t, codec.LogAppendTime, s.timestampType)
	require.Zero(t, s.maxTimestampDifferenceMs)
	require.Zero(t, s.magic)
	require.Zero(t, s.maxMessageBytes)
	require.EqualValues(t, math.MaxInt64, s.segmentMs)
	require.EqualValues(t, 1, s.segmentJitterMs)
	require.Zero(t, s.indexIntervalBytes)
	require.True(t, s.cleanupDelete && s.cleanupCompact)
	require.Equal(t, retention.Limits{}, s.retention)
	require.Zero(t, s.deleteRetentionMs)
	require.Zero(t, s.minCleanableRatio)
	require.False(t, s.uncleanElection)
}

// X11: retention does not touch a topic that is only compacted.
func TestCompactOnlyHasNoRetention(t *testing.T) {
	s, err := TopicConfig{CleanupPolicy: CleanupCompact, Retention: retention.Policy{MaxAge: 1, MaxBytes: 1}}.resolve()
	require.NoError(t, err)
	require.False(t, s.cleanupDelete)
	require.Equal(t, retention.NoLimits(), s.retention)
}

// M03, in the fields' terms: every violation, with its Kafka name and value.
func TestResolveReportsEveryViolation(t *testing.T) {
	_, err := TopicConfig{
		Partitions:             -1,
		TimestampType:          codec.NoTimestampType,
		MaxTimestampDifference: -1,
		Compression:            9,
		MessageFormat:          9,
		MaxMessageBytes:        -2,
		SegmentBytes:           13,
		SegmentAge:             -time.Hour,
		SegmentJitter:          -1,
		SegmentIndexBytes:      ExplicitZero,
		IndexIntervalBytes:     math.MaxInt64,
		TimeIndex:              9,
		CleanupPolicy:          9,
		MinCleanableRatio:      math.NaN(),
		MinInSyncReplicas:      -1,
		UncleanElection:        9,
	}.resolve()
	require.Error(t, err)
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, 16)
	require.Contains(t, lines[0], `setting num.partitions ("-1") must be at least 1`)
	for _, line := range lines {
		require.Contains(t, line, "setting ")
	}
}

func TestResolveChecksSettingsAgainstEachOther(t *testing.T) {
	refuse := func(c TopicConfig, setting string) {
		t.Helper()
		_, err := c.resolve()
		var bad *ConfigError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, setting, bad.Setting)
	}
	refuse(TopicConfig{SegmentJitter: 8 * 24 * time.Hour}, "segment.jitter.ms")
	refuse(TopicConfig{SegmentAge: time.Second, SegmentJitter: 1001 * time.Millisecond}, "segment.jitter.ms")
	refuse(TopicConfig{TimeIndexInterval: time.Minute}, "time.index.interval.ms")
	refuse(TopicConfig{TimeIndex: IndexCompanion}, "time.index.mode")
	refuse(TopicConfig{TimeIndex: IndexCompanion, CleanupPolicy: CleanupCompact}, "time.index.mode")
}

// SPEC 11: topic over broker, including an explicit return to Kafka's default.
func TestTopicSettingsWinOverTheStores(t *testing.T) {
	store := TopicConfig{
		Partitions: 4, SegmentBytes: 100, Compression: CompressGzip, TimestampType: codec.LogAppendTime,
		CleanupPolicy: CleanupCompact, Retention: retention.Policy{MaxAge: time.Hour, MaxBytes: 9},
		Carried: Carried{Preallocate: On},
	}
	topic := TopicConfig{
		SegmentBytes: 200, Compression: CompressProducer, TimestampType: codec.CreateTime,
		Retention: retention.Policy{MaxBytes: retention.Unlimited}, Carried: Carried{Preallocate: Off},
	}
	require.Equal(t, TopicConfig{
		Partitions: 4, SegmentBytes: 200, Compression: CompressProducer, TimestampType: codec.CreateTime,
		CleanupPolicy: CleanupCompact, Retention: retention.Policy{MaxAge: time.Hour, MaxBytes: retention.Unlimited},
		Carried: Carried{Preallocate: Off},
	}, topic.withDefaults(store))
	require.Equal(t, store, TopicConfig{}.withDefaults(store))
}

// R08: the jitter of a segment depends on what the segment is, not on when it is
// asked for.
func TestRollPolicyOfASegment(t *testing.T) {
	s, err := TopicConfig{SegmentAge: time.Hour, SegmentJitter: time.Hour, SegmentBytes: 50}.resolve()
	require.NoError(t, err)
	p := s.rollPolicy("orders", 2, 77)
	require.Equal(t, retention.RollPolicy{
		SegmentBytes: 50, SegmentMs: 3_600_000, IndexBytes: 10_485_760,
		JitterMs: retention.Jitter("orders", 2, 77, 3_600_000, 3_600_000),
	}, p)
}

// Kafka's rules; the error has code 17.
func TestTopicNames(t *testing.T) {
	for _, name := range []string{"a", "A.b_c-9", "...", strings.Repeat("x", 249)} {
		require.NoError(t, validateTopicName(name), name)
	}
	for _, name := range []string{"", ".", "..", "a b", "a/b", "ü", "a\x00", strings.Repeat("x", 250)} {
		err := validateTopicName(name)
		var bad *TopicNameError
		require.ErrorAs(t, err, &bad, name)
		require.Equal(t, name, bad.Name)
		require.Equal(t, codec.CodeInvalidTopic, bad.KafkaCode())
	}
}
