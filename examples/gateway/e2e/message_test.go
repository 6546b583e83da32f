package e2e_test

import (
	"fmt"
	"strings"
	"testing"
)

// t0 is when the first message was made: a day of 2017.
const t0 = 1_500_000_000_000

// message is what a client writes or reads. Key and Value are nil for null.
type message struct {
	Offset     int64   `json:"offset"`
	Timestamp  int64   `json:"timestamp"`
	AppendTime bool    `json:"append_time"` // the timestamp is the log's
	Key        *string `json:"key"`
	Value      *string `json:"value"`
}

// start of a topic, an offset, or a time.
type position struct {
	offset int64
	time   int64 // 0: offset holds
}

// kafkaClient is one of the clients. All write to and read from partition 0.
type kafkaClient interface {
	String() string
	// available skips a test without the client.
	available(t *testing.T)
	// produce writes messages and returns when all are acknowledged. codec is none,
	// gzip, snappy or lz4. dated is false if the client chose the timestamps itself.
	produce(t *testing.T, address, topic, codec string, messages []message) (dated bool)
	// consume reads n messages.
	consume(t *testing.T, address, topic string, from position, n int) []message
	// consumeGroup reads n messages as the only member of a group, from the start where
	// it has committed nothing, commits, and leaves.
	consumeGroup(t *testing.T, address, topic, group string, n int) []message
	// sees says whether the client shows the type of timestamps.
	seesType() bool
}

var (
	clients = []kafkaClient{franzGo{}, saramaGo{}, kcat{}, kafkaPython{}}
	codecs  = []string{"none", "gzip", "snappy", "lz4"}
)

// sample is one of everything: keys and values that are null and empty, a value of several
// compressed blocks, timestamps out of order. The null value is last, for kcat sends those
// in a run of their own.
func sample() []message {
	text := func(s string) *string { return &s }
	msgs := []message{
		{Key: text("key"), Value: text("value")},
		{Key: nil, Value: text("no key")},
		{Key: text(""), Value: text("empty key")},
		{Key: text("empty value"), Value: text("")},
		{Key: text("large"), Value: text(strings.Repeat("abcdefghij", 10_000))},
	}
	for i := range 30 {
		msgs = append(msgs, message{Key: text(fmt.Sprint("k", i)), Value: text(strings.Repeat(fmt.Sprint(i), i))})
	}
	msgs = append(msgs, message{Key: text("null value"), Value: nil})
	for i := range msgs {
		msgs[i].Offset = int64(i)
		msgs[i].Timestamp = t0 + int64(i*7%11)*1000
	}
	return msgs
}

// numbered are n messages a second apart.
func numbered(first, n int) []message {
	var msgs []message
	for i := first; i < first+n; i++ {
		value := fmt.Sprint(i)
		msgs = append(msgs, message{Offset: int64(i), Timestamp: t0 + int64(i)*1000, Key: &value, Value: &value})
	}
	return msgs
}
