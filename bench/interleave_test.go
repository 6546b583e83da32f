package bench_test

import (
	"cmp"
	"flag"
	"runtime"
	"slices"
	"testing"
	"time"
)

var (
	rounds   = flag.Int("rounds", 1, "rounds in which every variant of a benchmark takes a turn; 5 and more to trust a ratio")
	slice    = flag.Duration("slice", 15*time.Millisecond, "time of one turn")
	volume   = flag.Int64("volume", 2<<20, "payload bytes of one unsynced run")
	messages = flag.Int("messages", 20_000, "messages in a log to read")
	only     = flag.String("variant", "", "the one variant to run, for a profile; empty means all")
	text     = flag.Float64("text", 0, "share of the payload that compresses")
)

// variant is one of the stores that take turns.
type variant struct {
	name string
	// turn does some of its work and returns how many messages (or calls) that
	// was and how long it took, without what it did to prepare.
	turn func() (units int64, took time.Duration)
}

// series is what the turns of a variant measured.
type series struct {
	rates  []float64 // units a second
	cpu    []float64 // ns of processor time a unit, background work included
	units  int64
	allocs uint64
}

// interleave has the variants take turns and reports medians. The first variant
// is the store; the others are what it is compared with. payload is the bytes of
// one unit, 0 if a unit is not a message.
func interleave(b *testing.B, payload int, variants ...variant) {
	b.Helper()
	if *only != "" {
		variants = slices.DeleteFunc(variants, func(v variant) bool { return v.name != *only })
	}
	measured := make([]series, len(variants))
	turns := 0
	for b.Loop() {
		for range *rounds {
			for i := range variants {
				v := (i + turns) % len(variants) // nobody is always the first
				measured[v].take(variants[v])
			}
			turns++
		}
	}
	subject := &measured[0]
	for i := range variants {
		b.ReportMetric(median(measured[i].rates), variants[i].name+"-units/s")
		b.ReportMetric(median(measured[i].cpu), variants[i].name+"-cpu-ns/unit")
		if i > 0 {
			b.ReportMetric(median(ratios(subject.rates, measured[i].rates)), "ratio/"+variants[i].name)
		}
	}
	rate := median(subject.rates)
	b.ReportMetric(1e9/rate, "ns/op")
	b.ReportMetric(float64(subject.allocs)/float64(subject.units), "allocs/unit")
	if payload > 0 {
		b.SetBytes(int64(payload))
		b.ReportMetric(rate*float64(payload)/1e6, "MB/s")
	}
}

func (s *series) take(v variant) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := processorTime()
	units, took := v.turn()
	cpu = processorTime() - cpu
	runtime.ReadMemStats(&after)
	s.cpu = append(s.cpu, float64(cpu)/float64(units))
	s.rates = append(s.rates, float64(units)/took.Seconds())
	s.units += units
	s.allocs += after.Mallocs - before.Mallocs
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// ratios divides turn by turn: neighbours in time saw the same machine.
func ratios(subject, baseline []float64) []float64 {
	r := make([]float64, len(subject))
	for i := range r {
		r[i] = subject[i] / baseline[i]
	}
	return r
}

// repeat calls f for one slice of time; f returns the units it did.
func repeat(f func() int64) (units int64, took time.Duration) {
	start := time.Now()
	for took < *slice {
		units += f()
		took = time.Since(start)
	}
	return units, took
}
