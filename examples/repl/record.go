package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cairnlog/cairn/codec"
)

// record is one result of a command. The same record is a row of a table, a list
// of names and values, and a JSON object.
type record []field

// field is a named value. Its type decides how it is shown:
//
//	codec.Timestamp  milliseconds, and the same as UTC beside it
//	[]byte           a key or value, as display spells it
//	byteCount        bytes; in a list, with the unit that people read
//	time.Duration    seconds in JSON
//	nil              not known: - in a table
//	record           an object in JSON, and nothing else
//	string, bool, int, int32, int64, []int64
type field struct {
	name  string
	value any
	// detail leaves the field out of tables, unless --full asks for it.
	detail bool
}

type byteCount int64

// column is a field as text. A timestamp makes two.
type column struct {
	name  string
	text  string
	right bool // numbers are aligned at their ends
}

// columns returns a record as text. wide values are for lists, where there is
// room.
func (r record) columns(details, wide bool) []column {
	cols := make([]column, 0, len(r)+2)
	for _, f := range r {
		if f.detail && !details {
			continue
		}
		switch v := f.value.(type) {
		case codec.Timestamp:
			cols = append(cols, column{f.name, v.String(), true}, column{"utc", utc(v), false})
		case []byte:
			cols = append(cols, column{f.name, display(v), false})
		case string:
			cols = append(cols, column{f.name, v, false})
		default:
			cols = append(cols, column{f.name, plain(v, wide), true})
		}
	}
	return cols
}

// plain returns the text of a number or of a list of numbers.
func plain(value any, wide bool) string {
	switch v := value.(type) {
	case nil:
		return "-"
	case byteCount:
		if wide && v >= 1<<10 {
			return fmt.Sprintf("%d (%s)", int64(v), byteSize(int64(v)))
		}
		return strconv.FormatInt(int64(v), 10)
	case time.Duration:
		if v < time.Millisecond {
			return v.Round(time.Microsecond).String()
		}
		return v.Round(time.Millisecond).String()
	case []int64:
		words := make([]string, len(v))
		for i, n := range v {
			words[i] = strconv.FormatInt(n, 10)
		}
		return strings.Join(words, " ")
	default:
		return fmt.Sprint(v)
	}
}

// json returns the fields as an object, in their order. Names get underscores
// for spaces. No timestamp is null, one that is there has a NAME_utc beside it; a
// key or value that is no text is NAME_hex.
func (r record) json() ([]byte, error) {
	var b bytes.Buffer
	values := json.NewEncoder(&b)
	values.SetEscapeHTML(false)
	b.WriteByte('{')
	add := func(name string, value any) error {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(name))
		b.WriteByte(':')
		err := values.Encode(value)
		b.Truncate(b.Len() - 1) // the encoder's line end
		return err
	}
	for _, f := range r {
		if err := addJSON(strings.ReplaceAll(f.name, " ", "_"), f.value, add); err != nil {
			return nil, err
		}
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

func addJSON(name string, value any, add func(string, any) error) error {
	switch v := value.(type) {
	case codec.Timestamp:
		if v == codec.NoTimestamp {
			return add(name, nil)
		}
		if err := add(name, int64(v)); err != nil {
			return err
		}
		return add(name+"_utc", utc(v))
	case []byte:
		switch {
		case v == nil:
			return add(name, nil)
		case utf8.Valid(v):
			return add(name, string(v))
		default:
			return add(name+"_hex", hex.EncodeToString(v))
		}
	case time.Duration:
		return add(name+"_seconds", v.Seconds())
	case record:
		text, err := v.json()
		if err != nil {
			return err
		}
		return add(name, json.RawMessage(text))
	case []int64:
		if v == nil {
			v = []int64{}
		}
		return add(name, v)
	default:
		return add(name, v)
	}
}
