package server

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Internal: the shapes are not to be seen from outside.

// A shape is what kmsg reads: a request of the version is walked over to its end, and
// one that is cut short anywhere is refused.
func TestShapesAreThoseOfTheRequests(t *testing.T) {
	s := &Server{}
	for key, a := range s.table() {
		for version := a.min; version <= a.max; version++ {
			req := kmsg.RequestForKey(key)
			req.SetVersion(version)
			fill(req)
			body := req.AppendTo(nil)
			rest, err := walk(a.shape(version), body)
			require.NoError(t, err, "%T v%d", req, version)
			require.Empty(t, rest, "%T v%d", req, version)
			for n := range body {
				require.Error(t, checkShape(a.shape(version), body[:n]), "%T v%d cut to %d of %d bytes", req, version, n, len(body))
			}
		}
	}
}

// fill gives a request two elements in every array.
func fill(req kmsg.Request) {
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		p := kmsg.ProduceRequestTopicPartition{Records: []byte("set")}
		topic := kmsg.ProduceRequestTopic{Topic: "topic", Partitions: []kmsg.ProduceRequestTopicPartition{p, p}}
		r.Topics = []kmsg.ProduceRequestTopic{topic, topic}
	case *kmsg.FetchRequest:
		topic := kmsg.FetchRequestTopic{Topic: "topic", Partitions: make([]kmsg.FetchRequestTopicPartition, 2)}
		r.Topics = []kmsg.FetchRequestTopic{topic, topic}
	case *kmsg.ListOffsetsRequest:
		topic := kmsg.ListOffsetsRequestTopic{Topic: "topic", Partitions: make([]kmsg.ListOffsetsRequestTopicPartition, 2)}
		r.Topics = []kmsg.ListOffsetsRequestTopic{topic, topic}
	case *kmsg.MetadataRequest:
		r.Topics = []kmsg.MetadataRequestTopic{{Topic: new("a")}, {Topic: new("b")}}
	case *kmsg.FindCoordinatorRequest:
		r.CoordinatorKey = "group"
	case *kmsg.JoinGroupRequest:
		p := kmsg.JoinGroupRequestProtocol{Name: "range", Metadata: []byte("meta")}
		r.Group, r.MemberID, r.ProtocolType, r.Protocols = "group", "member", "consumer", []kmsg.JoinGroupRequestProtocol{p, p}
	case *kmsg.SyncGroupRequest:
		a := kmsg.SyncGroupRequestGroupAssignment{MemberID: "member", MemberAssignment: []byte("all")}
		r.Group, r.MemberID, r.GroupAssignment = "group", "member", []kmsg.SyncGroupRequestGroupAssignment{a, a}
	case *kmsg.HeartbeatRequest:
		r.Group, r.MemberID = "group", "member"
	case *kmsg.LeaveGroupRequest:
		r.Group, r.MemberID = "group", "member"
	case *kmsg.OffsetCommitRequest:
		p := kmsg.OffsetCommitRequestTopicPartition{Metadata: new("note")}
		topic := kmsg.OffsetCommitRequestTopic{Topic: "topic", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p, p}}
		r.Group, r.MemberID, r.Topics = "group", "member", []kmsg.OffsetCommitRequestTopic{topic, topic}
	case *kmsg.OffsetFetchRequest:
		topic := kmsg.OffsetFetchRequestTopic{Topic: "topic", Partitions: []int32{1, 2}}
		r.Group, r.Topics = "group", []kmsg.OffsetFetchRequestTopic{topic, topic}
	case *kmsg.CreateTopicsRequest:
		topic := kmsg.CreateTopicsRequestTopic{Topic: "topic"}
		topic.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: []int32{1, 2}}, {Replicas: []int32{3}}}
		topic.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms", Value: new("1")}, {Name: "null"}}
		r.Topics = []kmsg.CreateTopicsRequestTopic{topic, topic}
	case *kmsg.DeleteTopicsRequest:
		r.TopicNames = []string{"a", "b"}
	case *kmsg.ApiVersionsRequest:
		r.ClientSoftwareName, r.ClientSoftwareVersion = "name", "1.0"
	}
}

func TestShapeBoundsElements(t *testing.T) {
	claim := func(n uint32) []byte {
		return append([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, make([]byte, 4*n)...)
	}
	require.NoError(t, checkShape("[i]", claim(maxElements)))
	require.ErrorIs(t, checkShape("[i]", claim(maxElements+1)), errElements)
	require.ErrorIs(t, checkShape("[i][i]", append(claim(maxElements), claim(1)...)), errElements)
	require.NoError(t, checkShape("[[i]]", []byte{0xff, 0xff, 0xff, 0xff}), "a null array")
}

func FuzzShape(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 1, 'a', 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, shape := range []string{"hi[s[ib]]", "cct", "[sih[i[i]][ss]]i"} {
			rest, err := walk(shape, b)
			require.True(t, err != nil || len(rest) <= len(b))
		}
	})
}
