package migration

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/virtflow/virtflow/contract"
)

const (
	// Port is where a node worker accepts streams while a target is prepared on its node.
	Port = 8188
	// MaxStreams is the most connections of the launchers that one migration may have at a time. libvirt opens one for
	// itself, one for each disk, and up to 9 for memory.
	MaxStreams = 32

	protocol = "virtflow-migration/1" // in ALPN
	domain   = ".virtflow"            // the suffix of server names; they are in no DNS
)

// Channel is the purpose of a connection.
type Channel string

// The channels. All except Control connect the two launchers.
const (
	Control Channel = "control"
	Libvirt Channel = "libvirt"
	Memory  Channel = "memory"
	Disks   Channel = "disks"
)

// Streams returns the channels between the launchers.
func Streams() []Channel { return []Channel{Libvirt, Memory, Disks} }

const (
	maxHeader = 16
	maxAnswer = 512
	granted   = "ok"
)

// RefusedError is the other node worker's answer to a stream that it does not accept.
type RefusedError struct{ Message string }

func (e *RefusedError) Error() string { return "refused by the other node worker: " + e.Message }

var errLongLine = errors.New("the line is too long")

// ask requests a channel, and reads the answer.
func ask(conn io.ReadWriter, c Channel) error {
	if err := writeLine(conn, string(c)); err != nil {
		return err
	}
	answer, err := readLine(conn, maxAnswer)
	if err != nil {
		return err
	}
	if answer != granted {
		return &RefusedError{Message: clean(answer)}
	}
	return nil
}

// readRequest reads which channel is requested.
func readRequest(conn io.Reader) (Channel, error) {
	line, err := readLine(conn, maxHeader)
	if err != nil {
		return "", err
	}
	if c := Channel(line); c == Control || slices.Contains(Streams(), c) {
		return c, nil
	}
	return "", fmt.Errorf("unknown channel %q", clean(line))
}

// Grant answers that the channel's bytes follow.
func Grant(conn io.Writer) error { return writeLine(conn, granted) }

// Refuse answers with the reason why they do not.
func Refuse(conn io.Writer, why string) error { return writeLine(conn, "error: "+clean(why)) }

// readLine reads up to the end of a line and not one byte more: what follows belongs to the caller. Without a line's
// end it returns io.ErrUnexpectedEOF, and io.EOF before the first byte.
func readLine(r io.Reader, limit int) (string, error) {
	var line []byte
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(r, one); err != nil {
			if errors.Is(err, io.EOF) && len(line) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return "", err
		}
		if one[0] == '\n' {
			return string(line), nil
		}
		if len(line) == limit {
			return "", errLongLine
		}
		line = append(line, one[0])
	}
}

func writeLine(w io.Writer, line string) error {
	_, err := io.WriteString(w, line+"\n")
	return err
}

// clean makes text from another node safe to log and show.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return contract.Cut(s, maxAnswer/2)
}
