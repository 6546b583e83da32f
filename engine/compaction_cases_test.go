package engine_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/engine"
	"github.com/cairnlog/cairn/retention"
)

// compactLog runs a scenario on a compacted log with a row of the time index at
// every entry and with the usual interval, and checks afterwards what is stored and
// that a reopened store answers the same.
func compactLog(t *testing.T, config engine.TopicConfig, scenario func(t *testing.T, s *store, p *engine.Partition)) {
	t.Helper()
	eachInterval(t, config, func(t *testing.T, config engine.TopicConfig) {
		s := newStore(t)
		p := s.log(config)
		scenario(t, s, p)
		p = s.log(config)
		was := everything(s)
		point, due := p.CleanPoint()
		s.exactAfterwards(p)
		require.Equal(t, was, everything(s), "after a reopening")
		gotPoint, gotDue := s.log(config).CleanPoint()
		require.Equal(t, point, gotPoint)
		require.Equal(t, due, gotDue)
		requireSearchesAgree(t, s.log(config), 0, 80)
	})
}

func TestC01CompactionKeepsTheNewestOfEachKey(t *testing.T) {
	compactLog(t, compacting(3), func(t *testing.T, s *store, p *engine.Partition) {
		fill(t, p, "a@10 b@20 a@30 b@40 c@50 d@60 a@70")
		before := fetchAll(t, p, 2)
		r := compacted(t, p)
		require.Equal(t, "2:a@30 3:b@40 4:c@50 5:d@60 6:a@70", survivors(t, p))
		require.Equal(t, before, fetchAll(t, p, 0), "survivors keep their bytes")
		requireBounds(t, p, 0, 7)
		require.EqualValues(t, 2, r.Superseded)
		require.Equal(t, 1, r.Passes)
		require.EqualValues(t, 6, r.CleanPoint)
		require.Equal(t, engine.LogSize{Segments: 3, Messages: 7, WireBytes: 700, StoredBytes: r.Before.StoredBytes}, r.Before)
		require.Equal(t, engine.LogSize{Segments: 3, Messages: 5, WireBytes: 500, StoredBytes: r.After.StoredBytes}, r.After)
		require.Less(t, r.After.StoredBytes, r.Before.StoredBytes)
		stats := s.Stats()
		require.Equal(t, [3]uint64{1, 2, 200}, [3]uint64{stats.Compactions, stats.CompactedMessages, stats.CompactedBytes})
		require.Positive(t, stats.CompactionBytes)
	})
}

func TestC02ActiveSegmentIsNotCompacted(t *testing.T) {
	compactLog(t, compacting(10), func(t *testing.T, _ *store, p *engine.Partition) {
		fill(t, p, "a@1 a@2 a@3")
		require.Zero(t, compacted(t, p).Passes)
		require.Equal(t, "0:a@1 1:a@2 2:a@3", survivors(t, p))
		fill(t, p, "| a@4")
		compacted(t, p)
		require.Equal(t, "2:a@3 3:a@4", survivors(t, p))
	})
}

// C04, SPEC 9.7: the horizon counts from the first pass that keeps the tombstone,
// and a reopening changes nothing.
func TestC04TombstoneHorizon(t *testing.T) {
	config := compacting(1)
	config.DeleteRetention = ms(1000)
	for now, want := range map[codec.Timestamp]string{1018: "1:a@5- 2:b@5 3:c@5 4:d@5 5:e@5", 1019: "2:b@5 3:c@5 4:d@5 5:e@5"} {
		livesFrom(t, 0, config, func(t *testing.T, l *life) {
			step := func(now codec.Timestamp, text string) {
				l.at(now)
				fill(t, l.p, text+" |")
			}
			step(0, "a@5")
			step(10, "a@5-")
			step(20, "b@5")
			compacted(t, l.p)
			require.Equal(t, "1:a@5- 2:b@5", survivors(t, l.p))
			_, due := l.p.CleanPoint()
			require.EqualValues(t, 1020, due)
			for i, text := range []string{"c@5", "d@5", "e@5"} {
				step([]codec.Timestamp{30, now, now + 1}[i], text)
				compacted(t, l.p)
			}
			require.Equal(t, want, survivors(t, l.p))
		})
	}
}

