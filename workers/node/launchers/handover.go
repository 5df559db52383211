package launchers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// maxRefusal is what a launcher may say instead of handing over a stream, in bytes.
const maxRefusal = 4 << 10

// Side of a migration that a launcher is on.
type Side string

// The sides.
const (
	SideSource Side = "source"
	SideTarget Side = "target"
)

// StreamRequest is which stream of which migration a launcher is to hand over. It is JSON on the socket.
type StreamRequest struct {
	Migration string `json:"migration"` // UID
	Channel   string `json:"channel"`
	Side      Side   `json:"side"`
}

// Stream asks the launcher of a pod for a stream of a guest that is moved: one connected Unix socket, whose other end
// libvirt or QEMU has. At the source that is the next connection that they open, which is waited for until ctx ends. It
// fails with a RefusedError when the launcher says why there is none.
func (d Dialer) Stream(ctx context.Context, uid string, r StreamRequest) (*net.UnixConn, error) {
	conn, peer, err := d.dial(ctx, uid, migrationSocket)
	if err != nil {
		return nil, err
	}
	peer.Close()
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	line, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("asking the launcher of pod %s for a stream: %w", uid, err)
	}
	if _, err = conn.Write(append(line, '\n')); err == nil {
		var stream *net.UnixConn
		if stream, err = receiveStream(conn); err == nil {
			return stream, nil
		}
	}
	var refused *RefusedError
	if errors.As(err, &refused) {
		return nil, refused
	}
	return nil, fmt.Errorf("receiving a stream from the launcher of pod %s: %w", uid,
		errors.Join(context.Cause(ctx), err))
}

// receiveStream reads the answer: one byte with one file descriptor, or a line that says why not.
func receiveStream(conn *net.UnixConn) (*net.UnixConn, error) {
	p := make([]byte, maxRefusal)
	// For two descriptors: the kernel closes what does not fit, and one too many is noticed.
	rights := make([]byte, unix.CmsgSpace(2*4)) //nolint:mnd // 4 bytes each
	n, r, flags, _, err := conn.ReadMsgUnix(p, rights)
	if err != nil {
		return nil, err //nolint:wrapcheck // above
	}
	files, err := descriptors(rights[:r])
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	switch {
	case err != nil:
		return nil, err
	case len(files) > 1 || flags&unix.MSG_CTRUNC != 0:
		return nil, errors.New("it has sent more than one file descriptor")
	case len(files) == 0:
		return nil, refusal(conn, p[:n])
	case n != 1:
		return nil, fmt.Errorf("it has sent %d bytes with the file descriptor instead of one", n)
	}
	if err := connectedStream(int(files[0].Fd())); err != nil {
		return nil, err
	}
	c, err := net.FileConn(files[0])
	if err != nil {
		return nil, fmt.Errorf("using the file descriptor: %w", err)
	}
	return c.(*net.UnixConn), nil
}

// descriptors are those that came along, to be closed by the caller whatever the error is.
func descriptors(rights []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, fmt.Errorf("reading what came along: %w", err)
	}
	var files []*os.File
	for _, m := range messages {
		fds, failed := unix.ParseUnixRights(&m)
		if failed != nil {
			err = errors.New("something else than file descriptors came along")
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "stream"))
		}
	}
	return files, err
}

// refusal is what a launcher says that hands over nothing.
func refusal(conn *net.UnixConn, said []byte) error {
	for !bytes.ContainsRune(said, '\n') {
		if len(said) == cap(said) {
			return errors.New("it has sent no stream, and a long text")
		}
		n, err := conn.Read(said[len(said):cap(said)])
		if err != nil {
			return errors.New("it has sent no stream")
		}
		said = said[:len(said)+n]
	}
	var answer struct {
		Error string `json:"error"`
	}
	line, _, _ := bytes.Cut(said, []byte("\n"))
	if err := json.Unmarshal(line, &answer); err != nil || answer.Error == "" {
		return errors.New("it has sent no stream, and does not say why")
	}
	return &RefusedError{Message: text(answer.Error, maxText)}
}

// connectedStream refuses a file descriptor that is anything but a connected Unix stream socket.
func connectedStream(fd int) error {
	for option, want := range map[int]int{
		unix.SO_DOMAIN: unix.AF_UNIX, unix.SO_TYPE: unix.SOCK_STREAM, unix.SO_ACCEPTCONN: 0,
	} {
		if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option); err != nil || got != want {
			return errors.New("what it has sent is not a Unix stream socket")
		}
	}
	if _, err := unix.Getpeername(fd); err != nil {
		return errors.New("the socket that it has sent is not connected")
	}
	return nil
}
