package codec

import (
	"encoding/binary"
	"math/bits"
)

// The primes of xxHash32 and the start values of its lanes 1 and 4, which are
// prime1+prime2 and -prime1.
const (
	xxPrime1 = 2654435761
	xxPrime2 = 2246822519
	xxPrime3 = 3266489917
	xxPrime4 = 668265263
	xxPrime5 = 374761393
	xxStart1 = 606290984
	xxStart4 = 1640531535
)

// xxh32 returns the xxHash32 of b with seed 0, the checksum of lz4 frames.
func xxh32(b []byte) uint32 {
	n := uint32(len(b))
	h := uint32(xxPrime5)
	if len(b) >= 16 {
		v1, v2, v3, v4 := uint32(xxStart1), uint32(xxPrime2), uint32(0), uint32(xxStart4)
		for ; len(b) >= 16; b = b[16:] {
			v1 = xxRound(v1, binary.LittleEndian.Uint32(b))
			v2 = xxRound(v2, binary.LittleEndian.Uint32(b[4:]))
			v3 = xxRound(v3, binary.LittleEndian.Uint32(b[8:]))
			v4 = xxRound(v4, binary.LittleEndian.Uint32(b[12:]))
		}
		h = bits.RotateLeft32(v1, 1) + bits.RotateLeft32(v2, 7) + bits.RotateLeft32(v3, 12) + bits.RotateLeft32(v4, 18)
	}
	h += n
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*xxPrime3, 17) * xxPrime4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*xxPrime5, 11) * xxPrime1
	}
	h = (h ^ h>>15) * xxPrime2
	h = (h ^ h>>13) * xxPrime3
	return h ^ h>>16
}

func xxRound(v, lane uint32) uint32 {
	return bits.RotateLeft32(v+lane*xxPrime2, 13) * xxPrime1
}