// C05: dropped by the first pass past the horizon, however segments were joined.
func TestC05TombstoneGoesInTheEnd(t *testing.T) {
	const day = codec.Timestamp(86_400_000)
	compactLog(t, compacting(100), func(t *testing.T, s *store, p *engine.Partition) {
		fill(t, p, "a@1 |")
		compacted(t, p)
		fill(t, p, "a@2- |")
		compacted(t, p)
		for i := range 10 {
			require.Equal(t, i == 0, bytes.Contains([]byte(survivors(t, p)), []byte("1:a@2-")), "round %d", i)
			s.clock.add(day + 1)
			fill(t, p, fmt.Sprintf("x%d@%d |", i, i))
			compacted(t, p)
			require.Len(t, bases(t, p), 2)
		}
	})
}

func TestC06CompactionLag(t *testing.T) {
	config := compacting(1)
	config.MinCompactionLag = ms(1000)
	compactLog(t, config, func(t *testing.T, s *store, p *engine.Partition) {
		fill(t, p, "a@5000 a@6000 a@5500 z@100")
		s.clock.set(6500)
		compacted(t, p)
		require.Equal(t, "0:a@5000 1:a@6000 2:a@5500 3:z@100", survivors(t, p))
		s.clock.set(6999)
		require.Zero(t, compacted(t, p).Passes)
		s.clock.set(7000)
		compacted(t, p)
		require.Equal(t, "2:a@5500 3:z@100", survivors(t, p))
	})
}

// C10, C11: null keys from before the topic was compacted go, wrappers are cut and
// keep codec, type and magic.
func TestC10WrappersAreFiltered(t *testing.T) {
	for name, kind := range map[string]codec.TimestampType{"C10": codec.CreateTime, "C11": codec.LogAppendTime} {
		t.Run(name, func(t *testing.T) {
			deleting := engine.TopicConfig{TimestampType: kind, SegmentBytes: 10_000}
			compactLog(t, deleting, func(t *testing.T, s *store, p *engine.Partition) {
				s.clock.set(40)
				for _, text := range []string{"@10", "1@11 @12", "@13 4@20 5@15", "6@16"} {
					pack(t, p, codec.Gzip, text)
				}
				fill(t, p, "|")
				_, err := p.Compact(t.Context(), engine.CompactOptions{})
				requireCode(t, codec.CodePolicyViolation, err)
				config := compacting(100)
				config.TimestampType = kind
				s.alter(config)
				require.EqualValues(t, 3, compacted(t, p).Invalid)
				want, offsets, timestamps := "1:1@11 4:4@20 5:5@15 6:6@16", []int64{1, 5, 6}, []codec.Timestamp{11, 20, 16}
				if kind == codec.LogAppendTime {
					want, timestamps = "1:1@40 4:4@40 5:5@40 6:6@40", []codec.Timestamp{40, 40, 40}
				}
				require.Equal(t, want, survivors(t, p))
				for i, set := 0, fetchAll(t, p, 0); len(set) > 0; i++ {
					f, n, err := codec.ReadFrame(set)
					require.NoError(t, err)
					require.Equal(t, codec.Gzip, f.Compression)
					require.EqualValues(t, 1, f.Magic)
					require.Equal(t, offsets[i], f.Offset)
					require.Equal(t, timestamps[i], f.Timestamp)
					require.Equal(t, kind, f.TimestampType)
					set = set[n:]
				}
				if kind == codec.CreateTime {
					requireSearch(t, p, answer{12, 20, 4}, answer{17, 20, 4}, answer{21, none, notFound})
				}
			})
		})
	}
}

// S76, SPEC 12.4 row 9.9: relative offsets keep their gaps on the wire, the
// wrapper has the last offset and the largest timestamp that are left.
func TestS76RelativeOffsetsKeepTheirGaps(t *testing.T) {
	for name, c := range map[string]struct {
		wrapper, later string
		offset         int64
		relative       []int64
		timestamp      codec.Timestamp
	}{
		"9.9": {"x@50 b@10 y@60 d@30 z@70", "x@1 y@1 z@1 |", 103, []int64{0, 2}, 30},
		"S76": {"a@1 b@2 c@3", "b@4 |", 102, []int64{0, 2}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			p := s.log(compacting(100))
			p.StartAt(t, 100)
			pack(t, p, codec.Snappy, c.wrapper)
			fill(t, p, c.later)
			compacted(t, p)
			f, _, err := codec.ReadFrame(fetchAll(t, p, 100))
			require.NoError(t, err)
			require.Equal(t, c.offset, f.Offset)
			require.Equal(t, c.timestamp, f.Timestamp)
			inner, err := codec.Snappy.Decompress(nil, f.Value, 1, codec.MaxInflated)
			require.NoError(t, err)
			var relative []int64
			for len(inner) > 0 {
				f, n, err := codec.ReadFrame(inner)
				require.NoError(t, err)
				relative, inner = append(relative, f.Offset), inner[n:]
			}
			require.Equal(t, c.relative, relative)
			s.exactAfterwards(p)
		})
	}
}

