package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// MaxDatagram is the most that UDP carries over IPv4, in bytes.
const MaxDatagram = 65507

const header = 2

// ErrTooLong says that a datagram is longer than UDP carries.
var ErrTooLong = errors.New("the datagram is longer than UDP carries") //nolint:gochecknoglobals // a constant error

// WriteDatagram writes one datagram behind its length, in one call of Write.
func WriteDatagram(w io.Writer, p []byte) error {
	if len(p) > MaxDatagram {
		return ErrTooLong
	}
	frame := make([]byte, header+len(p))
	binary.BigEndian.PutUint16(frame, uint16(len(p))) //nolint:gosec // checked above
	copy(frame[header:], p)
	if _, err := w.Write(frame); err != nil {
		return fmt.Errorf("writing a datagram: %w", err)
	}
	return nil
}

// ReadDatagram reads one into buffer, which takes MaxDatagram bytes. io.EOF comes between two datagrams only.
func ReadDatagram(r io.Reader, buffer []byte) (int, error) {
	var length [header]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		return 0, fmt.Errorf("reading a datagram: %w", err)
	}
	n := int(binary.BigEndian.Uint16(length[:]))
	if n > min(MaxDatagram, len(buffer)) {
		return 0, ErrTooLong
	}
	if _, err := io.ReadFull(r, buffer[:n]); err != nil {
		return 0, fmt.Errorf("reading a datagram: %w", errors.Join(io.ErrUnexpectedEOF, err))
	}
	return n, nil
}
