package codec

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/pierrec/lz4/v4"
)

// The LZ4 frame format is read and written here on top of the block codec of
// the library, since Kafka needs three things the library's streams do not give:
// the wrong header checksum of magic 0, blocks inflated straight into the
// caller's buffer, and memory bounded by the input rather than by the block
// size the frame declares (4 MiB with several clients).
//
//	04 22 4d 18 | FLG | BD | [content size u64] | HC | blocks | 00 00 00 00 | [content checksum u32]
//	block: size u32, top bit = stored as is | bytes | [block checksum u32]
//
// All integers are little endian, all checksums xxHash32.
const (
	lz4Magic = 0x184d2204

	lz4FlagVersion         = 0x40
	lz4FlagVersionMask     = 0xc0
	lz4FlagIndependent     = 0x20
	lz4FlagBlockChecksum   = 0x10
	lz4FlagContentSize     = 0x08
	lz4FlagContentChecksum = 0x04
	lz4FlagReserved        = 0x03 // bit 1, and the dictionary bit 0

	lz4Block64K    = 0x40 // BD of 64 KiB blocks: Kafka's own, every client reads it
	lz4BlockBytes  = 64 << 10
	lz4Stored      = 1 << 31
	lz4Window      = 64 << 10 // how far back a linked block may refer
	lz4MaxRatio    = 255      // the most bytes one byte of a block can stand for
	lz4UsualRatio  = 8        // what a block of more than 64 KiB is tried with first
	lz4HeaderBytes = 7
)

var lz4Compressors = sync.Pool{New: func() any { return new(lz4.Compressor) }}

func lz4Compress(dst, src []byte, magic int8) ([]byte, error) {
	c := lz4Compressors.Get().(*lz4.Compressor)
	defer lz4Compressors.Put(c)

	header := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, lz4Magic)
	dst = append(dst, lz4FlagVersion|lz4FlagIndependent, lz4Block64K)
	sum := dst[header+4:]
	if magic == 0 {
		sum = dst[header:] // KAFKA-3160: the checksum takes the magic number in
	}
	dst = append(dst, byte(xxh32(sum)>>8))
	for len(src) > 0 {
		block := src[:min(len(src), lz4BlockBytes)]
		src = src[len(block):]
		dst = slices.Grow(dst, 4+lz4.CompressBlockBound(len(block)))
		at := len(dst) + 4
		n, err := c.CompressBlock(block, dst[at:cap(dst)])
		if err != nil {
			return dst, err
		}
		size := uint32(n)
		if n == 0 || n >= len(block) {
			n = copy(dst[at:cap(dst)], block)
			size = uint32(n) | lz4Stored
		}
		dst = binary.LittleEndian.AppendUint32(dst, size)[:at+n]
	}
	return append(dst, 0, 0, 0, 0), nil
}

// lz4Linked reports whether the frame's blocks refer to each other. Java's
// reader refuses such a frame, whatever it holds.
func lz4Linked(src []byte) bool {
	return len(src) > 4 && src[4]&lz4FlagIndependent == 0
}

// lz4Frame is a frame being read.
type lz4Frame struct {
	src         []byte // what is left
	flags       byte
	blockBytes  int
	contentSize uint64
}

func lz4Decompress(dst, src []byte, magic int8, limit int) ([]byte, error) {
	f := lz4Frame{src: src}
	if err := f.header(magic); err != nil {
		return dst, err
	}
	if f.flags&lz4FlagContentSize != 0 && f.contentSize > uint64(limit) {
		return dst, inflatesBeyond(LZ4, limit)
	}
	start := len(dst)
	for {
		size, ok := f.uint32()
		if !ok {
			return dst, lz4Cut()
		}
		if size == 0 {
			break
		}
		var err error
		if dst, err = f.block(dst, size, start, limit); err != nil {
			return dst, err
		}
	}
	return dst, f.trailer(dst[start:])
}

func lz4Cut() *Error { return Errorf(CodeCorruptMessage, "lz4 frame is cut short") }

func (f *lz4Frame) uint32() (uint32, bool) {
	if len(f.src) < 4 {
		return 0, false
	}
	v := binary.LittleEndian.Uint32(f.src)
	f.src = f.src[4:]
	return v, true
}

