// Package keys is the keyspace: every key the log stores, built and taken apart.
//
// A key starts with one byte that names its space, then come its fields, all big
// endian, so that comparing keys as bytes is comparing their fields in order. A
// scan forward is a scan in log order, and everything of a topic, of a partition
// or of a run of offsets is one range.
//
//	space       byte  fields
//	meta        01    name
//	catalog     02    topic name
//	log         03    topic u32 | partition u32 | offset u64
//	timestamps  04    topic u32 | partition u32 | segment base u64 | timestamp u64
//	segments    05    topic u32 | partition u32 | segment base u64
//	state       06    topic u32 | partition u32
//	epochs      07    topic u32 | partition u32 | epoch u32
//	offsets     08    group, escaped | 00 01 | topic u32 | partition u32
//	due         09    time u64 | topic u32 | partition u32
//	producers   0a    topic u32 | partition u32 | producer
//	transact.   0b    topic u32 | partition u32 | end marker u64 | start marker u64
//
// A partition number is the 32 bits of an int32: 0, 1, 2 and so on count up from
// 00000000, and their companions -1, -2, -3 count down from ffffffff (SPEC 5.8).
// Offsets, bases and epochs are never negative; a key that says so is malformed.
// The end marker of an open transaction is 7ffffffffffffffe.
// A timestamp may be negative, so its sign bit is flipped: -1 is
// 7fffffffffffffff and 0 is 8000000000000000. A group may hold any bytes: 00 is
// written as 00 ff, and the end as 00 01, which sorts a group before the groups
// it is a prefix of. Names of settings, topics and producers need neither, as they
// end their key.
//
// The package knows no values and no policy. Its functions keep nothing, share
// nothing and may be called concurrently.
//
// This layout is on disk; golden files in testdata pin it.
package keys
