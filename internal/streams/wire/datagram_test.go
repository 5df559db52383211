package wire

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzReadDatagram: for any input, what is read is what was written, and nothing is written beyond the buffer.
func FuzzReadDatagram(f *testing.F) {
	for _, seed := range [][]byte{{}, {0}, {0, 0}, {0, 1, 'a'}, {0, 2, 'a'}, {255, 255, 0},
		{0, 3, 'a', 'b', 'c', 0, 1, 'd'}} {
		f.Add(seed)
	}
	buffer := make([]byte, MaxDatagram)
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bytes.NewReader(stream)
		var again bytes.Buffer
		for {
			n, err := ReadDatagram(r, buffer)
			if err != nil {
				if err == io.EOF { //nolint:errorlint // it must be this one itself
					require.Equal(t, stream, append([]byte{}, again.Bytes()...))
				}
				return
			}
			require.NoError(t, WriteDatagram(&again, buffer[:n]))
			require.True(t, bytes.HasPrefix(stream, again.Bytes()))
		}
	})
}

func TestDatagramsThatAreTooLong(t *testing.T) {
	require.ErrorIs(t, WriteDatagram(io.Discard, make([]byte, MaxDatagram+1)), ErrTooLong)
	_, err := ReadDatagram(bytes.NewReader([]byte{255, 255, 0}), make([]byte, MaxDatagram))
	require.ErrorIs(t, err, ErrTooLong)
	_, err = ReadDatagram(bytes.NewReader([]byte{0, 5, 0}), make([]byte, 4))
	require.ErrorIs(t, err, ErrTooLong)
	_, err = ReadDatagram(bytes.NewReader([]byte{0, 2, 0}), make([]byte, 4))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
