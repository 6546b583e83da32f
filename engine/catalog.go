package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/keys"
)

// catalog holds the topics. Its rows are in memory; changes are written
// through with a sync under its lock, which no append takes.
type catalog struct {
	ddl sync.Mutex // serializes changes, held across their sync
	mu  struct {
		sync.RWMutex
		topics map[string]*Topic
		byID   map[uint32]*Topic
		nextID uint32
	}
}

// catalogRow is the value of a catalog key.
type catalogRow struct {
	Version  uint8             `msgpack:"v"`
	ID       uint32            `msgpack:"id"`
	Settings map[string]string `msgpack:"s"` // Kafka names; what differs from the defaults
}

const catalogVersion = 1

// CreateTopic makes a topic; it is on stable storage when CreateTopic returns.
// Errors: ErrTopicExists, a *ConfigError per bad setting, an invalid name
// (Kafka code 17).
func (db *DB) CreateTopic(name string, config TopicConfig) (*Topic, error) {
	t, created, err := db.ensureTopic(name, config)
	if err == nil && !created {
		return nil, fmt.Errorf("engine: create %s: %w", name, ErrTopicExists)
	}
	return t, err
}

// EnsureTopic returns the topic of that name, made with config if it does not
// exist. The settings of an existing topic stay as they are.
func (db *DB) EnsureTopic(name string, config TopicConfig) (*Topic, error) {
	t, _, err := db.ensureTopic(name, config)
	return t, err
}

func (db *DB) ensureTopic(name string, config TopicConfig) (t *Topic, created bool, err error) {
	if err := db.writable(); err != nil {
		return nil, false, err
	}
	if err := validateTopicName(name); err != nil {
		return nil, false, err
	}
	settings, err := config.withDefaults(db.opts.Defaults).resolve()
	if err != nil {
		return nil, false, fmt.Errorf("engine: create %s: %w", name, err)
	}
	c := &db.catalog
	c.ddl.Lock()
	defer c.ddl.Unlock()
	if t, ok := db.Topic(name); ok {
		return t, false, nil
	}
	c.mu.RLock()
	id := c.mu.nextID
	c.mu.RUnlock()
	if err := db.createTopic(name, id, config); err != nil {
		return nil, false, fmt.Errorf("engine: create %s: %w", name, err)
	}
	t = newTopic(db, name, id, config, settings)
	c.mu.Lock()
	c.mu.nextID = id + 1
	c.mu.Unlock()
	c.add(t)
	return t, true, nil
}

func (c *catalog) add(t *Topic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.topics[t.name] = t
	c.mu.byID[t.id] = t
}

func (c *catalog) remove(t *Topic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.topics, t.name)
	delete(c.mu.byID, t.id)
}

// createTopic stores a new topic's row and the next topic id: ids are never used
// twice, so nothing of a deleted topic can come back.
func (db *DB) createTopic(name string, id uint32, config TopicConfig) error {
	batch := db.pdb.NewBatch()
	err := db.setCatalogRow(batch, name, catalogRow{catalogVersion, id, config.Settings()})
	if err == nil {
		err = db.setMeta(batch, metaNextTopic, id+1)
	}
	if err != nil {
		return err
	}
	return db.commitSync(context.Background(), batch)
}

func (db *DB) setCatalogRow(batch *pebble.Batch, name string, row catalogRow) error {
	value, err := encodeRow(&row)
	if err != nil {
		return err
	}
	return batch.Set(keys.AppendCatalog(nil, name), value, nil)
}

// encodeRow is msgpack with sorted map keys: equal rows have equal bytes.
func encodeRow(row any) ([]byte, error) {
	var b strings.Builder
	e := msgpack.NewEncoder(&b)
	e.SetSortMapKeys(true)
	if err := e.Encode(row); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}

