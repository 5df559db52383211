package attach

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// wakeTimeout bounds the whole exchange with QEMU's VNC server.
const wakeTimeout = 2 * time.Second

// The messages of RFB (RFC 6143) that are needed to move the pointer.
const (
	rfbVersion      = "RFB 003.008\n"
	rfbSecurityNone = 1
	rfbShared       = 1
	rfbPointerEvent = 5
	// rfbNameLimit is far above the length of QEMU's name for a screen.
	rfbNameLimit = 4 << 10
)

// MoveCursor moves the guest's mouse pointer into a corner of its screen, as KubeVirt does, which wakes a dark display.
// Other VNC sessions continue: it shares the screen with them.
func (d *Devices) MoveCursor(ctx context.Context) error {
	sockets := d.sockets[rpc.Device_DEVICE_VNC]
	if len(sockets) == 0 {
		return fmt.Errorf("%w: %s", ErrNoDevice, rpc.Device_DEVICE_VNC)
	}
	dialer := net.Dialer{Timeout: wakeTimeout}
	conn, err := dialer.DialContext(ctx, "unix", sockets[0])
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoDevice, err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(wakeTimeout)); err != nil {
		return fmt.Errorf("moving the guest's mouse pointer to wake its display: %w", err)
	}
	if err := movePointer(conn); err != nil {
		return fmt.Errorf("moving the guest's mouse pointer to wake its display: %w", err)
	}
	return nil
}

func movePointer(conn io.ReadWriter) error {
	version := make([]byte, len(rfbVersion))
	if err := exchange(conn, version, []byte(rfbVersion)); err != nil {
		return err
	}
	count := make([]byte, 1)
	if _, err := io.ReadFull(conn, count); err != nil {
		return err
	}
	if err := exchange(conn, make([]byte, count[0]), []byte{rfbSecurityNone}); err != nil {
		return err
	}
	result := make([]byte, 4)
	if err := exchange(conn, result, []byte{rfbShared}); err != nil {
		return err
	}
	if code := binary.BigEndian.Uint32(result); code != 0 {
		return fmt.Errorf("the VNC server refused the connection with code %d", code)
	}
	screen := make([]byte, 24) // size, pixel format, length of the name
	if _, err := io.ReadFull(conn, screen); err != nil {
		return err
	}
	name := int64(binary.BigEndian.Uint32(screen[20:]))
	if _, err := io.CopyN(io.Discard, conn, min(name, rfbNameLimit)); err != nil {
		return err
	}
	_, err := conn.Write([]byte{
		rfbPointerEvent, 0, 0, 0, 0, 0,
		rfbPointerEvent, 0, 0, 1, 0, 1,
	})
	return err
}

// exchange reads a whole message and answers it.
func exchange(conn io.ReadWriter, in, out []byte) error {
	if _, err := io.ReadFull(conn, in); err != nil {
		return err
	}
	_, err := conn.Write(out)
	return err
}
