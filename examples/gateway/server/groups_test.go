package server_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/examples/gateway/coordinator"
	"github.com/cairnlog/cairn/examples/gateway/server"
)

// quick lets sessions be short.
var quick = server.Options{Groups: coordinator.Options{MinSession: time.Millisecond}}

func commitRequest(group, member string, generation int32, topic string, offsets map[int32]int64, metadata string) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = topic
	for number := range int32(10) {
		if offset, ok := offsets[number]; ok {
			rt.Partitions = append(rt.Partitions, kmsg.OffsetCommitRequestTopicPartition{Partition: number, Offset: offset, Metadata: &metadata})
		}
	}
	req.Topics = append(req.Topics, rt)
	return req
}

func commitCodes(resp *kmsg.OffsetCommitResponse) (codes []int16) {
	for _, p := range resp.Topics[0].Partitions {
		codes = append(codes, p.ErrorCode)
	}
	return codes
}

func offsetsOf(c *client, group string, partitions ...int32) (offsets []int64) {
	c.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: partitions}}
	for _, p := range ask[*kmsg.OffsetFetchResponse](c, 1, req).Topics[0].Partitions {
		require.Zero(c.t, p.ErrorCode)
		require.NotNil(c.t, p.Metadata)
		offsets = append(offsets, p.Offset)
	}
	return offsets
}

// A consumer that assigns partitions to itself has no member id and generation -1. Each
// partition is kept or refused for itself.
func TestOffsetsAreKeptInTheStore(t *testing.T) {
	dir := t.TempDir()
	t.Run("before", func(t *testing.T) {
		g := startOn(t, dir, server.Options{})
		g.topic("t", engine.TopicConfig{Partitions: 2})
		c := g.dial(t)
		require.Equal(t, []int64{-1, -1, -1}, offsetsOf(c, "g", 0, 1, 2))
		codes := commitCodes(ask[*kmsg.OffsetCommitResponse](c, 2, commitRequest("g", "", -1, "t", map[int32]int64{0: 7, 1: -2, 2: 9}, "note")))
		require.Equal(t, []int16{0, 1, 3}, codes)
		require.Equal(t, []int64{7, -1, -1}, offsetsOf(c, "g", 0, 1, 2))
		codes = commitCodes(ask[*kmsg.OffsetCommitResponse](c, 2, commitRequest("g", "", -1, "t", map[int32]int64{0: 8}, strings.Repeat("x", 4097))))
		require.Equal(t, []int16{12}, codes)
		codes = commitCodes(ask[*kmsg.OffsetCommitResponse](c, 2, commitRequest("", "", -1, "t", map[int32]int64{0: 8}, "")))
		require.Equal(t, []int16{24}, codes)
		codes = commitCodes(ask[*kmsg.OffsetCommitResponse](c, 2, commitRequest("g", "gone", 3, "t", map[int32]int64{0: 8}, "")))
		require.Equal(t, []int16{22}, codes)
	})
	g := startOn(t, dir, server.Options{})
	require.Equal(t, []int64{7, -1}, offsetsOf(g.dial(t), "g", 0, 1))
}

func join(c *client, version int16, session time.Duration) *kmsg.JoinGroupResponse {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType = "g", "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(session.Milliseconds()), 1000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("meta")}}
	return ask[*kmsg.JoinGroupResponse](c, version, req)
}

func TestGroupRequests(t *testing.T) {
	g := start(t, quick)
	g.topic("t", engine.TopicConfig{})
	c := g.dial(t)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = "g"
	found := ask[*kmsg.FindCoordinatorResponse](c, 0, find)
	require.Equal(t, g.address, addressOf(kmsg.MetadataResponseBroker{Host: found.Host, Port: found.Port}))

	require.EqualValues(t, 26, join(c, 0, time.Hour).ErrorCode)
	for version := range int16(2) {
		joined := join(c, version, 10*time.Second)
		require.Zero(t, joined.ErrorCode)
		require.Equal(t, joined.MemberID, joined.LeaderID)
		require.Equal(t, "range", *joined.Protocol)
		require.Equal(t, []byte("meta"), joined.Members[0].ProtocolMetadata)

		beat := kmsg.NewPtrHeartbeatRequest()
		beat.Group, beat.MemberID, beat.Generation = "g", joined.MemberID, joined.Generation
		require.EqualValues(t, 27, ask[*kmsg.HeartbeatResponse](c, 0, beat).ErrorCode)
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Group, sync.MemberID, sync.Generation = "g", joined.MemberID, joined.Generation
		sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID, MemberAssignment: []byte("all")}}
		require.Equal(t, []byte("all"), ask[*kmsg.SyncGroupResponse](c, 0, sync).MemberAssignment)
		require.Zero(t, ask[*kmsg.HeartbeatResponse](c, 0, beat).ErrorCode)

		commit := commitRequest("g", joined.MemberID, joined.Generation, "t", map[int32]int64{0: int64(version)}, "")
		require.Equal(t, []int16{0}, commitCodes(ask[*kmsg.OffsetCommitResponse](c, 2, commit)))
		require.Equal(t, []int64{int64(version)}, offsetsOf(c, "g", 0))

		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Group, leave.MemberID = "g", joined.MemberID
		require.Zero(t, ask[*kmsg.LeaveGroupResponse](c, 0, leave).ErrorCode)
		require.EqualValues(t, 25, ask[*kmsg.LeaveGroupResponse](c, 0, leave).ErrorCode)
		require.EqualValues(t, 25, ask[*kmsg.HeartbeatResponse](c, 0, beat).ErrorCode)
	}
}

