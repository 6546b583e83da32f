package engine

import "sync"

// inflateBuffer is scratch for inflating one produced wrapper.
type inflateBuffer struct{ bytes []byte }

var inflatePool = sync.Pool{New: func() any { return new(inflateBuffer) }}

// maxKeptInflate bounds the scratch that goes back to the pool.
const maxKeptInflate = 4 << 20

func (b *inflateBuffer) release() {
	if cap(b.bytes) > maxKeptInflate {
		b.bytes = nil
	}
	inflatePool.Put(b)
}
