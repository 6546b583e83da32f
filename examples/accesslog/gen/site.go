package gen

import "strconv"

// route is a kind of request to the site.
type route struct {
	method string
	prefix string
	arg    argument
	body   float64 // usual size of the answer
	weight int     // of totalWeight
}

// argument is what follows a route's prefix.
type argument uint8

const (
	noArgument argument = iota
	productID
	pageNumber
	assetHash
)

var routes = []route{
	{"GET", "/", noArgument, 2 * averageBody, 14},
	{"GET", "/products/", productID, averageBody, 30},
	{"GET", "/search?q=shoes&page=", pageNumber, averageBody, 12},
	{"GET", "/static/app.", assetHash, 8 * averageBody, 16},
	{"GET", "/static/img/", productID, 12 * averageBody, 12},
	{"GET", "/api/v2/cart", noArgument, averageBody / 10, 7},
	{"POST", "/api/v2/cart/items", noArgument, averageBody / 12, 4},
	{"POST", "/api/v2/orders", noArgument, averageBody / 8, 2},
	{"GET", "/healthz", noArgument, 2, 3},
}

// assets are the hashes of the site's scripts and styles.
var assets = []string{"9f2c1e7b.js", "41d0aa35.css", "c77be012.js", "0be5f3a9.css"}

// agents repeat by how common they are.
var agents = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/131.0.0.0 Safari/537.36",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/131.0.0.0 Safari/537.36",
	"Mozilla/5.0 (Linux; Android 14) Chrome/131.0.6778.81 Mobile Safari/537.36",
	"Mozilla/5.0 (Linux; Android 14) Chrome/131.0.6778.81 Mobile Safari/537.36",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_2 like Mac OS X) Version/18.2 Safari/604.1",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/18.2 Safari/605.1.15",
	"Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0",
	"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
	"curl/8.11.0",
	"Go-http-client/1.1",
}

var referers = []string{
	"-", "-", "-",
	"https://shop.example.com/",
	"https://shop.example.com/",
	"https://shop.example.com/search?q=shoes",
	"https://www.google.com/",
}

var totalWeight = func() (sum int) {
	for i := range routes {
		sum += routes[i].weight
	}
	return sum
}()

// appendPath appends method and path of a random request.
func (g *Generator) appendPath(b []byte) ([]byte, *route) {
	n := g.rnd.IntN(totalWeight)
	i := 0
	for ; n >= routes[i].weight; i++ {
		n -= routes[i].weight
	}
	r := &routes[i]
	b = append(b, r.method...)
	b = append(b, ' ')
	b = append(b, r.prefix...)
	switch r.arg {
	case productID:
		b = strconv.AppendUint(b, 1000+g.product.Uint64(), 10)
	case pageNumber:
		b = strconv.AppendInt(b, 1+g.rnd.Int64N(maxPage), 10)
	case assetHash:
		b = append(b, pick(g.rnd, assets)...)
	}
	return b, r
}

// status returns the answer's status: mostly 200, static files often 304.
func (g *Generator) status(r *route) int {
	n := g.rnd.IntN(1000)
	switch {
	case r.arg == assetHash && n < 400:
		return 304
	case n < 4:
		return 500
	case n < 6:
		return 503
	case n < 30:
		return 404
	case n < 45:
		return 302
	case r.method == "POST" && n < 75:
		return 400
	default:
		return 200
	}
}
