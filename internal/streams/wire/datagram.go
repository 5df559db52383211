package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// MaxDatagram is the largest payload of UDP over IPv4, in bytes.
const MaxDatagram = 65507

const header = 2

// ErrTooLong means that a datagram is longer than UDP can carry.
var ErrTooLong = errors.New("the datagram is longer than UDP can carry")

// WriteDatagram writes one datagram after its length, in one call of Write.
func WriteDatagram(w io.Writer, p []byte) error {
	if len(p) > MaxDatagram {
		return ErrTooLong
	}
	frame := make([]byte, header+len(p))
	binary.BigEndian.PutUint16(frame, uint16(len(p)))
	copy(frame[header:], p)
	if _, err := w.Write(frame); err != nil {
		return fmt.Errorf("writing a datagram: %w", err)
	}
	return nil
}

// ReadDatagram reads one datagram into buffer, which needs MaxDatagram bytes. It returns io.EOF only between two
// datagrams.
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
