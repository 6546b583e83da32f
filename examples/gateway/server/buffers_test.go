package server

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// Internal: buffers are not to be seen from outside.

func TestRequestsAreReadWhateverTheirLength(t *testing.T) {
	for _, n := range []int{1, 4096, 64 << 10, 64<<10 + 1, 256<<10 + 1, 5 << 20} {
		want := bytes.Repeat([]byte("0123456789"), n/10+1)[:n]
		got, err := readGrowing(iotest.HalfReader(bytes.NewReader(want)), n)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
		putBuffer(got)
		_, err = readGrowing(bytes.NewReader(want), n+1)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		_, err = readGrowing(iotest.ErrReader(errors.New("broken")), n)
		require.ErrorContains(t, err, "broken")
	}
}

func TestBuffersHaveRoom(t *testing.T) {
	for _, n := range []int{0, 1, 4096, 4097, 1 << 20, 4<<20 + 1, 16 << 20} {
		for range 3 {
			b := getBuffer(n)
			require.Empty(t, b)
			require.GreaterOrEqual(t, cap(b), n)
			putBuffer(b[:cap(b)])
		}
	}
}
