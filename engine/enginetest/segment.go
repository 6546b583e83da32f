package enginetest

import "github.com/cairnlog/cairn/codec"

// End returns the offset after the segment's last message.
func (s *Segment) End() int64 {
	if len(s.Frames) == 0 {
		return s.Base
	}
	return s.Frames[len(s.Frames)-1].Last() + 1
}

// Bytes returns the segment's size on the wire.
func (s *Segment) Bytes() int64 {
	sum := int64(0)
	for i := range s.Frames {
		sum += s.Frames[i].WireSize()
	}
	return sum
}

// Max returns the largest timestamp and the last offset of the first frame that
// has it; -1 and -1 without a timestamp (SPEC 5.2.4, 2.7.26).
func (s *Segment) Max() (codec.Timestamp, int64) {
	largest, at := codec.NoTimestamp, int64(-1)
	for i := range s.Frames {
		if f := &s.Frames[i]; f.Timestamp > largest {
			largest, at = f.Timestamp, f.Last()
		}
	}
	return largest, at
}

// FirstTimestamp returns the timestamp of the first frame (SPEC C35).
func (s *Segment) FirstTimestamp() codec.Timestamp {
	if len(s.Frames) == 0 {
		return codec.NoTimestamp
	}
	return s.Frames[0].Timestamp
}

// Clocks returns the clock of the first and the last append, -1 before the first.
func (s *Segment) Clocks() (first, last codec.Timestamp) {
	if len(s.Frames) == 0 {
		return codec.NoTimestamp, codec.NoTimestamp
	}
	return s.Frames[0].Clock, s.Frames[len(s.Frames)-1].Clock
}

func (s *Segment) messages() int64 {
	n := int64(0)
	for i := range s.Frames {
		n += int64(len(s.Frames[i].Messages))
	}
	return n
}

// indexed returns the timestamp of the last index row.
func (s *Segment) indexed() codec.Timestamp {
	if len(s.Rows) == 0 {
		return codec.NoTimestamp
	}
	return s.Rows[len(s.Rows)-1].Timestamp
}

// addRow adds the row of the largest timestamp unless the last one has it.
func (s *Segment) addRow() {
	if largest, at := s.Max(); largest > s.indexed() {
		s.Rows = append(s.Rows, Row{largest, at})
	}
}

// addEntry appends the frames of one stored entry and the index row that is due
// with it (SPEC 5.2.5, 5.2.7).
func (s *Segment) addEntry(frames []Frame, interval int64) {
	s.Frames = append(s.Frames, frames...)
	due := s.sinceRow > interval
	if due || len(s.Rows) == 0 {
		s.addRow()
	}
	if due {
		s.sinceRow = 0
	}
	for i := range frames {
		s.sinceRow += frames[i].WireSize()
	}
}

// rollsBefore decides whether the active segment ends before frames are appended
// at the time now (SPEC 7.1, 7.2.8).
func (l *Log) rollsBefore(frames []Frame, s settings, now codec.Timestamp) bool {
	active := l.active()
	if len(active.Frames) == 0 {
		return false
	}
	incoming := Segment{Frames: frames}
	newest, _ := incoming.Max()
	first := active.FirstTimestamp()
	switch {
	case active.Bytes()+incoming.Bytes() > s.segmentBytes: // size
		return true
	case int64(len(active.Rows)) >= s.indexBytes/12-1: // index full but for the closing row
		return true
	case newest >= 0 && first >= 0 && int64(newest-first) > l.age(s): // span
		return true
	default:
		return l.idle(s, now)
	}
}

// Roll seals the active segment unless it is empty.
func (l *Log) Roll() {
	active := l.active()
	if len(active.Frames) == 0 {
		return
	}
	active.addRow()
	active.Sealed = true
	l.Segments = append(l.Segments, &Segment{Base: active.End()})
}
