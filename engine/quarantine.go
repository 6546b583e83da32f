package engine

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A quarantine file holds rows that Repair removed, as Pebble had them, so that nothing
// is lost that somebody may still make sense of. It lies in the store's directory and
// is never read by the store. Big endian:
//
//	| CAIRNQ | version u16 |
//	| key length u32 | value length u32 | key | value | CRC-32C of all before in the row |  repeated
//
// This layout is on disk; TestQuarantineLayout pins it.
const (
	quarantineName    = "QUARANTINE-%06d"
	quarantineMagic   = "CAIRNQ"
	quarantineVersion = 1
	quarantineHeader  = len(quarantineMagic) + 2
	// maxQuarantines is how many files a directory may have.
	maxQuarantines = 1_000_000
	// maxQuarantined bounds one row that is read: Pebble's own limit of a batch.
	maxQuarantined = 4 << 30

	quarantineCategory vfs.DiskWriteCategory = "cairn-quarantine"
)

// QuarantinedRow is a row that Repair removed. keys.DecodeLog and codec.ParseEntry tell
// what an entry is; package keys knows the keys of all.
type QuarantinedRow struct{ Key, Value []byte }

// quarantine is a quarantine file that is written. It is made when the first row comes.
type quarantine struct {
	fs   vfs.FS // under the fence: an error of it is one to act upon
	dir  string
	name string // "" before the first row
	f    vfs.File
	rows int64
	buf  []byte
}

// add copies a row. It is safe only after sync.
func (q *quarantine) add(key, value []byte) error {
	if q.f == nil {
		if err := q.create(); err != nil {
			return fmt.Errorf("quarantine: %w", err)
		}
	}
	q.buf = binary.BigEndian.AppendUint32(q.buf[:0], uint32(len(key)))
	q.buf = binary.BigEndian.AppendUint32(q.buf, uint32(len(value)))
	q.buf = append(append(q.buf, key...), value...)
	q.buf = binary.BigEndian.AppendUint32(q.buf, crc32.Checksum(q.buf, castagnoli))
	if _, err := q.f.Write(q.buf); err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	q.rows++
	return nil
}

// create makes a file of a name that is not taken.
func (q *quarantine) create() error {
	for n := 1; n < maxQuarantines; n++ {
		name := q.fs.PathJoin(q.dir, fmt.Sprintf(quarantineName, n))
		if _, err := q.fs.Stat(name); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f, err := q.fs.Create(name, quarantineCategory)
		if err != nil {
			return err
		}
		q.name, q.f = name, f
		_, err = f.Write(binary.BigEndian.AppendUint16([]byte(quarantineMagic), quarantineVersion))
		return err
	}
	return fmt.Errorf("there are %d files already", maxQuarantines)
}

// sync returns when every row is on stable storage, and the file's name with them.
func (q *quarantine) sync() error {
	if q.f == nil {
		return nil
	}
	d, err := q.fs.OpenDir(q.dir)
	if err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	if err := errors.Join(q.f.Sync(), d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	return nil
}

func (q *quarantine) close() error {
	if q.f == nil {
		return nil
	}
	return q.f.Close()
}

// ReadQuarantine yields the rows of a quarantine file in the order they were removed.
// Their bytes are the caller's. An error is yielded once, last: of the file system, or
// one that wraps ErrCorrupt where the file is damaged, or ends within a row.
func ReadQuarantine(fsys vfs.FS, name string) iter.Seq2[QuarantinedRow, error] {
	return func(yield func(QuarantinedRow, error) bool) {
		stopped := false
		err := readQuarantine(fsys, name, func(row QuarantinedRow) bool {
			stopped = !yield(row, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(QuarantinedRow{}, fmt.Errorf("engine: read quarantine %s: %w", name, err))
		}
	}
}

func readQuarantine(fsys vfs.FS, name string, each func(QuarantinedRow) bool) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r, left := bufio.NewReader(f), info.Size()
	var header [quarantineHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil || string(header[:len(quarantineMagic)]) != quarantineMagic {
		return fmt.Errorf("%w: not a quarantine file", ErrCorrupt)
	}
	if v := binary.BigEndian.Uint16(header[len(quarantineMagic):]); v != quarantineVersion {
		return fmt.Errorf("%w: quarantine file of version %d", ErrNewerFormat, v)
	}
	for left -= int64(quarantineHeader); left > 0; {
		row, size, err := readQuarantined(r, left)
		if err != nil {
			return err
		}
		if left -= size; !each(row) {
			return nil
		}
	}
	return nil
}

// readQuarantined reads one row, of at most left bytes.
func readQuarantined(r io.Reader, left int64) (row QuarantinedRow, size int64, err error) {
	var lengths [8]byte
	if _, err := io.ReadFull(r, lengths[:]); err != nil {
		return row, 0, fmt.Errorf("%w: ends within a row: %w", ErrCorrupt, err)
	}
	key, value := int64(binary.BigEndian.Uint32(lengths[:])), int64(binary.BigEndian.Uint32(lengths[4:]))
	if size = 8 + key + value + 4; size > min(left, maxQuarantined) {
		return row, 0, fmt.Errorf("%w: a row of %d bytes, %d are left", ErrCorrupt, size, left)
	}
	b := make([]byte, size-8)
	if _, err := io.ReadFull(r, b); err != nil {
		return row, 0, fmt.Errorf("%w: ends within a row: %w", ErrCorrupt, err)
	}
	sum := crc32.Update(crc32.Checksum(lengths[:], castagnoli), castagnoli, b[:key+value])
	if stored := binary.BigEndian.Uint32(b[key+value:]); sum != stored {
		return row, 0, fmt.Errorf("%w: checksum of a row is %08x, stored %08x", ErrCorrupt, sum, stored)
	}
	return QuarantinedRow{b[:key:key], b[key : key+value : key+value]}, size, nil
}
