package server

import (
	"fmt"
	"io"
	"sync"
)

// classes are the sizes of pooled buffers, smallest first; what is larger than the last is
// left to the garbage collector. A pool of mixed sizes would give small ones to those who
// need large ones.
var classes = [...]struct {
	bytes int
	pool  *sync.Pool
}{{4 << 10, new(sync.Pool)}, {16 << 10, new(sync.Pool)}, {64 << 10, new(sync.Pool)}, {256 << 10, new(sync.Pool)}, {1 << 20, new(sync.Pool)}, {4 << 20, new(sync.Pool)}}

// growth is from one class to the next.
const growth = 4

// class returns the index of the smallest class with room for n bytes, or that of the
// largest.
func class(n int) int {
	i := 0
	for i < len(classes)-1 && classes[i].bytes < n {
		i++
	}
	return i
}

// pooled returns an empty buffer of a class, nil if there is none.
func pooled(class int) []byte {
	if b, ok := classes[class].pool.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return nil
}

// spareBuffer returns an empty buffer that may have room for n bytes, or nil: for what is
// not known to be as large, and grows by append.
func spareBuffer(n int) []byte {
	for i := class(n); i >= 0; i-- {
		if b := pooled(i); b != nil {
			return b
		}
	}
	return nil
}

// getBuffer returns an empty buffer with room for n bytes.
func getBuffer(n int) []byte {
	i := class(n)
	if b := pooled(i); cap(b) >= n {
		return b
	}
	return make([]byte, 0, max(n, classes[i].bytes))
}

// putBuffer gives a buffer back that nobody uses any more.
func putBuffer(b []byte) {
	if cap(b) > 2*classes[len(classes)-1].bytes {
		return
	}
	for i := len(classes) - 1; i >= 0; i-- {
		if c := classes[i]; cap(b) >= c.bytes {
			c.pool.Put(&b)
			return
		}
	}
}

// readGrowing reads n bytes into a buffer of the pool that grows as they come: a client
// that claims a length and sends less costs what it sends, or 64 KiB.
func readGrowing(r io.Reader, n int) ([]byte, error) {
	buf := getBuffer(min(n, 64<<10))
	for len(buf) < n {
		if len(buf) == cap(buf) {
			grown := append(getBuffer(min(n, growth*cap(buf))), buf...)
			putBuffer(buf)
			buf = grown
		}
		had := len(buf)
		got, err := io.ReadFull(r, buf[had:min(n, cap(buf))])
		buf = buf[:had+got]
		if err != nil {
			putBuffer(buf)
			return nil, fmt.Errorf("request cut short after %d of %d bytes: %w", len(buf), n, noEOF(err))
		}
	}
	return buf, nil
}

// noEOF keeps a connection that ends inside a request apart from one that ends between
// two.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
