package engine

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/cockroachdb/pebble/v2"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

// offsetCommit is a consumer group's offset on its way into a batch.
type offsetCommit struct {
	group    string
	p        *Partition
	offset   int64
	metadata string
}

const (
	// maxGroupName bounds the name of a consumer group, in bytes.
	maxGroupName = 255
	// maxMetadata bounds what a group may keep beside an offset, in bytes: Kafka's
	// offset.metadata.max.bytes.
	maxMetadata = 4096
)

func (c *offsetCommit) check() error {
	switch err := validateGroup(c.group); {
	case err != nil:
		return err
	case c.offset < 0:
		return codec.Errorf(codec.CodeOffsetOutOfRange, "negative offset %d", c.offset)
	case len(c.metadata) > maxMetadata:
		return codec.Errorf(codec.CodeMetadataTooLarge, "metadata of %d bytes is longer than %d", len(c.metadata), maxMetadata)
	}
	return nil
}

// validateGroup refuses a name that cannot be a group's (Kafka code 24).
func validateGroup(name string) error {
	bad := func(reason string) error {
		return codec.Errorf(codec.CodeInvalidGroup, "group name %.300q %s", name, reason)
	}
	switch {
	case name == "":
		return bad("is empty")
	case len(name) > maxGroupName:
		return bad(fmt.Sprintf("is longer than %d bytes", maxGroupName))
	case !utf8.ValidString(name):
		return bad("is not UTF-8")
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return bad("has a control character")
		}
	}
	return nil
}

// offsetRow is the value of an offset key.
type offsetRow struct {
	Version  uint8           `msgpack:"v"`
	Offset   int64           `msgpack:"o"`
	Time     codec.Timestamp `msgpack:"t"` // the store's clock at the commit
	Metadata string          `msgpack:"m,omitempty"`
}

const offsetVersion = 1

// set writes the row.
func (c *offsetCommit) set(batch *pebble.Batch, now codec.Timestamp) error {
	value, err := encodeCompact(&offsetRow{offsetVersion, c.offset, now, c.metadata})
	if err != nil {
		return err
	}
	return batch.Set(keys.AppendOffset(nil, c.group, c.p.id()), value, nil)
}

func decodeOffset(group string, value []byte) (offsetRow, error) {
	var row offsetRow
	if err := msgpack.Unmarshal(value, &row); err != nil {
		return row, &CorruptionError{Offset: -1, Err: fmt.Errorf("offset of group %q: %w", group, err)}
	}
	if row.Version > offsetVersion {
		return row, fmt.Errorf("%w: offset row version %d", ErrNewerFormat, row.Version)
	}
	return row, nil
}
