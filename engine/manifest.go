package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble reads its MANIFEST up to the first record that does not match its
// checksum, takes that for the end that a crash tore off, and then deletes every
// table recorded after it: one flipped bit loses the store without an error
// (Pebble issue 4560). So the engine reads the MANIFEST first.
//
// A record is a run of chunks, cut at blocks of 32 KiB:
//
//	0     4    6      7
//	| CRC | n | type | n bytes |     little endian; the CRC covers type and bytes
//
// Fewer than 7 bytes at the end of a block are padding. Pebble syncs the MANIFEST
// after every record, and a new one before a marker names it. So a crash can tear
// the last record only, and a chunk that begins a record after a damaged one
// proves that what is damaged had been on stable storage. A chunk that continues
// a record proves nothing: the disk may have kept the end of the last record
// without its beginning.
const (
	manifestBlock  = 32 << 10
	manifestHeader = 7

	// manifestResync bounds the bytes checksummed in search of a chunk after the
	// damage, 0.1 s of work. Damage at random needs 1 MiB a block; behind the
	// bound only chunks at the start of a block are found.
	manifestResync = 1 << 30
)

// The types of chunk.
const (
	chunkFull = iota + 1
	chunkFirst
	chunkMiddle
	chunkLast
)

// ManifestError says that the file which lists the store's tables is damaged.
type ManifestError struct {
	File   string
	Offset int64 // of the damaged record's first bad chunk
}

func (e *ManifestError) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d, with valid records after it: "+
		"to open the store would delete every table they list: restore the file from a copy, or the store from a checkpoint", e.File, e.Offset)
}

// scanManifest reads the MANIFEST of the Pebble store in dir and returns a
// *ManifestError if it is damaged anywhere but in its last record, which a crash
// may have torn. A directory without a store is fine. It takes one pass in
// constant memory.
func scanManifest(fsys vfs.FS, dir string) error {
	desc, err := pebble.Peek(dir, fsys)
	if err != nil || !desc.Exists {
		return err
	}
	f, err := fsys.Open(desc.ManifestFilename, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read

	offset, damaged, err := scanRecords(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", desc.ManifestFilename, err)
	}
	if damaged {
		return &ManifestError{File: desc.ManifestFilename, Offset: offset}
	}
	return nil
}

// scanRecords reads a MANIFEST to its end, or to the proof that it is damaged,
// and returns where.
func scanRecords(r io.Reader) (bad int64, damaged bool, err error) {
	s := manifestScanner{bad: -1, resync: manifestResync}
	for offset := int64(0); ; offset += manifestBlock {
		n, err := io.ReadFull(r, s.buf[:])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, false, err
		}
		if s.scan(s.buf[:n], offset) {
			return s.bad, true, nil
		}
		if n < manifestBlock {
			return 0, false, nil
		}
	}
}

// manifestScanner is the state of a scan from block to block.
type manifestScanner struct {
	bad      int64 // offset of the first damage, -1 before it
	inRecord bool  // the last chunk was not the last of its record
	resync   int   // bytes that may still be checksummed in search of a chunk
	buf      [manifestBlock]byte
}

// scan reads the chunks of one block and reports whether the file is proven to
// be damaged.
func (s *manifestScanner) scan(block []byte, offset int64) (damaged bool) {
	for i := 0; i+manifestHeader <= len(block); {
		c := chunkAt(block[i:])
		if !c.valid {
			s.fail(offset + int64(i))
			if s.resync -= c.size; s.resync < 0 {
				return false
			}
			i++
			continue
		}
		if begins := c.kind == chunkFull || c.kind == chunkFirst; begins == s.inRecord {
			s.fail(offset + int64(i)) // a chunk before this one is missing
		}
		if s.bad >= 0 && (c.kind == chunkFull || c.kind == chunkFirst) {
			return true
		}
		s.inRecord = c.kind == chunkFirst || c.kind == chunkMiddle
		i += c.size
	}
	return false
}

// fail notes where the first damage is.
func (s *manifestScanner) fail(offset int64) {
	if s.bad < 0 {
		s.bad = offset
	}
}

type manifestChunk struct {
	kind  byte
	size  int // with the header; what was checksummed, if it is not valid
	valid bool
}

// chunkAt returns the chunk at the start of what is left of a block.
func chunkAt(rest []byte) manifestChunk {
	kind := rest[6]
	size := manifestHeader + int(binary.LittleEndian.Uint16(rest[4:]))
	if kind < chunkFull || kind > chunkLast || size > len(rest) {
		return manifestChunk{}
	}
	sum := crc32.Checksum(rest[6:size], castagnoli)
	sum = (sum>>15 | sum<<17) + 0xa282ead8 // masked, as in LevelDB
	return manifestChunk{kind, size, sum == binary.LittleEndian.Uint32(rest)}
}
