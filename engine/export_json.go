package engine

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"unicode/utf8"

	"github.com/cairnlog/cairn/codec"
)

// jsonMessage is a line of ExportJSONL. Of key and key_hex, value and value_hex, one
// is there.
type jsonMessage struct {
	Offset    int64       `json:"offset"`
	Timestamp *int64      `json:"timestamp"`
	Type      string      `json:"type"`
	Key       *string     `json:"key"`
	KeyHex    string      `json:"key_hex,omitempty"`
	Value     *string     `json:"value"`
	ValueHex  string      `json:"value_hex,omitempty"`
	Sent      *int64      `json:"sent,omitempty"`
	Tags      [][]*string `json:"tags,omitempty"` // pairs
}

// appendJSON appends a message as a line.
func appendJSON(dst []byte, m *codec.Message) ([]byte, error) {
	j := jsonMessage{Offset: m.Offset, Type: m.TimestampType.String()}
	if m.Timestamp != codec.NoTimestamp {
		j.Timestamp = (*int64)(&m.Timestamp)
	}
	j.Key, j.KeyHex = jsonField(m.Key)
	j.Value, j.ValueHex = jsonField(m.Value)
	if sent := m.Tags.SentTime(); sent != codec.NoTimestamp {
		j.Sent = (*int64)(&sent)
	}
	for tag := range m.Tags.App() {
		value := &tag.Value
		if tag.Null {
			value = nil
		}
		j.Tags = append(j.Tags, []*string{&tag.Key, value})
	}
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(&j) // which ends the line
	return append(dst, line.Bytes()...), err
}

// jsonField returns text, or hex digits for what is not UTF-8.
func jsonField(field []byte) (text *string, digits string) {
	switch {
	case field == nil:
		return nil, ""
	case utf8.Valid(field):
		s := string(field)
		return &s, ""
	default:
		return nil, hex.EncodeToString(field)
	}
}

// parseJSON reads a line.
func parseJSON(line []byte) (codec.Message, error) {
	var j jsonMessage
	bad := func(err error) (codec.Message, error) {
		return codec.Message{}, codec.Errorf(codec.CodeCorruptMessage, "malformed line: %v", err)
	}
	if err := json.Unmarshal(line, &j); err != nil {
		return bad(err)
	}
	m := codec.Message{Timestamp: codec.NoTimestamp, TimestampType: codec.CreateTime}
	if j.Timestamp != nil {
		m.Timestamp = codec.Timestamp(*j.Timestamp)
	}
	var err error
	if m.Key, err = fieldOf(j.Key, j.KeyHex); err != nil {
		return bad(err)
	}
	if m.Value, err = fieldOf(j.Value, j.ValueHex); err != nil {
		return bad(err)
	}
	sent := codec.NoTimestamp
	if j.Sent != nil {
		sent = codec.Timestamp(*j.Sent)
	}
	var app []codec.AppTag
	for _, pair := range j.Tags {
		if len(pair) != 2 || pair[0] == nil {
			return codec.Message{}, codec.Errorf(codec.CodeCorruptMessage, "malformed line: a tag is no pair")
		}
		tag := codec.AppTag{Key: *pair[0], Null: pair[1] == nil}
		if pair[1] != nil {
			tag.Value = *pair[1]
		}
		app = append(app, tag)
	}
	m.Tags, err = codec.NewTags(sent, app...)
	return m, err
}

func fieldOf(text *string, digits string) ([]byte, error) {
	switch {
	case digits != "":
		return hex.DecodeString(digits)
	case text == nil:
		return nil, nil
	default:
		return []byte(*text), nil
	}
}
