package codec_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"

	"github.com/cairnlog/cairn/codec"
	"github.com/stretchr/testify/require"
)

const goldenTime codec.Timestamp = 1500000000000 // T of SPEC 0.1

// The messages of SPEC 13, computed independently of this package.
const (
	goldenA = "bf070c1c 01 00 0000015d3ef79800 00000001 6b 00000001 76"
	goldenB = "5b41f4e3 01 00 ffffffffffffffff ffffffff ffffffff"
	goldenC = "1fecd70a 00 00 00000001 6b 00000001 76"
	goldenD = "c7f1bddb 01 08 0000015d3ef79805 00000001 6b 00000001 76"
	goldenE = "b82b0724 01 00 ffffffffffffffff 00000001 6b 00000001 76"
	goldenG = "d47c903d 01 00 0000015d3ef79800 00000000 00000000"

	goldenCheck = "8dc795a2 00 00 ffffffff 00000006 48656c6c6f21"

	goldenEntryA = "0000000000000000 00000018" + goldenA
)

// entry frames a message at an offset.
func entry(t testing.TB, offset int64, message string) []byte {
	t.Helper()
	msg := unhex(t, message)
	b := binary.BigEndian.AppendUint64(nil, uint64(offset))
	b = binary.BigEndian.AppendUint32(b, uint32(len(msg)))
	return append(b, msg...)
}

// fixCRC recomputes the CRC of the only frame of set in place.
func fixCRC(set []byte) []byte {
	binary.BigEndian.PutUint32(set[12:], crc32.ChecksumIEEE(set[16:]))
	return set
}

var goldenFrames = []struct {
	name    string
	message string
	frame   codec.Frame
}{
	{"A", goldenA, codec.Frame{Magic: 1, TimestampType: codec.CreateTime, Timestamp: goldenTime, Key: []byte("k"), Value: []byte("v")}},
	{"B", goldenB, codec.Frame{Magic: 1, TimestampType: codec.CreateTime, Timestamp: codec.NoTimestamp}},
	{"C", goldenC, codec.Frame{Magic: 0, TimestampType: codec.NoTimestampType, Timestamp: codec.NoTimestamp, Key: []byte("k"), Value: []byte("v")}},
	{"D", goldenD, codec.Frame{Magic: 1, TimestampType: codec.LogAppendTime, Timestamp: goldenTime + 5, Key: []byte("k"), Value: []byte("v")}},
	{"E", goldenE, codec.Frame{Magic: 1, TimestampType: codec.CreateTime, Timestamp: codec.NoTimestamp, Key: []byte("k"), Value: []byte("v")}},
	{"G", goldenG, codec.Frame{Magic: 1, TimestampType: codec.CreateTime, Timestamp: goldenTime, Key: []byte{}, Value: []byte{}}},
	{"check", goldenCheck, codec.Frame{Magic: 0, TimestampType: codec.NoTimestampType, Timestamp: codec.NoTimestamp, Value: []byte("Hello!")}},
}

// SPEC 13; S42, S43, S45, S46, S47 and S48: the layout, bit by bit.
func TestGoldenFramesBothWays(t *testing.T) {
	for _, g := range goldenFrames {
		t.Run(g.name, func(t *testing.T) {
			want := g.frame
			want.Offset = 0x0102030405060708
			set := entry(t, want.Offset, g.message)

			f, n, err := codec.ReadFrame(set)
			require.NoError(t, err)
			require.Equal(t, len(set), n)
			require.Equal(t, want, f) // nil and empty keys differ here
			require.Equal(t, n, f.WireSize())

			require.Equal(t, append([]byte("x"), set...), codec.AppendFrame([]byte("x"), &f))
			m := codec.Message{
				Offset: f.Offset, Timestamp: f.Timestamp, TimestampType: f.TimestampType, Key: f.Key, Value: f.Value,
			}
			require.Equal(t, set, codec.AppendMessageFrame(nil, &m, f.Magic))

			got, err := collect(set)
			require.NoError(t, err)
			require.Equal(t, []codec.Message{m}, got)
		})
	}
}

// S42: offset, size, message; the size does not count the 12 bytes before it.
func TestGoldenEntryA(t *testing.T) {
	m := codec.Message{Timestamp: goldenTime, Key: []byte("k"), Value: []byte("v")}
	b := codec.AppendMessageFrame(nil, &m, 1)
	require.Equal(t, unhex(t, goldenEntryA), b)
	require.Len(t, b, 36)
	require.Equal(t, unhex(t, "00000018"), b[8:12])
	require.Equal(t, m.WireSize(), len(b))
}

