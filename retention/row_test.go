package retention_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cairnlog/cairn/codec"
	"github.com/cairnlog/cairn/retention"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// goldenSegments are rows as version 1 writes them.
func goldenSegments() map[string]retention.Segment {
	full := retention.Segment{
		Base: 1 << 33, End: 1<<33 + 70_000,
		FirstTimestamp: t0, MaxTimestamp: math.MaxInt64, MaxOffset: 1<<33 + 300,
		FirstAppend: t0 + 1, LastAppend: t0 + 2,
		Bytes: 1 << 30, StoredBytes: 70_000, Messages: 300, Entries: 200,
		IndexedTimestamp: t0 + 3, IndexRows: 100, SinceIndex: 4096, ScanFrom: 1<<33 + 12,
		Sealed: true,
	}
	one := retention.NewSegment(0)
	one.Add(record(0, t0, t0+5), 4096)
	return map[string]retention.Segment{
		"segment-v1-empty": retention.NewSegment(128),
		"segment-v1-one":   one,
		"segment-v1-full":  full,
	}
}

func TestSegmentRowsMatchGoldenFiles(t *testing.T) {
	for name, s := range goldenSegments() {
		path := filepath.Join("testdata", "golden", name)
		if *update {
			require.NoError(t, os.WriteFile(path, retention.AppendSegment(nil, s), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, retention.AppendSegment(nil, s), name)
		got, err := retention.DecodeSegment(want)
		require.NoError(t, err, name)
		require.Equal(t, s, got, name)
	}
}

// libraryRow is a row as the msgpack library sees it.
type libraryRow struct {
	V  int64 `msgpack:"v"`
	B  int64 `msgpack:"b"`
	E  int64 `msgpack:"e"`
	FT int64 `msgpack:"ft"`
	MT int64 `msgpack:"mt"`
	MO int64 `msgpack:"mo"`
	FA int64 `msgpack:"fa"`
	LA int64 `msgpack:"la"`
	BY int64 `msgpack:"by"`
	SB int64 `msgpack:"sb"`
	M  int64 `msgpack:"m"`
	N  int64 `msgpack:"n"`
	IT int64 `msgpack:"it"`
	IR int64 `msgpack:"ir"`
	SI int64 `msgpack:"si"`
	SF int64 `msgpack:"sf"`
	S  bool  `msgpack:"s"`
}

// The hand-written encoder agrees with the library's compact form for integers
// of every width.
func TestRowIsOrdinaryMsgpack(t *testing.T) {
	for bits := range 64 {
		for _, n := range []int64{1<<bits - 1, 1 << bits, -1 << bits, -1<<bits - 1} {
			row := retention.AppendSegment(nil, retention.Segment{LastAppend: codec.Timestamp(n)})
			var decoded libraryRow
			require.NoError(t, msgpack.Unmarshal(row, &decoded))
			require.Equal(t, libraryRow{V: 1, LA: n}, decoded)

			sized := len(msgpackInt(t, n)) - 1
			require.Len(t, row, len(retention.AppendSegment(nil, retention.Segment{}))+sized, "shortest form of %d", n)
		}
	}
}

func msgpackInt(t *testing.T, n int64) []byte {
	t.Helper()
	var w writer
	enc := msgpack.NewEncoder(&w)
	require.NoError(t, enc.EncodeInt(n))
	return w
}

type writer []byte

func (w *writer) Write(b []byte) (int, error) {
	*w = append(*w, b...)
	return len(b), nil
}

func TestSegmentRowRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		s := retention.NewSegment(r.Int64N(1 << 40))
		for range r.IntN(6) {
			a, _ := randomEntry(r, s.End)
			s.Add(a, 50)
		}
		s.Sealed = r.IntN(2) == 0
		got, err := retention.DecodeSegment(retention.AppendSegment(nil, s))
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
}

func TestDecodeRefusesOtherBytes(t *testing.T) {
	row := retention.AppendSegment(nil, retention.NewSegment(3))
	for i := range row {
		_, err := retention.DecodeSegment(row[:i])
		require.ErrorIs(t, err, codec.ErrDamaged, "cut at %d", i)
	}
	_, err := retention.DecodeSegment(append(row, 0))
	require.ErrorIs(t, err, codec.ErrDamaged)
	_, err = retention.DecodeSegment(make([]byte, 1<<20))
	require.ErrorIs(t, err, codec.ErrDamaged)
}

// A newer row says so; it is not damaged.
func TestDecodeNamesNewerVersion(t *testing.T) {
	row, err := msgpack.Marshal(&struct {
		V     int64  `msgpack:"v"`
		Other string `msgpack:"other"`
	}{V: 2})
	require.NoError(t, err)
	_, err = retention.DecodeSegment(row)
	require.ErrorIs(t, err, retention.ErrNewerVersion)
	require.NotErrorIs(t, err, codec.ErrDamaged)
}

func TestDecodeRefusesContradictions(t *testing.T) {
	full := goldenSegments()["segment-v1-full"]
	for name, change := range map[string]func(*retention.Segment){
		"negative base":         func(s *retention.Segment) { s.Base = -1 },
		"end below base":        func(s *retention.Segment) { s.End = s.Base - 1 },
		"negative bytes":        func(s *retention.Segment) { s.Bytes = -1 },
		"negative stored bytes": func(s *retention.Segment) { s.StoredBytes = -1 },
		"negative entries":      func(s *retention.Segment) { s.Entries = -1 },
		"negative timestamp":    func(s *retention.Segment) { s.FirstTimestamp = -2 },
		"max without offset":    func(s *retention.Segment) { s.MaxOffset = -1 },
		"max beyond the end":    func(s *retention.Segment) { s.MaxOffset = s.End },
		"indexed beyond max":    func(s *retention.Segment) { s.MaxTimestamp = s.IndexedTimestamp - 1 },
		"scan before base":      func(s *retention.Segment) { s.ScanFrom = s.Base - 1 },
		"scan after end":        func(s *retention.Segment) { s.ScanFrom = s.End + 1 },
	} {
		s := full
		change(&s)
		_, err := retention.DecodeSegment(retention.AppendSegment(nil, s))
		require.ErrorIs(t, err, codec.ErrDamaged, name)
	}
}

func FuzzDecodeSegment(f *testing.F) {
	for _, s := range goldenSegments() {
		f.Add(retention.AppendSegment(nil, s))
	}
	f.Fuzz(func(t *testing.T, row []byte) {
		s, err := retention.DecodeSegment(row)
		if err != nil {
			return
		}
		again, err := retention.DecodeSegment(retention.AppendSegment(nil, s))
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}

func BenchmarkAppendSegment(b *testing.B) {
	s := goldenSegments()["segment-v1-full"]
	buf := retention.AppendSegment(nil, s)
	b.ReportAllocs()
	for b.Loop() {
		buf = retention.AppendSegment(buf[:0], s)
	}
}

func BenchmarkDecodeSegment(b *testing.B) {
	row := retention.AppendSegment(nil, goldenSegments()["segment-v1-full"])
	b.ReportAllocs()
	for b.Loop() {
		if _, err := retention.DecodeSegment(row); err != nil {
			b.Fatal(err)
		}
	}
}
