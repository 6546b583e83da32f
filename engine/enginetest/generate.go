package enginetest

import (
	"math"
	"time"

	"pgregory.net/rapid"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/retention"
)

// Shape bounds the histories that Histories makes.
type Shape struct {
	Topics  int // at most
	Ops     int // at most
	MaxSets int // in a pipeline
	// Large makes some values so large that write buffers are flushed.
	Large bool
	// KeepInterval never changes a topic's index interval. Where it was changed
	// before a crash the store may place its next index rows differently.
	KeepInterval bool
	// Quiet leaves out steps that only read.
	Quiet bool
}

// Histories makes random histories. Example(seed) gives the same one each time.
func Histories(shape Shape) *rapid.Generator[History] {
	return rapid.Custom(func(t *rapid.T) History {
		g := &generator{t, shape}
		h := History{}
		h.Options.Durability = pick(g, "durability", engine.SyncAlways, engine.SyncAlways, engine.SyncAlways,
			engine.SyncNever, engine.SyncEvery(time.Millisecond))
		for range rapid.IntRange(1, shape.Topics).Draw(t, "topics") {
			c := g.config()
			c.Partitions = int32(rapid.IntRange(1, 2).Draw(t, "partitions"))
			h.Topics = append(h.Topics, c)
		}
		op := rapid.Custom(func(t *rapid.T) Op { return (&generator{t, shape}).op() })
		h.Ops = rapid.SliceOfN(op, 1, shape.Ops).Draw(t, "ops") // a slice shrinks by leaving out any of its steps
		return h
	})
}

type generator struct {
	t     *rapid.T
	shape Shape
}

// pick draws one of values; put the usual one first and often.
func pick[T any](g *generator, label string, values ...T) T {
	return rapid.SampledFrom(values).Draw(g.t, label)
}

func (g *generator) chance(percent int) bool {
	return rapid.IntRange(1, 100).Draw(g.t, "chance") > 100-percent
}

func (g *generator) config() engine.TopicConfig {
	zero := retention.Immediate // Kafka's 0 ms
	c := engine.TopicConfig{
		TimestampType:          pick(g, "type", codec.TimestampUnset, codec.CreateTime, codec.LogAppendTime),
		MaxTimestampDifference: pick(g, "difference", 0, 0, 0, 0, 0, engine.Forever, zero, 50*time.Millisecond, 900*time.Millisecond),
		Compression: pick(g, "compression", engine.CompressUnset, engine.CompressUnset, engine.CompressUnset, engine.CompressProducer,
			engine.CompressNone, engine.CompressGzip, engine.CompressSnappy, engine.CompressLZ4),
		MessageFormat:      pick(g, "format", engine.FormatUnset, engine.FormatV1, engine.FormatV1, engine.FormatUnset, engine.FormatV0),
		MaxMessageBytes:    pick[int64](g, "max message", 0, 0, 0, 300, 100),
		SegmentBytes:       pick[int64](g, "segment", 0, 0, 300, 700, 3000),
		SegmentAge:         pick(g, "age", 0, 0, 0, 100*time.Millisecond, 2*time.Second, engine.Forever, zero),
		SegmentIndexBytes:  pick[int64](g, "index bytes", 0, 0, 0, 0, 48, 12),
		IndexIntervalBytes: pick[int64](g, "interval", 0, engine.ExplicitZero, 100),
		CleanupPolicy:      pick(g, "cleanup", engine.CleanupUnset, engine.CleanupUnset, engine.CleanupUnset, engine.CleanupCompact),
	}
	c.Retention.MaxAge = pick(g, "retention", retention.Unlimited, retention.Unlimited, 0, 300*time.Millisecond, 3*time.Second, zero)
	c.Retention.MaxBytes = pick(g, "retention bytes", 0, 0, 0, 300, 1000, retention.KeepNothing)
	c.Retention.ClampFuture = g.chance(20)
	if g.chance(20) {
		c.SegmentJitter = min(c.SegmentAge, 70*time.Millisecond)
	}
	if c.SegmentBytes == 0 && !g.shape.Large {
		c.SegmentBytes = 5000
	}
	return c
}

