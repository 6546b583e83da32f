package codec

import (
	"bytes"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// gzipWriter is a pooled encoder and the slice it appends to.
type gzipWriter struct {
	out sliceWriter
	enc *gzip.Writer
}

// gzipReader is a pooled decoder and the input it reads.
type gzipReader struct {
	in  bytes.Reader
	dec gzip.Reader
}

var (
	gzipWriters = sync.Pool{New: func() any { return &gzipWriter{enc: gzip.NewWriter(nil)} }}
	gzipReaders = sync.Pool{New: func() any { return new(gzipReader) }}
)

// gzipCompress appends one member: librdkafka reads the first one only.
func gzipCompress(dst, src []byte) ([]byte, error) {
	w := gzipWriters.Get().(*gzipWriter)
	defer func() {
		w.out.b = nil
		gzipWriters.Put(w)
	}()
	w.out.b = dst
	w.enc.Reset(&w.out)
	if _, err := w.enc.Write(src); err != nil {
		return dst, err
	}
	if err := w.enc.Close(); err != nil {
		return dst, err
	}
	return w.out.b, nil
}

func gzipDecompress(dst, src []byte, limit int) ([]byte, error) {
	r := gzipReaders.Get().(*gzipReader)
	defer func() {
		r.in.Reset(nil)
		gzipReaders.Put(r)
	}()
	r.in.Reset(src)
	if err := r.dec.Reset(&r.in); err != nil {
		return dst, Errorf(CodeCorruptMessage, "gzip header: %v", err)
	}
	// Four times the payload is a usual ratio, and linear in what was received.
	out, err := appendFrom(slices.Grow(dst, min(4*len(src), limit+1)), &r.dec, limit)
	if err != nil {
		return dst, Errorf(CodeCorruptMessage, "gzip payload: %v", err)
	}
	if len(out)-len(dst) > limit {
		return dst, inflatesBeyond(Gzip, limit)
	}
	return out, nil
}
