package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The watermark file tells, outside Pebble, what the store must come back with.
// Pebble cannot notice every loss itself: damage in the last 32 KiB of its WAL,
// and in one written by large batches, looks to it like the end of the WAL.
//
// The file is two slots, written in turn and in place, so a torn write leaves the
// other slot, and a full disk cannot hit a rewrite (on a file system that
// overwrites in place). A slot, big endian, at the start of each 4 KiB:
//
//	0        7  8           16   24     32     36
//	| CAIRNWM | 1 | generation | seq | acked | CRC-32C of [0:32] |
//
// The rest is zero. The valid slot with the larger generation counts. This layout
// is on disk; TestWatermarkLayout pins it.
const (
	watermarkName = "WATERMARK"
	// watermarkTemp is the file's name until its first content is durable.
	watermarkTemp     = "WATERMARK.tmp"
	watermarkMagic    = "CAIRNWM"
	watermarkVersion  = 1
	watermarkSlotSize = 36
	// watermarkStride keeps the slots in different sectors of any disk, and in
	// different pages: none is torn by a write to the other.
	watermarkStride = 4 << 10

	watermarkCategory vfs.DiskWriteCategory = "cairn-watermark"
)

// watermark says which mark was durable in Pebble when it was written. The zero
// watermark demands nothing: no mark was written yet.
type watermark struct {
	Seq   uint64 // number of the mark
	Acked uint64 // commits acknowledged up to it
}

// WatermarkError says that the watermark file is there and neither of its slots
// can be read, so that nothing tells whether the store came back whole.
type WatermarkError struct {
	File   string
	Reason string
}

func (e *WatermarkError) Error() string {
	return fmt.Sprintf("%s is damaged (%s): it cannot be told whether the store is complete: check the disk and compare with a backup", e.File, e.Reason)
}

// watermarkFile is the open watermark file. It is not safe for concurrent use.
type watermarkFile struct {
	f          vfs.File
	generation uint64 // of the newest valid slot
	buf        [watermarkSlotSize]byte
}

// openWatermark opens dir's watermark file and returns what it says; it creates
// the file, with the zero watermark, if there is none. It returns a
// *WatermarkError for a damaged one; createWatermark replaces that.
//
// fsys is the file system under the fence: a failed write is an error to act
// upon, and a goroutine of the engine's must not be parked.
func openWatermark(fsys vfs.FS, dir string) (*watermarkFile, watermark, error) {
	m, generation, err := loadWatermark(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		m, generation, err = watermark{}, 1, createWatermark(fsys, dir)
	}
	if err != nil {
		return nil, watermark{}, err
	}
	f, err := fsys.OpenReadWrite(fsys.PathJoin(dir, watermarkName), watermarkCategory)
	if err != nil {
		return nil, watermark{}, fmt.Errorf("open %s: %w", watermarkName, err)
	}
	return &watermarkFile{f: f, generation: generation}, m, nil
}

// readWatermark returns what dir's watermark file says and changes nothing; ok
// is false if there is none. It returns a *WatermarkError for a damaged one.
func readWatermark(fsys vfs.FS, dir string) (m watermark, ok bool, err error) {
	m, _, err = loadWatermark(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return watermark{}, false, nil
	}
	return m, err == nil, err
}

// createWatermark puts a new watermark file, which demands nothing, in the place
// of any old one. It is renamed to its name when it is durable: a crash leaves a
// whole file or none.
func createWatermark(fsys vfs.FS, dir string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("create %s: %w", watermarkName, err)
		}
	}()
	var buf [2 * watermarkStride]byte
	encodeWatermark(buf[:watermarkSlotSize], watermark{}, 0)
	encodeWatermark(buf[watermarkStride:][:watermarkSlotSize], watermark{}, 1)

	temp := fsys.PathJoin(dir, watermarkTemp)
	f, err := fsys.Create(temp, watermarkCategory)
	if err != nil {
		return err
	}
	if _, err := f.Write(buf[:]); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(temp, fsys.PathJoin(dir, watermarkName)); err != nil {
		return err
	}
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Write makes m the watermark and returns when that is on stable storage. After
// an error the watermark is m or the one before, and the next Write tries the
// same slot again.
func (w *watermarkFile) Write(m watermark) error {
	generation := w.generation + 1
	encodeWatermark(w.buf[:], m, generation)
	if _, err := w.f.WriteAt(w.buf[:], int64(generation%2)*watermarkStride); err != nil {
		return fmt.Errorf("write %s: %w", watermarkName, err)
	}
	if err := w.f.SyncData(); err != nil { // the size never changes
		return fmt.Errorf("sync %s: %w", watermarkName, err)
	}
	w.generation = generation
	return nil
}

// Close closes the file.
func (w *watermarkFile) Close() error { return w.f.Close() }

// loadWatermark reads the file and returns the newer valid slot. A missing file
// is fs.ErrNotExist.
func loadWatermark(fsys vfs.FS, dir string) (m watermark, generation uint64, err error) {
	name := fsys.PathJoin(dir, watermarkName)
	f, err := fsys.Open(name)
	if err != nil {
		return watermark{}, 0, fmt.Errorf("open %s: %w", watermarkName, err)
	}
	defer func() { _ = f.Close() }() // only read

	var found bool
	var reasons [2]error
	for slot := range reasons {
		var buf [watermarkSlotSize]byte
		n, err := f.ReadAt(buf[:], int64(slot)*watermarkStride)
		if err != nil && !errors.Is(err, io.EOF) {
			return watermark{}, 0, fmt.Errorf("read %s: %w", watermarkName, err)
		}
		got, gen, err := decodeWatermark(buf[:n])
		if err != nil {
			reasons[slot] = err
		} else if !found || gen > generation {
			m, generation, found = got, gen, true
		}
	}
	if !found {
		return watermark{}, 0, &WatermarkError{File: name, Reason: fmt.Sprintf("%v; %v", reasons[0], reasons[1])}
	}
	return m, generation, nil
}

func encodeWatermark(slot []byte, m watermark, generation uint64) {
	copy(slot, watermarkMagic)
	slot[7] = watermarkVersion
	binary.BigEndian.PutUint64(slot[8:], generation)
	binary.BigEndian.PutUint64(slot[16:], m.Seq)
	binary.BigEndian.PutUint64(slot[24:], m.Acked)
	sealWatermark(slot)
}

func sealWatermark(slot []byte) {
	binary.BigEndian.PutUint32(slot[32:], crc32.Checksum(slot[:32], castagnoli))
}

func decodeWatermark(slot []byte) (m watermark, generation uint64, err error) {
	switch {
	case len(slot) < watermarkSlotSize:
		return m, 0, errors.New("too short")
	case crc32.Checksum(slot[:32], castagnoli) != binary.BigEndian.Uint32(slot[32:]):
		return m, 0, errors.New("wrong checksum")
	case string(slot[:7]) != watermarkMagic:
		return m, 0, errors.New("not a watermark")
	case slot[7] != watermarkVersion:
		return m, 0, fmt.Errorf("unknown version %d", slot[7])
	}
	m.Seq, m.Acked = binary.BigEndian.Uint64(slot[16:]), binary.BigEndian.Uint64(slot[24:])
	return m, binary.BigEndian.Uint64(slot[8:]), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
