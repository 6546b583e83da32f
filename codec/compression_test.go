package codec_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cairnlog/cairn/codec"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
)

func TestCompressionNames(t *testing.T) {
	for i, name := range []string{"none", "gzip", "snappy", "lz4"} {
		c, err := codec.ParseCompression(name)
		require.NoError(t, err)
		require.EqualValues(t, i, c) // the attribute bits of SPEC 1.2
		require.Equal(t, name, c.String())
	}
	c, err := codec.ParseCompression("uncompressed")
	require.NoError(t, err)
	require.Equal(t, codec.None, c)
	for _, name := range []string{"", "GZIP", "zstd", "producer"} {
		_, err := codec.ParseCompression(name)
		require.ErrorIs(t, err, &codec.Error{Code: codec.CodeInvalidConfig}, name)
	}
	require.Equal(t, "codec(5)", codec.Compression(5).String())
}

// inputs of sizes around the block boundaries, compressible and not.
func compressionInputs() map[string][]byte {
	rng := rand.New(rand.NewPCG(7, 7))
	in := map[string][]byte{}
	for _, n := range []int{0, 1, 15, 16, 17, 1000, 32<<10 - 1, 32 << 10, 32<<10 + 1, 64 << 10, 64<<10 + 1, 200_003} {
		noise := make([]byte, n)
		for i := range noise {
			noise[i] = byte(rng.Uint32())
		}
		in[fmt.Sprintf("%d zeros", n)] = make([]byte, n)
		in[fmt.Sprintf("%d text", n)] = randomBytes(rng, n)
		in[fmt.Sprintf("%d noise", n)] = noise
	}
	return in
}

func TestCompressRoundTrips(t *testing.T) {
	for name, in := range compressionInputs() {
		for c := codec.None; c <= codec.LZ4; c++ {
			for magic := range int8(2) {
				packed, err := c.Compress([]byte("head"), in, magic)
				require.NoError(t, err)
				require.Equal(t, "head", string(packed[:4]))
				out, err := c.Decompress([]byte("tail"), packed[4:], magic, len(in))
				require.NoError(t, err, "%s %s", c, name)
				require.Equal(t, "tail", string(out[:4]))
				require.True(t, bytes.Equal(in, out[4:]), "%s %s", c, name)
				for _, limit := range []int{0, len(in) / 2, len(in) - 1} {
					if limit < 0 || limit >= len(in) {
						continue
					}
					out, err = c.Decompress([]byte("tail"), packed[4:], magic, limit)
					requireCorrupt(t, err, "%s %s beyond %d", c, name, limit)
					require.Equal(t, "tail", string(out))
				}
			}
		}
	}
}

func TestUnknownCodecIsAnError(t *testing.T) {
	for c := codec.Compression(4); c < 8; c++ {
		_, err := c.Compress(nil, []byte("x"), 1)
		requireCorrupt(t, err)
		_, err = c.Decompress(nil, []byte("x"), 1, 10)
		requireCorrupt(t, err)
	}
	_, err := codec.Gzip.Decompress(nil, nil, 1, -1)
	requireCorrupt(t, err)
}

// A stream cut anywhere is refused; no byte of it is believed.
func TestTruncatedStreamsAreRefused(t *testing.T) {
	in := randomBytes(rand.New(rand.NewPCG(1, 1)), 70_000)
	for _, c := range allCodecs {
		packed, err := c.Compress(nil, in, 1)
		require.NoError(t, err)
		for n := 0; n < len(packed); n += 1 + n/50 {
			out, err := c.Decompress(nil, packed[:n], 1, len(in))
			if c == codec.Snappy && err == nil {
				// A xerial stream has no end mark: it may stop between blocks.
				require.True(t, bytes.HasPrefix(in, out))
				continue
			}
			requireCorrupt(t, err, "%s cut to %d", c, n)
		}
	}
}

// SPEC 1.3.23: several gzip members are one stream; one is written.
func TestGzipMembers(t *testing.T) {
	member := func(s string) []byte {
		b, err := codec.Gzip.Compress(nil, []byte(s), 1)
		require.NoError(t, err)
		return b
	}
	two := append(member("first "), member("second")...)
	out, err := codec.Gzip.Decompress(nil, two, 1, 100)
	require.NoError(t, err)
	require.Equal(t, "first second", string(out))
	_, err = codec.Gzip.Decompress(nil, two, 1, 7)
	requireCorrupt(t, err)
	_, err = codec.Gzip.Decompress(nil, append(member("x"), "stray"...), 1, 100)
	requireCorrupt(t, err)

	r, err := gzip.NewReader(bytes.NewReader(member("one")))
	require.NoError(t, err)
	r.Multistream(false)
	var got bytes.Buffer
	_, err = got.ReadFrom(r)
	require.NoError(t, err)
	require.Equal(t, "one", got.String())
}

