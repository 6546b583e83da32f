package server

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// fetch is a request for messages and what has been found so far.
type fetch struct {
	c     *conn
	parts []fetchPart
	opts  engine.FetchOptions
	need  int // min_bytes
	bytes int // found
	room  int // left of Options.MaxResponseBytes
	open  int // partitions that are not full
	done  bool
	// rewrite gives compressed messages the time of append; not for followers, who copy
	// the log as it is.
	rewrite bool
	// follower: one that gets the rows of the time index.
	follower bool
}

// fetchPart is a partition of a fetch.
type fetchPart struct {
	topic  string
	asked  *kmsg.FetchRequestTopicPartition
	answer *kmsg.FetchResponseTopicPartition
	p      *engine.Partition
	set    []byte
	next   int64
	full   bool // at its limit
	rows   []codec.FetchedRow
}

// fetch answers with message sets from the offsets asked for. Each partition has its
// limit and the response has one; the first message of a partition is whole even
// above its own, for a reader that got a part of it, or none, would ask for ever
// (WIRE: every client takes it).
//
// It waits until there are min_bytes or max_wait is over; an error is answered at
// once. Versions 0 and 1 are of readers that know message format 0 only.
func (c *conn) fetch(req *kmsg.FetchRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	f := &fetch{c: c, need: int(req.MinBytes), room: c.server.opts.MaxResponseBytes}
	f.rewrite = c.server.opts.RewriteTimestamps && req.ReplicaID < 0
	f.follower = c.server.opts.FollowerIndex && req.ReplicaID >= 0
	if req.Version < 2 {
		f.opts.Format = engine.FormatV0
	}
	for i := range req.Topics {
		asked := &req.Topics[i]
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic = asked.Topic
		topic.Partitions = make([]kmsg.FetchResponseTopicPartition, len(asked.Partitions))
		for j := range asked.Partitions {
			f.add(asked.Topic, &asked.Partitions[j], &topic.Partitions[j])
		}
		resp.Topics = append(resp.Topics, topic)
	}
	f.readAll()
	if !f.enough() {
		f.wait(min(millis(req.MaxWaitMillis), c.server.opts.IdleTimeout))
	}
	for i := range f.parts {
		f.finish(&f.parts[i])
	}
	return resp, nil
}

// finish hands a partition's set over to be sent; see splice.
func (f *fetch) finish(part *fetchPart) {
	set := part.set
	if f.rewrite {
		var err error
		if set, err = rewrite(set); err != nil {
			set = nil
			part.answer.ErrorCode = f.c.code("rewrite timestamps", part.topic, part.asked.Partition, err)
		}
	}
	f.c.sets = append(f.c.sets, set)
	var tail []byte
	if f.follower {
		tail = codec.AppendFetchedRows(nil, part.rows)
	}
	f.c.tails = append(f.c.tails, tail)
}

func (f *fetch) add(topic string, asked *kmsg.FetchRequestTopicPartition, answer *kmsg.FetchResponseTopicPartition) {
	*answer = kmsg.NewFetchResponseTopicPartition()
	answer.Partition = asked.Partition
	answer.HighWatermark = -1
	answer.RecordBatches = []byte{} // null is none of the protocol's sets; see splice
	f.open++
	f.parts = append(f.parts, fetchPart{
		topic: topic, asked: asked, answer: answer,
		p: f.c.server.partition(topic, asked.Partition), next: asked.FetchOffset,
	})
}

// readAll reads every partition once. Each fetch of a connection begins with another
// one, so that none is left out for ever when the response is full before its end.
func (f *fetch) readAll() {
	f.c.turn++
	for i := range f.parts {
		f.read(&f.parts[(f.c.turn+i)%len(f.parts)])
	}
}

// read appends what there is to a partition's set.
func (f *fetch) read(part *fetchPart) {
	answer := part.answer
	had := len(part.set)
	limit := min(int(part.asked.PartitionMaxBytes)-had, f.room)
	if f.room <= 0 || f.follower && had > 0 { // a follower's is of one segment
		f.fill(part)
		f.locate(part)
		return
	}
	set := part.set
	if had == 0 {
		set = spareBuffer(min(limit, 1<<20))
	}
	f.opts.MaxBytes = max(limit, 1)
	res, err := f.appendFetch(part, set)
	if err != nil {
		if had == 0 {
			putBuffer(set)
		}
		f.fail(part, err)
		return
	}
	got := len(res.Set) - had
	switch answer.HighWatermark = res.HighWatermark; {
	case got == 0 && had == 0:
		putBuffer(res.Set)
	case got > limit && had > 0: // the first of this read is whole too: leave it to the next fetch
		part.set = res.Set[:had]
		f.fill(part)
	default:
		part.set, part.next = res.Set, res.Next
		f.bytes += got
		f.room -= got
		if got >= limit {
			f.fill(part)
		}
	}
}

func (f *fetch) appendFetch(part *fetchPart, set []byte) (engine.FetchResult, error) {
	if !f.follower {
		return part.p.AppendFetch(f.c.context(), set, part.next, f.opts)
	}
	r, err := part.p.FetchReplica(f.c.context(), part.next, f.opts)
	part.rows = r.Rows
	r.Set = append(set, r.Set...)
	return r.FetchResult, err
}

// fill ends the reading of a partition.
func (f *fetch) fill(part *fetchPart) {
	part.full = true
	f.open--
}

// locate says where a partition ends of which nothing is read.
func (f *fetch) locate(part *fetchPart) {
	offsets, err := part.p.Offsets()
	if err != nil {
		f.fail(part, err)
		return
	}
	part.answer.HighWatermark = offsets.HighWatermark
}

func (f *fetch) fail(part *fetchPart, err error) {
	f.done = true
	if len(part.set) > 0 {
		return // what was read is good; the next fetch meets the error
	}
	part.answer.ErrorCode = f.c.code("fetch", part.topic, part.asked.Partition, err)
}

// enough reports whether there is an answer: min_bytes, an error, or no room for more.
func (f *fetch) enough() bool {
	return f.done || f.bytes >= f.need || f.room <= 0 || f.open == 0
}
