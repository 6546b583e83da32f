package server

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cairnlog/cairn/examples/gateway/coordinator"
)

// Options configure a Server. The zero value is valid: nothing is created that a
// client did not ask for by CreateTopics, and every limit has a bound.
type Options struct {
	// Advertise is the host:port that clients are told to connect to
	// (advertised.listeners). Empty means the address that the client has connected
	// to, which is right unless there is a proxy or a NAT between.
	Advertise string
	// AutoCreate makes a Metadata request for a topic that does not exist create it
	// with the store's settings (auto.create.topics.enable).
	AutoCreate bool
	// DefaultPartitions is how many partitions such a topic has (num.partitions). Zero
	// means 1.
	DefaultPartitions int32

	// RewriteTimestamps makes Fetch write the time of append into the messages inside
	// compressed ones, where that is the topic's kind of timestamp. By the protocol the
	// frame around them says it for all, and kafka-python, librdkafka and Java read it
	// there; sarama, franz-go, kafka-go and kafkajs do not. It decompresses and compresses
	// on every such Fetch, in memory of up to 100 MiB for a message.
	RewriteTimestamps bool

	// FollowerIndex adds the rows of the time index to what a fetch with a replica_id
	// from 0 on gets: behind each message set an array of timestamp i64 and offset i32
	// relative to the segment. It is no part of Kafka's protocol, and a follower that
	// does not know of it cannot read such a response; consumers never get it.
	FollowerIndex bool

	// MaxConnections bounds the connections; one more is closed as it comes. Zero
	// means 1000.
	MaxConnections int
	// MaxRequestBytes bounds a Produce request (socket.request.max.bytes); other
	// requests are bounded by 1 MiB, or by this where it is less. Zero means 16 MiB.
	MaxRequestBytes int
	// MaxResponseBytes bounds the messages of a Fetch response. Only a single message
	// larger than this exceeds it, for its reader would not get on otherwise. Zero
	// means 16 MiB.
	MaxResponseBytes int
	// MaxPartitions bounds the partitions of all topics together: no client can
	// create more. Zero means 10,000.
	MaxPartitions int

	// IdleTimeout is how long a connection may be silent between two requests
	// (connections.max.idle.ms), and the longest wait of a Fetch. Zero means ten
	// minutes.
	IdleTimeout time.Duration
	// TransferTimeout is how long one request may take to come in, and one response to
	// go out. Zero means 30 seconds.
	TransferTimeout time.Duration

	// Groups bound consumer groups and their sessions.
	Groups coordinator.Options

	// Logger gets what happens to connections and requests; nil discards it.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.MaxConnections = or(o.MaxConnections, 1000)
	o.MaxRequestBytes = or(o.MaxRequestBytes, 16<<20)
	o.MaxResponseBytes = or(o.MaxResponseBytes, 16<<20)
	o.MaxPartitions = or(o.MaxPartitions, 10_000)
	o.IdleTimeout = or(o.IdleTimeout, 10*time.Minute)
	o.TransferTimeout = or(o.TransferTimeout, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// or is cmp.Or with its reading here: a setting or its default.
func or[T int | time.Duration](v, fallback T) T {
	if v == 0 {
		return fallback
	}
	return v
}

// validate reports every setting that is out of range.
func (o Options) validate() error {
	var errs []error
	check := func(ok bool, name string, value any, must string) {
		if !ok {
			errs = append(errs, fmt.Errorf("server: %s (%v) must be %s", name, value, must))
		}
	}
	check(o.MaxConnections >= 0, "MaxConnections", o.MaxConnections, ">= 0")
	check(o.MaxRequestBytes >= 0 && o.MaxRequestBytes <= 1<<30, "MaxRequestBytes", o.MaxRequestBytes, "0 to 1 GiB")
	check(o.MaxResponseBytes >= 0 && o.MaxResponseBytes <= 1<<30, "MaxResponseBytes", o.MaxResponseBytes, "0 to 1 GiB")
	check(o.DefaultPartitions >= 0, "DefaultPartitions", o.DefaultPartitions, ">= 0")
	check(o.MaxPartitions >= 0, "MaxPartitions", o.MaxPartitions, ">= 0")
	check(o.IdleTimeout >= 0, "IdleTimeout", o.IdleTimeout, ">= 0")
	check(o.TransferTimeout >= 0, "TransferTimeout", o.TransferTimeout, ">= 0")
	if o.Advertise != "" {
		_, err := splitAddress(o.Advertise)
		check(err == nil, "Advertise", o.Advertise, "host:port")
	}
	return errors.Join(errs...)
}
