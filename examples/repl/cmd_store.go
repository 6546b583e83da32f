package main

import (
	"context"
	"os"
	"time"

	"github.com/cairnlog/cairn/engine"
)

func init() {
	register(command{
		name: "open", group: storeGroup, args: "[DIR]", maxArgs: 1, settings: true, values: fileNames,
		summary: "open or create a store, in place of the one that is open",
		details: `Settings are the defaults of all topics by their broker-level Kafka names, as
log.segment.bytes. A temporary store is removed when it is closed.`,
		options: []option{
			{name: "temp", doc: "a fresh store in a temporary directory"},
			{name: "durability", value: "MODE", doc: durabilityDoc, values: oneOf("always", "never", "100ms")},
			{name: "small", doc: "use little memory"},
			{name: "read-only", doc: "read a store that nobody has open, and write nothing to it"},
			{name: "must-exist", doc: "fail instead of creating a store"},
			{name: "allow-data-loss", doc: "open a store that lost acknowledged data"},
		},
		examples: []string{"open /var/lib/orders.log", "open --temp", "open ./cairn-data durability=100ms log.segment.bytes=1048576"},
		run:      runOpen,
	})
	register(command{
		name: "close", group: storeGroup, noData: true,
		summary: "close the store; the next command that needs one opens it again",
		run:     func(_ context.Context, s *session, _ *arguments) error { return s.closeStore() },
	})
	register(command{
		name: "sync", group: storeGroup, noData: true,
		summary: "force everything appended to stable storage",
		details: "With durability=always every append already is.",
		run:     runSync,
	})
}

func runOpen(_ context.Context, s *session, a *arguments) error {
	switch {
	case a.has("temp") == (len(a.words) == 1):
		return usagef("give a directory or --temp")
	case a.has("temp") && (a.has("must-exist") || a.has("read-only")):
		return usagef("a temporary store is always a new one")
	}
	opts, err := s.openOptions(a)
	if err != nil {
		return err
	}
	dir := a.word(0)
	if a.has("temp") {
		if dir, err = s.temporaryStore(); err != nil {
			return err
		}
	}
	if err := s.switchStore(dir, opts, a.has("temp")); err != nil {
		return err
	}
	return s.show(a, record{
		{name: "store", value: dir},
		{name: "topics", value: len(s.db.Topics())},
		{name: "durability", value: durabilityName(opts.Durability)},
	})
}

// openOptions are the session's options with what the command changes.
func (s *session) openOptions(a *arguments) (opts engine.Options, err error) {
	opts = s.opts
	opts.MustExist, opts.AllowDataLoss = a.has("must-exist"), a.has("allow-data-loss")
	opts.ReadOnly = a.has("read-only")
	if opts.Defaults, err = engine.ParseBrokerConfig(a.settings); err != nil {
		return opts, err
	}
	if a.has("durability") {
		if opts.Durability, err = parseDurability(a.text("durability", "")); err != nil {
			return opts, err
		}
	}
	if a.has("small") {
		opts = opts.SmallMemory()
	}
	return opts, nil
}

// switchStore opens a store and then closes the one that was open: if it cannot
// be opened, nothing changes. Only a store opened again is closed first.
func (s *session) switchStore(dir string, opts engine.Options, temporary bool) error {
	if s.db != nil && sameFile(dir, s.dir) {
		if err := s.closeStore(); err != nil {
			return err
		}
	}
	db, err := engine.Open(dir, opts)
	if err != nil {
		return err
	}
	err = s.closeStore()
	s.db, s.dir, s.opts, s.temporary = db, dir, opts, temporary
	return err
}

// sameFile reports whether two paths are one directory.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// temporaryStore makes the directory of a temporary store.
func (s *session) temporaryStore() (string, error) {
	parent, err := s.scratchDir()
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(parent, "store-")
}

func runSync(ctx context.Context, s *session, _ *arguments) error {
	db, err := s.store()
	if err != nil {
		return err
	}
	return db.Sync(ctx)
}

const durabilityDoc = "when an append is acknowledged: always (on disk), never (in memory), or a duration as 100ms (forced to disk that often)"

func parseDurability(text string) (engine.Durability, error) {
	switch text {
	case "always":
		return engine.SyncAlways, nil
	case "never":
		return engine.SyncNever, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, usagef("durability %q is not always, never or a duration as 100ms", text)
	}
	return engine.SyncEvery(d), nil
}

func durabilityName(d engine.Durability) string {
	switch d {
	case engine.SyncAlways:
		return "always"
	case engine.SyncNever:
		return "never"
	default:
		return time.Duration(d).String()
	}
}
