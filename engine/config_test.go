package engine_test

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/retention"
)

// requireRefused checks that err is a ConfigError (Kafka code 40) that names the
// setting and its value.
func requireRefused(t *testing.T, err error, setting, value string) {
	t.Helper()
	require.Error(t, err, "%s=%s", setting, value)
	var bad *engine.ConfigError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, setting, bad.Setting)
	require.Equal(t, value, bad.Value)
	require.NotEmpty(t, bad.Reason)
	require.Contains(t, err.Error(), setting)
	require.Equal(t, codec.CodeInvalidConfig, bad.KafkaCode())
}

// violations are the settings named by a joined error.
func violations(err error) []string {
	var names []string
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			var bad *engine.ConfigError
			if errors.As(e, &bad) {
				names = append(names, bad.Setting)
			}
		}
	}
	slices.Sort(names)
	return names
}

// M03: ranges, with the field named. A retention below -1 is refused at the
// broker level only; SPEC 11 takes any negative one of a topic for unlimited.
func TestSettingsOutOfRangeAreRefused(t *testing.T) {
	for _, tc := range [][2]string{
		{"segment.bytes", "0"},
		{"segment.bytes", "-1"},
		{"segment.bytes", "13"},
		{"segment.bytes", "2147483648"},
		{"segment.ms", "-1"},
		{"segment.jitter.ms", "-1"},
		{"segment.index.bytes", "11"},
		{"index.interval.bytes", "-1"},
		{"retention.ms", "forever"},
		{"retention.ms", "9223372036854775808"},
		{"retention.bytes", "1e9"},
		{"message.timestamp.difference.max.ms", "-1"},
		{"max.message.time.difference.ms", "-1"},
		{"max.message.bytes", "-1"},
		{"min.cleanable.dirty.ratio", "-0.1"},
		{"min.cleanable.dirty.ratio", "1.1"},
		{"min.cleanable.dirty.ratio", "NaN"},
		{"message.timestamp.type", "createtime"},
		{"message.timestamp.type", "NoTimestampType"},
		{"message.timestamp.type", ""},
		{"compression.type", "zstd"},
		{"cleanup.policy", "delete,truncate"},
		{"cleanup.policy", ""},
		{"message.format.version", "0.11.0"},
		{"message.format.version", "0.10"},
		{"delete.retention.ms", "-1"},
		{"min.compaction.lag.ms", "-1"},
		{"file.delete.delay.ms", "-1"},
		{"flush.messages", "-1"},
		{"flush.ms", "-1"},
		{"preallocate", "1"},
		{"min.insync.replicas", "0"},
		{"unclean.leader.election.enable", "yes"},
		{"num.partitions", "0"},
		{"time.index.mode", "none"},
		{"time.index.mode", "companion"},
		{"no.such.setting", "1"},
		{"log.retention.ms", "1"},
	} {
		_, err := engine.ParseTopicConfig(map[string]string{tc[0]: tc[1]})
		requireRefused(t, err, tc[0], tc[1])
	}
	_, err := engine.ParseBrokerConfig(map[string]string{"log.retention.ms": "-2"})
	requireRefused(t, err, "log.retention.ms", "-2")
	c, err := engine.ParseTopicConfig(map[string]string{"retention.ms": "-2", "retention.bytes": "-2"})
	require.NoError(t, err)
	require.Equal(t, retention.NoLimits(), c.Retention.Limits())
}

// M03: jitter beyond segment.ms.
func TestJitterBeyondSegmentAgeIsRefused(t *testing.T) {
	_, err := engine.ParseTopicConfig(map[string]string{"segment.ms": "1000", "segment.jitter.ms": "1001"})
	requireRefused(t, err, "segment.jitter.ms", "1001")
	_, err = engine.ParseTopicConfig(map[string]string{"segment.ms": "1000", "segment.jitter.ms": "1000"})
	require.NoError(t, err)
	_, err = engine.ParseTopicConfig(map[string]string{"segment.jitter.ms": "9000000000"})
	require.NoError(t, err, "segment.ms may come from the store's defaults")
}

func TestEveryViolationIsReported(t *testing.T) {
	_, err := engine.ParseTopicConfig(map[string]string{
		"segment.bytes": "1", "segment.ms": "x", "unknown": "", "retention.ms": "5", "time.index.interval.ms": "7",
	})
	require.Equal(t, []string{"segment.bytes", "segment.ms", "time.index.interval.ms", "unknown"}, violations(err))
}

