// Package codec is the bytes of messages: Kafka's message sets of format 0 and 1
// as they cross the wire, and the entries that the log stores. It has no clock
// and does no I/O. Bytes from outside never make it panic, nor allocate more than
// a bounded multiple of their own length; inflating is bounded by MaxInflated.
//
// # Message sets
//
// A set is frames back to back. Integers are big endian, the CRC is CRC-32 (IEEE)
// over everything behind it, and a length of -1 is null (SPEC 1.1, 1.2):
//
//	offset i64 | size i32 | crc u32 | magic i8 | attributes i8 | timestamp i64 | key length i32 | key | value length i32 | value
//
// A frame of magic 0 has no timestamp. Attribute bits 0-2 are the compression,
// bit 3 is set for LogAppendTime. A frame with a compression is a wrapper: its
// value is a compressed set, and its offset that of the last message inside, whose
// own offsets are relative to the first in magic 1 and absolute in magic 0 (SPEC
// 1.3).
//
// A set of the enriched format has other frames; the tag blocks have a length, -1
// for none, and the low four attribute bits are the type: 0, a compression, or that
// of a control message (SPEC 10.1). Nothing in a frame tells it from one of v1:
//
//	size i32 | offset i64 | crc u32 | magic 1 i8 | type i8 | kafka tags | app tags | key length i32 | key | value length i32 | value
//
// # Stored entries
//
// An entry is the value of one log key, the one that ends with the offset of the
// entry's last message. Varints are those of encoding/binary; zigzag marks the
// signed ones:
//
//	byte   0      kind: 1 plain, 2 wrapper
//	byte   1      attributes: bits 0-2 compression, 3 LogAppendTime, 4 magic 0,
//	              5 offset gaps, 6 delete horizon, 7 enriched
//	bytes  2-9    timestamp i64: of the first message, of the wrapper
//	bytes 10-17   clock i64: the leader's at the append
//	8 bytes       delete horizon i64: when compaction may drop the entry's
//	              tombstones; absent without attribute bit 6
//	from there    body
//	last 4 bytes  CRC-32C over body, then what precedes it, then the key
//
// The order of the checksum lets a leader do the long part of it before it knows
// clock and offset. Until Seal goes on from there, the last 4 bytes are the
// checksum of the body alone. A kind or attribute that is not listed is refused.
//
// The body of a plain entry is packed messages. What stands in brackets is absent
// from most entries: (n) with a single message, (gaps) without attribute bit 5.
//
//	count                                 uvarint, at least 1
//	bytes of all keys and values          uvarint
//	(n) largest - first timestamp         zigzag varint, wrapping
//	(n) its first offset - first offset   uvarint
//	(gaps) last - first offset            uvarint; count - 1 where absent
//	then per message
//	    timestamp - previous timestamp    zigzag varint, wrapping; not in the first
//	    (gaps) offset - previous - 1      uvarint, not in the first; 0 where absent
//	    key length + 1, 0 for null        uvarint
//	    value length + 1, 0 for null      uvarint
//	    key, value
//
// The largest timestamp is that of the timestamp index: the first message that
// has it, of those that have one. If none has, both fields are 0, and as the first
// timestamp is then negative, so is their sum, which is read as none.
//
// The body of a wrapper is its payload, verbatim (SPEC 2.5):
//
//	count                                 uvarint, 0 where not known
//	last - first offset                   uvarint, 0 where not known
//	payload
//
// In an enriched entry, whose messages have the receipt time as LogAppendTime, a
// message has tags: the two blocks of the wire without the receipt time, or nothing.
// Their length, a uvarint, stands behind the length of the value, the tags behind
// the value; what they are longer than the two length fields counts as bytes of keys
// and values. Bits 0-2 of a plain one are 0, or the type of its one control message
// less 7. In a wrapper the length of its own tags and the tags stand before the
// payload.
//
// A companion partition stores rows of the time index under the same keys:
//
//	byte   0      kind: 3
//	bytes  1-8    timestamp i64
//	bytes  9-16   base of the segment u64
//	bytes 17-24   where to scan from u64
//	bytes 25-28   CRC-32C over bytes 0-24, then the key
//
// This layout is on disk; golden files in testdata pin it.
package codec
