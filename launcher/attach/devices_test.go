package attach_test

import (
	"context"
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/attach"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// full is a socket with one connection in its queue, which it never accepts.
func full(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "serial")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	require.NoError(t, syscall.Listen(fd, 0))
	return path
}

func TestHangingDeviceDoesNotBlockOthers(t *testing.T) {
	vnc := filepath.Join(t.TempDir(), "vnc")
	l, err := net.Listen("unix", vnc)
	require.NoError(t, err)
	defer l.Close()
	d := attach.NewDevices(map[rpc.Device][]string{
		rpc.Device_DEVICE_SERIAL_CONSOLE: {full(t)}, rpc.Device_DEVICE_VNC: {vnc},
	})
	older, err := d.Open(t.Context(), rpc.Device_DEVICE_SERIAL_CONSOLE, false)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error, 1)
	go func() {
		_, err := d.Open(ctx, rpc.Device_DEVICE_SERIAL_CONSOLE, false)
		waiting <- err
	}()
	_, err = older.Read(make([]byte, 1))
	require.Error(t, err, "the newer one has begun")
	require.ErrorIs(t, older.Err(), attach.ErrTakenOver)
	screen, err := d.Open(t.Context(), rpc.Device_DEVICE_VNC, false)
	require.NoError(t, err)
	require.NoError(t, screen.Close())

	// A third waits for the second, and stops when its caller does.
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err = d.Open(gone, rpc.Device_DEVICE_SERIAL_CONSOLE, false)
	require.ErrorIs(t, err, attach.ErrNoDevice)
	require.Empty(t, waiting, "all that was while the console waited")
	cancel()
	require.ErrorIs(t, <-waiting, attach.ErrNoDevice)
}

func TestEachCallerGetsFreePort(t *testing.T) {
	dir := t.TempDir()
	var ports []string
	for _, name := range []string{"a", "b"} {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		require.NoError(t, err)
		defer l.Close()
		ports = append(ports, l.Addr().String())
	}
	d := attach.NewDevices(map[rpc.Device][]string{rpc.Device_DEVICE_USB_REDIRECTION: ports})
	first, err := d.Open(t.Context(), rpc.Device_DEVICE_USB_REDIRECTION, false)
	require.NoError(t, err)
	require.Equal(t, ports[0], first.RemoteAddr().String())
	second, err := d.Open(t.Context(), rpc.Device_DEVICE_USB_REDIRECTION, false)
	require.NoError(t, err)
	require.Equal(t, ports[1], second.RemoteAddr().String())
	_, err = d.Open(t.Context(), rpc.Device_DEVICE_USB_REDIRECTION, false)
	require.ErrorIs(t, err, attach.ErrBusy, "no session ends for a newer one")
	require.NoError(t, first.Err())
	require.NoError(t, first.Close())
	again, err := d.Open(t.Context(), rpc.Device_DEVICE_USB_REDIRECTION, false)
	require.NoError(t, err)
	require.Equal(t, ports[0], again.RemoteAddr().String())
	require.NoError(t, again.Close())
	require.NoError(t, second.Close())
}
