package codec

// Filtered is what a filter leaves of an entry.
type Filtered struct {
	// Kept and Dropped count the messages.
	Kept, Dropped int
	// Value is the unsealed rewritten entry: to be sealed with Stamp under the
	// log key of offset Last. Nil if all or none were kept.
	Value []byte
	Stamp Stamp
	Last  int64
}

// Filter rewrites the entry with only the messages that keep accepts, in order.
// Offsets never change: a plain entry stores the gaps, a wrapper is compressed
// anew by its own codec with gaps in its relative offsets, ends at its last kept
// message and has the largest kept timestamp, or under LogAppendTime its own
// (SPEC 9.9). keep sees the timestamps that are stored, not the view a reader
// gets. The error is an ErrDamaged.
func (e *Entry) Filter(c *Cursor, keep func(*Message) bool) (Filtered, error) {
	stored := *e
	if e.Kind == KindWrapper && e.TimestampType == LogAppendTime {
		stored.TimestampType = CreateTime // inner timestamps stay what they are
	}
	if err := c.Reset(&stored); err != nil {
		return Filtered{}, err
	}
	var f Filtered
	var kept []Message
	var m Message
	for c.Next(&m) {
		if keep(&m) {
			kept = append(kept, m)
		} else {
			f.Dropped++
		}
	}
	f.Kept = len(kept)
	if err := c.Err(); err != nil || f.Kept == 0 || f.Dropped == 0 {
		return f, err
	}
	f.Last = kept[len(kept)-1].Offset
	f.Stamp = Stamp{Timestamp: kept[0].Timestamp, Clock: e.Clock, LogAppend: e.TimestampType == LogAppendTime}
	if e.Kind == KindPlain {
		f.Value = AppendPlain(nil, kept, PlainOptions{Magic: e.Magic})
		return f, nil
	}
	return f, f.wrap(e, kept)
}

func (f *Filtered) wrap(e *Entry, kept []Message) error {
	frame, _, err := BuildWrapper(nil, e.Compression, e.Magic, kept)
	if err != nil {
		return damaged("wrapper: %w", err)
	}
	f.Stamp.Timestamp = frame.Timestamp
	if f.Stamp.LogAppend {
		f.Stamp.Timestamp = e.Timestamp
	}
	f.Value = AppendStoredWrapper(nil, StoredWrapper{
		Compression: e.Compression,
		Magic:       e.Magic,
		Count:       len(kept),
		Span:        f.Last - kept[0].Offset,
		Payload:     frame.Value,
	})
	return nil
}
