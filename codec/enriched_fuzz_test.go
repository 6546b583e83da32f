package codec_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
)

// FuzzEnrichedSet reads enriched sets from anybody: no panic, nothing but whole frames
// that write back as they came, wrappers bounded by MaxInflated.
func FuzzEnrichedSet(f *testing.F) {
	for _, text := range []string{goldenX, goldenY, goldenZ, goldenControl, goldenEW} {
		f.Add(framed(0, unhex(f, text)))
	}
	f.Add(slicesOf(framed(0, unhex(f, goldenY)), framed(1, unhex(f, goldenEW))))
	f.Fuzz(func(t *testing.T, set []byte) {
		for len(set) > 0 {
			frame, n, err := codec.ReadEnrichedFrame(set)
			if err != nil || n == 0 {
				return
			}
			require.NoError(t, frame.Tags.Check())
			again := codec.AppendEnrichedFrame(nil, &frame)
			if frame.WireSize() == n { // lengths of 0 are written as -1
				require.Equal(t, n, len(again))
			}
			back, _, err := codec.ReadEnrichedFrame(again)
			require.NoError(t, err)
			require.Equal(t, frame.Value, back.Value)
			for range frame.Tags.App() {
			}
			_ = frame.Tags.WithTag(codec.TagNumMessages, 3).Without(codec.TagReceiptTime)
			if frame.Compression() != codec.None {
				if in, err := codec.InspectEnriched(&frame, nil); err == nil {
					require.Len(t, in.AppendMessages(nil, 0), in.Count)
				}
			}
			set = set[n:]
		}
	})
}

// FuzzTags gives any bytes to everything that takes tags.
func FuzzTags(f *testing.F) {
	f.Add(unhex(f, "00000009 00 0000015d3ef79800 0000000e 00000004 686f7374 00000002 6831"))
	f.Add(unhex(f, "0000000c 00 0000015d3ef79800 05 dead ffffffff"))
	f.Add(unhex(f, "ffffffff ffffffff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		tags := codec.Tags(b)
		valid := tags.Check() == nil
		_ = tags.ReceiptTime()
		_, _ = tags.Transaction()
		_ = tags.Positional()
		n := 0
		for range tags.App() {
			n++
		}
		require.LessOrEqual(t, n, len(b)/8+1)
		with := tags.WithTag(codec.TagSentTime, 5)
		if !valid {
			return
		}
		require.NoError(t, with.Check())
		require.Equal(t, codec.Timestamp(5), with.SentTime())
		require.NoError(t, with.Without(codec.TagSentTime).Check())
		m := codec.Message{Value: []byte("v"), Tags: tags}
		value := codec.AppendPlain(nil, []codec.Message{m}, codec.PlainOptions{Magic: 1, Enriched: true})
		key := logKey(0)
		codec.Seal(key, value, codec.Stamp{LogAppend: true})
		e, err := codec.ParseEntry(key, value)
		require.NoError(t, err)
		got, err := messagesOf(&e)
		require.NoError(t, err)
		require.True(t, bytes.Equal(tags, got[0].Tags))
	})
}

func slicesOf(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
