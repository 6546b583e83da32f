// Package coordinator keeps the members of consumer groups: who is in, who leads, who
// reads what. It is the server's side of Kafka's group protocol of the 0.10 era
// (JoinGroup 0-1, SyncGroup, Heartbeat, LeaveGroup), without a byte of the wire. It is
// in memory: after a restart members join again and go on from the offsets that their
// group has committed in the store.
//
// A group is one state machine (group.go):
//
//	          first join                all have joined,
//	(none) ───────────────► preparing ─────────────────────► syncing
//	  ▲                      ▲  ▲        or time is over       │
//	  │ last one leaves,     │  │                              │ the leader's
//	  │ or expires           │  └── a join, a leave, an ───────┤ assignment
//	  │                      │      expired member             ▼
//	  └──────────────────────┴──────────────────────────────  stable
//
// In preparing, members wait in Join for the others; those that do not join in time are
// out. Everyone then learns the new generation, and the leader who is in. In syncing,
// members wait in Sync for the assignment that the leader brings. In stable they
// heartbeat, and learn that way that the group is preparing again.
//
// A member that is neither waiting nor heard of for its session timeout is out. There
// is one clock, the time package's, read once for each event; every wait for a time is
// one timer for each group, set to whatever is due first.
package coordinator
