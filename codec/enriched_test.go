package codec_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
)

// The golden messages of SPEC 13, without size and offset.
const (
	goldenX       = "b82b0724 01 00 ffffffff ffffffff 00000001 6b 00000001 76"
	goldenY       = "34851f32 01 00 00000009 00 0000015d3ef79800 0000000e 00000004 686f7374 00000002 6831 00000001 6b 00000001 76"
	goldenZ       = "bbccd345 01 00 0000000c 00 0000015d3ef79800 05 dead ffffffff 00000001 6b 00000001 76"
	goldenControl = "913ec264 01 08 ffffffff ffffffff ffffffff 00000004 00000003"
	goldenEW      = "84ffe844 01 01 00000005 20 00000003 ffffffff ffffffff 00000045 1f8b08000000000002ff" +
		"636060906080828f1c1f0a1919fe43015080311144183220d430be9b7a3915554d1288304252c31474ce200c554d328830060028a33bce6c000000"
)

// framed puts size and offset before an enriched message (SPEC 10.1, C3).
func framed(offset byte, message []byte) []byte {
	return slices.Concat([]byte{0, 0, 0, byte(len(message)), 0, 0, 0, 0, 0, 0, 0, offset}, message)
}

func readEnriched(t testing.TB, set []byte) codec.EnrichedFrame {
	t.Helper()
	f, n, err := codec.ReadEnrichedFrame(set)
	require.NoError(t, err)
	require.Equal(t, len(set), n)
	require.Equal(t, len(set), f.WireSize())
	return f
}

func TestEnrichedGoldenFramesReadAndWrite(t *testing.T) { // SPEC 13; S63, S64, S65, S68-S71
	for name, text := range map[string]string{"X": goldenX, "Y": goldenY, "Z": goldenZ, "control": goldenControl, "EW": goldenEW} {
		set := framed(7, unhex(t, text))
		f := readEnriched(t, set)
		require.EqualValues(t, 7, f.Offset, name)
		require.Equal(t, set, codec.AppendEnrichedFrame(nil, &f), name)
	}
	require.Equal(t, unhex(t, "00000018 0000000000000007"+goldenX), framed(7, unhex(t, goldenX)), "S63")
	require.Len(t, unhex(t, goldenY), 47, "S64")
}

func TestEnrichedFieldsOfTheGoldenFrames(t *testing.T) {
	x := readEnriched(t, framed(0, unhex(t, goldenX)))
	require.Equal(t, "k", string(x.Key))
	require.Equal(t, "v", string(x.Value))
	require.Nil(t, x.Tags, "S97: lengths of -1 are no tags")

	y := readEnriched(t, framed(0, unhex(t, goldenY)))
	require.Equal(t, fixtureTime, y.Tags.ReceiptTime(), "S69")
	require.Equal(t, []codec.AppTag{{Key: "host", Value: "h1"}}, slices.Collect(y.Tags.App()), "S70")
	require.Equal(t, "k", string(y.Key), "S89, S95: the lengths lead past the tags")

	z := readEnriched(t, framed(0, unhex(t, goldenZ)))
	require.Equal(t, fixtureTime, z.Tags.ReceiptTime(), "S90")
	require.Equal(t, "k", string(z.Key), "S89")
	require.Equal(t, codec.NoTimestamp, z.Tags.SentTime(), "what stands behind an unknown tag is opaque")

	control := readEnriched(t, framed(0, unhex(t, goldenControl)))
	require.Equal(t, codec.ControlLeaderEpoch, control.Control(), "S80")
	require.Nil(t, control.Key)
	require.Equal(t, []byte{0, 0, 0, 3}, control.Value)

	w := readEnriched(t, framed(100, unhex(t, goldenEW)))
	require.Equal(t, codec.Gzip, w.Compression(), "S79")
	n, ok := w.Tags.NumMessages()
	require.True(t, ok)
	require.Equal(t, 3, n, "S88: counted without decompressing")
	in, err := codec.InspectEnriched(&w, nil)
	require.NoError(t, err)
	require.True(t, in.Contiguous, "S74")
	msgs := in.AppendMessages(nil, w.Offset)
	require.Equal(t, []int64{100, 101, 102}, offsetsOf(msgs), "S75")
}

