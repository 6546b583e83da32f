package codec_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

var benchPartition = keys.Partition{Topic: 7, Number: 3}

// benchMessages returns n messages with an 8-byte key and size bytes altogether.
func benchMessages(n, size int) []codec.Message {
	msgs := make([]codec.Message, n)
	for i := range msgs {
		msgs[i] = codec.Message{
			Timestamp: 1_500_000_000_000 + codec.Timestamp(i%7),
			Key:       []byte("customer"),
			Value:     bytes.Repeat([]byte{byte(i)}, size-8),
		}
	}
	return msgs
}

func benchEntry(msgs []codec.Message) (key, value []byte) {
	key = keys.AppendLog(nil, benchPartition, int64(len(msgs)-1))
	value = codec.AppendPlain(nil, msgs, codec.PlainOptions{Magic: 1, Dense: true})
	codec.Seal(key, value, codec.Stamp{Timestamp: msgs[0].Timestamp, Clock: msgs[0].Timestamp})
	return key, value
}

func reportMessages(b *testing.B, perOp int) {
	b.ReportMetric(float64(b.N)*float64(perOp)/b.Elapsed().Seconds()/1e6, "Mmsg/s")
}

func BenchmarkAppendPlain(b *testing.B) {
	for _, size := range []int{100, 1000} {
		for _, n := range []int{1, 160} {
			b.Run(benchName(size, n), func(b *testing.B) {
				msgs := benchMessages(n, size)
				options := codec.PlainOptions{Magic: 1, Dense: true}
				key := keys.AppendLog(nil, benchPartition, int64(n-1))
				value := make([]byte, 0, codec.PlainSize(msgs, options))
				b.SetBytes(int64(n * size))
				b.ReportAllocs()
				for b.Loop() {
					value = codec.AppendPlain(value[:0], msgs, options)
					codec.Seal(key, value, codec.Stamp{Timestamp: msgs[0].Timestamp})
				}
				reportMessages(b, n)
			})
		}
	}
}

func BenchmarkPlainSize(b *testing.B) {
	msgs := benchMessages(160, 100)
	b.SetBytes(160 * 100)
	b.ReportAllocs()
	for b.Loop() {
		codec.PlainSize(msgs, codec.PlainOptions{Magic: 1, Dense: true})
	}
	reportMessages(b, 160)
}

// BenchmarkDecodePlain is what a read pays: checksum, header and every message.
func BenchmarkDecodePlain(b *testing.B) {
	for _, size := range []int{100, 1000} {
		for _, n := range []int{1, 160} {
			b.Run(benchName(size, n), func(b *testing.B) {
				key, value := benchEntry(benchMessages(n, size))
				var cursor codec.Cursor
				var m codec.Message
				b.SetBytes(int64(n * size))
				b.ReportAllocs()
				for b.Loop() {
					entry, err := codec.ParseEntry(key, value)
					if err != nil {
						b.Fatal(err)
					}
					if err := cursor.Reset(&entry); err != nil {
						b.Fatal(err)
					}
					for cursor.Next(&m) {
					}
				}
				reportMessages(b, n)
			})
		}
	}
}

func BenchmarkAppendSet(b *testing.B) {
	key, value := benchEntry(benchMessages(160, 100))
	entry, err := codec.ParseEntry(key, value)
	if err != nil {
		b.Fatal(err)
	}
	var cursor codec.Cursor
	var set []byte
	b.SetBytes(160 * 100)
	b.ReportAllocs()
	for b.Loop() {
		set, _, err = entry.AppendSet(set[:0], codec.SetOptions{To: 160, Magic: 1, Limit: 1 << 20, Scratch: &cursor})
		if err != nil {
			b.Fatal(err)
		}
	}
	reportMessages(b, 160)
}

func benchName(size, n int) string { return fmt.Sprintf("size=%d/messages=%d", size, n) }
