package keys_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnlog/cairn/keys"
)

// fuzzDecode checks that decoding any bytes either fails as malformed or gives
// fields whose key is exactly those bytes.
func fuzzDecode(f *testing.F, name string) {
	for _, s := range spaces {
		if s.name != name {
			continue
		}
		f.Add([]byte{})
		f.Add(s.append(nil, row{name: "a\x00b", partition: keys.Partition{Topic: 1, Number: -1}, offset: 2, time: -1, epoch: 3}))
		f.Fuzz(func(t *testing.T, key []byte) {
			r, err := s.decode(key)
			if err != nil {
				require.ErrorIs(t, err, keys.ErrMalformed)
				return
			}
			require.Equal(t, key, s.append(nil, r))
		})
	}
}

func FuzzDecodeMeta(f *testing.F)        { fuzzDecode(f, "meta") }
func FuzzDecodeCatalog(f *testing.F)     { fuzzDecode(f, "catalog") }
func FuzzDecodeLog(f *testing.F)         { fuzzDecode(f, "log") }
func FuzzDecodeTimestamp(f *testing.F)   { fuzzDecode(f, "timestamps") }
func FuzzDecodeSegment(f *testing.F)     { fuzzDecode(f, "segments") }
func FuzzDecodeState(f *testing.F)       { fuzzDecode(f, "state") }
func FuzzDecodeEpoch(f *testing.F)       { fuzzDecode(f, "epochs") }
func FuzzDecodeOffset(f *testing.F)      { fuzzDecode(f, "offsets") }
func FuzzDecodeDue(f *testing.F)         { fuzzDecode(f, "due") }
func FuzzDecodeProducer(f *testing.F)    { fuzzDecode(f, "producers") }
func FuzzDecodeTransaction(f *testing.F) { fuzzDecode(f, "transactions") }
