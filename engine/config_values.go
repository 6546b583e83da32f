package engine

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairnlog/cairn/retention"
)

// A settingValue translates between a field of a TopicConfig and its Kafka setting.
// Reasons are empty when nothing is wrong.
type settingValue[T comparable] struct {
	parse  func(text string) (v T, reason string)
	format func(v T) string
	check  func(v T) (reason string) // v is not zero
}

// numberValue is a setting that Kafka knows as an integer. A field's zero is taken by
// "the default", so Kafka's zero has a stand-in.
func numberValue[T comparable](lo, hi int64, toKafka func(T) int64, fromKafka func(int64) T) settingValue[T] {
	inRange := func(n int64) string {
		switch {
		case n < lo:
			return fmt.Sprintf("must be at least %d", lo)
		case n > hi:
			return fmt.Sprintf("must be at most %d", hi)
		default:
			return ""
		}
	}
	return settingValue[T]{
		parse: func(text string) (v T, reason string) {
			n, reason := parseInt(text)
			if reason == "" {
				reason = inRange(n)
			}
			if reason != "" {
				return v, reason
			}
			return fromKafka(n), ""
		},
		format: func(v T) string { return formatInt(toKafka(v)) },
		check:  func(v T) string { return inRange(toKafka(v)) },
	}
}

// millisValue is a duration of at least lo milliseconds.
func millisValue(lo int64) settingValue[time.Duration] {
	return numberValue(lo, math.MaxInt64, kafkaMillis, func(ms int64) time.Duration {
		switch {
		case ms == 0:
			return retention.Immediate
		case ms > math.MaxInt64/int64(time.Millisecond):
			return Forever // 292 years and more
		default:
			return time.Duration(ms) * time.Millisecond
		}
	})
}

// maxAgeValue is retention.ms: any number, a negative one for unlimited.
func maxAgeValue() settingValue[time.Duration] {
	positive := millisValue(0)
	return numberValue(math.MinInt64, math.MaxInt64,
		func(d time.Duration) int64 { return retention.Policy{MaxAge: d}.Limits().AgeMs },
		func(ms int64) time.Duration {
			if ms < 0 {
				return retention.Unlimited
			}
			d, _ := positive.parse(formatInt(ms)) // every number from 0 on is in range
			if d == Forever {
				return retention.Unlimited
			}
			return d
		})
}

// maxBytesValue is retention.bytes: any number, a negative one for unlimited.
func maxBytesValue() settingValue[int64] {
	return numberValue(math.MinInt64, math.MaxInt64,
		func(v int64) int64 { return retention.Policy{MaxBytes: v}.Limits().Bytes },
		func(n int64) int64 {
			if n == 0 {
				return retention.KeepNothing
			}
			return max(n, retention.Unlimited)
		})
}

// sizeValue is a number of bytes or messages in [lo, hi].
func sizeValue(lo, hi int64) settingValue[int64] {
	return numberValue(lo, hi, kafkaSize, func(n int64) int64 {
		if n == 0 {
			return ExplicitZero
		}
		return n
	})
}

// countValue is a number of at least one.
func countValue() settingValue[int32] {
	return numberValue(1, math.MaxInt32,
		func(v int32) int64 { return int64(v) },
		func(n int64) int32 { return int32(n) })
}

// ratioValue is a number in [0, 1].
func ratioValue() settingValue[float64] {
	const must = "must be a number from 0 to 1"
	check := func(v float64) string {
		if !(v >= 0 && v <= 1) { // false for NaN
			return must
		}
		return ""
	}
	return settingValue[float64]{
		parse: func(text string) (float64, string) {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil || check(v) != "" {
				return 0, must
			}
			if v == 0 {
				return CleanAlways, ""
			}
			return v, ""
		},
		format: func(v float64) string { return strconv.FormatFloat(kafkaRatio(v), 'g', -1, 64) },
		check:  check,
	}
}

