package bench_test

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/cairnlog/cairn/codec"
)

// What payloads are cut from.
var (
	pool             = sync.OnceValue(func() []byte { return newPool(*text) })
	compressiblePool = sync.OnceValue(func() []byte { return newPool(wireText) })
)

// newPool returns random bytes, a share of them text; they are too many for a
// processor's cache to hold them all.
func newPool(text float64) []byte {
	const line, record = 64, `{"topic":"orders","kind":"placed","status":"open","customer":4711}`
	b := make([]byte, 16<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // never fails
	for i := 0; i+line <= len(b); i += line {
		copy(b[i:i+int(line*text)], record)
	}
	return b
}

// firstTimestamp is that of the first message of a log: an arbitrary day.
const firstTimestamp = codec.Timestamp(1_700_000_000_000)

// source makes the messages of one writer. It is for one goroutine.
type source struct {
	pool []byte
	msgs []codec.Message
	size int
	at   int
	time codec.Timestamp
}

func newSource(batch, size, seed int) *source {
	return &source{pool: pool(), msgs: make([]codec.Message, batch), size: size, at: seed * 7919 * 64 % (8 << 20), time: firstTimestamp}
}

// next returns the next set; it overwrites the one before.
func (s *source) next() []codec.Message {
	for i := range s.msgs {
		if s.at+s.size > len(s.pool) {
			s.at = 0
		}
		s.msgs[i] = codec.Message{Timestamp: s.time, Value: s.pool[s.at : s.at+s.size : s.at+s.size]}
		s.at += s.size
	}
	s.time++
	return s.msgs
}

func bytesName(n int) string {
	if n%1024 == 0 {
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprintf("%dB", n)
}
