package engine_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

var codecs = []codec.Compression{codec.None, codec.Gzip, codec.Snappy, codec.LZ4}

// targets are the values of compression.type and what they make of a source.
var targets = map[engine.CompressionType]func(source codec.Compression) codec.Compression{
	engine.CompressProducer: func(source codec.Compression) codec.Compression { return source },
	engine.CompressNone:     func(codec.Compression) codec.Compression { return codec.None },
	engine.CompressGzip:     func(codec.Compression) codec.Compression { return codec.Gzip },
	engine.CompressSnappy:   func(codec.Compression) codec.Compression { return codec.Snappy },
	engine.CompressLZ4:      func(codec.Compression) codec.Compression { return codec.LZ4 },
}

// SPEC 2.5 a: a wrapper is compressed again exactly where the topic's
// compression.type differs from its own; offsets and timestamps stay the same.
func TestCompressionTypeOfTheTopicDecides(t *testing.T) {
	want := []codec.Timestamp{t0, t0 + 20, none, t0 + 10}
	for target, stored := range targets {
		for _, source := range codecs {
			t.Run(source.String()+" to "+target.String(), func(t *testing.T) {
				s := newStore(t)
				p := s.log(engine.TopicConfig{Compression: target})
				p.StartAt(t, 10)
				set := plainFrames(want...)
				if source != codec.None {
					set = set[:0]
					for i, ts := range want {
						set = append(set, frame(codec.Frame{Offset: int64(i), Magic: 1, TimestampType: codec.CreateTime,
							Timestamp: ts, Key: []byte("k"), Value: []byte("v")})...)
					}
					set = wrap(t, source, set)
				}
				produce(t, p, set)
				for rest := fetchAll(t, p, 10); len(rest) > 0; {
					f, n, err := codec.ReadFrame(rest)
					require.NoError(t, err)
					require.Equal(t, stored(source), f.Compression)
					rest = rest[n:]
				}
				msgs := readAll(t, p, 10)
				require.Equal(t, []int64{10, 11, 12, 13}, offsetsOf(msgs))
				require.Equal(t, want, timestampsOf(msgs))
				if stored(source) == source {
					require.Zero(t, s.Recompressions())
				} else {
					require.EqualValues(t, 1, s.Recompressions())
				}
				requireSearch(t, p, answer{t0 + 1, t0 + 20, 11})
			})
		}
	}
}

// SPEC 2.5 a: wrappers stored uncompressed grow a hundredfold; nothing of the set
// is lost.
func TestUncompressingManyWrappersKeepsEveryMessage(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{Compression: engine.CompressNone})
	var set []byte
	for w := range 20 {
		var inner []byte
		for i := range 5 {
			inner = append(inner, frame(codec.Frame{Offset: int64(i), Magic: 1, TimestampType: codec.CreateTime, Timestamp: t0,
				Value: bytes.Repeat([]byte{byte('a' + w)}, 3000+i)})...)
		}
		set = append(append(set, wrap(t, codec.Gzip, inner)...), plainFrame(t0)...)
	}
	produce(t, p, set)
	msgs := readAll(t, p, 0)
	require.Len(t, msgs, 120)
	for i, m := range msgs {
		require.EqualValues(t, i, m.Offset)
		if i%6 == 5 {
			require.Equal(t, "v", string(m.Value))
			continue
		}
		require.Equal(t, bytes.Repeat([]byte{byte('a' + i/6)}, 3000+i%6), m.Value)
	}
}

// A set compressed through the Go API is cut into wrappers that fit
// max.message.bytes.
func TestCompressedAppendIsCutIntoWrappersThatFit(t *testing.T) {
	const limit = 1000
	random := rand.New(rand.NewPCG(9, 0))
	s := newStore(t)
	p := s.log(engine.TopicConfig{MaxMessageBytes: limit})
	msgs := make([]codec.Message, 100)
	for i := range msgs {
		msgs[i] = codec.Message{Timestamp: t0 + codec.Timestamp(i), Value: make([]byte, random.IntN(400))}
		for j := range msgs[i].Value {
			msgs[i].Value[j] = byte(random.Uint32()) // nothing is gained
		}
	}
	for _, c := range codecs[1:] {
		base := end(t, p)
		r, err := p.AppendSet(t.Context(), msgs, engine.AppendOptions{Compression: c})
		require.NoError(t, err)
		require.Equal(t, base, r.Offset)
		for rest := fetchAll(t, p, base); len(rest) > 0; {
			f, n, err := codec.ReadFrame(rest)
			require.NoError(t, err)
			require.Equal(t, c, f.Compression)
			require.LessOrEqual(t, n, limit)
			rest = rest[n:]
		}
		for i, m := range readAll(t, p, base) {
			require.Equal(t, base+int64(i), m.Offset)
			require.Equal(t, msgs[i].Value, m.Value)
			require.Equal(t, msgs[i].Timestamp, m.Timestamp)
		}
	}
}

// A large set is stored under several keys and is one set all the same.
func TestLargeSetIsOneSet(t *testing.T) {
	const n = 2000 // of 100 bytes: about ten entries
	for name, tc := range map[string]struct {
		config engine.TopicConfig
		ts     func(i int) codec.Message
		want   func(i int) codec.Timestamp
	}{
		"CreateTime": {engine.TopicConfig{}, func(i int) codec.Message { return at(t0 + codec.Timestamp(i^1)) },
			func(i int) codec.Timestamp { return t0 + codec.Timestamp(i^1) }},
		"clock of the append": {engine.TopicConfig{}, func(int) codec.Message { return codec.Message{Key: []byte("kk"), Value: make([]byte, 64)} },
			func(int) codec.Timestamp { return t0 }},
		"LogAppendTime": {logAppend, func(i int) codec.Message { return at(codec.Timestamp(i)) },
			func(int) codec.Timestamp { return t0 }},
	} {
		t.Run(name, func(t *testing.T) {
			eachInterval(t, tc.config, func(t *testing.T, config engine.TopicConfig) {
				s := newStore(t)
				p := s.log(config)
				lead(t, p, 5)
				msgs := make([]codec.Message, n)
				for i := range msgs {
					msgs[i] = tc.ts(i)
				}
				r, err := p.Append(t.Context(), msgs...)
				require.NoError(t, err)
				require.EqualValues(t, 1, r.Offset)
				require.Equal(t, []int64{100 + n*100}, segmentSizes(t, p))
				for range 2 {
					got := readAll(t, p, 1)
					require.Len(t, got, n)
					for i, m := range got {
						require.EqualValues(t, 1+i, m.Offset)
						require.Equal(t, tc.want(i), m.Timestamp)
					}
					for _, from := range []int64{1, 2, 163, 164, 165, 1000, n} {
						set := fetchAll(t, p, from)
						f, _, err := codec.ReadFrame(set)
						require.NoError(t, err)
						require.Equal(t, from, f.Offset)
						require.Len(t, set, int(n+1-from)*100)
					}
					s.reopen()
					p = s.log(config)
				}
				if name == "CreateTime" {
					requireSearch(t, p, answer{t0 + 1, t0 + 1, 1}, answer{t0 + 1001, t0 + 1001, 1001}, answer{t0 + 1000, t0 + 1001, 1001},
						answer{t0 + n - 1, t0 + n - 1, n - 1}, answer{t0 + n, none, notFound})
				}
			})
		})
	}
}