func (f *lz4Frame) header(magic int8) error {
	src := f.src
	if len(src) < lz4HeaderBytes {
		return lz4Cut()
	}
	if m := binary.LittleEndian.Uint32(src); m != lz4Magic {
		return Errorf(CodeCorruptMessage, "lz4 frame starts with %08x", m)
	}
	flags, bd := src[4], src[5]
	if flags&lz4FlagVersionMask != lz4FlagVersion || flags&lz4FlagReserved != 0 || bd&0x8f != 0 || bd < lz4Block64K {
		return Errorf(CodeCorruptMessage, "lz4 frame descriptor %02x %02x is not supported", flags, bd)
	}
	end := 6
	if flags&lz4FlagContentSize != 0 {
		if end += 8; len(src) <= end {
			return lz4Cut()
		}
		f.contentSize = binary.LittleEndian.Uint64(src[6:])
	}
	// Writers of magic 0 computed this checksum wrongly, so nobody checks it there.
	if sum := byte(xxh32(src[4:end]) >> 8); magic != 0 && src[end] != sum {
		return Errorf(CodeCorruptMessage, "lz4 header checksum is %02x, want %02x", src[end], sum)
	}
	f.flags = flags
	f.blockBytes = 1 << (8 + 2*(bd>>4))
	f.src = src[end+1:]
	return nil
}

// block appends one block's bytes to dst; the frame's output begins at start.
func (f *lz4Frame) block(dst []byte, size uint32, start, limit int) ([]byte, error) {
	n := int64(size &^ lz4Stored)
	if n > int64(len(f.src)) {
		return dst, lz4Cut()
	}
	if n > int64(f.blockBytes) {
		return dst, Errorf(CodeCorruptMessage, "lz4 block of %d bytes in a frame of %d byte blocks", n, f.blockBytes)
	}
	block := f.src[:n]
	f.src = f.src[n:]
	if f.flags&lz4FlagBlockChecksum != 0 {
		if want, ok := f.uint32(); !ok {
			return dst, lz4Cut()
		} else if got := xxh32(block); got != want {
			return dst, Errorf(CodeCorruptMessage, "lz4 block checksum is %08x, want %08x", want, got)
		}
	}
	room := limit - (len(dst) - start)
	if size&lz4Stored != 0 {
		if len(block) > room {
			return dst, inflatesBeyond(LZ4, limit)
		}
		return append(dst, block...), nil
	}
	var dict []byte
	if f.flags&lz4FlagIndependent == 0 {
		dict = dst[max(start, len(dst)-lz4Window):]
	}
	out, ok := lz4Inflate(dst, block, dict, min(f.blockBytes, room))
	if !ok {
		return dst, Errorf(CodeCorruptMessage, "lz4 block is damaged or inflates beyond %d bytes", min(f.blockBytes, room))
	}
	return out, nil
}

// lz4Inflate appends a block that inflates to at most limit bytes. A block does
// not say its inflated size, so a large one is tried with growing room.
func lz4Inflate(dst, block, dict []byte, limit int) ([]byte, bool) {
	limit = min(limit, lz4MaxRatio*len(block))
	room := max(lz4BlockBytes, lz4UsualRatio*len(block), cap(dst)-len(dst))
	for {
		room = min(room, limit)
		dst = slices.Grow(dst, room)
		n, err := lz4.UncompressBlockWithDict(block, dst[len(dst):len(dst)+room], dict)
		if err == nil {
			return dst[:len(dst)+n], true
		}
		if room == limit {
			return dst, false
		}
		room *= 4
	}
}

func (f *lz4Frame) trailer(out []byte) error {
	if f.flags&lz4FlagContentSize != 0 && f.contentSize != uint64(len(out)) {
		return Errorf(CodeCorruptMessage, "lz4 frame holds %d bytes, declares %d", len(out), f.contentSize)
	}
	if f.flags&lz4FlagContentChecksum != 0 {
		if want, ok := f.uint32(); !ok {
			return lz4Cut()
		} else if got := xxh32(out); got != want {
			return Errorf(CodeCorruptMessage, "lz4 content checksum is %08x, want %08x", want, got)
		}
	}
	if len(f.src) > 0 {
		return Errorf(CodeCorruptMessage, "%d bytes after the lz4 frame", len(f.src))
	}
	return nil
}
