// Package bench measures the store against its practical limits, in the same
// run: Pebble alone with the same options and one key a message, and one
// append-only file with a group commit.
//
// The variants of a benchmark take turns, a slice each, for a number of rounds.
// What is reported are medians over the rounds, the ratios those of neighbouring
// slices: on a noisy machine they hold when the absolute figures do not.
//
//	go test -run '^$' -bench . -benchtime=1x ./bench # smoke: every benchmark once
//	go test -run '^$' -bench Durable -benchtime=1x ./bench -rounds=51 -slice=60ms
//	go test -run '^$' -bench Unsynced -benchtime=1x ./bench -rounds=5 -volume=2147483648 -timeout=2h
//	go test -run '^$' -bench 'Read|Fetch|Point|Search' -benchtime=1x ./bench -rounds=31 -slice=100ms -messages=500000
//
// Many short turns give steadier ratios than few long ones. With -variant=cairn
// only the store runs, for a profile.
//
// A unit is a message, or a call where a benchmark says so. For each variant
// there are units/s and cpu-ns/unit, the processor time of the whole process,
// its background work included, which another process disturbs least. ratio/raw
// is the store's rate divided by that of raw: above 1 the store is faster. ns/op,
// MB/s of payload and allocs/unit are the store's.
//
// Files are made under the test's temporary directory (TMPDIR), which should be
// on the disk to be measured. Payloads are random bytes; -text makes them
// compressible.
package bench