// SPEC 11: the Kafka values at and between the borders, in the fields' terms.
func TestSettingsReachTheirFields(t *testing.T) {
	for _, tc := range []struct {
		setting, value string
		want           engine.TopicConfig
	}{
		{"num.partitions", "12", engine.TopicConfig{Partitions: 12}},
		{"segment.bytes", "14", engine.TopicConfig{SegmentBytes: 14}},
		{"segment.ms", "0", engine.TopicConfig{SegmentAge: retention.Immediate}},
		{"segment.ms", " 1500 ", engine.TopicConfig{SegmentAge: 1500 * time.Millisecond}},
		{"segment.ms", "9223372036854775807", engine.TopicConfig{SegmentAge: engine.Forever}},
		{"segment.ms", "9223372036854", engine.TopicConfig{SegmentAge: 9223372036854 * time.Millisecond}},
		{"segment.ms", "9223372036855", engine.TopicConfig{SegmentAge: engine.Forever}},
		{"segment.index.bytes", "12", engine.TopicConfig{SegmentIndexBytes: 12}},
		{"index.interval.bytes", "0", engine.TopicConfig{IndexIntervalBytes: engine.ExplicitZero}},
		{"retention.ms", "0", engine.TopicConfig{Retention: retention.Policy{MaxAge: retention.Immediate}}},
		{"retention.ms", "-9223372036854775808", engine.TopicConfig{Retention: retention.Policy{MaxAge: retention.Unlimited}}},
		{"retention.ms", "9223372036854775807", engine.TopicConfig{Retention: retention.Policy{MaxAge: retention.Unlimited}}},
		{"retention.bytes", "0", engine.TopicConfig{Retention: retention.Policy{MaxBytes: retention.KeepNothing}}},
		{"retention.bytes", "-1", engine.TopicConfig{Retention: retention.Policy{MaxBytes: retention.Unlimited}}},
		{"retention.bytes", "-9223372036854775808", engine.TopicConfig{Retention: retention.Policy{MaxBytes: retention.Unlimited}}},
		{"retention.clamp.future", "TRUE", engine.TopicConfig{Retention: retention.Policy{ClampFuture: true}}},
		{"cleanup.policy", "delete , compact", engine.TopicConfig{CleanupPolicy: engine.CleanupCompactDelete}},
		{"cleanup.policy", "compact", engine.TopicConfig{CleanupPolicy: engine.CleanupCompact}},
		{"min.cleanable.dirty.ratio", "0.0", engine.TopicConfig{MinCleanableRatio: engine.CleanAlways}},
		{"min.cleanable.dirty.ratio", "1", engine.TopicConfig{MinCleanableRatio: 1}},
		{"message.format.version", "0.9.0.1", engine.TopicConfig{MessageFormat: engine.FormatV0}},
		{"message.format.version", "0.8.2", engine.TopicConfig{MessageFormat: engine.FormatV0}},
		{"message.format.version", "0.10.0-IV1", engine.TopicConfig{MessageFormat: engine.FormatV1}},
		{"message.format.version", "0.10.1.1", engine.TopicConfig{MessageFormat: engine.FormatV1}},
		{"message.timestamp.type", "LogAppendTime", engine.TopicConfig{TimestampType: codec.LogAppendTime}},
		{"message.timestamp.difference.max.ms", "0", engine.TopicConfig{MaxTimestampDifference: retention.Immediate}},
		{"max.message.time.difference.ms", "1000", engine.TopicConfig{MaxTimestampDifference: time.Second}}, // C9
		{"compression.type", "producer", engine.TopicConfig{Compression: engine.CompressProducer}},
		{"compression.type", "uncompressed", engine.TopicConfig{Compression: engine.CompressNone}},
		{"flush.messages", "0", engine.TopicConfig{Carried: engine.Carried{FlushMessages: engine.ExplicitZero}}},
		{"preallocate", "False", engine.TopicConfig{Carried: engine.Carried{Preallocate: engine.Off}}},
		{"unclean.leader.election.enable", "true", engine.TopicConfig{UncleanElection: engine.On}},
		{"time.index.mode", "local", engine.TopicConfig{TimeIndex: engine.IndexLocal}},
	} {
		got, err := engine.ParseTopicConfig(map[string]string{tc.setting: tc.value})
		require.NoError(t, err, "%s=%s", tc.setting, tc.value)
		require.Equal(t, tc.want, got, "%s=%s", tc.setting, tc.value)
	}
}