// A join that waits for others is answered when the server shuts down.
func TestShutdownEndsJoins(t *testing.T) {
	g := start(t, quick)
	joined := join(g.dial(t), 1, 10*time.Second)
	require.Zero(t, joined.ErrorCode)
	answer := make(chan *kmsg.JoinGroupResponse, 1)
	waiting := g.dial(t)
	go func() { answer <- join(waiting, 1, 10*time.Second) }()
	require.Eventually(t, func() bool { // the join under way makes the group rebalance
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.Group, beat.MemberID, beat.Generation = "g", joined.MemberID, joined.Generation
		g.sync(joined)
		return ask[*kmsg.HeartbeatResponse](g.dial(t), 0, beat).ErrorCode == 27
	}, patience, time.Millisecond)
	g.stop()
	require.EqualValues(t, 15, (<-answer).ErrorCode)
}

// sync brings the leader's assignment; it may come too late.
func (g *gateway) sync(joined *kmsg.JoinGroupResponse) {
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = "g", joined.MemberID, joined.Generation
	ask[*kmsg.SyncGroupResponse](g.dial(g.t), 0, sync)
}

// fillTopic produces n messages to each partition.
func (g *gateway) fillTopic(name string, partitions int32, n int) {
	g.t.Helper()
	g.topic(name, engine.TopicConfig{Partitions: partitions})
	c := g.dial(g.t)
	for p := range partitions {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("%d/%d", p, i))
		}
		require.Zero(g.t, c.produceTo(2, 1, name, p, set(all...)).ErrorCode)
	}
}

// Two members share the partitions; when one leaves, the other has all of them. They
// commit as they read.
func TestFranzGoGroup(t *testing.T) {
	g := start(t, quick)
	g.fillTopic("t", 4, 100)
	ctx := withTimeout(t)
	type read struct {
		member byte
		*kgo.Record
	}
	records := make(chan read, 10_000)
	member := func(id byte) *kgo.Client {
		cl := g.franz(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.HeartbeatInterval(50*time.Millisecond),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Balancers(kgo.RangeBalancer()))
		go func() {
			for {
				fetches := cl.PollFetches(ctx)
				if ctx.Err() != nil || fetches.IsClientClosed() {
					return
				}
				fetches.EachRecord(func(r *kgo.Record) { records <- read{id, r} })
			}
		}()
		return cl
	}
	// owners produces until the last to have read a partition is member 1 for so many of
	// them, member 2 for the others.
	producer := g.dial(t)
	owners := func(ones int) {
		t.Helper()
		var got [4]byte
		count := func(member byte) int { return bytes.Count(got[:], []byte{member}) }
		for count(1) != ones || count(2) != 4-ones {
			require.NoError(t, ctx.Err(), "partitions are with %v", got)
			for p := range int32(4) {
				require.Zero(t, producer.produceTo(2, 1, "t", p, set("x")).ErrorCode)
			}
			for more := true; more; more = len(records) > 0 {
				select {
				case r := <-records:
					got[r.Partition] = r.member
				case <-ctx.Done():
				}
			}
		}
	}
	first := member(1)
	owners(4)
	second := member(2)
	owners(2)
	first.Close()
	owners(0)
	second.Close()

	c := g.dial(t)
	committed := offsetsOf(c, "g", 0, 1, 2, 3)
	for p, offset := range committed {
		end := fetched(ask[*kmsg.FetchResponse](c, 2, fetchRequest(0, 0, from{"t", int32(p), offset, 1})))[0].HighWatermark
		require.Greater(t, offset, int64(100))
		require.LessOrEqual(t, offset, end)
	}
}

// saramaReader is a member that counts what it reads and marks it.
type saramaReader struct{ got chan *sarama.ConsumerMessage }

func (saramaReader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (saramaReader) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (r saramaReader) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for m := range claim.Messages() { // error ignored: it is a channel
		s.MarkMessage(m, "")
		select {
		case r.got <- m:
		case <-s.Context().Done():
			return nil
		}
	}
	return nil
}

func TestSaramaGroup(t *testing.T) {
	g := start(t, quick)
	g.fillTopic("t", 3, 50)
	config := saramaConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	consume := func(n int) []*sarama.ConsumerMessage {
		group, err := sarama.NewConsumerGroup([]string{g.address}, "g", config)
		require.NoError(t, err)
		r := saramaReader{make(chan *sarama.ConsumerMessage)}
		ctx, cancel := context.WithCancel(withTimeout(t))
		ended := make(chan error, 1)
		go func() { ended <- group.Consume(ctx, []string{"t"}, r) }()
		var got []*sarama.ConsumerMessage
		for len(got) < n {
			select {
			case m := <-r.got:
				got = append(got, m)
			case err := <-ended:
				t.Fatal("the session ended", err)
			}
		}
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, group.Close())
		return got
	}
	consume(150)
	require.Equal(t, []int64{50, 50, 50}, offsetsOf(g.dial(t), "g", 0, 1, 2))
	require.Zero(t, g.dial(t).produceTo(2, 1, "t", 1, set("more")).ErrorCode)
	require.Equal(t, "more", string(consume(1)[0].Value), "it goes on where it was")
}