// AlterTopic replaces the topic's settings. A change of timestamp type, limit
// or format holds for new appends only (SPEC 11). The number of partitions can
// only grow.
func (db *DB) AlterTopic(name string, config TopicConfig) error {
	if err := db.writable(); err != nil {
		return err
	}
	settings, err := config.withDefaults(db.opts.Defaults).resolve()
	if err != nil {
		return fmt.Errorf("engine: alter %s: %w", name, err)
	}
	db.catalog.ddl.Lock()
	defer db.catalog.ddl.Unlock()
	t, ok := db.Topic(name)
	if !ok {
		return fmt.Errorf("engine: alter %s: %w", name, ErrUnknownTopic)
	}
	if had := t.Partitions(); settings.partitions < had {
		return fmt.Errorf("engine: alter %s: %w", name, codec.Errorf(codec.CodeInvalidPartitions,
			"%d partitions cannot become %d", had, settings.partitions))
	}
	if err := db.alterTopic(t, config, settings); err != nil {
		return fmt.Errorf("engine: alter %s: %w", name, err)
	}
	return nil
}

// alterTopic makes new settings hold and, in the batch that stores them, every
// partition due: alarms were set by the old ones. Appends take the new settings
// first, so that after the barrier none is on its way that set an alarm by the
// old.
func (db *DB) alterTopic(t *Topic, config TopicConfig, settings topicSettings) error {
	t.set(config, settings)
	if err := db.syncNow(context.Background()); err != nil {
		return err
	}
	batch := db.pdb.NewBatch()
	if err := db.ringTopic(batch, t); err != nil {
		return err
	}
	if err := db.setCatalogRow(batch, t.name, catalogRow{catalogVersion, t.id, config.Settings()}); err != nil {
		return err
	}
	return db.commitSync(context.Background(), batch)
}

// Topic returns the topic of that name, false if there is none.
func (db *DB) Topic(name string) (*Topic, bool) {
	db.catalog.mu.RLock()
	defer db.catalog.mu.RUnlock()
	t, ok := db.catalog.mu.topics[name]
	return t, ok
}

// Topics returns the topics in order of their names.
func (db *DB) Topics() []*Topic {
	db.catalog.mu.RLock()
	defer db.catalog.mu.RUnlock()
	names := slices.Sorted(maps.Keys(db.catalog.mu.topics))
	topics := make([]*Topic, len(names))
	for i, name := range names {
		topics[i] = db.catalog.mu.topics[name]
	}
	return topics
}

// loadCatalog reads every topic's row.
func (db *DB) loadCatalog(nextID uint32) error {
	db.catalog.mu.topics = make(map[string]*Topic)
	db.catalog.mu.byID = make(map[uint32]*Topic)
	db.catalog.mu.nextID = max(nextID, 1)
	r := keys.CatalogRange()
	it, err := db.newIter(r.Start, r.End)
	if err != nil {
		return err
	}
	defer it.close()
	ok, err := it.move(seekGE, r.Start)
	for ; ok && err == nil; ok, err = it.move(next, nil) {
		if err := db.loadTopic(it.key, it.value); err != nil {
			return err
		}
	}
	return err
}

func (db *DB) loadTopic(key, value []byte) error {
	name, err := keys.DecodeCatalog(key)
	if err != nil {
		return &CorruptionError{Offset: -1, Err: err}
	}
	id, config, settings, err := db.decodeTopic(name, value)
	if err != nil {
		return err
	}
	if other := db.topicByID(id); other != nil {
		return &CorruptionError{Topic: name, Offset: -1, Err: fmt.Errorf("topic id %d is that of %s too", id, other.name)}
	}
	db.catalog.mu.nextID = max(db.catalog.mu.nextID, id+1)
	db.catalog.add(newTopic(db, name, id, config, settings))
	return nil
}

// decodeTopic reads a topic's row of the catalog.
func (db *DB) decodeTopic(name string, value []byte) (id uint32, config TopicConfig, settings topicSettings, err error) {
	var row catalogRow
	if err := msgpack.Unmarshal(value, &row); err != nil {
		return 0, config, settings, &CorruptionError{Topic: name, Offset: -1, Err: err}
	}
	if row.Version > catalogVersion {
		return 0, config, settings, fmt.Errorf("%w: catalog row of %s has version %d", ErrNewerFormat, name, row.Version)
	}
	if config, err = ParseTopicConfig(row.Settings); err != nil {
		return 0, config, settings, &CorruptionError{Topic: name, Offset: -1, Err: err}
	}
	if settings, err = config.withDefaults(db.opts.Defaults).resolve(); err != nil {
		err = fmt.Errorf("topic %s: %w", name, err)
	}
	return row.ID, config, settings, err
}
