package server

import (
	"encoding/binary"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// splice puts message sets into a Fetch response that was encoded with empty ones, without
// copying them: it corrects the lengths and returns the pieces to write, in order. sets are
// those of all partitions. A set is the last field of its partition (SPEC 2.8, KIP-32):
//
//	length i32 | correlation i32 | throttle i32, from version 1 on | topics i32, and of each
//	name i16 + bytes | partitions i32, and of each
//	partition i32 | error i16 | high watermark i64 | set i32 + bytes
//
// tails stand behind the sets: the rows of the time index, for followers. They are nil
// for who gets none.
func splice(encoded []byte, resp *kmsg.FetchResponse, sets, tails [][]byte) net.Buffers {
	total := len(encoded) - 4
	at, done := 4+4+4, 0
	if resp.Version >= 1 {
		at += 4
	}
	var pieces net.Buffers
	for i := range resp.Topics {
		at += 2 + len(resp.Topics[i].Topic) + 4
		for range resp.Topics[i].Partitions {
			at += 4 + 2 + 8 + 4
			set, tail := sets[0], tails[0]
			sets, tails = sets[1:], tails[1:]
			if len(set) == 0 && tail == nil {
				continue
			}
			binary.BigEndian.PutUint32(encoded[at-4:], uint32(len(set)))
			total += len(set) + len(tail)
			pieces = append(pieces, encoded[done:at])
			for _, piece := range [][]byte{set, tail} {
				if len(piece) > 0 {
					pieces = append(pieces, piece)
				}
			}
			done = at
		}
	}
	binary.BigEndian.PutUint32(encoded, uint32(total))
	return append(pieces, encoded[done:])
}
