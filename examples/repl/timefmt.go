package main

import (
	"strconv"
	"time"

	"github.com/cairnlog/cairn/codec"
)

// utcLayout is RFC 3339 with the milliseconds a timestamp has.
const utcLayout = "2006-01-02T15:04:05.000Z"

// utc returns ts as text that parseTime reads, or "-" for no timestamp.
func utc(ts codec.Timestamp) string {
	if ts < 0 {
		return "-"
	}
	return ts.Time().Format(utcLayout)
}

// timeLayouts are the ways to write a time beside milliseconds; without a zone
// it is UTC.
var timeLayouts = []string{
	time.RFC3339Nano,
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04",
	"2006-01-02 15:04",
	"2006-01-02",
}

// parseTime reads milliseconds since the epoch, RFC 3339, "now", or "none" for
// no timestamp. Milliseconds are not judged: the engine refuses what it must.
func parseTime(text string, now time.Time) (codec.Timestamp, error) {
	switch text {
	case "none":
		return codec.NoTimestamp, nil
	case "now":
		return codec.TimestampOf(now), nil
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return codec.Timestamp(ms), nil
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return codec.TimestampOf(t), nil
		}
	}
	return 0, usagef("%q is no time: give milliseconds, RFC 3339 as 2026-01-01T12:00:00.000Z, now or none", text)
}
