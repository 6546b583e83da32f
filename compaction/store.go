package compaction

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairnlog/cairn/keys"
)

// ErrOvertaken is what a store returns when the log was cut while a pass ran, or
// its log start moved past what the pass works on. It ends the pass.
var ErrOvertaken = errors.New("log changed during compaction")

// Store is the log a pass works on. A pass uses it from one goroutine, and calls
// Commit and Scan from within Scan's function.
type Store interface {
	// Scan calls each for the rows of r in order, as they were when it began or
	// later. The bytes are valid during the call. An error of each ends it and is
	// returned, wrapped or not.
	Scan(ctx context.Context, r keys.Range, each func(key, value []byte) error) error
	// Commit carries out one step, all of it or nothing. It returns ErrOvertaken
	// and does nothing if since the plan was made
	//   - the log was cut below the plan's EndCleanable, or
	//   - the log start moved and is above the step's Base.
	// The step and its bytes are valid during the call.
	Commit(ctx context.Context, step *Step) error
}

// EntryError says that a stored entry cannot be read. A pass ends there, since
// what it does not see it cannot call clean; what it committed before stands.
type EntryError struct {
	// Offset is the entry's last offset, -1 if its key is damaged too.
	Offset int64
	Err    error // a codec.ErrDamaged
}

// Error says where and why.
func (e *EntryError) Error() string { return fmt.Sprintf("compact entry %d: %v", e.Offset, e.Err) }

// Unwrap returns Err.
func (e *EntryError) Unwrap() error { return e.Err }