// C12: reads cross the gaps that compaction left.
func TestC12ReadsCrossGaps(t *testing.T) {
	compactLog(t, compacting(3), func(t *testing.T, _ *store, p *engine.Partition) {
		fill(t, p, "a@10 b@20 c@30 b@40 c@50 d@60 e@70")
		compacted(t, p)
		require.Equal(t, "0:a@10 3:b@40 4:c@50 5:d@60 6:e@70", survivors(t, p))
		for _, from := range []int64{1, 2} {
			require.EqualValues(t, 3, readAll(t, p, from)[0].Offset)
			res, err := p.Fetch(t.Context(), from, engine.FetchOptions{MaxBytes: 1})
			require.NoError(t, err)
			f, _, err := codec.ReadFrame(res.Set)
			require.NoError(t, err)
			require.EqualValues(t, 3, f.Offset)
			require.EqualValues(t, 4, res.Next)
		}
		require.Empty(t, readAll(t, p, 7))
		require.Empty(t, fetchAll(t, p, 7))
	})
}

// C14 both ways: what a delete topic took without keys goes when the topic is
// compacted, a topic that is not compacted any more keeps what it has.
func TestC14PolicyChanges(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{})
	fill(t, p, "@1 a@2 @3 b@4 @5 c@6 |")
	s.alter(compacting(100))
	require.EqualValues(t, 3, compacted(t, p).Invalid)
	require.Equal(t, "1:a@2 3:b@4 5:c@6", survivors(t, p))
	s.alter(engine.TopicConfig{})
	fill(t, p, "@7 a@8 | ")
	_, err := p.Compact(t.Context(), engine.CompactOptions{})
	requireCode(t, codec.CodePolicyViolation, err)
	require.Equal(t, "1:a@2 3:b@4 5:c@6 6:@7 7:a@8", survivors(t, p))
	s.alter(compacting(100))
	compacted(t, p)
	require.Equal(t, "3:b@4 5:c@6 7:a@8", survivors(t, p))
	s.exactAfterwards(p)
}

func TestC15KeysAreComparedWhole(t *testing.T) {
	s := newStore(t)
	p := s.log(engine.TopicConfig{CleanupPolicy: engine.CleanupCompact, MinCleanableRatio: 1})
	list := [][]byte{{}, []byte("a"), []byte("a\x00"), []byte("a\x00\x00"), {0xff}, {0xff, 0xff}, bytes.Repeat([]byte{'k'}, 64<<10)}
	list = append(list, list[6][1:])
	for _, k := range list {
		_, err := p.Append(t.Context(), codec.Message{Key: k, Value: []byte("v")})
		require.NoError(t, err)
	}
	fill(t, p, "|")
	r := compacted(t, p)
	require.Zero(t, r.Dropped())
	require.EqualValues(t, len(list), r.Keys)
	fill(t, p, "a@0 |")
	r = compacted(t, p)
	require.EqualValues(t, 1, r.Dropped())
	require.Equal(t, []int64{0, 2, 3, 4, 5, 6, 7, 8}, offsetsOf(readAll(t, p, 0)))
}

// C16: a map for one key: passes follow one another until all is clean, whatever
// the ratio, and end where one pass ends.
func TestC16SmallMapTakesSeveralPasses(t *testing.T) {
	compactLog(t, compacting(100), func(t *testing.T, _ *store, p *engine.Partition) {
		fill(t, p, "a@0 b@1 a@2 b@3 a@4 |")
		r, err := p.Compact(t.Context(), engine.CompactOptions{MapBytes: 1})
		require.NoError(t, err)
		require.Equal(t, 5, r.Passes)
		require.Equal(t, "3:b@3 4:a@4", survivors(t, p))
		require.EqualValues(t, 5, r.CleanPoint)
		require.EqualValues(t, 3, r.Superseded)
	})
}

// C17: a record larger than the limit now is kept, and a rewritten wrapper may be
// larger than before.
func TestC17LargeRecords(t *testing.T) {
	s := newStore(t)
	config := engine.TopicConfig{SegmentBytes: 8 << 20, MaxMessageBytes: 4 << 20, CleanupPolicy: engine.CleanupCompact, MinCleanableRatio: 1}
	p := s.log(config)
	for i, size := range []int{1, 1 << 20, 3 << 20, 1} {
		_, err := p.Append(t.Context(), codec.Message{Key: []byte{byte(i % 3)}, Value: bytes.Repeat([]byte{byte(i)}, size)})
		require.NoError(t, err)
	}
	fill(t, p, "|")
	config.MaxMessageBytes = 1 << 20
	s.alter(config)
	compacted(t, p)
	msgs := readAll(t, p, 0)
	require.Equal(t, []int64{1, 2, 3}, offsetsOf(msgs))
	require.Equal(t, bytes.Repeat([]byte{2}, 3<<20), msgs[1].Value)
	s.exactAfterwards(p)
}

