package engine

import (
	"context"

	"github.com/cairnlog/cairn/codec"
)

// FetchOptions bound a fetch.
type FetchOptions struct {
	// MaxBytes bounds the set; zero means 1 MiB. The first frame is returned
	// whole even if it is larger (SPEC 1.4.28).
	MaxBytes int
	// Format is the newest message format the reader knows; unset means v1.
	// FormatV0 converts v1 frames down one by one (SPEC 1.6); frames that are
	// stored as v0 are v0 for every reader. FormatEnriched gives enriched frames, made
	// of v0 and v1 ones where the log holds those.
	Format MessageFormat
	// Control includes the control messages, for a replica or a tool. It needs
	// FormatEnriched.
	Control bool
	// Isolation says which messages of transactions are returned.
	Isolation Isolation
	// HardLimit cuts the set at MaxBytes even inside a frame, as Kafka did up to
	// FetchRequest v2 (SPEC 1.4.25-26).
	HardLimit bool

	before int64 // where it ends at the latest; 0: nowhere
}

func (o *FetchOptions) check() error {
	switch {
	case o.MaxBytes < 0:
		return codec.Errorf(codec.CodeInvalidRequest, "MaxBytes %d is negative", o.MaxBytes)
	case o.Format > FormatEnriched:
		return codec.Errorf(codec.CodeInvalidRequest, "unknown format %d", o.Format)
	case o.HardLimit && o.Format == FormatEnriched, o.Control && o.Format != FormatEnriched:
		return ErrFormat
	}
	return nil
}

const defaultFetchBytes = 1 << 20

// FetchResult is what a FetchResponse carries for one partition.
type FetchResult struct {
	// Set is a message set in the wire format. The caller owns it.
	Set []byte
	// HighWatermark is the offset after the last readable message.
	HighWatermark int64
	// LogStart is the first offset that may be read.
	LogStart int64
	// Next is the offset to fetch from next.
	Next int64
}

// Fetch returns messages from offset from as a message set in the wire format:
// whole frames, at least one if there is any. Compressed frames are passed
// through with their payload as it was produced; one that contains from is
// returned whole (SPEC 1.5.29), one that reaches past the high watermark is not
// returned (1.5.30).
//
// Errors as Read's. Fetch does not wait for data; Await does.
func (p *Partition) Fetch(ctx context.Context, from int64, o FetchOptions) (FetchResult, error) {
	res, err := p.fetch(ctx, nil, from, o)
	return res, p.wrap("fetch", err)
}

// AppendFetch is Fetch appended to dst: the result's Set is the extended dst, so a
// caller that fetches in a loop keeps one buffer.
func (p *Partition) AppendFetch(ctx context.Context, dst []byte, from int64, o FetchOptions) (FetchResult, error) {
	res, err := p.fetch(ctx, dst, from, o)
	return res, p.wrap("fetch", err)
}

func (p *Partition) fetch(ctx context.Context, dst []byte, from int64, o FetchOptions) (FetchResult, error) {
	if err := o.check(); err != nil {
		return FetchResult{}, err
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultFetchBytes
	}
	bounds, err := p.readBounds(ctx, from, ReadOptions{Before: o.before, Isolation: o.Isolation})
	if err != nil {
		return FetchResult{}, err
	}
	res := FetchResult{HighWatermark: bounds.end, LogStart: p.logStart.Load(), Next: from}
	if o.before > 0 {
		res.HighWatermark = max(bounds.end, p.endFor(o.Isolation))
	}
	set, next, err := p.collect(ctx, dst, from, bounds, o)
	stats := &p.topic.db.stats
	stats.fetches.Add(1)
	stats.fetchedBytes.Add(uint64(len(set) - len(dst)))
	if err != nil && len(set) == len(dst) {
		return res, err // damage after whole frames is reported by the fetch that begins at it
	}
	res.Set, res.Next = set, next
	if o.HardLimit && len(set)-len(dst) > o.MaxBytes {
		res.Set = set[:len(dst)+o.MaxBytes]
		res.Next, err = afterWhole(res.Set[len(dst):], from)
		return res, err
	}
	return res, nil
}

