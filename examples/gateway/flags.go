package main

import (
	"flag"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/examples/gateway/server"
)

// options are the command line.
type options struct {
	dir    string
	listen string
	// metrics is where the metrics are served, empty for nowhere.
	metrics string
	grace   time.Duration
	level   slog.Level
	store   engine.Options
	server  server.Options
}

func parseFlags(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("gateway", flag.ContinueOnError)
	f.StringVar(&o.dir, "dir", "cairn-gateway-data", "directory of the store")
	f.StringVar(&o.listen, "listen", "127.0.0.1:9092", "address to listen on; there is no authentication, so mind who can reach it")
	f.StringVar(&o.metrics, "metrics", "", "address to serve Prometheus metrics on, under /metrics (default: none)")
	f.StringVar(&o.server.Advertise, "advertise", "", "host:port that clients are told to use (default: the address they connected to)")
	f.BoolVar(&o.server.AutoCreate, "auto-create", false, "create a topic when a client asks for one that does not exist")
	f.BoolVar(&o.server.RewriteTimestamps, "rewrite-timestamps", false, "give messages inside compressed ones the time of append on Fetch, for clients that do not look outside")
	f.BoolVar(&o.server.FollowerIndex, "follower-index", false, "send followers, who fetch with a replica_id, the rows of the time index behind each message set")
	f.IntVar(&o.server.MaxConnections, "max-connections", 1000, "connections at a time")
	f.IntVar(&o.server.MaxRequestBytes, "max-request-bytes", 16<<20, "bytes of a Produce request")
	f.IntVar(&o.server.MaxResponseBytes, "max-response-bytes", 16<<20, "bytes of messages in a Fetch response")
	f.IntVar(&o.server.MaxPartitions, "max-partitions", 10_000, "partitions of all topics together")
	f.DurationVar(&o.server.IdleTimeout, "idle-timeout", 10*time.Minute, "silence after which a connection is closed")
	f.DurationVar(&o.server.TransferTimeout, "transfer-timeout", 30*time.Second, "time for one request to come in or one response to go out")
	f.DurationVar(&o.store.Defaults.Retention.MaxAge, "retention", 0, "keep messages this long by their own timestamps, where the topic does not say; negative is for ever (default: seven days)")
	f.DurationVar(&o.store.GroupExpiry, "group-expiry", 0, "forget the offsets of groups that have committed nothing for so long (default: never)")
	f.DurationVar(&o.grace, "grace", 10*time.Second, "time for requests under way at shutdown")
	f.TextVar(&o.level, "log", slog.LevelInfo, "log level: DEBUG, INFO, WARN or ERROR")
	f.Func("partitions", "partitions of a topic that -auto-create makes (default 1)", func(s string) error {
		n, err := strconv.ParseInt(s, 10, 32)
		o.server.DefaultPartitions = int32(n)
		return err
	})
	syncEvery := f.Duration("sync-every", 0, "acknowledge before messages are on stable storage, and force them there this often (default: acknowledge after)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	o.store.Durability = engine.SyncEvery(*syncEvery)
	return o, nil
}
