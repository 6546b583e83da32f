package server

import "sync/atomic"

// Stats are a server's counters; all but Connections only grow.
type Stats struct {
	Connections                 int    // open now
	Accepted, Refused           uint64 // connections; those beyond the limit are refused
	Requests                    uint64
	RequestBytes, ResponseBytes uint64 // as on the wire
	// Refusals counts errors in answers, one for each topic or partition.
	Refusals uint64
}

type counters struct {
	accepted, refused, requests, requestBytes, responseBytes, refusals atomic.Uint64
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	open := len(s.mu.conns)
	s.mu.Unlock()
	c := &s.stats
	return Stats{
		Connections: open, Accepted: c.accepted.Load(), Refused: c.refused.Load(), Requests: c.requests.Load(),
		RequestBytes: c.requestBytes.Load(), ResponseBytes: c.responseBytes.Load(), Refusals: c.refusals.Load(),
	}
}