// SPEC 1.3.23: the xerial header and blocks of 32 KiB are written; raw snappy and
// streams of any block size are read.
func TestSnappyFramings(t *testing.T) {
	in := randomBytes(rand.New(rand.NewPCG(1, 1)), 70_000)
	packed, err := codec.Snappy.Compress(nil, in, 1)
	require.NoError(t, err)
	require.Equal(t, unhex(t, "82 534e41505059 00 00000001 00000001"), packed[:16])
	blocks := 0
	for rest := packed[16:]; len(rest) > 0; blocks++ {
		n := binary.BigEndian.Uint32(rest)
		size, err := s2.DecodedLen(rest[4 : 4+n])
		require.NoError(t, err)
		require.LessOrEqual(t, size, 32<<10)
		rest = rest[4+n:]
	}
	require.Equal(t, 3, blocks)

	out, err := codec.Snappy.Decompress(nil, s2.EncodeSnappy(nil, in), 1, len(in))
	require.NoError(t, err)
	require.True(t, bytes.Equal(in, out))
}

// A length that a snappy block claims is not allocated: vector
// bad-snappy-hugelen and the like.
func TestSnappyClaimsAreNotBelieved(t *testing.T) {
	xerial := unhex(t, "82 534e41505059 00 00000001 00000001")
	for name, src := range map[string][]byte{
		"4 GiB":             unhex(t, "ffffffff0f 00 61"),
		"99 MiB":            unhex(t, "8080c02f 00 61"),
		"varint cut":        unhex(t, "80"),
		"varint too long":   unhex(t, "ffffffffffffffffffff01"),
		"block length -1":   append(slices.Clone(xerial), 0xff, 0xff, 0xff, 0xff),
		"block length huge": append(slices.Clone(xerial), 0x7f, 0xff, 0xff, 0xff, 0),
		"block length cut":  append(slices.Clone(xerial), 0, 0, 0),
		"block of nothing":  append(slices.Clone(xerial), 0, 0, 0, 0),
		"magic alone":       xerial[:8],
	} {
		used := allocated(func() {
			_, err := codec.Snappy.Decompress(nil, src, 1, codec.MaxInflated)
			requireCorrupt(t, err, name)
		})
		require.Less(t, used, uint64(1<<20), name)
	}
}

// SPEC 1.3.23, KAFKA-3160: the header checksum of magic 0 takes the frame magic
// in, that of magic 1 does not; a reader of magic 0 takes either.
func TestLZ4HeaderChecksumBothWays(t *testing.T) {
	right, err := codec.LZ4.Compress(nil, []byte("hello"), 1)
	require.NoError(t, err)
	wrong, err := codec.LZ4.Compress(nil, []byte("hello"), 0)
	require.NoError(t, err)
	require.Equal(t, unhex(t, "04224d18 60 40 82"), right[:7]) // as librdkafka writes it
	require.Equal(t, unhex(t, "04224d18 60 40 1a"), wrong[:7]) // as in vector bad-lz4-kafka3160-hc
	require.Equal(t, right[7:], wrong[7:])

	for _, src := range [][]byte{right, wrong} {
		out, err := codec.LZ4.Decompress(nil, src, 0, 100)
		require.NoError(t, err)
		require.Equal(t, "hello", string(out))
	}
	_, err = codec.LZ4.Decompress(nil, right, 1, 100)
	require.NoError(t, err)
	_, err = codec.LZ4.Decompress(nil, wrong, 1, 100)
	requireCorrupt(t, err)
}

// What Cairn writes is one plain frame to an independent reader.
func TestLZ4FramesReadElsewhere(t *testing.T) {
	for name, in := range compressionInputs() {
		packed, err := codec.LZ4.Compress(nil, in, 1)
		require.NoError(t, err)
		var out bytes.Buffer
		_, err = out.ReadFrom(lz4.NewReader(bytes.NewReader(packed)))
		require.NoError(t, err, name)
		require.True(t, bytes.Equal(in, out.Bytes()), name)
	}
}

