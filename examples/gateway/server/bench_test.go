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
	"sync"
	"sync/atomic"
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

// BenchmarkLoopback compares clients on the loopback interface with the engine's own wire
// API, in turns: the median of the rounds' ratios is reported, above 1 the gateway is
// faster. A client has one connection and one request at a time; the engine is called by
// as many goroutines as there are clients. -benchtime=1x -rounds=21 -slice=100ms is for
// figures.
func BenchmarkLoopback(b *testing.B) {
	for _, clients := range []int{1, 4} {
		for _, mode := range []struct {
			name       string
			durability engine.Durability
		}{{"durable", engine.SyncAlways}, {"unsynced", engine.SyncNever}} {
			b.Run(fmt.Sprintf("produce/%s/clients=%d", mode.name, clients), func(b *testing.B) { benchProduce(b, mode.durability, clients) })
		}
		for _, sets := range []int{1, 10} {
			b.Run(fmt.Sprintf("fetch/sets=%d/clients=%d", sets, clients), func(b *testing.B) { benchFetch(b, sets, clients) })
		}
	}
}

// benchGateway is a gateway, its topic t with a partition for each client that holds so
// many sets, and their connections.
func benchGateway(b *testing.B, durability engine.Durability, clients, sets int) (*engine.Topic, []*pipe) {
	b.Helper()
	dir := b.TempDir()
	config := engine.TopicConfig{Partitions: int32(clients)}
	if sets > 0 {
		fillStore(b, dir, config, sets)
	}
	db, err := engine.Open(dir, engine.Options{Durability: durability})
	require.NoError(b, err)
	topic, err := db.EnsureTopic("t", config)
	require.NoError(b, err)
	s, err := server.New(db, server.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	pipes := make([]*pipe, clients)
	for i := range pipes {
		nc, err := net.Dial("tcp", l.Addr().String())
		require.NoError(b, err)
		pipes[i] = &pipe{nc: nc, in: bufio.NewReader(nc)}
	}
	b.Cleanup(func() {
		for _, p := range pipes {
			require.NoError(b, p.nc.Close())
		}
		require.NoError(b, s.Shutdown(context.Background()))
		require.ErrorIs(b, <-served, server.ErrClosed)
		require.NoError(b, db.Close())
	})
	return topic, pipes
}

// fillStore writes logs and closes their store, so that they are read from its tables.
func fillStore(b *testing.B, dir string, config engine.TopicConfig, sets int) {
	b.Helper()
	db, err := engine.Open(dir, engine.Options{Durability: engine.SyncNever})
	require.NoError(b, err)
	topic, err := db.CreateTopic("t", config)
	require.NoError(b, err)
	set := benchMessages()
	for i := range config.Partitions {
		for range sets {
			_, err := topic.Partition(i).Produce(b.Context(), set)
			require.NoError(b, err)
		}
	}
	require.NoError(b, db.Close())
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

// pipe is a client's connection.
type pipe struct {
	nc  net.Conn
	in  *bufio.Reader
	buf []byte
}

// exchange sends a request and returns the answer, which is valid until the next.
func (p *pipe) exchange(b *testing.B, request []byte) []byte {
	var size [4]byte
	_, err := p.nc.Write(request)
	if err == nil {
		_, err = io.ReadFull(p.in, size[:])
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	p.buf = slices.Grow(p.buf[:0], n)[:n]
	if err == nil {
		_, err = io.ReadFull(p.in, p.buf)
	}
	if err != nil {
		b.Error(err)
	}
	return p.buf
}

func encoded(version int16, req kmsg.Request) []byte {
	req.SetVersion(version)
	return kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
}

// work does something and returns how many messages that was.
type work func() int

func benchProduce(b *testing.B, durability engine.Durability, clients int) {
	topic, pipes := benchGateway(b, durability, clients, 0)
	set := benchMessages()
	var gateway, own []work
	for i, c := range pipes {
		p := topic.Partition(int32(i))
		request := encoded(2, produceRequest(-1, "t", int32(i), set))
		gateway = append(gateway, func() int {
			if code := binary.BigEndian.Uint16(c.exchange(b, request)[4+4+2+1+4+4:]); code != 0 {
				b.Error("error", code)
			}
			return benchSet
		})
		own = append(own, func() int {
			if _, err := p.Produce(b.Context(), set); err != nil {
				b.Error(err)
			}
			return benchSet
		})
	}
	interleave(b, gateway, own)
}

// benchFetch fetches so many sets of 100 messages at a time, of logs of 40 MiB in
// all, which fit in the store's cache.
func benchFetch(b *testing.B, perFetch, clients int) {
	sets := int64(400 / clients)
	topic, pipes := benchGateway(b, engine.SyncNever, clients, int(sets))
	set := benchMessages()
	limit, n := perFetch*len(set), int64(perFetch*benchSet)
	var gateway, own []work
	for i, c := range pipes {
		p := topic.Partition(int32(i))
		request := encoded(2, fetchRequest(1, 0, from{"t", int32(i), 0, int32(limit)}))
		next, at := int64(0), int64(0)
		var buf []byte
		gateway = append(gateway, func() int {
			binary.BigEndian.PutUint64(request[len(request)-12:], uint64(next))
			next = (next + n) % (sets * benchSet)
			if size := binary.BigEndian.Uint32(c.exchange(b, request)[4+4+4+2+1+4+4+2+8:]); int(size) != limit {
				b.Error("bytes", size)
			}
			return int(n)
		})
		own = append(own, func() int {
			res, err := p.AppendFetch(b.Context(), buf[:0], at, engine.FetchOptions{MaxBytes: limit})
			if err != nil || res.Next != at+n {
				b.Error(at, res.Next, err)
			}
			buf, at = res.Set, res.Next%(sets*benchSet)
			return int(n)
		})
	}
	interleave(b, gateway, own)
}

// interleave runs two variants in turns, each piece of work in a goroutine of its own, and
// reports their medians and that of the ratios.
func interleave(b *testing.B, gateway, own []work) {
	for b.Loop() {
		var rates [2][]float64
		var ratios []float64
		for round := range *rounds { // a round is a slice of each
			for i, all := range [][]work{gateway, own} {
				rates[i] = append(rates[i], rate(all))
			}
			ratios = append(ratios, rates[0][round]/rates[1][round])
		}
		b.ReportMetric(median(rates[0])*benchBytes/1e6, "gateway-MB/s")
		b.ReportMetric(median(rates[1])*benchBytes/1e6, "engine-MB/s")
		b.ReportMetric(median(ratios), "ratio")
	}
}

// rate returns messages per second.
func rate(all []work) float64 {
	var wg sync.WaitGroup
	var total atomic.Int64
	began := time.Now()
	for _, do := range all {
		wg.Go(func() {
			for time.Since(began) < *slice {
				total.Add(int64(do()))
			}
		})
	}
	wg.Wait()
	return float64(total.Load()) / time.Since(began).Seconds()
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
