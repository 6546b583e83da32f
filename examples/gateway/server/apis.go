package server

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// api is a request that is served: its versions, the shape of each (checkShape), and
// who answers. A nil response is none, as acks=0 wants; an error ends the connection.
type api struct {
	min, max int16
	shapes   []string // of the versions from min on; the last holds for all that follow
	handle   func(*conn, kmsg.Request) (kmsg.Response, error)
}

func (a api) shape(version int16) string {
	return a.shapes[min(int(version-a.min), len(a.shapes)-1)]
}

// table returns what is served. Clients see it in the answer to ApiVersions and draw
// conclusions: librdkafka compresses only if Produce v0 is in it, and with LZ4 only if
// FindCoordinator v0 is.
func (s *Server) table() map[int16]api {
	return map[int16]api{
		kmsg.Produce.Int16():         {0, 2, []string{"hi[s[ib]]"}, answer((*conn).produce)},
		kmsg.Fetch.Int16():           {0, 2, []string{"iii[s[iqi]]"}, answer((*conn).fetch)},
		kmsg.ListOffsets.Int16():     {0, 1, []string{"i[s[iqi]]", "i[s[iq]]"}, answer((*conn).listOffsets)},
		kmsg.Metadata.Int16():        {0, 1, []string{"[s]"}, answer((*conn).metadata)},
		kmsg.FindCoordinator.Int16(): {0, 0, []string{"s"}, answer((*conn).findCoordinator)},
		kmsg.JoinGroup.Int16():       {0, 1, []string{"siss[sb]", "siiss[sb]"}, answer((*conn).joinGroup)},
		kmsg.SyncGroup.Int16():       {0, 0, []string{"sis[sb]"}, answer((*conn).syncGroup)},
		kmsg.Heartbeat.Int16():       {0, 0, []string{"sis"}, answer((*conn).heartbeat)},
		kmsg.LeaveGroup.Int16():      {0, 0, []string{"ss"}, answer((*conn).leaveGroup)},
		kmsg.OffsetCommit.Int16():    {2, 2, []string{"sisq[s[iqs]]"}, answer((*conn).offsetCommit)},
		kmsg.OffsetFetch.Int16():     {1, 1, []string{"s[s[i]]"}, answer((*conn).offsetFetch)},
		kmsg.CreateTopics.Int16():    {0, 0, []string{"[sih[i[i]][ss]]i"}, answer((*conn).createTopics)},
		kmsg.DeleteTopics.Int16():    {0, 0, []string{"[s]i"}, answer((*conn).deleteTopics)},
		kmsg.ApiVersions.Int16():     {0, 3, []string{"", "", "", "cct"}, answer((*conn).apiVersions)},
	}
}

// answer makes a handler of one that takes its own kind of request.
func answer[R kmsg.Request](f func(*conn, R) (kmsg.Response, error)) func(*conn, kmsg.Request) (kmsg.Response, error) {
	return func(c *conn, req kmsg.Request) (kmsg.Response, error) { return f(c, req.(R)) }
}