func offsetsOf(msgs []codec.Message) (offsets []int64) {
	for i := range msgs {
		offsets = append(offsets, msgs[i].Offset)
	}
	return offsets
}

func TestEnrichedAndV1AreNeverToldApartByTheirBytes(t *testing.T) { // S72, C2
	offsetFirst := func(message []byte) []byte {
		return slices.Concat(make([]byte, 8), []byte{0, 0, 0, byte(len(message))}, message)
	}
	f, _, err := codec.ReadFrame(offsetFirst(unhex(t, goldenX)))
	require.NoError(t, err, "X is a v1 message without a timestamp, byte for byte")
	require.Equal(t, codec.NoTimestamp, f.Timestamp)
	_, _, err = codec.ReadFrame(offsetFirst(unhex(t, goldenY)))
	require.ErrorIs(t, err, codec.ErrCorruptMessage)
}

func TestEnrichedTypesRoundTripAndReservedBitsAreRefused(t *testing.T) { // S78
	for typ := range uint8(16) {
		f := codec.EnrichedFrame{Offset: 5, Type: typ, Value: []byte("v")}
		require.Equal(t, typ, readEnriched(t, codec.AppendEnrichedFrame(nil, &f)).Type)
	}
	for bit := 4; bit < 8; bit++ {
		message := unhex(t, goldenX)
		message[5] |= 1 << bit
		_, _, err := codec.ReadEnrichedFrame(framed(0, withCRC(message)))
		require.ErrorContains(t, err, "reserved")
	}
}

// withCRC returns an enriched message with a right checksum.
func withCRC(message []byte) []byte {
	binary.BigEndian.PutUint32(message, crc32.ChecksumIEEE(message[4:]))
	return message
}

func TestTagsHaveTheWidthsOfTheirIds(t *testing.T) { // S69, S82
	for id, size := range map[codec.TagID]int{
		codec.TagReceiptTime: 9, codec.TagSentTime: 9, codec.TagTransaction: 9, codec.TagNumMessages: 5, codec.TagPositional: 2,
	} {
		tags := codec.Tags(nil).WithTag(id, 1)
		require.Len(t, tags, 8+size, "id %d", id)
	}
}

func TestTagsOfEveryRangeAreAccepted(t *testing.T) { // S83, S87: a tag of compressed messages on a plain one is kept
	for id := range 128 {
		message := unhex(t, "00000000 01 00 00000003"+hex.EncodeToString([]byte{byte(id), 0, 0})+"ffffffff 00000001 6b 00000001 76")
		known := slices.Contains([]int{0, 1, 2, 32, 33}, id)
		f, _, err := codec.ReadEnrichedFrame(framed(0, withCRC(message)))
		if known {
			require.ErrorIs(t, err, codec.ErrCorruptMessage, "tag %d is cut short or has no known tag behind it", id)
			continue
		}
		require.NoError(t, err, "id %d", id)
		require.Equal(t, framed(0, withCRC(message)), codec.AppendEnrichedFrame(nil, &f), "S90, S92: forwarded intact")
	}
}

func TestTagsThatAreRefused(t *testing.T) { // SPEC 10.2.1, 10.3
	for name, tags := range map[string]string{
		"kafka length below -1":       "fffffffe ffffffff",
		"kafka length too large":      "00000100 ffffffff",
		"app length below -1":         "ffffffff 80000000",
		"app length too large":        "ffffffff 00000100",
		"negative id":                 "00000001 80 ffffffff",
		"value cut short":             "00000003 00 0000 ffffffff",
		"id twice":                    "0000000a 20 00000003 20 00000003 ffffffff",
		"negative num_messages":       "00000005 20 ffffffff ffffffff",
		"positional neither 0 nor 1":  "00000002 21 02 ffffffff",
		"app key null":                "ffffffff 00000008 ffffffff 00000000",
		"app key too long":            "ffffffff 00000008 00000009 00000000",
		"app key not UTF-8":           "ffffffff 00000009 00000001 ff 00000000",
		"app value missing":           "ffffffff 00000004 00000000",
		"app value length below -1":   "ffffffff 00000008 00000000 fffffffe",
		"app value longer than block": "ffffffff 00000008 00000000 00000001",
	} {
		message := unhex(t, "00000000 01 00"+tags+"00000001 6b 00000001 76")
		_, _, err := codec.ReadEnrichedFrame(framed(0, withCRC(message)))
		require.ErrorIs(t, err, codec.ErrCorruptMessage, name)
	}
	message := unhex(t, "00000000 01 00 00000009 00 fffffffffffffffe ffffffff 00000001 6b 00000001 76")
	_, _, err := codec.ReadEnrichedFrame(framed(0, withCRC(message)))
	require.ErrorIs(t, err, codec.ErrInvalidTimestamp)
}

