package retention

import (
	"math"
	"time"

	"github.com/cairnlog/cairn/codec"
)

const (
	// Unlimited, as a MaxAge or MaxBytes, keeps data whatever its age or size.
	Unlimited = -1
	// Immediate, as a MaxAge, is retention.ms 0: data goes as soon as the clock
	// has moved past it. Zero cannot say so because it means the default.
	Immediate = time.Nanosecond
	// KeepNothing, as a MaxBytes, is retention.bytes 0: every message goes at the
	// next check. Zero cannot say so because it means the default.
	KeepNothing int64 = math.MinInt64
	// DefaultMaxAge is the MaxAge that zero stands for, Kafka's log.retention.hours
	// 168.
	DefaultMaxAge = 7 * 24 * time.Hour
)

// Policy says how long a log keeps its messages. The zero Policy keeps them for
// seven days whatever their size. Every value is valid.
type Policy struct {
	// MaxAge bounds the age of a segment's newest message (retention.ms). Zero
	// means seven days, a negative value unlimited; fractions of a millisecond are
	// dropped, so [Immediate] stands for 0 ms.
	MaxAge time.Duration
	// MaxBytes is the size the log may be cut down to, in v1 wire bytes
	// (retention.bytes): old segments go while what is left is not below it. Zero
	// or a negative value means unlimited, [KeepNothing] 0 bytes.
	MaxBytes int64
	// ClampFuture judges a segment by its last append when its timestamps run
	// ahead of that (retention.clamp.future, SPEC 6.10). Without it, one message
	// from the future keeps its segment and all later ones. Set it when producers'
	// clocks are not to be trusted and MaxTimestampDifference is unlimited.
	ClampFuture bool
}

// Limits is a Policy in Kafka's terms. A negative limit is unlimited. Mind the
// zero Limits: it deletes everything.
type Limits struct {
	AgeMs       int64 // retention.ms
	Bytes       int64 // retention.bytes
	ClampFuture bool
}

// NoLimits is for a log whose cleanup.policy does not contain delete: segments
// go only when the log start passes them (SPEC 6.1, X11).
func NoLimits() Limits { return Limits{AgeMs: Unlimited, Bytes: Unlimited} }

// Limits returns p in Kafka's terms.
func (p Policy) Limits() Limits {
	l := Limits{ClampFuture: p.ClampFuture}
	switch {
	case p.MaxAge == 0:
		l.AgeMs = DefaultMaxAge.Milliseconds()
	case p.MaxAge < 0 || p.MaxAge == math.MaxInt64:
		l.AgeMs = Unlimited
	default:
		l.AgeMs = p.MaxAge.Milliseconds()
	}
	switch {
	case p.MaxBytes == KeepNothing:
		l.Bytes = 0
	case p.MaxBytes <= 0:
		l.Bytes = Unlimited
	default:
		l.Bytes = p.MaxBytes
	}
	return l
}

// newest is the time a segment's age counts from: its largest timestamp or, if
// none of its messages has one, the clock of its last append (SPEC C13).
func (l Limits) newest(s *Segment) codec.Timestamp {
	switch {
	case s.MaxTimestamp < 0:
		return s.LastAppend
	case l.ClampFuture && s.LastAppend >= 0:
		return min(s.MaxTimestamp, s.LastAppend)
	default:
		return s.MaxTimestamp
	}
}

// elapsed returns now - t, at most the largest int64. A clock that stepped back
// gives a negative time, which exceeds no limit.
func elapsed(now, t codec.Timestamp) int64 {
	d := int64(now) - int64(t)
	if t < 0 && now >= 0 && d < 0 {
		return math.MaxInt64
	}
	if t >= 0 && now < 0 && d >= 0 {
		return math.MinInt64
	}
	return d
}

// after returns the first instant at which elapsed(instant, t) > limit, or
// NoTimestamp if there is none.
func after(t codec.Timestamp, limit int64) codec.Timestamp {
	if limit == math.MaxInt64 || int64(t) > math.MaxInt64-limit-1 {
		return codec.NoTimestamp
	}
	return max(0, t+codec.Timestamp(limit)+1)
}
