package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
)

func TestParseTime(t *testing.T) {
	const noon = 1767268800000
	for text, want := range map[string]codec.Timestamp{
		"0":                             0,
		"-5":                            -5, // the engine's to refuse
		"1767268800000":                 noon,
		"none":                          codec.NoTimestamp,
		"now":                           codec.TimestampOf(fixedNow),
		"2026-01-01T12:00:00Z":          noon,
		"2026-01-01T12:00:00.123Z":      noon + 123,
		"2026-01-01T12:00:00.1239Z":     noon + 123,
		"2026-01-01T13:00:00+01:00":     noon,
		"2026-01-01T12:00:00":           noon,
		"2026-01-01 12:00:00.5":         noon + 500,
		"2026-01-01T12:00":              noon,
		"2026-01-01 12:00":              noon,
		"2026-01-01":                    noon - 12*3600*1000,
		utc(noon + 7):                   noon + 7,
		"1969-12-31T23:59:59.999Z":      -1,
		"9223372036854775807":           1<<63 - 1,
		"2026-01-01T12:00:00.999999999": noon + 999,
	} {
		got, err := parseTime(text, fixedNow)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "yesterday", "9223372036854775808", "2026-13-01", "12:00"} {
		_, err := parseTime(text, fixedNow)
		require.Error(t, err, "%q", text)
	}
}

func TestUTCOfNoTimestampIsADash(t *testing.T) {
	require.Equal(t, "-", utc(codec.NoTimestamp))
	require.Equal(t, "1970-01-01T00:00:00.000Z", utc(0))
}
