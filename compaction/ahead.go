package compaction

import "github.com/cairnlog/cairn/codec"

// ahead is a message whose key is about to be looked up.
type ahead struct {
	lookup
	offset int64
	keyed  bool
}

// aheadMessages is how many messages are looked at ahead, a plain entry of small
// ones.
const aheadMessages = 256

// lookAhead takes the cursor's next messages into p.ahead and brings their slots of
// the map into the processor's cache. Done message by message every lookup waits
// for memory, which was more than half the time of a pass over small messages; here
// none waits for another. It is false when there are no more messages.
func (p *pass) lookAhead() (more bool) {
	p.ahead = p.ahead[:0]
	var m codec.Message
	for len(p.ahead) < aheadMessages && p.cursor.Next(&m) {
		keyed := classOf(&m) != unkeyed && !p.control.isAborted(&m)
		p.ahead = append(p.ahead, ahead{p.newest.lookup(m.Key), m.Offset, keyed})
	}
	sum := uint32(0)
	for i := range p.ahead {
		sum += p.newest.slots[p.ahead[i].at].next
	}
	p.touched = sum // or the compiler has no reason to read the slots
	return len(p.ahead) == aheadMessages
}
