package main

import (
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cairnlog/cairn/cairnprom"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/examples/gateway/server"
)

// serveMetrics serves the store's and the server's metrics until stop is called. An
// empty address is nowhere.
func serveMetrics(address string, db *engine.DB, srv *server.Server, log *slog.Logger) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(cairnprom.NewCollector(db, nil))
	registerServer(registry, srv)
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	web := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := web.Serve(l); err != http.ErrServerClosed {
			log.Error("metrics", "err", err)
		}
	}()
	log.Info("metrics", "address", l.Addr().String())
	return func() {
		_ = web.Close() // error ignored: nothing is lost with a scrape
		<-done
	}, nil
}

// registerServer registers the counters of the protocol's side.
func registerServer(registry *prometheus.Registry, srv *server.Server) {
	registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "cairn_gateway_connections", Help: "Connections open now."},
		func() float64 { return float64(srv.Stats().Connections) }))
	for _, c := range []struct {
		name, help string
		value      func(server.Stats) uint64
	}{
		{"accepted_connections", "Connections served since the start.", func(s server.Stats) uint64 { return s.Accepted }},
		{"refused_connections", "Connections closed because there were too many.", func(s server.Stats) uint64 { return s.Refused }},
		{"requests", "Requests read.", func(s server.Stats) uint64 { return s.Requests }},
		{"request_bytes", "Bytes of requests.", func(s server.Stats) uint64 { return s.RequestBytes }},
		{"response_bytes", "Bytes of responses.", func(s server.Stats) uint64 { return s.ResponseBytes }},
		{"refusals", "Errors in answers, one for each topic or partition.", func(s server.Stats) uint64 { return s.Refusals }},
	} {
		registry.MustRegister(prometheus.NewCounterFunc(
			prometheus.CounterOpts{Name: "cairn_gateway_" + c.name + "_total", Help: c.help},
			func() float64 { return float64(c.value(srv.Stats())) }))
	}
}
