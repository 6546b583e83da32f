package server_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/examples/gateway/server"
)

const (
	benchSet   = 100  // messages in a produced set
	benchBytes = 1024 // of a value
)

// Small by default, so that all benchmarks run in seconds.
var (
	rounds = flag.Int("rounds", 5, "rounds of BenchmarkLoopback")
	slice  = flag.Duration("slice", 10*time.Millisecond, "time of each variant in a round")
)

// BenchmarkLoopback compares a client on the loopback interface with the engine's own wire
// API, in turns: the median of the rounds' ratios is reported, above 1 the gateway is
// faster. One connection, with one or two requests in flight; the engine is called by one
// goroutine. -benchtime=1x -rounds=41 -slice=50ms is for figures.
func BenchmarkLoopback(b *testing.B) {
	for _, mode := range []struct {
		name       string
		durability engine.Durability
	}{{"durable", engine.SyncAlways}, {"unsynced", engine.SyncNever}} {
		for _, depth := range []int{1, 2} {
			b.Run(fmt.Sprintf("produce/%s/inflight=%d", mode.name, depth), func(b *testing.B) { benchProduce(b, mode.durability, depth) })
		}
	}
	for _, sets := range []int{1, 10} {
		for _, depth := range []int{1, 2} {
			b.Run(fmt.Sprintf("fetch/sets=%d/inflight=%d", sets, depth), func(b *testing.B) { benchFetch(b, sets, depth) })
		}
	}
}

// benchGateway is a gateway, its topic t, and a connection to it.
func benchGateway(b *testing.B, durability engine.Durability) (*engine.Partition, net.Conn) {
	b.Helper()
	db, err := engine.Open(b.TempDir(), engine.Options{Durability: durability})
	require.NoError(b, err)
	topic, err := db.CreateTopic("t", engine.TopicConfig{})
	require.NoError(b, err)
	s, err := server.New(db, server.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	nc, err := net.Dial("tcp", l.Addr().String())
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, nc.Close())
		require.NoError(b, s.Shutdown(context.Background()))
		require.ErrorIs(b, <-served, server.ErrClosed)
		require.NoError(b, db.Close())
	})
	return topic.Partition(0), nc
}

func benchMessages() []byte {
	text := strings.Repeat("0123456789abcdef", benchBytes/16)
	var b []byte
	for range benchSet {
		m := codec.Message{Timestamp: codec.TimestampOf(time.Now()), TimestampType: codec.CreateTime, Value: []byte(text)}
		b = codec.AppendMessageFrame(b, &m, 1)
	}
	return b
}

// pipe is a connection with so many requests in flight.
type pipe struct {
	nc       net.Conn
	in       *bufio.Reader
	depth    int
	inFlight int
	request  func() []byte // the next one
	buf      []byte
}

// exchange sends requests ahead and returns the next answer, which is in p.buf.
func (p *pipe) exchange(b *testing.B) []byte {
	for ; p.inFlight < p.depth; p.inFlight++ {
		if _, err := p.nc.Write(p.request()); err != nil {
			b.Fatal(err)
		}
	}
	p.inFlight--
	if p.in == nil {
		p.in = bufio.NewReader(p.nc)
	}
	buf := p.buf
	if _, err := io.ReadFull(p.in, buf[:4]); err != nil {
		b.Fatal(err)
	}
	answer := buf[:binary.BigEndian.Uint32(buf)]
	if _, err := io.ReadFull(p.in, answer); err != nil {
		b.Fatal(err)
	}
	return answer
}

func encoded(version int16, req kmsg.Request) []byte {
	req.SetVersion(version)
	return kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
}

func benchProduce(b *testing.B, durability engine.Durability, depth int) {
	p, nc := benchGateway(b, durability)
	set := benchMessages()
	request := encoded(2, produceRequest(-1, "t", 0, set))
	client := pipe{nc: nc, depth: depth, request: func() []byte { return request }, buf: make([]byte, 4096)}
	interleave(b,
		func() int {
			answer := client.exchange(b)
			if code := binary.BigEndian.Uint16(answer[4+4+2+1+4+4:]); code != 0 {
				b.Fatal("error", code)
			}
			return benchSet
		},
		func() int {
			if _, err := p.Produce(b.Context(), set); err != nil {
				b.Fatal(err)
			}
			return benchSet
		})
}

// benchFetch fetches so many sets of 100 messages at a time, of a log that fits in the
// store's cache.
func benchFetch(b *testing.B, perFetch, depth int) {
	p, nc := benchGateway(b, engine.SyncNever)
	set := benchMessages()
	const sets = 500
	for range sets {
		_, err := p.Produce(b.Context(), set)
		require.NoError(b, err)
	}
	limit := int32(perFetch * len(set))
	request := encoded(2, fetchRequest(1, 0, from{"t", 0, 0, limit}))
	n := int64(perFetch * benchSet)
	next := int64(0)
	client := pipe{nc: nc, depth: depth, buf: make([]byte, 2*limit), request: func() []byte {
		binary.BigEndian.PutUint64(request[len(request)-12:], uint64(next))
		next = (next + n) % (sets * benchSet)
		return request
	}}
	var own []byte
	at := int64(0)
	interleave(b,
		func() int {
			if size := binary.BigEndian.Uint32(client.exchange(b)[4+4+4+2+1+4+4+2+8:]); size != uint32(limit) {
				b.Fatal("bytes", size)
			}
			return int(n)
		},
		func() int {
			res, err := p.AppendFetch(b.Context(), own[:0], at, engine.FetchOptions{MaxBytes: int(limit)})
			if err != nil || res.Next != at+n {
				b.Fatal(at, res.Next, err)
			}
			own, at = res.Set, res.Next%(sets*benchSet)
			return int(n)
		})
}

// interleave runs two variants in turns and reports their medians and that of the ratios.
// A variant does something and returns how many messages that was.
func interleave(b *testing.B, gateway, own func() int) {
	for b.Loop() { // a round is a slice of each
		var rates [2][]float64
		var ratios []float64
		for range *rounds {
			for i, run := range []func() int{gateway, own} {
				began, n := time.Now(), 0
				for time.Since(began) < *slice {
					n += run()
				}
				rates[i] = append(rates[i], float64(n)/time.Since(began).Seconds())
			}
			last := len(rates[0]) - 1
			ratios = append(ratios, rates[0][last]/rates[1][last])
		}
		b.ReportMetric(median(rates[0])*benchBytes/1e6, "gateway-MB/s")
		b.ReportMetric(median(rates[1])*benchBytes/1e6, "engine-MB/s")
		b.ReportMetric(median(ratios), "ratio")
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