func TestLengthsOfZeroAreEmptyTags(t *testing.T) { // S97, SPEC 10.2.1
	message := unhex(t, "00000000 01 00 00000000 00000000 00000001 6b 00000001 76")
	f, _, err := codec.ReadEnrichedFrame(framed(0, withCRC(message)))
	require.NoError(t, err)
	require.Nil(t, f.Tags)
	require.Equal(t, framed(0, unhex(t, goldenX)), codec.AppendEnrichedFrame(nil, &f), "writers emit -1")
}

func TestAppTagsKeepOrderAndDuplicates(t *testing.T) { // S93
	want := []codec.AppTag{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}, {Key: "a", Value: "3"}, {Key: "", Null: true}, {Key: "é", Value: ""}}
	tags, err := codec.NewTags(codec.NoTimestamp, want...)
	require.NoError(t, err)
	f := codec.EnrichedFrame{Tags: tags}
	got := readEnriched(t, codec.AppendEnrichedFrame(nil, &f))
	require.Equal(t, want, slices.Collect(got.Tags.App()))
	first, ok := got.Tags.AppValue("a")
	require.True(t, ok)
	require.Equal(t, "1", first)
	_, ok = got.Tags.AppValue("c")
	require.False(t, ok)
}

func TestSecondsViewOfTimes(t *testing.T) { // S66, S67, C5
	tags, err := codec.NewTags(1_500_000_000_999)
	require.NoError(t, err)
	s, err := tags.SentTime().Seconds()
	require.NoError(t, err)
	require.EqualValues(t, 1_500_000_000, s)
	s, err = codec.Tags(nil).SentTime().Seconds()
	require.NoError(t, err)
	require.EqualValues(t, -1, s)
	_, err = codec.Timestamp(2_147_483_648_000).Seconds()
	require.ErrorIs(t, err, codec.ErrInvalidTimestamp)
	s, err = codec.Timestamp(2_147_483_647_999).Seconds()
	require.NoError(t, err)
	require.EqualValues(t, 2_147_483_647, s)
}

func TestTagsAreRewrittenInTheirPlace(t *testing.T) { // SPEC C28: the opaque tail stays the last
	f := readEnriched(t, framed(0, unhex(t, goldenZ)))
	moved := f.Tags.WithTag(codec.TagReceiptTime, int64(fixtureTime)+60)
	require.Equal(t, fixtureTime+60, moved.ReceiptTime(), "S85")
	require.Len(t, moved, len(f.Tags))
	require.True(t, bytes.HasSuffix(moved, unhex(t, "05dead ffffffff")))
	numbered := moved.WithTag(codec.TagNumMessages, 3)
	n, ok := numbered.NumMessages()
	require.True(t, ok)
	require.Equal(t, 3, n)
	require.Equal(t, fixtureTime+60, numbered.ReceiptTime())
	require.Equal(t, moved, numbered.Without(codec.TagNumMessages))
	require.Nil(t, codec.Tags(nil).WithTag(codec.TagPositional, 1).Without(codec.TagPositional))
	require.Equal(t, moved, moved.Without(codec.TagPositional), "not there")
}

func TestNewTagsRefuses(t *testing.T) {
	_, err := codec.NewTags(-2)
	require.ErrorIs(t, err, codec.ErrInvalidTimestamp)
	_, err = codec.NewTags(codec.NoTimestamp, codec.AppTag{Key: "\xff"})
	require.ErrorIs(t, err, codec.ErrCorruptMessage)
	_, err = codec.NewTags(codec.NoTimestamp, codec.AppTag{Key: "k", Value: "v", Null: true})
	require.Error(t, err)
	tags, err := codec.NewTags(codec.NoTimestamp)
	require.NoError(t, err)
	require.Nil(t, tags)
}
