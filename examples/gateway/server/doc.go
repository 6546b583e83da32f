// Package server speaks the Kafka protocol of the 0.10 era over a Cairn store:
// message sets go in and out as they cross the wire (engine.Partition.Produce and
// Fetch), and everything else of the protocol is here. Requests and responses are
// coded by kmsg; shape.go looks at a request before kmsg does.
//
// A connection is one goroutine: it reads a request, answers it and reads the next,
// so responses are in the order of the requests (conn.go). Nothing polls: a Fetch
// that waits is woken by an append (fetch_wait.go).
//
// What one client can cost: a goroutine, one request and one response. The request
// is read as it comes, so a length that is claimed costs nothing, and its arrays are
// counted before they are decoded. A client that stops in the middle of a request or
// does not take its response is cut off after Options.TransferTimeout. With the
// default limits a connection holds at most 16 MiB of request or 16 MiB of messages in a
// response.
//
// The files by what they hold: server.go and conn.go the life of the server and of a
// connection; apis.go the table of what is served; a file for each group of requests.
package server
