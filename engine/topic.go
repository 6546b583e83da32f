package engine

import (
	"sync"
	"sync/atomic"
)

// Topic is a handle on a topic of an open store. It is safe for concurrent use
// and costs nothing per partition until one is used.
type Topic struct {
	db   *DB
	name string
	id   uint32

	current atomic.Pointer[topicState]
	dropped atomic.Bool

	mu struct {
		sync.Mutex
		partitions handles
	}
}

// topicState is what AlterTopic replaces as a whole.
type topicState struct {
	config   TopicConfig
	settings topicSettings
}

func newTopic(db *DB, name string, id uint32, config TopicConfig, settings topicSettings) *Topic {
	t := &Topic{db: db, name: name, id: id}
	t.set(config, settings)
	return t
}

func (t *Topic) set(config TopicConfig, settings topicSettings) {
	t.current.Store(&topicState{config, settings})
}

func (t *Topic) settings() *topicSettings { return &t.current.Load().settings }

// Name returns the topic's name, "" of a zero Topic.
func (t *Topic) Name() string {
	if t == nil {
		return ""
	}
	return t.name
}

// Config returns the settings the topic was created or last altered with.
func (t *Topic) Config() TopicConfig {
	if t == nil || t.db == nil {
		return TopicConfig{}
	}
	return t.current.Load().config
}

// Partitions returns how many partitions the topic has.
func (t *Topic) Partitions() int32 {
	if t == nil || t.db == nil {
		return 0
	}
	return t.settings().partitions
}

// Partition returns the handle on partition n; the same one each time. A number
// outside [0, Partitions) gives a handle whose every use returns
// ErrUnknownTopic (Kafka code 3).
func (t *Topic) Partition(n int32) *Partition {
	if t == nil || t.db == nil {
		return &Partition{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.mu.partitions.get(n); p != nil {
		return p
	}
	p := &Partition{topic: t, number: n}
	p.mu.absent = n < 0 || n >= t.Partitions()
	if !p.mu.absent { // another is not kept: one partition has one handle
		t.mu.partitions.set(n, p)
	}
	return p
}

// opened returns the partitions in use.
func (t *Topic) opened() []*Partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ps []*Partition
	for _, page := range t.mu.partitions {
		for _, p := range page {
			if p != nil {
				ps = append(ps, p)
			}
		}
	}
	return ps
}

// handles holds the partitions in use in pages: neighbours cost a word each, what
// is not used nothing.
type handles map[int32]*[pageSize]*Partition

const pageSize = 64

func (h handles) get(n int32) *Partition {
	if page := h[n/pageSize]; page != nil && n >= 0 {
		return page[n%pageSize]
	}
	return nil
}

func (h *handles) set(n int32, p *Partition) {
	if *h == nil {
		*h = make(handles)
	}
	page := (*h)[n/pageSize]
	if page == nil {
		page = new([pageSize]*Partition)
		(*h)[n/pageSize] = page
	}
	page[n%pageSize] = p
}