// afterWhole returns the offset after the last whole frame of a set, or next.
func afterWhole(set []byte, next int64) (int64, error) {
	for {
		f, n, err := codec.ReadFrame(set)
		if n == 0 || err != nil {
			return next, err
		}
		next = f.Offset + 1
		set = set[n:]
	}
}

// collect appends frames to dst until the limit or end.
func (p *Partition) collect(ctx context.Context, dst []byte, from int64, bounds readBounds, o FetchOptions) (set []byte, nextOffset int64, err error) {
	end := bounds.end
	scan := p.scanFrom(from, bounds.cuts)
	defer scan.close()
	opts := codec.SetOptions{From: from, To: end, Magic: 1, First: true, Scratch: &scan.cursor}
	if o.Format == FormatV0 {
		opts.Magic = 0
	}
	var hidden *hiding
	if o.Isolation == ReadCommitted {
		hidden = &hiding{aborted: &aborted{p: p}}
	}
	set, nextOffset = dst, from
	for scan.from < end {
		if err := ctx.Err(); err != nil {
			return set, nextOffset, err
		}
		ok, err := scan.next()
		if err != nil {
			return set, nextOffset, err
		}
		if !ok {
			return set, end, nil
		}
		if scan.entry.Control != 0 && !o.Control {
			nextOffset = scan.entry.Last + 1
			continue
		}
		opts.Limit = o.MaxBytes - (len(set) - len(dst))
		opts.Hide = hidden.of(&scan.entry)
		before := len(set)
		var more bool
		set, more, err = appendEntry(set, &scan.entry, opts, o.Format)
		if hidden != nil && hidden.err != nil {
			return set[:before], nextOffset, hidden.err
		}
		if err != nil {
			return set, nextOffset, p.corrupt(scan.entry.Last, err)
		}
		opts.First = opts.First && len(set) == before
		if more || scan.entry.Last >= end {
			if o.Format == FormatEnriched {
				return set, afterEnriched(set[before:], &scan.entry, nextOffset), nil
			}
			return p.cut(set, before, &scan.entry, more, opts, o, nextOffset)
		}
		nextOffset = scan.entry.Last + 1
	}
	return set, nextOffset, nil
}

// appendEntry appends the frames of an entry in the format asked for.
func appendEntry(set []byte, e *codec.Entry, o codec.SetOptions, format MessageFormat) ([]byte, bool, error) {
	if format == FormatEnriched {
		return e.AppendEnrichedSet(set, o)
	}
	return e.AppendSet(set, o)
}

// afterEnriched returns the offset after the frames of an entry that were taken, or
// next.
func afterEnriched(set []byte, e *codec.Entry, next int64) int64 {
	for {
		f, n, err := codec.ReadEnrichedFrame(set)
		if n == 0 || err != nil { // they were just written
			return next
		}
		if next = f.Offset + 1; e.Kind == codec.KindWrapper {
			next = e.Last + 1
		}
		set = set[n:]
	}
}

// cut ends a fetch inside an entry: it finds the offset after the last frame
// taken and, for a hard limit, appends the frame that the limit cuts.
func (p *Partition) cut(set []byte, before int, e *codec.Entry, more bool, opts codec.SetOptions, o FetchOptions, nextOffset int64) ([]byte, int64, error) {
	nextOffset, err := afterWhole(set[before:], nextOffset)
	if err != nil {
		return set, nextOffset, err
	}
	if more && o.HardLimit {
		opts.From, opts.First, opts.Limit = nextOffset, true, 0
		whole, _, err := e.AppendSet(set, opts)
		if err != nil {
			return set, nextOffset, p.corrupt(e.Last, err)
		}
		set = whole
	}
	return set, nextOffset, nil
}

// Await waits until the offset can be read: until the high watermark is above
// it. It returns ctx.Err(), ErrClosed or ErrFailed otherwise.
func (p *Partition) Await(ctx context.Context, offset int64) error {
	if err := p.ready(); err != nil {
		return p.wrap("await", err)
	}
	return p.wrap("await", p.await(ctx, offset+1))
}
