package codec

// AppendEnrichedSet appends the frames of e that o selects to dst as an enriched
// set, as AppendSet does in v0 and v1; o.Magic is not looked at. Payloads and tags
// of enriched entries go through as they are stored, control messages too.
//
// Entries of v0 and v1 become enriched: the receipt time of their messages is the
// clock of the append, a timestamp that a producer chose their sent time. Their
// wrappers are compressed anew.
func (e *Entry) AppendEnrichedSet(dst []byte, o SetOptions) (set []byte, more bool, err error) {
	if o.Scratch == nil {
		o.Scratch = new(Cursor)
	}
	if e.Kind == KindPlain {
		return e.appendEnrichedMessages(dst, o)
	}
	if e.outside(&o) {
		return dst, false, nil
	}
	f := EnrichedFrame{Offset: e.First, Type: uint8(e.Compression), Tags: e.Tags, Value: e.body}
	if !e.Enriched {
		if f, err = e.enrichWrapper(o.Scratch); err != nil {
			return dst, false, err
		}
	}
	if f.WireSize()+receiptTagSize > o.Limit && !o.First {
		return dst, true, nil
	}
	return appendEnriched(dst, &f, e.receiptTime()), false, nil
}

// receiptTime is when the log took e in.
func (e *Entry) receiptTime() Timestamp {
	if e.Enriched || e.TimestampType == LogAppendTime {
		return e.Timestamp
	}
	return max(e.Clock, NoTimestamp)
}

func (e *Entry) appendEnrichedMessages(dst []byte, o SetOptions) (set []byte, more bool, err error) {
	c := o.Scratch
	if err := c.Reset(e); err != nil {
		return dst, false, err
	}
	start := len(dst)
	received, size := e.receiptTime(), receiptTagSize
	if e.Control != 0 { // as its golden bytes have it (SPEC 13)
		received, size = NoTimestamp, 0
	}
	m := &c.message
	for c.Next(m) {
		if m.Offset < o.From {
			continue
		}
		if m.Offset >= o.To {
			break
		}
		if o.Hide != nil && o.Hide(m) {
			continue
		}
		f := EnrichedFrame{Offset: m.Offset, Type: uint8(e.Control), Tags: m.enrichedTags(), Key: m.Key, Value: m.Value}
		if len(dst)-start+f.WireSize()+size > o.Limit && !(o.First && len(dst) == start) {
			return dst, true, nil
		}
		dst = appendEnriched(dst, &f, received)
	}
	return dst, false, c.Err()
}

// enrichedTags returns the tags of a message as the enriched format has them: a
// timestamp its producer chose is its sent time.
func (m *Message) enrichedTags() Tags {
	if m.TimestampType == CreateTime && m.Timestamp >= 0 && m.Tags == nil {
		return Tags(nil).WithTag(TagSentTime, int64(m.Timestamp))
	}
	return m.Tags
}

// enrichWrapper makes an enriched wrapper of one of v0 or v1.
func (e *Entry) enrichWrapper(c *Cursor) (EnrichedFrame, error) {
	msgs, err := e.messages(c)
	if err != nil {
		return EnrichedFrame{}, err
	}
	for i := range msgs {
		msgs[i].Tags = msgs[i].enrichedTags()
	}
	payload, _, err := BuildEnrichedWrapper(nil, e.Compression, msgs)
	if err != nil {
		return EnrichedFrame{}, damaged("wrapper: %w", err)
	}
	return EnrichedFrame{
		Offset: msgs[0].Offset, Type: uint8(e.Compression), Value: payload,
		Tags: Tags(nil).WithTag(TagNumMessages, int64(len(msgs))),
	}, nil
}
