package access

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/virtflow/virtflow/internal/streams/relay"
	"github.com/virtflow/virtflow/internal/streams/wire"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/launchers"
)

func (s *Server) console(w http.ResponseWriter, r *http.Request, l Launcher) error {
	return s.attach(w, r, l, rpc.Device_DEVICE_SERIAL_CONSOLE, false, preserved())
}

func (s *Server) vnc(w http.ResponseWriter, r *http.Request, l Launcher) error {
	return s.attach(w, r, l, rpc.Device_DEVICE_VNC, r.URL.Query().Get(wire.PreserveSession) == "true", preserved())
}

// preserved returns KubeVirt's answer if another user's session is to be preserved.
func preserved() *failure {
	return &failure{http.StatusConflict, "Active VNC connection. Request denied."}
}

// usbRedir answers as KubeVirt if each of the guest's ports is in use.
func (s *Server) usbRedir(w http.ResponseWriter, r *http.Request, l Launcher) error {
	return s.attach(w, r, l, rpc.Device_DEVICE_USB_REDIRECTION, false,
		&failure{http.StatusServiceUnavailable, "each of the guest's ports for USB devices is in use"})
}

// attach connects with a device of the guest; busy is the answer if the device is in use.
func (s *Server) attach(
	w http.ResponseWriter, r *http.Request, l Launcher, device rpc.Device, preserve bool, busy *failure,
) error {
	if err := wantsUpgrade(r); err != nil {
		return err
	}
	guest, err := l.Attach(s.ctx, device, preserve)
	switch {
	case errors.Is(err, launchers.ErrBusy):
		return busy
	case err != nil:
		return launcherFailure(err)
	}
	defer guest.Close()
	client, in, err := upgrade(w)
	if err != nil {
		return err
	}
	defer client.Close()
	return s.relay(client, guest, relay.Bytes(in, guest), relay.Bytes(guest, client))
}

func (s *Server) portForward(w http.ResponseWriter, r *http.Request, l Launcher) error {
	port, err := strconv.ParseUint(r.PathValue("port"), 10, 16)
	protocol := r.PathValue("protocol")
	if err != nil || port == 0 || (protocol != "tcp" && protocol != "udp") {
		return &failure{http.StatusBadRequest, "a port from 1 to 65535 and the protocol tcp or udp are needed"}
	}
	if err := wantsUpgrade(r); err != nil {
		return err
	}
	guest, err := l.DialGuest(r.Context(), protocol, uint16(port))
	if err != nil {
		return &failure{http.StatusBadGateway, err.Error()}
	}
	defer guest.Close()
	client, in, err := upgrade(w)
	if err != nil {
		return err
	}
	defer client.Close()
	if protocol == "tcp" {
		return s.relay(client, guest, relay.Bytes(in, guest), relay.Bytes(guest, client))
	}
	return s.relay(client, guest, datagramsIn(in, guest), datagramsOut(guest, client))
}

// relay returns when both sides are closed. How it ended was answered long ago; that a side went away is how all
// streams end.
func (s *Server) relay(client net.Conn, guest io.Closer, there, back relay.Mover) error {
	err := relay.Run(s.ctx, s.Bounds.Bounds, func(error) {
		_ = client.SetDeadline(time.Unix(1, 0)) // reads and writes fail from now on
		guest.Close()
	}, there, back)
	hangUp(client)
	if err == nil || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return &failure{codeAnswered, err.Error()}
}

// lingering is how long the API server may take to see the end of a stream.
const lingering = time.Second

// hangUp ends the client's connection so that the client reads all that was sent, and then the end. A connection that
// is closed while bytes of the client have not been read is reset instead, which may throw away the guest's last words.
func hangUp(client net.Conn) {
	_ = client.SetDeadline(time.Now().Add(lingering))
	if half, ok := client.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, client) // until the client closes as well, or its time is over
	}
	client.Close()
}

// datagramsIn moves datagrams from a stream to the guest.
func datagramsIn(from io.Reader, to io.Writer) relay.Mover {
	p := make([]byte, wire.MaxDatagram)
	return func(write func(func() error) error) error {
		n, err := wire.ReadDatagram(from, p)
		if err != nil {
			return err
		}
		return write(func() error {
			_, err := to.Write(p[:n])
			return unlessLost(err)
		})
	}
}

// datagramsOut moves datagrams from the guest to a stream.
func datagramsOut(from io.Reader, to io.Writer) relay.Mover {
	p := make([]byte, wire.MaxDatagram)
	return func(write func(func() error) error) error {
		n, err := from.Read(p)
		if err != nil {
			return unlessLost(err)
		}
		return write(func() error { return wire.WriteDatagram(to, p[:n]) })
	}
}

// unlessLost drops the error of one datagram: no process listened, or it was too long for the path.
func unlessLost(err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EMSGSIZE) {
		return nil
	}
	return err
}

func (s *Server) screenshot(w http.ResponseWriter, r *http.Request, l Launcher) error {
	out := &picture{ResponseWriter: w, limit: s.Bounds.StallTimeout}
	err := l.Screenshot(r.Context(), r.URL.Query().Get(wire.MoveCursor) == "true", out)
	switch {
	case err != nil && out.begun:
		// The answer has no length: cut off, it is not taken for a whole one.
		panic(http.ErrAbortHandler)
	case err != nil:
		return launcherFailure(err)
	}
	return nil
}

// picture begins the answer with the first piece, and bounds how long each may take.
type picture struct {
	http.ResponseWriter
	limit time.Duration
	begun bool
}

func (p *picture) Write(b []byte) (int, error) {
	if !p.begun {
		p.begun = true
		p.Header().Set("Content-Type", wire.PictureType)
	}
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(p.limit))
	return p.ResponseWriter.Write(b)
}

func (s *Server) details(w http.ResponseWriter, r *http.Request, l Launcher) error {
	d, err := l.GuestDetails(r.Context())
	if err != nil {
		return launcherFailure(err)
	}
	out, err := proto.Marshal(d)
	if err != nil {
		return fmt.Errorf("encoding what the guest's agent says: %w", err)
	}
	w.Header().Set("Content-Type", wire.DetailsType)
	_, _ = w.Write(out) // the client may be gone
	return nil
}

// launcherFailure returns the answer to the user for a launcher's error.
func launcherFailure(err error) error {
	if refused, ok := errors.AsType[*launchers.RefusedError](err); ok {
		return &failure{http.StatusConflict, refused.Message}
	}
	return &failure{http.StatusBadGateway, err.Error()}
}

func wantsUpgrade(r *http.Request) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), wire.Upgrade) ||
		!strings.EqualFold(r.Header.Get("Connection"), "upgrade") {
		return &failure{http.StatusUpgradeRequired, "this is a stream: ask to upgrade to " + wire.Upgrade}
	}
	return nil
}

// upgrade answers that the connection is a stream from now on. What the client has sent already is in the reader.
func upgrade(w http.ResponseWriter) (net.Conn, *bufio.Reader, error) {
	conn, both, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("taking the connection: %w", err)
	}
	if err = conn.SetDeadline(time.Time{}); err == nil {
		_, err = io.WriteString(conn,
			"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+wire.Upgrade+"\r\n\r\n")
	}
	if err != nil {
		conn.Close()
		return nil, nil, &failure{codeAnswered, err.Error()}
	}
	return conn, both.Reader, nil
}
