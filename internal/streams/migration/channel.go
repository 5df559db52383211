package migration

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/virtflow/virtflow/workflows/contract"
)

const (
	// Port on which a node worker takes streams while a target is prepared on its node.
	Port = 8188
	// MaxStreams is how many connections of the launchers one migration may have at a time. libvirt opens one for
	// itself, one for each disk, and up to 9 for memory.
	MaxStreams = 32

	protocol = "virtflow-migration/1" // in ALPN
	domain   = ".virtflow"            // of the names that are asked for; they are in no DNS
)

// Channel is what a connection is for.
type Channel string

// The channels. All but Control are connections of the two launchers with each other.
const (
	Control Channel = "control"
	Libvirt Channel = "libvirt"
	Memory  Channel = "memory"
	Disks   Channel = "disks"
)

// Streams are the channels between the launchers.
func Streams() []Channel { return []Channel{Libvirt, Memory, Disks} }

const (
	maxHeader = 16
	maxAnswer = 512
	granted   = "ok"
)

// RefusedError is the other node worker's answer to a stream that it does not take.
type RefusedError struct{ Message string }

func (e *RefusedError) Error() string { return "refused by the other node worker: " + e.Message }

var errLongLine = errors.New("the line is too long") //nolint:gochecknoglobals // a constant error

// ask says which channel is wanted, and reads the answer.
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

// asked reads which channel is wanted.
func asked(conn io.Reader) (Channel, error) {
	line, err := readLine(conn, maxHeader)
	if err != nil {
		return "", err
	}
	if c := Channel(line); c == Control || slices.Contains(Streams(), c) {
		return c, nil
	}
	return "", fmt.Errorf("there is no channel %q", clean(line))
}

// Grant answers that the channel's bytes follow.
func Grant(conn io.Writer) error { return writeLine(conn, granted) }

// Refuse answers why they do not.
func Refuse(conn io.Writer, why string) error { return writeLine(conn, "error: "+clean(why)) }

// readLine reads up to the end of a line and not one byte more: what follows is somebody else's. Without a line's end
// that is io.ErrUnexpectedEOF, and io.EOF before the first byte.
func readLine(r io.Reader, limit int) (string, error) {
	var line []byte
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(r, one); err != nil {
			if errors.Is(err, io.EOF) && len(line) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return "", err //nolint:wrapcheck // what the connection says
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
	return err //nolint:wrapcheck // what the connection says
}

// clean makes of what another node says something to be logged and shown.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return contract.Cut(s, maxAnswer/2)
}
