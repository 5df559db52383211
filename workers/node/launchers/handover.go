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

// maxRefusal limits the reason of a launcher that hands over no stream, in bytes.
const maxRefusal = 4 << 10

// Side is the side of a migration on which a launcher is.
type Side string

// The sides.
const (
	SideSource Side = "source"
	SideTarget Side = "target"
)

// StreamRequest names the stream of a migration that a launcher is to hand over. It is JSON on the socket.
type StreamRequest struct {
	Migration string `json:"migration"` // UID
	Channel   string `json:"channel"`
	Side      Side   `json:"side"`
}

// Stream requests a stream of a guest that moves from the launcher of a pod: one connected Unix socket, whose other end
// libvirt or QEMU has. At the source that is the next connection that they open, for which it waits until ctx ends. It
// fails with a RefusedError if the launcher gives a reason why there is none.
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

// receiveStream reads the answer: one byte with one file descriptor, or a line with the reason why there is none.
func receiveStream(conn *net.UnixConn) (*net.UnixConn, error) {
	p := make([]byte, maxRefusal)
	// For two descriptors: the kernel closes what does not fit, and one too many is noticed.
	rights := make([]byte, unix.CmsgSpace(2*4))
	n, r, flags, _, err := conn.ReadMsgUnix(p, rights)
	if err != nil {
		return nil, err
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
		return nil, errors.New("the launcher sent more than one file descriptor")
	case len(files) == 0:
		return nil, refusal(conn, p[:n])
	case n != 1:
		return nil, fmt.Errorf("the launcher sent %d bytes with the file descriptor instead of one", n)
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

// descriptors returns the file descriptors of a control message. The caller closes them, also after an error.
func descriptors(rights []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, fmt.Errorf("reading the control message: %w", err)
	}
	var files []*os.File
	for _, m := range messages {
		fds, failed := unix.ParseUnixRights(&m)
		if failed != nil {
			err = errors.New("the launcher sent a control message without file descriptors")
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "stream"))
		}
	}
	return files, err
}

// refusal returns the error of a launcher that hands over nothing.
func refusal(conn *net.UnixConn, said []byte) error {
	for !bytes.ContainsRune(said, '\n') {
		if len(said) == cap(said) {
			return fmt.Errorf("the launcher sent no stream, and a reason longer than %d bytes", maxRefusal)
		}
		n, err := conn.Read(said[len(said):cap(said)])
		if err != nil {
			return errors.New("the launcher sent no stream")
		}
		said = said[:len(said)+n]
	}
	var answer struct {
		Error string `json:"error"`
	}
	line, _, _ := bytes.Cut(said, []byte("\n"))
	if err := json.Unmarshal(line, &answer); err != nil || answer.Error == "" {
		return errors.New("the launcher sent no stream, and no reason")
	}
	return &RefusedError{Message: sanitize(answer.Error, maxText)}
}

// connectedStream refuses a file descriptor that is anything but a connected Unix stream socket.
func connectedStream(fd int) error {
	for option, want := range map[int]int{
		unix.SO_DOMAIN: unix.AF_UNIX, unix.SO_TYPE: unix.SOCK_STREAM, unix.SO_ACCEPTCONN: 0,
	} {
		if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option); err != nil || got != want {
			return errors.New("the launcher sent a file descriptor that is not a Unix stream socket")
		}
	}
	if _, err := unix.Getpeername(fd); err != nil {
		return errors.New("the launcher sent a socket that is not connected")
	}
	return nil
}
