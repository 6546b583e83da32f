package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cairnlog/cairn/engine"
)

// History is a store and what happens to it.
type History struct {
	Options engine.Options
	Topics  []engine.TopicConfig
	Ops     []Op
}

// String lists the history, one step a line.
func (h History) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "durability %d, write buffer %d\n", h.Options.Durability, h.Options.MemTableBytes)
	for i, c := range h.Topics {
		fmt.Fprintf(&b, "topic t%d: %d partitions, %v\n", i, max(1, c.Partitions), c.Settings())
	}
	for i, op := range h.Ops {
		fmt.Fprintf(&b, "%3d %T %+v\n", i, op, op)
	}
	return b.String()
}

// GoString is String: rapid prints what it draws with %#v.
func (h History) GoString() string { return h.String() }

// Run makes the topics and runs the steps on an open store. check, if not nil, is
// called after each step.
func (h History) Run(ctx context.Context, s *Store, check func() error) error {
	for i, c := range h.Topics {
		if err := s.CreateTopic(fmt.Sprintf("t%d", i), c); err != nil {
			return fmt.Errorf("create topic %d: %w", i, err)
		}
	}
	for i, op := range h.Ops {
		err := op.Run(ctx, s)
		if err == nil && check != nil {
			err = check()
		}
		if err != nil {
			return fmt.Errorf("step %d, %T: %w", i, op, err)
		}
	}
	return nil
}

// CloseAfter closes the store and joins its error to err.
func (s *Store) CloseAfter(err error) error {
	if s.DB == nil {
		return err
	}
	return errors.Join(err, s.DB.Close())
}
