package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cairnlog/cairn/codec"
)

// lineParser reads one line of a file into m, which may alias the line.
type lineParser func(line []byte, m *codec.Message) error

// findParser returns the parser of a format; without one, of the file's name.
func findParser(format, path string) (lineParser, error) {
	if format == "" {
		switch strings.ToLower(filepath.Ext(path)) {
		case ".tsv":
			format = "tsv"
		case ".jsonl", ".ndjson":
			format = "jsonl"
		default:
			format = "lines"
		}
	}
	switch format {
	case "lines":
		return parsePlain, nil
	case "tsv":
		return parseTSV, nil
	case "jsonl":
		return parseJSONL, nil
	default:
		return nil, usagef("format %q is not lines, tsv or jsonl", format)
	}
}

func parsePlain(line []byte, m *codec.Message) error {
	m.Value = line
	return nil
}

func parseTSV(line []byte, m *codec.Message) error {
	ts, rest, ok := bytes.Cut(line, []byte{'\t'})
	key, value, ok2 := bytes.Cut(rest, []byte{'\t'})
	if !ok || !ok2 {
		return fmt.Errorf("a TSV line is timestamp, key and value divided by tabs")
	}
	m.Key, m.Value = tsvField(key), tsvField(value)
	return setTime(m, string(ts))
}

func tsvField(b []byte) []byte {
	if string(b) == `\N` {
		return nil
	}
	return b
}

// setTime gives m a timestamp; an empty text leaves it unset.
func setTime(m *codec.Message, text string) (err error) {
	if text == "" {
		return nil
	}
	m.TimestampType = codec.CreateTime
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil { // the usual case, quickly
		m.Timestamp = codec.Timestamp(ms)
		return nil
	}
	m.Timestamp, err = parseTime(text, time.Time{})
	return err
}

// jsonMessage is a line of JSONL. A key or value that is no string is kept as
// the JSON text it is.
type jsonMessage struct {
	Timestamp json.RawMessage `json:"timestamp"`
	Key       json.RawMessage `json:"key"`
	Value     json.RawMessage `json:"value"`
	KeyHex    string          `json:"key_hex"`
	ValueHex  string          `json:"value_hex"`
}

func parseJSONL(line []byte, m *codec.Message) error {
	var j jsonMessage
	err := json.Unmarshal(line, &j)
	if err == nil {
		m.Key, err = jsonBytes(j.Key, j.KeyHex)
	}
	if err == nil {
		m.Value, err = jsonBytes(j.Value, j.ValueHex)
	}
	switch {
	case err != nil:
		return err
	case j.Timestamp == nil:
		return nil
	case string(j.Timestamp) == "null":
		return setTime(m, "none")
	case j.Timestamp[0] == '"':
		var text string
		if err := json.Unmarshal(j.Timestamp, &text); err != nil {
			return err
		}
		return setTime(m, text)
	default:
		return setTime(m, string(j.Timestamp))
	}
}

func jsonBytes(raw json.RawMessage, digits string) ([]byte, error) {
	switch {
	case digits != "":
		return hex.DecodeString(digits)
	case raw == nil, string(raw) == "null":
		return nil, nil
	case raw[0] == '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return []byte(text), err
	default:
		return raw, nil
	}
}