func (g *generator) op() Op {
	log := rapid.IntRange(0, 3).Draw(g.t, "log")
	switch n := rapid.IntRange(0, 99).Draw(g.t, "op"); {
	case n < 30:
		return Append{log, g.drafts(4), g.compression()}
	case n < 42:
		p := Pipeline{Log: log, Compression: g.compression()}
		for range rapid.IntRange(2, max(2, g.shape.MaxSets)).Draw(g.t, "sets") {
			p.Sets = append(p.Sets, g.drafts(3))
		}
		return p
	case n < 66:
		return g.produce(log)
	case n < 74:
		return Tick{pick[int64](g, "by", 1, 10, 50, 101, 1000, 5000, -10, -2000)}
	case n < 78:
		return Reopen{}
	case n < 90:
		return g.change(log)
	default:
		if g.shape.Quiet {
			return Append{log, g.drafts(2), codec.None}
		}
		return g.look(log)
	}
}

// change draws a step that is neither an append nor a read.
func (g *generator) change(log int) Op {
	at := rapid.IntRange(0, 60).Draw(g.t, "at")
	switch rapid.IntRange(0, 11).Draw(g.t, "change") {
	case 0, 1:
		return Roll{log}
	case 2, 3:
		return Truncate{log, at}
	case 4:
		return DeleteBefore{log, at}
	case 5, 6:
		return Retain{log}
	case 7:
		return Maintain{}
	case 8:
		return Alter{log, g.config(), g.shape.KeepInterval}
	case 9:
		return Sync{}
	case 10:
		return Reset{log, int64(at)}
	default:
		if g.chance(50) {
			return Drop{log}
		}
		return Recreate{log, g.config()}
	}
}

func (g *generator) compression() codec.Compression {
	return pick(g, "codec", codec.None, codec.None, codec.None, codec.Gzip, codec.Snappy, codec.LZ4)
}

func (g *generator) instant() Instant {
	switch n := rapid.IntRange(0, 99).Draw(g.t, "time"); {
	case n < 25:
		return Instant{}
	case n < 33:
		return Instant{Fixed, -1}
	case n < 65:
		return Instant{Fixed, rapid.Int64Range(0, 30).Draw(g.t, "ts")}
	case n < 96:
		return Instant{Near, rapid.Int64Range(-60, 60).Draw(g.t, "delta")}
	case n < 98:
		return Instant{Fixed, pick[int64](g, "far", math.MaxInt64, math.MaxInt64-1, 1<<40)}
	default:
		return Instant{Fixed, pick[int64](g, "bad", -2, math.MinInt64, math.MinInt64+epoch)}
	}
}

func (g *generator) drafts(most int) []Draft {
	drafts := make([]Draft, rapid.IntRange(1, most).Draw(g.t, "messages"))
	for i := range drafts {
		drafts[i] = Draft{g.instant(), rapid.IntRange(-2, 4).Draw(g.t, "key"), g.size()}
	}
	return drafts
}

func (g *generator) size() int {
	if g.shape.Large && g.chance(6) {
		return pick(g, "large", 5000, 9001, 20000, 40001)
	}
	return pick(g, "size", 3, 10, 31, 64, -1, -2, 0, 200)
}

func (g *generator) produce(log int) Produce {
	p := Produce{Log: log}
	magic := pick[int8](g, "magic", 1, 1, 1, 1, 0)
	for range rapid.IntRange(1, 3).Draw(g.t, "frames") {
		f := WireDraft{Magic: magic, Compression: g.compression(), Drafts: g.drafts(4), Gaps: g.chance(15), Time: g.instant()}
		f.Offset = pick[int64](g, "offset", 0, 1, 2, 77, -1)
		p.Frames = append(p.Frames, f)
	}
	if g.chance(15) {
		p.Defect = Defect(rapid.IntRange(1, int(numDefects)-1).Draw(g.t, "defect"))
	}
	return p
}

func (g *generator) look(log int) Look {
	return Look{
		Log:  log,
		From: rapid.IntRange(0, 40).Draw(g.t, "from"),
		Read: engine.ReadOptions{
			MaxMessages: pick[int64](g, "max", 0, 1, 3),
			Before:      pick[int64](g, "before", 0, 1, 5, 9, 1000),
		},
		Fetch: engine.FetchOptions{
			MaxBytes:  pick(g, "limit", 0, 1, 35, 70, 120, 333),
			Format:    pick(g, "format", engine.FormatUnset, engine.FormatV1, engine.FormatV0),
			HardLimit: g.chance(40),
		},
		Time: g.instant(),
	}
}
