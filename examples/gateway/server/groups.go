package server

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnlog/cairn/examples/gateway/coordinator"
)

// findCoordinator: it is here, for every group.
func (c *conn) findCoordinator(req *kmsg.FindCoordinatorRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	at, err := c.advertised()
	resp.NodeID, resp.Host, resp.Port = nodeID, at.host, at.port
	return resp, err
}

// joinGroup answers when the group's new generation is complete, and so holds up the
// connection's next requests, as a Fetch does.
func (c *conn) joinGroup(req *kmsg.JoinGroupRequest) (kmsg.Response, error) {
	j := coordinator.Join{
		Group: req.Group, Member: req.MemberID, ProtocolType: req.ProtocolType,
		Session: millis(req.SessionTimeoutMillis), Rebalance: millis(req.RebalanceTimeoutMillis),
	}
	if req.Version == 0 {
		j.Rebalance = j.Session // there was one time for both
	}
	for _, p := range req.Protocols {
		j.Protocols = append(j.Protocols, coordinator.Protocol{Name: p.Name, Metadata: p.Metadata})
	}
	joined := c.server.groups.Join(c.server.stopping, j)
	c.log.Debug("join", "group", req.Group, "member", joined.Member, "generation", joined.Generation, "code", int(joined.Code))

	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.ErrorCode, resp.Generation = int16(joined.Code), joined.Generation
	resp.Protocol, resp.LeaderID, resp.MemberID = &joined.Protocol, joined.Leader, joined.Member
	for _, m := range joined.Members {
		member := kmsg.NewJoinGroupResponseMember()
		member.MemberID, member.ProtocolMetadata = m.ID, m.Metadata
		resp.Members = append(resp.Members, member)
	}
	return resp, nil
}

func (c *conn) syncGroup(req *kmsg.SyncGroupRequest) (kmsg.Response, error) {
	assignments := make(map[string][]byte, len(req.GroupAssignment))
	for _, a := range req.GroupAssignment {
		assignments[a.MemberID] = a.MemberAssignment
	}
	synced := c.server.groups.Sync(c.server.stopping, req.Group, req.MemberID, req.Generation, assignments)
	resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
	resp.ErrorCode, resp.MemberAssignment = int16(synced.Code), synced.Assignment
	if resp.MemberAssignment == nil {
		resp.MemberAssignment = []byte{} // null is none of the protocol's
	}
	return resp, nil
}

func (c *conn) heartbeat(req *kmsg.HeartbeatRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	resp.ErrorCode = int16(c.server.groups.Heartbeat(req.Group, req.MemberID, req.Generation))
	return resp, nil
}

func (c *conn) leaveGroup(req *kmsg.LeaveGroupRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	resp.ErrorCode = int16(c.server.groups.Leave(req.Group, req.MemberID))
	return resp, nil
}