// C9: both spellings are one setting.
func TestAliasMustAgree(t *testing.T) {
	same := map[string]string{"message.timestamp.difference.max.ms": "5", "max.message.time.difference.ms": "5"}
	_, err := engine.ParseTopicConfig(same)
	require.NoError(t, err)
	same["max.message.time.difference.ms"] = "6"
	_, err = engine.ParseTopicConfig(same)
	requireRefused(t, err, "max.message.time.difference.ms", "6")
}

// SPEC 11: milliseconds over minutes over hours.
func TestBrokerPrecedence(t *testing.T) {
	for _, tc := range []struct {
		values map[string]string
		want   engine.TopicConfig
	}{
		{map[string]string{"log.retention.hours": "2"}, engine.TopicConfig{Retention: retention.Policy{MaxAge: 2 * time.Hour}}},
		{map[string]string{"log.retention.hours": "2", "log.retention.minutes": "3"}, engine.TopicConfig{Retention: retention.Policy{MaxAge: 3 * time.Minute}}},
		{map[string]string{"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, engine.TopicConfig{Retention: retention.Policy{MaxAge: 4 * time.Millisecond}}},
		{map[string]string{"log.retention.hours": "-1"}, engine.TopicConfig{Retention: retention.Policy{MaxAge: retention.Unlimited}}},
		{map[string]string{"log.retention.hours": "9223372036854775807"}, engine.TopicConfig{Retention: retention.Policy{MaxAge: retention.Unlimited}}},
		{map[string]string{"log.roll.hours": "1", "log.roll.ms": "5", "log.roll.jitter.hours": "0"}, engine.TopicConfig{SegmentAge: 5 * time.Millisecond, SegmentJitter: retention.Immediate}},
		{map[string]string{"num.partitions": "8", "message.max.bytes": "100", "compression.type": "gzip"}, engine.TopicConfig{Partitions: 8, MaxMessageBytes: 100, Compression: engine.CompressGzip}},
	} {
		got, err := engine.ParseBrokerConfig(tc.values)
		require.NoError(t, err, "%v", tc.values)
		require.Equal(t, tc.want, got, "%v", tc.values)
	}
}

// SPEC 11: where brokers are stricter than topics, and what is no topic's.
func TestBrokerRanges(t *testing.T) {
	for _, tc := range [][2]string{
		{"log.roll.ms", "0"}, {"log.roll.hours", "0"}, {"log.roll.jitter.hours", "-1"},
		{"log.retention.ms", "0"}, {"log.retention.minutes", "0"}, {"log.retention.hours", "-2"},
		{"log.flush.interval.messages", "0"}, {"log.segment.bytes", "13"},
		{"log.retention.check.interval.ms", "300000"}, {"log.cleaner.threads", "1"},
		{"retention.ms", "1"}, {"zookeeper.connect", "localhost"},
	} {
		_, err := engine.ParseBrokerConfig(map[string]string{tc[0]: tc[1]})
		requireRefused(t, err, tc[0], tc[1])
	}
	_, err := engine.ParseBrokerConfig(map[string]string{"log.retention.ms": "4", "log.retention.hours": "0"})
	requireRefused(t, err, "log.retention.hours", "0") // unused, but wrong
}

// Every field is a setting and every setting a field, so a new field cannot be
// forgotten by parsing, the catalog or the defaults.
func TestEveryFieldHasASetting(t *testing.T) {
	var fields []string
	var walk func(prefix string, typ reflect.Type)
	walk = func(prefix string, typ reflect.Type) {
		for _, f := range reflect.VisibleFields(typ) {
			if f.Type.Kind() == reflect.Struct {
				walk(prefix+f.Name+".", f.Type)
				continue
			}
			fields = append(fields, prefix+f.Name)
		}
	}
	walk("", reflect.TypeFor[engine.TopicConfig]())

	var listed []string
	names := map[string]bool{}
	for _, s := range engine.Settings() {
		require.NotEmpty(t, s.Default, s.Broker)
		require.NotEmpty(t, s.Valid, s.Broker)
		require.NotEmpty(t, s.Doc, s.Broker)
		require.NotEmpty(t, s.Broker, s.Name)
		require.Equal(t, s.Name == "", s.Field == "", s.Broker)
		if s.Field != "" {
			listed = append(listed, s.Field)
			require.False(t, names[s.Name], s.Name)
			names[s.Name] = true
		}
	}
	slices.Sort(fields)
	slices.Sort(listed)
	require.Equal(t, fields, listed)
}

// randomConfig returns a valid configuration with a random choice of fields set,
// by way of the settings so that no field can be left out.
func randomConfig(r *rand.Rand) engine.TopicConfig {
	small := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
	c := engine.TopicConfig{
		Partitions:             r.Int32N(3),
		TimestampType:          codec.TimestampType(r.IntN(3)),
		MaxTimestampDifference: small(time.Second),
		Compression:            engine.CompressionType(r.IntN(6)),
		MessageFormat:          engine.MessageFormat(r.IntN(3)),
		MaxMessageBytes:        r.Int64N(5) - 1,
		SegmentBytes:           r.Int64N(2) * (14 + r.Int64N(100)),
		SegmentAge:             time.Hour + small(time.Hour),
		SegmentJitter:          small(time.Hour),
		SegmentIndexBytes:      r.Int64N(2) * (12 + r.Int64N(100)),
		IndexIntervalBytes:     r.Int64N(5) - 1,
		TimeIndex:              engine.TimeIndexMode(r.IntN(2)),
		CleanupPolicy:          engine.CleanupPolicy(r.IntN(4)),
		Retention: retention.Policy{
			MaxAge:      small(time.Minute) - 30*time.Second,
			MaxBytes:    r.Int64N(9) - 4,
			ClampFuture: r.IntN(2) == 0,
		},
		DeleteRetention:   small(time.Millisecond),
		MinCompactionLag:  small(time.Hour),
		MinCleanableRatio: r.Float64() * float64(r.IntN(2)),
		MinInSyncReplicas: r.Int32N(3),
		UncleanElection:   engine.Toggle(r.IntN(3)),
		Carried: engine.Carried{
			FileDeleteDelay: small(time.Hour),
			FlushMessages:   r.Int64N(5) - 1,
			FlushInterval:   small(time.Hour),
			Preallocate:     engine.Toggle(r.IntN(3)),
		},
	}
	switch r.IntN(8) {
	case 0:
		c.Retention.MaxBytes, c.MinCleanableRatio = retention.KeepNothing, engine.CleanAlways
	case 1:
		c.SegmentAge, c.Retention.MaxAge = engine.Forever, engine.Forever
	case 2:
		c.Retention.MaxAge, c.MaxTimestampDifference = retention.Immediate, engine.Forever
	}
	return c
}

// What a catalog keeps is what was configured: one round trip settles fractions
// and spellings of unlimited, and nothing changes after that.
func TestSettingsRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 6))
	for range 5000 {
		c := randomConfig(r)
		settings := c.Settings()
		canonical, err := engine.ParseTopicConfig(settings)
		require.NoError(t, err, "%+v", c)
		require.Equal(t, settings, canonical.Settings(), "%+v", c)
		again, err := engine.ParseTopicConfig(canonical.Settings())
		require.NoError(t, err)
		require.Equal(t, canonical, again)
		require.Equal(t, c.Retention.Limits(), canonical.Retention.Limits())
	}
	require.Empty(t, engine.TopicConfig{}.Settings())
}