// lz4Frame writes in with an independent encoder.
func lz4Frame(t testing.TB, in []byte, options ...lz4.Option) []byte {
	t.Helper()
	var b bytes.Buffer
	w := lz4.NewWriter(&b)
	require.NoError(t, w.Apply(options...))
	_, err := w.Write(in)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// Every frame option a client uses is read: block sizes to 4 MiB, block and
// content checksums, content size.
func TestLZ4FrameOptions(t *testing.T) {
	all := compressionInputs()
	inputs := map[string][]byte{"5 MiB zeros": make([]byte, 5<<20)}
	for _, name := range []string{"0 text", "17 text", "65537 text", "65537 noise", "200003 text"} {
		inputs[name] = all[name]
		require.Contains(t, all, name)
	}
	for name, in := range inputs {
		for _, size := range []lz4.BlockSize{lz4.Block64Kb, lz4.Block256Kb, lz4.Block1Mb, lz4.Block4Mb} {
			for bits := range 8 {
				options := []lz4.Option{
					lz4.BlockSizeOption(size), lz4.ChecksumOption(bits&1 != 0), lz4.BlockChecksumOption(bits&2 != 0),
				}
				if bits&4 != 0 {
					options = append(options, lz4.SizeOption(uint64(len(in))))
				}
				packed := lz4Frame(t, in, options...)
				out, err := codec.LZ4.Decompress(nil, packed, 1, len(in))
				require.NoError(t, err, "%s, block size %s, options %03b", name, size, bits)
				require.True(t, bytes.Equal(in, out))
			}
		}
	}
}

// Each checksum and the content size are held against the bytes.
func TestLZ4DamageIsNoticed(t *testing.T) {
	in := randomBytes(rand.New(rand.NewPCG(3, 3)), 3000)
	packed := lz4Frame(t, in, lz4.ChecksumOption(true), lz4.BlockChecksumOption(true), lz4.SizeOption(uint64(len(in))))
	for i := range packed {
		for bit := range 8 {
			src := bytes.Clone(packed)
			src[i] ^= 1 << bit
			_, err := codec.LZ4.Decompress(nil, src, 1, codec.MaxInflated)
			requireCorrupt(t, err, "byte %d bit %d", i, bit)
		}
	}
	_, err := codec.LZ4.Decompress(nil, append(bytes.Clone(packed), 0), 1, codec.MaxInflated)
	requireCorrupt(t, err)
}

// Vector log-lz4-linked-blocks: a reader takes linked blocks; a leader does not
// let them in, since Java consumers cannot read them.
func TestLinkedLZ4BlocksAreReadAndNotAccepted(t *testing.T) {
	f := readWrapper(t, loadVector(t, "testdata/vectors/log-lz4-linked-blocks.json").Hex)
	_, err := f.Compression.Decompress(nil, f.Value, f.Magic, codec.MaxInflated)
	require.NoError(t, err)
	_, err = codec.InspectWrapper(&f, nil)
	requireCorrupt(t, err)
}

// A declared block size of 4 MiB allocates by the input, not by the declaration.
func TestLZ4BlockSizeIsNotAllocated(t *testing.T) {
	in := []byte("a short message")
	packed := lz4Frame(t, in, lz4.BlockSizeOption(lz4.Block4Mb))
	used := allocated(func() {
		_, err := codec.LZ4.Decompress(nil, packed, 1, codec.MaxInflated)
		require.NoError(t, err)
	})
	require.Less(t, used, uint64(64<<10))

	// A content size of 2^63 is refused at once.
	claim := lz4Frame(t, in, lz4.SizeOption(uint64(len(in))))
	binary.LittleEndian.PutUint64(claim[6:], 1<<63)
	used = allocated(func() {
		_, err := codec.LZ4.Decompress(nil, claim, 0, codec.MaxInflated) // magic 0: no header checksum
		requireCorrupt(t, err)
	})
	require.Less(t, used, uint64(64<<10))
}

func BenchmarkCompression(b *testing.B) {
	in := randomBytes(rand.New(rand.NewPCG(1, 1)), 64<<10)
	for _, c := range allCodecs {
		packed, err := c.Compress(nil, in, 1)
		require.NoError(b, err)
		b.Run(fmt.Sprintf("op=compress/codec=%s", c), func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				if dst, err = c.Compress(dst[:0], in, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("op=decompress/codec=%s", c), func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				if dst, err = c.Decompress(dst[:0], packed, 1, len(in)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