// Cases W01 and W03: null and empty keys and values keep apart.
func TestNullAndEmptyAreDistinct(t *testing.T) {
	for _, c := range []struct {
		want       string
		ts         codec.Timestamp
		key, value []byte
	}{
		{"000000000000000000000018cf056e6e01000000000000000001000000016b0000000176", 1, []byte("k"), []byte("v")},
		{"000000000000000000000016cc2f79d901000000000000000000ffffffffffffffff", 0, nil, nil},
		{"000000000000000000000016884979ac010000000000000000000000000000000000", 0, []byte{}, []byte{}},
		{"0000000000000000000000161294593a01000000000000000000ffffffff00000000", 0, nil, []byte{}},
		{"00000000000000000000001656f2594f0100000000000000000000000000ffffffff", 0, []byte{}, nil},
		{"00000000000000000000001730744b120100ffffffffffffffff000000016bffffffff", codec.NoTimestamp, []byte("k"), nil},
	} {
		m := codec.Message{Timestamp: c.ts, TimestampType: codec.CreateTime, Key: c.key, Value: c.value}
		b := codec.AppendMessageFrame(nil, &m, 1)
		require.Equal(t, unhex(t, c.want), b)
		got, err := collect(b)
		require.NoError(t, err)
		require.Equal(t, []codec.Message{m}, got)
	}
}

// S44: the CRC covers magic to value and nothing before.
func TestChecksumCoversMagicToValueOnly(t *testing.T) {
	good := unhex(t, goldenEntryA)
	for i := range good {
		set := bytes.Clone(good)
		set[i] ^= 0x20
		f, n, err := codec.ReadFrame(set)
		switch {
		case i < 8:
			require.NoError(t, err, "offset byte %d", i)
			require.NotZero(t, f.Offset)
		case i < 12: // the size: too small, or more than there is
			require.True(t, err != nil || n == 0, "size byte %d", i)
		default:
			requireCorrupt(t, err, "byte %d", i)
		}
	}
}

// Case W07: each single bit of the message is noticed.
func TestEverySingleBitFlipIsRefused(t *testing.T) {
	good := unhex(t, "000000000000000000000018cf056e6e01000000000000000001000000016b0000000176")
	for bit := 12 * 8; bit < len(good)*8; bit++ {
		set := bytes.Clone(good)
		set[bit/8] ^= 1 << (bit % 8)
		_, _, err := codec.ReadFrame(set)
		requireCorrupt(t, err, "bit %d", bit)
		_, err = collect(set)
		requireCorrupt(t, err, "bit %d", bit)
	}
}

// SPEC 1.1.3, 1.1.4; case W05: a size below 14 is corrupt, one beyond the set is
// a partial frame, and none is allocated.
func TestFrameSizeBounds(t *testing.T) {
	good := unhex(t, goldenEntryA)
	for _, c := range []struct {
		size    uint32
		corrupt bool
	}{
		{13, true}, {0, true}, {math.MaxUint32, true}, {0x80000000, true}, {0x7fffffff, false}, {25, false},
	} {
		set := bytes.Clone(good)
		binary.BigEndian.PutUint32(set[8:], c.size)
		n, err := codec.FrameSize(set)
		require.Zero(t, n)
		_, read, readErr := codec.ReadFrame(set)
		require.Zero(t, read)

		got, all := collect(append(bytes.Clone(good), set...))
		require.Len(t, got, 1)
		if c.corrupt {
			requireCorrupt(t, err)
			requireCorrupt(t, readErr)
			requireCorrupt(t, all)
		} else {
			require.NoError(t, err)
			require.NoError(t, readErr)
			require.NoError(t, all)
		}
	}
	for n := range len(good) {
		size, err := codec.FrameSize(good[:n])
		require.NoError(t, err)
		require.Zero(t, size)
	}
	size, err := codec.FrameSize(append(good, good[:5]...))
	require.NoError(t, err)
	require.Equal(t, 36, size)
}