func FuzzParseTopicConfig(f *testing.F) {
	for _, s := range engine.Settings() {
		f.Add(s.Name, s.Default)
		f.Add(s.Name, "-1")
	}
	f.Add("min.cleanable.dirty.ratio", "0x1p-1074")
	f.Add("message.format.version", "0.10.0-IV-IV.")
	f.Fuzz(func(t *testing.T, name, value string) {
		given := map[string]string{name: value, "segment.ms": "9223372036854775807"}
		c, err := engine.ParseTopicConfig(given)
		if err != nil {
			require.NotEmpty(t, violations(err))
			return
		}
		again, err := engine.ParseTopicConfig(c.Settings())
		require.NoError(t, err)
		require.Equal(t, c, again)
		require.Len(t, again.Settings(), len(c.Settings()))
	})
}

func TestSettingsListNamesEveryBrokerName(t *testing.T) {
	brokers := map[string]string{}
	for _, s := range engine.Settings() {
		for name := range strings.SplitSeq(s.Broker, ", ") {
			require.NotContains(t, brokers, name)
			brokers[name] = s.Name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(brokers)) {
		_, err := engine.ParseBrokerConfig(map[string]string{name: "\x00"})
		requireRefused(t, err, name, "\x00")
	}
	require.Equal(t, "retention.ms", brokers["log.retention.minutes"])
}

// The defaults that a reader of the documentation sees are within the ranges.
func TestDefaultsAreValidSettings(t *testing.T) {
	for _, s := range engine.Settings() {
		if s.Name == "" || s.Name == "time.index.interval.ms" {
			continue // needs the companion mode
		}
		_, err := engine.ParseTopicConfig(map[string]string{s.Name: s.Default})
		require.NoError(t, err, s.Name)
	}
	require.EqualValues(t, math.MaxInt64, engine.Forever)
}
