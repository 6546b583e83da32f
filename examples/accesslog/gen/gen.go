// Package gen makes a synthetic web access log: lines in Apache's combined
// format with the timestamps of a busy site. Equal seeds give equal bytes.
//
// Requests arrive at random (exponential gaps, 86.4 ms on average, so a million
// lines are about a day), and one line in twenty is written late: its timestamp
// is up to two minutes behind the lines around it, as when a slow request is
// logged at its end. The log is therefore almost, but not quite, in the order of
// time: the case a time index is for.
package gen

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"
)

const (
	meanGapMs   = 86.4
	lateShare   = 0.05
	maxLateMs   = 2 * 60 * 1000
	clients     = 20_000
	products    = 5_000
	maxPage     = 40
	averageBody = 9_000
)

// Start is when the clock of every log starts; a late line can be older.
var Start = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Line is one line of the log.
type Line struct {
	// Timestamp is the time of the request in milliseconds since the epoch.
	Timestamp int64
	// Key is the client's address.
	Key []byte
	// Value is the line in combined format, without a line end.
	Value []byte
}

// Generator makes the lines one after the other. It is for one goroutine.
type Generator struct {
	rnd      *rand.Rand
	client   *rand.Zipf
	product  *rand.Zipf
	clock    float64 // milliseconds since the epoch
	key      []byte
	value    []byte
	second   int64 // that date is of
	date     []byte
	visitors []visitor
}

// visitor is what does not change from request to request of one client.
type visitor struct {
	address string
	agent   string
}

// New returns a Generator at the start of its log.
func New(seed uint64) *Generator {
	rnd := rand.New(rand.NewPCG(seed, 0x63616972)) // any second half does
	g := &Generator{
		rnd:     rnd,
		client:  rand.NewZipf(rnd, 1.2, 20, clients-1),
		product: rand.NewZipf(rnd, 1.1, 8, products-1),
		clock:   float64(Start.UnixMilli()),
	}
	g.visitors = make([]visitor, clients)
	for i := range g.visitors {
		g.visitors[i] = g.newVisitor()
	}
	return g
}

// newVisitor draws an address from a private network.
func (g *Generator) newVisitor() visitor {
	ip := append([]byte(nil), "10."...)
	for i := range 3 {
		if i > 0 {
			ip = append(ip, '.')
		}
		ip = strconv.AppendInt(ip, 1+g.rnd.Int64N(254), 10)
	}
	return visitor{string(ip), pick(g.rnd, agents)}
}

// Next returns the next line. Its bytes are valid until the call after it.
func (g *Generator) Next() Line {
	g.clock += -meanGapMs * math.Log(1-g.rnd.Float64())
	ts := int64(g.clock)
	if g.rnd.Float64() < lateShare {
		ts -= g.rnd.Int64N(maxLateMs)
	}
	v := &g.visitors[g.client.Uint64()]
	g.key = append(g.key[:0], v.address...)
	g.value = g.appendRequest(g.value[:0], v, ts)
	return Line{Timestamp: ts, Key: g.key, Value: g.value}
}

func (g *Generator) appendRequest(b []byte, v *visitor, ts int64) []byte {
	b = append(b, v.address...)
	b = append(b, " - - ["...)
	b = append(b, g.dateOf(ts)...)
	b = append(b, `] "`...)
	b, r := g.appendPath(b)
	b = append(b, ` HTTP/1.1" `...)
	status := g.status(r)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, g.size(r, status), 10)
	b = append(b, ` "`...)
	b = append(b, pick(g.rnd, referers)...)
	b = append(b, `" "`...)
	b = append(b, v.agent...)
	return append(b, '"')
}

// dateOf returns the time as the combined format writes it, and remembers it:
// neighbouring lines share most of their seconds.
func (g *Generator) dateOf(ts int64) []byte {
	if second := ts / 1000; second != g.second {
		g.second = second
		g.date = time.Unix(second, 0).UTC().AppendFormat(g.date[:0], "02/Jan/2006:15:04:05 -0700")
	}
	return g.date
}

// size returns the bytes of the answer: exponential around the route's usual.
func (g *Generator) size(r *route, status int) int64 {
	switch status {
	case 304, 204:
		return 0
	case 200:
		return 200 + int64(-r.body*math.Log(1-g.rnd.Float64()))
	default:
		return 180 + g.rnd.Int64N(400)
	}
}

func pick[T any](rnd *rand.Rand, from []T) T { return from[rnd.IntN(len(from))] }
