package enginetest

import (
	"math"
	"time"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// settings are the topic settings the model follows, with Kafka's defaults.
type settings struct {
	logAppend    bool
	maxDiffMs    int64
	compression  engine.CompressionType
	magic        int8
	maxMessage   int64
	segmentBytes int64
	segmentMs    int64
	jitterMs     int64
	indexBytes   int64
	interval     int64
	compacted    bool
}

func settingsOf(c engine.TopicConfig) settings {
	s := settings{
		logAppend:    c.TimestampType == codec.LogAppendTime,
		maxDiffMs:    millis(c.MaxTimestampDifference, math.MaxInt64),
		compression:  c.Compression,
		magic:        1,
		maxMessage:   size(c.MaxMessageBytes, 1_000_012),
		segmentBytes: size(c.SegmentBytes, 1<<30),
		segmentMs:    millis(c.SegmentAge, 7*24*3600*1000),
		jitterMs:     millis(c.SegmentJitter, 0),
		indexBytes:   size(c.SegmentIndexBytes, 10<<20),
		interval:     size(c.IndexIntervalBytes, 4096),
		compacted:    c.CleanupPolicy == engine.CleanupCompact || c.CleanupPolicy == engine.CleanupCompactDelete,
	}
	if c.MessageFormat == engine.FormatV0 {
		s.magic = 0
	}
	return s
}

func millis(d time.Duration, byDefault int64) int64 {
	switch d {
	case 0:
		return byDefault
	case engine.Forever:
		return math.MaxInt64
	default:
		return d.Milliseconds()
	}
}

func size(n, byDefault int64) int64 {
	switch n {
	case 0:
		return byDefault
	case engine.ExplicitZero:
		return 0
	default:
		return n
	}
}

// target returns how a set that came with compression c is stored.
func (s settings) target(c codec.Compression) codec.Compression {
	switch s.compression {
	case engine.CompressNone:
		return codec.None
	case engine.CompressGzip:
		return codec.Gzip
	case engine.CompressSnappy:
		return codec.Snappy
	case engine.CompressLZ4:
		return codec.LZ4
	default:
		return c
	}
}
