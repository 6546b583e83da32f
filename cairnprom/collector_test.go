package cairnprom

import (
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

func openStore(t *testing.T) (*engine.DB, *engine.Partition) {
	t.Helper()
	db, err := engine.Open("store", engine.Options{FS: vfs.NewMem()}.SmallMemory())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	topic, err := db.EnsureTopic("orders", engine.TopicConfig{Partitions: 2})
	require.NoError(t, err)
	return db, topic.Partition(0)
}

// The numbers of a store, as Prometheus sees them.
func TestCollectorTellsWhatTheStoreDid(t *testing.T) {
	db, p := openStore(t)
	for range 3 {
		_, err := p.Append(t.Context(), codec.Message{Value: []byte("tea")}, codec.Message{Value: []byte("cups")})
		require.NoError(t, err)
	}
	c := NewCollector(db, prometheus.Labels{"store": "a"})
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP cairn_appends_total Message sets appended.
# TYPE cairn_appends_total counter
cairn_appends_total{store="a"} 3
# HELP cairn_appended_messages_total Messages appended.
# TYPE cairn_appended_messages_total counter
cairn_appended_messages_total{store="a"} 6
# HELP cairn_partitions Partitions of the store.
# TYPE cairn_partitions gauge
cairn_partitions{store="a"} 2
# HELP cairn_failed 1 if the store takes no write any more.
# TYPE cairn_failed gauge
cairn_failed{store="a"} 0
`), "cairn_appends_total", "cairn_appended_messages_total", "cairn_partitions", "cairn_failed"))
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// Two stores in one process, in one registry; and a closed one does no harm.
func TestStoresAreToldApartByLabels(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	a, _ := openStore(t)
	b, _ := openStore(t)
	registry.MustRegister(NewCollector(a, prometheus.Labels{"store": "a"}), NewCollector(b, prometheus.Labels{"store": "b"}))
	require.NoError(t, a.Close())
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, len(numbers)+2)
	for _, f := range families {
		require.Len(t, f.GetMetric(), 2, f.GetName())
	}
}

// fill gives every number of v another value and returns them by field.
func fill(v reflect.Value, prefix string, next *int, values map[string]float64) {
	for i := range v.NumField() {
		f, name := v.Field(i), prefix+v.Type().Field(i).Name
		switch f.Kind() {
		case reflect.Struct:
			if f.Type() != reflect.TypeFor[engine.Histogram]() {
				fill(f, name+".", next, values)
			}
		case reflect.Bool: // two of them, tested by name
		default:
			*next++
			f.Set(reflect.ValueOf(*next).Convert(f.Type()))
			values[name] = float64(*next)
		}
	}
}

// No number of Metrics is forgotten, and none is given twice: a new field of Stats
// or Metrics needs its line in numbers.
func TestEveryNumberIsCollected(t *testing.T) {
	var m engine.Metrics
	next, values := 100, make(map[string]float64)
	fill(reflect.ValueOf(&m).Elem(), "", &next, values)
	m.Failed, m.DiskFull = true, true

	c := NewCollector(nil, nil)
	ch := make(chan prometheus.Metric, 1000)
	c.collect(&m, ch)
	close(ch)
	seen := make(map[float64]int)
	for metric := range ch {
		var d dto.Metric
		require.NoError(t, metric.Write(&d))
		seen[d.GetCounter().GetValue()+d.GetGauge().GetValue()]++
	}
	for name, value := range values {
		require.Equal(t, 1, seen[value], name)
	}
	require.Equal(t, 2, seen[1], "failed, disk full")
	require.Len(t, numbers, len(values)+2)
}

// Buckets add up, and seconds are seconds.
func TestHistogramIsCumulative(t *testing.T) {
	desc := prometheus.NewDesc("x", "x", nil, nil)
	var d dto.Metric
	h := engine.Histogram{Bounds: []int64{1_000_000, 1_000_000_000}, Counts: []uint64{5, 3, 2}, Sum: 2_500_000_000}
	require.NoError(t, histogram(desc, h, 1e9).Write(&d))
	got := d.GetHistogram()
	require.EqualValues(t, 10, got.GetSampleCount())
	require.Equal(t, 2.5, got.GetSampleSum())
	require.Len(t, got.GetBucket(), 2)
	for i, want := range []struct {
		bound float64
		count uint64
	}{{0.001, 5}, {1, 8}} {
		require.Equal(t, want.bound, got.GetBucket()[i].GetUpperBound())
		require.Equal(t, want.count, got.GetBucket()[i].GetCumulativeCount())
	}
}
