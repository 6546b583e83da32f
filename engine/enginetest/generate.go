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
		for range g.between(1, shape.Topics, "topics") {
			c := g.config()
			c.Partitions = int32(g.between(1, 2, "partitions"))
			h.Topics = append(h.Topics, c)
		}
		for range g.between(1, shape.Ops, "ops") {
			if op := g.op(); op != nil {
				h.Ops = append(h.Ops, op)
			}
		}
		return h
	})
}

type generator struct {
	t     *rapid.T
	shape Shape
}

// bits are what an even number is made of: rapid's own integers are mostly small.
var bits = rapid.SliceOfN(rapid.Bool(), 16, 16)

// below draws a number from 0 to n-1, each as likely as the others. It shrinks
// towards 0.
func (g *generator) below(n int, label string) int {
	v := 0
	for _, bit := range bits.Draw(g.t, label) {
		v <<= 1
		if bit {
			v++
		}
	}
	return v * n >> 16
}

// between draws a number from lo to hi.
func (g *generator) between(lo, hi int, label string) int { return lo + g.below(hi-lo+1, label) }

// pick draws one of values; put the plainest one first and the usual ones often.
func pick[T any](g *generator, label string, values ...T) T {
	return values[g.below(len(values), label)]
}

func (g *generator) chance(percent int) bool { return g.below(100, "chance") >= 100-percent }

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
	if c.CleanupPolicy == engine.CleanupCompact {
		c.MinCompactionLag = engine.Forever // the model does not compact
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

// op draws a step, or none: that is what a step shrinks to first.
func (g *generator) op() Op {
	log := pick(g, "log", 0, 0, 0, 0, 1, 2, 3) // a long log is worth more than several short ones
	switch n := g.between(0, 99, "op"); {
	case n < 2:
		return nil
	case n < 30:
		return Append{log, g.drafts(4), g.compression()}
	case n < 42:
		p := Pipeline{Log: log, Compression: g.compression()}
		for range g.between(2, max(2, g.shape.MaxSets), "sets") {
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
	at := g.between(0, 60, "at")
	switch g.between(0, 11, "change") {
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
		return Alter{log, g.config()}
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
	switch n := g.between(0, 99, "time"); {
	case n < 25:
		return Instant{}
	case n < 33:
		return Instant{Fixed, -1}
	case n < 65:
		return Instant{Fixed, int64(g.between(0, 30, "ts"))}
	case n < 96:
		return Instant{Near, int64(g.between(-60, 60, "delta"))}
	case n < 98:
		return Instant{Fixed, pick[int64](g, "far", math.MaxInt64, math.MaxInt64-1, 1<<40)}
	default:
		return Instant{Fixed, pick[int64](g, "bad", -2, math.MinInt64, math.MinInt64+epoch)}
	}
}

func (g *generator) drafts(most int) []Draft {
	drafts := make([]Draft, g.between(1, most, "messages"))
	for i := range drafts {
		drafts[i] = Draft{g.instant(), g.between(-2, 4, "key"), g.size()}
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
	for range g.between(1, 3, "frames") {
		f := WireDraft{Magic: magic, Compression: g.compression(), Drafts: g.drafts(4), Gaps: g.chance(15), Time: g.instant()}
		f.Offset = pick[int64](g, "offset", 0, 1, 2, 77, -1)
		p.Frames = append(p.Frames, f)
	}
	if g.chance(15) {
		p.Defect = Defect(g.between(1, int(numDefects)-1, "defect"))
	}
	return p
}

func (g *generator) look(log int) Look {
	return Look{
		Log:  log,
		From: g.between(0, 40, "from"),
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
