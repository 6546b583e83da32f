package server

import (
	"fmt"
	"net"
	"strconv"
)

// address is where clients find the server.
type address struct {
	host string
	port int32
}

func splitAddress(s string) (address, error) {
	host, text, err := net.SplitHostPort(s)
	if err != nil {
		return address{}, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || host == "" {
		return address{}, fmt.Errorf("address %q is not host:port", s)
	}
	return address{host, int32(port)}, nil
}