// C18: nothing new, nothing done: not a batch is written.
func TestC18SecondPassDoesNothing(t *testing.T) {
	compactLog(t, compacting(3), func(t *testing.T, s *store, p *engine.Partition) {
		fill(t, p, "a@10 b@20 a@30 b@40 c@50 d@60 c@65 d@66 a@67 a@70")
		compacted(t, p)
		was := everything(s)
		r := compacted(t, p)
		require.Zero(t, r.Passes)
		require.Zero(t, r.Stats)
		require.Equal(t, r.Before, r.After)
		require.Equal(t, was, everything(s))
		s.reopen()
		require.Zero(t, compacted(t, s.log(compacting(3))).Passes)
	})
}

// C18: emptied segments become part of their neighbours.
func TestC18EmptiedSegmentsDoNotPileUp(t *testing.T) {
	compactLog(t, compacting(3), func(t *testing.T, _ *store, p *engine.Partition) {
		for i := range 20 {
			fill(t, p, fmt.Sprintf("a@%d b@%d c@%d |", i, i, i))
			if i%5 == 4 {
				compacted(t, p)
				require.LessOrEqual(t, len(bases(t, p)), 3)
			}
		}
		require.Equal(t, "57:a@19 58:b@19 59:c@19", survivors(t, p))
	})
}

// SPEC 9.1: the end and the start stay when everything goes, now and after a
// reopening, and appends go on there.
func TestEverythingCompactedAway(t *testing.T) {
	config := compacting(2)
	config.DeleteRetention = ms(1)
	livesFrom(t, t0, config, func(t *testing.T, l *life) {
		fill(t, l.p, "a@1 b@2 a@3- b@4- |")
		compacted(t, l.p)
		require.Equal(t, "2:a@3- 3:b@4-", survivors(t, l.p))
		l.at(t0 + 1)
		compacted(t, l.p)
		l.rest()
		require.Empty(t, survivors(t, l.p))
		requireBounds(t, l.p, 0, 4)
		require.Len(t, bases(t, l.p), 2)
		requireSearch(t, l.p, answer{0, none, notFound})
		requireSentinels(t, l.p, 0, 4)
		require.Zero(t, compacted(t, l.p).Passes)
		require.EqualValues(t, 4, lead(t, l.p, 9))
		l.rest()
		require.Equal(t, "4:kk@9", survivors(t, l.p))
		requireSearch(t, l.p, answer{0, 9, 4})
	})
}

// T09: the earliest offset is the log start, whatever is left there.
func TestT09SentinelsOfACompactedLog(t *testing.T) {
	compactLog(t, compacting(3), func(t *testing.T, _ *store, p *engine.Partition) {
		fill(t, p, "a@1 b@2 c@3 a@4 b@5 c@6 | ")
		compacted(t, p)
		requireSentinels(t, p, 0, 6)
		require.EqualValues(t, 3, readAll(t, p, 0)[0].Offset)
	})
}

// T14: an index row goes with its message and the largest timestamp shrinks.
func TestT14SearchAfterCompaction(t *testing.T) {
	compactLog(t, compacting(4), func(t *testing.T, _ *store, p *engine.Partition) {
		fill(t, p, "k1@100 k2@500 k1@200 k2@300 k3@350")
		requireSearch(t, p, answer{400, 500, 1})
		compacted(t, p)
		require.Equal(t, "2:k1@200 3:k2@300 4:k3@350", survivors(t, p))
		requireSearch(t, p, answer{0, 200, 2}, answer{150, 200, 2}, answer{250, 300, 3}, answer{301, 350, 4},
			answer{351, none, notFound}, answer{400, none, notFound})
		require.Equal(t, []codec.Timestamp{300, 350}, largest(t, p))
		for _, pair := range indexPairs(t, p) {
			require.LessOrEqual(t, pair.ts, codec.Timestamp(350))
		}
	})
}

