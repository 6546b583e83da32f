// Package cairnprom gives the metrics of a Cairn store to Prometheus.
//
//	registry.MustRegister(cairnprom.NewCollector(db, prometheus.Labels{"store": "orders"}))
//
// It is a module of its own: who embeds Cairn without it does not need a
// Prometheus client. Nothing is labelled by topic or partition, so the number of
// series does not grow with the store.
package cairnprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairnlog/cairn/engine"
)

// Collector is a prometheus.Collector over DB.Metrics. It asks the store once for
// each scrape, keeps nothing, and is safe for concurrent use, also after the store
// was closed: the counters then stand still and Pebble's numbers are 0.
type Collector struct {
	db      *engine.DB
	numbers []described
	sync    *prometheus.Desc
	group   *prometheus.Desc
}

// described is a number with the labels of this collector.
type described struct {
	number
	desc *prometheus.Desc
}

// NewCollector returns a collector over db. The labels, which may be nil, are on
// every series: they tell the stores of one process apart.
func NewCollector(db *engine.DB, labels prometheus.Labels) *Collector {
	c := &Collector{db: db,
		sync: prometheus.NewDesc("cairn_sync_duration_seconds",
			"How long groups of commits took to be on stable storage.", nil, labels),
		group: prometheus.NewDesc("cairn_group_commits",
			"How many commits were answered together, by one sync in the durable mode.", nil, labels)}
	for _, n := range numbers {
		c.numbers = append(c.numbers, described{n, prometheus.NewDesc(n.name, n.help, nil, labels)})
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, n := range c.numbers {
		ch <- n.desc
	}
	ch <- c.sync
	ch <- c.group
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	m := c.db.Metrics()
	c.collect(&m, ch)
}

func (c *Collector) collect(m *engine.Metrics, ch chan<- prometheus.Metric) {
	for _, n := range c.numbers {
		ch <- prometheus.MustNewConstMetric(n.desc, n.kind, n.value(m))
	}
	ch <- histogram(c.sync, m.SyncLatency, float64(time.Second))
	ch <- histogram(c.group, m.GroupSize, 1)
}

// histogram converts to Prometheus's buckets, which count everything up to their
// bound, and to its unit.
func histogram(desc *prometheus.Desc, h engine.Histogram, unit float64) prometheus.Metric {
	buckets := make(map[float64]uint64, len(h.Bounds))
	below := uint64(0)
	for i, bound := range h.Bounds {
		below += h.Counts[i]
		buckets[float64(bound)/unit] = below
	}
	return prometheus.MustNewConstHistogram(desc, h.Count(), float64(h.Sum)/unit, buckets)
}
