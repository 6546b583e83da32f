package enginetest

import (
	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// OffsetFor returns the first message with a timestamp at or after ts (SPEC 5.4).
func (l *Log) OffsetFor(ts codec.Timestamp) engine.Position {
	for _, m := range l.Messages() {
		if m.Timestamp >= max(ts, 0) {
			return engine.Position{Offset: m.Offset, Timestamp: m.Timestamp, Found: true}
		}
	}
	return engine.Position{Offset: l.End(), Timestamp: codec.NoTimestamp}
}

// MaxTimestamp returns the first message with the largest timestamp (KIP-734).
func (l *Log) MaxTimestamp() engine.Position {
	best := engine.Position{Offset: l.End(), Timestamp: codec.NoTimestamp}
	for _, m := range l.Messages() {
		if m.Timestamp > best.Timestamp {
			best = engine.Position{Offset: m.Offset, Timestamp: m.Timestamp, Found: true}
		}
	}
	return best
}

// Read returns the messages of a read.
func (l *Log) Read(from int64, o engine.ReadOptions) []codec.Message {
	var msgs []codec.Message
	for _, m := range l.Messages() {
		if m.Offset < from || o.Before > 0 && m.Offset >= o.Before {
			continue
		}
		if o.MaxMessages > 0 && int64(len(msgs)) == o.MaxMessages {
			break
		}
		msgs = append(msgs, m)
	}
	return msgs
}

// Fetch returns what a fetch gives (SPEC 1.4, 1.5, 1.6): frames as long as they
// fit, the first one always. A hard limit cuts even inside a frame, and then the
// next fetch begins after the last whole one.
func (l *Log) Fetch(from int64, o engine.FetchOptions) engine.FetchResult {
	res := engine.FetchResult{HighWatermark: l.End(), LogStart: l.Start, Next: from}
	limit := o.MaxBytes
	if limit == 0 {
		limit = 1 << 20
	}
	for _, f := range l.frames() {
		if f.Last() < from {
			continue
		}
		wire := f.wireFor(o.Format)
		fits := len(res.Set)+len(wire) <= limit
		if o.HardLimit && !fits {
			res.Set = append(res.Set, wire[:limit-len(res.Set)]...)
			break
		}
		if !fits && len(res.Set) > 0 {
			break
		}
		res.Set = append(res.Set, wire...)
		res.Next = f.Last() + 1
	}
	return res
}

// wireFor returns the frame for a reader of a format: v1 frames are converted
// down one by one for a reader of v0.
func (f *Frame) wireFor(format engine.MessageFormat) []byte {
	if format != engine.FormatV0 || f.Magic == 0 {
		return f.Wire()
	}
	if f.Compression == codec.None {
		return codec.AppendMessageFrame(nil, &f.Messages[0], 0)
	}
	w, _, err := codec.BuildWrapper(nil, f.Compression, 0, f.Messages)
	if err != nil {
		panic(err)
	}
	return codec.AppendFrame(nil, &w)
}

// ListOffsetsV0 answers ListOffsets v0 (SPEC 8.1-3). A segment nothing was
// appended to has no time of its own: it is as old as the one before it.
func (l *Log) ListOffsetsV0(ts, now codec.Timestamp, limit int) []int64 {
	type pair struct {
		base int64
		time codec.Timestamp
	}
	var pairs []pair
	time := codec.NoTimestamp
	for _, s := range l.Segments {
		if _, last := s.Clocks(); last != codec.NoTimestamp {
			time = last
		}
		pairs = append(pairs, pair{max(s.Base, l.Start), time})
	}
	if len(l.active().Frames) > 0 {
		pairs = append(pairs, pair{l.End(), now})
	}
	start := -1
	for i, p := range pairs {
		if ts == engine.Latest || ts == engine.Earliest && i == 0 || ts >= 0 && p.time <= ts {
			start = i
		}
	}
	var bases []int64
	for i := start; i >= 0 && len(bases) < limit; i-- {
		bases = append(bases, pairs[i].base)
	}
	return bases
}