// SPEC 1.1.3: a v1 message has at least 22 bytes, and its fields fill it exactly.
func TestLengthsMustFillTheMessage(t *testing.T) {
	for name, message := range map[string]string{
		"v1 of 14 bytes":           "00000000 01 00 ffffffff ffffffff",
		"v1 of 21 bytes":           "00000000 01 00 0000000000000000 ffffffff ffffff",
		"key length past the end":  "00000000 01 00 0000000000000000 00000100 ffffffff",
		"key takes value's length": "00000000 01 00 0000000000000000 00000004 ffffffff",
		"value length past end":    "00000000 01 00 0000000000000000 ffffffff 00000001",
		"stray byte at the end":    "00000000 01 00 0000000000000000 ffffffff ffffffff 00",
		"key length -2":            "00000000 01 00 0000000000000000 fffffffe ffffffff",
		"value length -2":          "00000000 01 00 0000000000000000 ffffffff fffffffe",
		"key length min int32":     "00000000 00 00 80000000 ffffffff",
		"key length max int32":     "00000000 00 00 7fffffff ffffffff",
		"v0 stray byte":            "00000000 00 00 ffffffff ffffffff 00",
	} {
		set := fixCRC(entry(t, 0, message))
		_, n, err := codec.ReadFrame(set)
		requireCorrupt(t, err, name)
		require.Zero(t, n)
		_, err = collect(set)
		requireCorrupt(t, err, name)
	}
}

// S45, case W06: magic other than 0 and 1 is refused even with a right CRC.
func TestUnknownMagicIsRefused(t *testing.T) {
	for _, magic := range []int8{2, 7, 37, -1, math.MinInt8} {
		set := unhex(t, goldenEntryA)
		set[16] = byte(magic)
		_, _, err := codec.ReadFrame(fixCRC(set))
		requireCorrupt(t, err, "magic %d", magic)
		_, err = collect(set)
		requireCorrupt(t, err, "magic %d", magic)
	}
}

// Case W11: codecs 4 to 7 are refused; reserved bits are refused on the way into
// the log and ignored by a reader (SPEC 1.2), never taken for something else.
func TestAttributeBits(t *testing.T) {
	for attributes := range 256 {
		for magic, message := range []string{goldenC, goldenA} {
			set := entry(t, 0, message)
			set[17] = byte(attributes)
			f, _, err := codec.ReadFrame(fixCRC(set))
			reserved := byte(0xf8)
			if magic == 1 {
				reserved = 0xf0
			}
			if attributes&7 > 3 || byte(attributes)&reserved != 0 {
				requireCorrupt(t, err, "magic %d attributes %#x", magic, attributes)
			} else {
				require.NoError(t, err)
				require.Equal(t, codec.Compression(attributes&7), f.Compression)
				require.Equal(t, attributes&8 != 0, f.TimestampType == codec.LogAppendTime)
			}
			if attributes&7 != 0 {
				continue
			}
			got, err := collect(set)
			require.NoError(t, err)
			require.Len(t, got, 1)
			require.Equal(t, magic == 1 && attributes&8 != 0, got[0].TimestampType == codec.LogAppendTime)
		}
	}
}

func TestMagic0CarriesNoTimestamp(t *testing.T) {
	m := codec.Message{Timestamp: goldenTime, TimestampType: codec.LogAppendTime, Key: []byte("k"), Value: []byte("v")}
	require.Equal(t, entry(t, 0, goldenC), codec.AppendMessageFrame(nil, &m, 0))
}

// SPEC 1.6.33, 1.6.34, 1.6.37: C and E differ by format alone, and both become D.
func TestFormatConversionKeepsKeyAndValue(t *testing.T) {
	up, _, err := codec.ReadFrame(entry(t, 0, goldenC))
	require.NoError(t, err)
	up.Magic, up.TimestampType = 1, codec.CreateTime
	require.Equal(t, entry(t, 0, goldenE), codec.AppendFrame(nil, &up))

	up.TimestampType, up.Timestamp = codec.LogAppendTime, goldenTime+5
	require.Equal(t, entry(t, 0, goldenD), codec.AppendFrame(nil, &up))

	down, _, err := codec.ReadFrame(entry(t, 0, goldenD))
	require.NoError(t, err)
	down.Magic = 0
	require.Equal(t, entry(t, 0, goldenC), codec.AppendFrame(nil, &down))
}

func TestReadAndAppendFrameDoNotAllocate(t *testing.T) {
	set := unhex(t, goldenEntryA)
	buf := make([]byte, 0, 64)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		f, _, err := codec.ReadFrame(set)
		if err != nil {
			t.Error(err)
		}
		buf = codec.AppendFrame(buf[:0], &f)
	}))
	require.Equal(t, set, buf)
}
