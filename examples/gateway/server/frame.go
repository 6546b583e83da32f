package server

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// requestHead is what of a request is read first, to refuse what is none before
// anything is allocated: length i32, api key i16, version i16.
const requestHead = 8

// maxSmallRequest bounds every request but Produce.
const maxSmallRequest = 1 << 20

// checkHead returns the length of the request after its length field.
func (s *Server) checkHead(head []byte) (int, error) {
	size := int(int32(binary.BigEndian.Uint32(head)))
	key := int16(binary.BigEndian.Uint16(head[4:]))
	version := int16(binary.BigEndian.Uint16(head[6:]))
	api, ok := s.apis[key]
	if !ok || (version < api.min || version > api.max) && key != kmsg.ApiVersions.Int16() {
		return 0, fmt.Errorf("%w: request of %d bytes for api %d (%s) version %d, which is not served", errHangUp, size, key, kmsg.NameForKey(key), version)
	}
	limit := s.opts.MaxRequestBytes
	if key != kmsg.Produce.Int16() {
		limit = min(limit, maxSmallRequest)
	}
	if size < requestHead || size > limit {
		return 0, fmt.Errorf("%w: %s request of %d bytes, the limit is %d", errHangUp, kmsg.NameForKey(key), size, limit)
	}
	return size, nil
}

// request is a decoded one. Its byte slices alias the frame it came in.
type request struct {
	api
	correlation int32
	body        kmsg.Request
}

// decode reads a request without its length: api key i16, version i16, correlation
// id i32, client id as a nullable string, then the body.
func (s *Server) decode(frame []byte) (request, error) {
	key := int16(binary.BigEndian.Uint16(frame))
	version := int16(binary.BigEndian.Uint16(frame[2:]))
	r := request{api: s.apis[key], correlation: int32(binary.BigEndian.Uint32(frame[4:])), body: kmsg.RequestForKey(key)}
	r.body.SetVersion(version)
	if version < r.min || version > r.max {
		// Only ApiVersions gets here. The rest of the frame may be in a form we do not
		// know, and the answer does not depend on it.
		return r, nil
	}
	rest, err := skipClientID(frame[8:], r.body.IsFlexible())
	if err == nil {
		err = checkShape(r.shape(version), rest)
	}
	if err == nil {
		err = r.body.ReadFrom(rest)
	}
	if err != nil {
		return r, fmt.Errorf("%w: malformed %s v%d request of %d bytes: %w", errHangUp, kmsg.NameForKey(key), version, len(frame), err)
	}
	return r, nil
}

// skipClientID returns what follows the header. A flexible one, of ApiVersions v3,
// ends with tagged fields; none is defined.
func skipClientID(b []byte, flexible bool) ([]byte, error) {
	shape := "s"
	if flexible {
		shape = "st"
	}
	return walk(shape, b)
}

// appendResponse appends a response with its length and correlation id. Of the
// flexible responses only that of ApiVersions is served, whose header has no tags.
func appendResponse(dst []byte, correlation int32, resp kmsg.Response) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlation))
	dst = resp.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}
