package server

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// apiVersions tells a client what is served. A version above ours is answered in the
// form of version 0 with error 35 and the connection stays: clients begin with the
// newest they know, read our range from the answer and ask again.
func (c *conn) apiVersions(req *kmsg.ApiVersionsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	apis := c.server.apis
	if own := apis[req.Key()]; req.Version < own.min || req.Version > own.max {
		resp.Version = 0
		resp.ErrorCode = codeUnsupportedVersion
	}
	for _, key := range slices.Sorted(maps.Keys(apis)) {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = key, apis[key].min, apis[key].max
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	return resp, nil
}