// Segments without timestamps stay so; their clocks survive (SPEC 9.11), and
// retention goes by them.
func TestCompactionKeepsClocks(t *testing.T) {
	config := compacting(100)
	config.CleanupPolicy, config.Retention = engine.CleanupCompactDelete, maxAge(1000)
	livesFrom(t, 100, config, func(t *testing.T, l *life) {
		for i, text := range []string{"a@-1 b@-1 |", "a@-1 |", "b@-1 |", "c@-1"} {
			l.at(codec.Timestamp(100 * (i + 1)))
			fill(t, l.p, text)
		}
		compacted(t, l.p)
		l.rest()
		segments, err := l.p.Segments()
		require.NoError(t, err)
		require.EqualValues(t, 100, segments[0].FirstAppend)
		require.EqualValues(t, 300, segments[0].LastAppend)
		require.Equal(t, none, segments[0].MaxTimestamp)
		require.EqualValues(t, 4, segments[0].End)
		l.at(1300)
		require.Zero(t, retained(t, l.p).Segments)
		l.at(1301)
		require.Equal(t, 1, retained(t, l.p).Segments)
		requireBounds(t, l.p, 4, 5)
	})
}

// X11: retention removes nothing of a compacted log; compact,delete does both.
func TestX11CompactionAndRetention(t *testing.T) {
	for _, policy := range []engine.CleanupPolicy{engine.CleanupCompact, engine.CleanupCompactDelete} {
		config := compacting(2)
		config.CleanupPolicy, config.Retention = policy, limits(1000, -1)
		t.Run(policy.String(), func(t *testing.T) {
			compactLog(t, config, func(t *testing.T, s *store, p *engine.Partition) {
				s.clock.set(2000)
				fill(t, p, "a@1 b@2 a@1500 c@1600 b@1700 d@1800 |")
				compacted(t, p)
				require.Equal(t, "2:a@1500 3:c@1600 4:b@1700 5:d@1800", survivors(t, p))
				s.clock.set(2601)
				r := retained(t, p)
				if policy == engine.CleanupCompact {
					require.Zero(t, r.Segments)
					requireBounds(t, p, 0, 6)
					return
				}
				require.Equal(t, "4:b@1700 5:d@1800", survivors(t, p))
				requireBounds(t, p, bases(t, p)[0], 6)
				compacted(t, p)
				fill(t, p, "d@2601 |")
				compacted(t, p)
				require.Equal(t, "4:b@1700 6:d@2601", survivors(t, p))
			})
		})
	}
}

// U06: truncation lowers the clean point, and the lower one survives a reopening.
func TestU06TruncationLowersTheCleanPoint(t *testing.T) {
	livesFrom(t, t0, compacting(1), func(t *testing.T, l *life) {
		fill(t, l.p, "a@1 b@1 a@1 b@1 a@1 b@1 x@1")
		compacted(t, l.p)
		require.Equal(t, "4:a@1 5:b@1 6:x@1", survivors(t, l.p))
		point, _ := l.p.CleanPoint()
		require.EqualValues(t, 6, point)
		require.NoError(t, l.p.TruncateTo(t.Context(), 2))
		l.rest()
		requireBounds(t, l.p, 0, 2)
		require.Empty(t, survivors(t, l.p))
		point, _ = l.p.CleanPoint()
		require.EqualValues(t, 2, point)
		fill(t, l.p, "a@1 b@1 a@1 y@1 |")
		l.rest()
		compacted(t, l.p)
		require.Equal(t, "3:b@1 4:a@1 5:y@1", survivors(t, l.p))
		l.exactAfterwards(l.p)
	})
}

// A reset or a drop leaves no clean point behind.
func TestResetAndDropForgetTheCleanPoint(t *testing.T) {
	for name, cut := range map[string]func(t *testing.T, p *engine.Partition) int64{
		"reset": func(t *testing.T, p *engine.Partition) int64 {
			require.NoError(t, p.ResetTo(t.Context(), 3))
			return 3
		},
		"drop": func(t *testing.T, p *engine.Partition) int64 {
			require.NoError(t, p.Drop(t.Context()))
			return 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			livesFrom(t, t0, compacting(1), func(t *testing.T, l *life) {
				fill(t, l.p, "a@1 a@2- b@2 |")
				compacted(t, l.p)
				base := cut(t, l.p)
				l.rest()
				point, due := l.p.CleanPoint()
				require.Zero(t, point)
				require.Equal(t, retention.Never, due)
				fill(t, l.p, "a@3 a@4 |")
				compacted(t, l.p)
				require.Equal(t, fmt.Sprintf("%d:a@4", base+1), survivors(t, l.p))
				requireBounds(t, l.p, base, base+2)
			})
		})
	}
}

// The handle of a partition stays small: 160 bytes, of which one pointer for
// compaction.
func TestPartitionHandleIsSmall(t *testing.T) {
	require.LessOrEqual(t, int(engine.HandleBytes), 160)
}