// nameValue is one of a list of names, whose first is empty and stands for unset.
func nameValue[T ~uint8](names []string) settingValue[T] {
	must := "must be one of " + strings.Join(names[1:], ", ")
	return settingValue[T]{
		parse: func(text string) (T, string) {
			i := slices.Index(names, text)
			if i < 1 {
				return 0, must
			}
			return T(i), ""
		},
		format: func(v T) string { return nameOf(names, v) },
		check: func(v T) string {
			if int(v) >= len(names) {
				return must
			}
			return ""
		},
	}
}

// toggleValue is true or false in any case.
func toggleValue() settingValue[Toggle] {
	v := nameValue[Toggle](toggleNames)
	exact := v.parse
	v.parse = func(text string) (Toggle, string) { return exact(strings.ToLower(text)) }
	return v
}

// flagValue is a toggle for a field that is a plain bool.
func flagValue() settingValue[bool] {
	t := toggleValue()
	return settingValue[bool]{
		parse: func(text string) (bool, string) {
			v, reason := t.parse(text)
			return v == On, reason
		},
		format: strconv.FormatBool,
		check:  func(bool) string { return "" },
	}
}

// cleanupValue is a list of delete and compact in any order.
func cleanupValue() settingValue[CleanupPolicy] {
	v := nameValue[CleanupPolicy](cleanupNames)
	v.parse = func(text string) (CleanupPolicy, string) {
		var deletes, compacts bool
		for item := range strings.SplitSeq(text, ",") {
			switch strings.TrimSpace(item) {
			case "delete":
				deletes = true
			case "compact":
				compacts = true
			default:
				return 0, "must be a list of delete, compact"
			}
		}
		switch {
		case deletes && compacts:
			return CleanupCompactDelete, ""
		case compacts:
			return CleanupCompact, ""
		default:
			return CleanupDelete, ""
		}
	}
	return v
}

// formatVersions are the releases that message.format.version may name, with the
// format each of them introduced or kept. Patch levels and -IV suffixes are cut
// off first, as Kafka does.
var formatVersions = map[string]MessageFormat{
	"0.8.0": FormatV0, "0.8.1": FormatV0, "0.8.2": FormatV0, "0.9.0": FormatV0,
	"0.10.0": FormatV1, "0.10.1": FormatV1, "0.10.2": FormatV1,
	"v0": FormatV0, "v1": FormatV1, "enriched": FormatEnriched,
}

// formatVersionValue is a Kafka version up to 0.10.2, or the name of a format.
func formatVersionValue() settingValue[MessageFormat] {
	v := nameValue[MessageFormat](formatNames)
	v.parse = func(text string) (MessageFormat, string) {
		version, _, _ := strings.Cut(text, "-IV")
		parts := strings.Split(version, ".")
		f, ok := formatVersions[strings.Join(parts[:min(3, len(parts))], ".")]
		if !ok {
			return 0, "must be a version from 0.8.0 to 0.10.2, v0, v1 or enriched"
		}
		return f, ""
	}
	return v
}

// millisOr returns d in milliseconds, or the default when d is zero.
func millisOr(d time.Duration, byDefault int64) int64 {
	if d == 0 {
		return byDefault
	}
	return kafkaMillis(d)
}

// kafkaMillis returns d in milliseconds, rounded down: a negative one stays
// negative.
func kafkaMillis(d time.Duration) int64 {
	switch {
	case d == Forever:
		return math.MaxInt64
	case d < 0:
		return min(-1, d.Milliseconds())
	default:
		return d.Milliseconds()
	}
}

// sizeOr returns n, or the default when n is zero.
func sizeOr(n, byDefault int64) int64 {
	if n == 0 {
		return byDefault
	}
	return kafkaSize(n)
}

func kafkaSize(n int64) int64 {
	if n == ExplicitZero {
		return 0
	}
	return n
}

func kafkaRatio(v float64) float64 {
	if v == CleanAlways {
		return 0
	}
	return v
}

func parseInt(text string) (int64, string) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, "must be a whole number of 64 bits"
	}
	return n, ""
}

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }
