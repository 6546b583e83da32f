package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
)

// S50, SPEC 2.5: the counter of recompressions is public, and producing wrappers
// as clients send them leaves it at zero.
func TestStatsProveThatNothingWasRecompressed(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	for range 10 {
		produce(t, p, entries(t, 0, goldenW))
	}
	_, err := p.Append(t.Context(), codec.Message{Value: []byte("v")})
	require.NoError(t, err)
	stats := s.Stats()
	require.Zero(t, stats.Recompressions)
	require.EqualValues(t, 10, stats.Inflations)
	require.EqualValues(t, 31, stats.Messages)
	require.EqualValues(t, 11, stats.Sets)
	require.Zero(t, (*engine.DB)(nil).Stats())
}
