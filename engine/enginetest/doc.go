// Package enginetest helps to test the engine: an in-memory model of a store,
// random histories that run against engine and model at once, a checker that
// compares the two through the public API, an audit of what lies in Pebble, and
// a file system that loses power.
//
// The model is an oracle, so it is written to be obvious and slow: a log is a
// slice of segments, a segment a slice of frames, and every answer is found by
// walking over all of them. It takes from codec the bytes of single frames, which
// codec's own vectors pin, and from retention the jitter of a segment. Where the
// engine cuts a set into entries and wrappers is its own affair and copied, as
// index rows and sizes follow from it.
//
//	History  a list of operations, made by Histories from a seed
//	Store    runs operations on an engine.DB and on a Model
//	Check    compares the DB with the Model
//	Audit    reads the rows in Pebble and compares them with each other
//	CrashFS  clones itself at every write as a power cut would leave it
package enginetest
