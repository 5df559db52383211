package server_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/launcher/agent"
	"github.com/virtflow/virtflow/launcher/attach"
	"github.com/virtflow/virtflow/launcher/domainstate"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/launcher/server"
)

// answers are those of a guest's agent, by command.
type answers map[string]string

func (a answers) AgentCommand(command string, _ time.Duration) (string, error) {
	for name, answer := range a {
		if strings.Contains(command, `"`+name+`"`) {
			return answer, nil
		}
	}
	return "", errors.New("no such command")
}

type screen struct {
	picture []byte
	err     error
}

func (s screen) Screenshot(_ context.Context, to io.Writer) error {
	_, err := to.Write(s.picture)
	return errors.Join(err, s.err)
}

type rig struct {
	client rpc.LauncherClient
	guest  chan net.Conn // what QEMU has accepted at the serial port
}

func start(t *testing.T, g server.Guest) *rig {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	dir := t.TempDir()
	port, err := net.Listen("unix", filepath.Join(dir, "serial"))
	require.NoError(t, err)
	t.Cleanup(func() { port.Close() })
	r := &rig{guest: make(chan net.Conn, 8)}
	go func() {
		for {
			c, err := port.Accept()
			if err != nil {
				return
			}
			r.guest <- c
		}
	}()
	g.Devices = attach.NewDevices(map[rpc.Device][]string{
		rpc.Device_DEVICE_SERIAL_CONSOLE: {filepath.Join(dir, "serial")},
		rpc.Device_DEVICE_VNC:            {filepath.Join(dir, "absent")},
	})
	g.Details = agent.NewDetails(g.Agent)
	s := server.New("test", nil, domainstate.New(), g)
	require.NoError(t, s.Listen(filepath.Join(dir, "launcher")))
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "launcher"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	r.client = rpc.NewLauncherClient(conn)
	return r
}

func (r *rig) attach(
	t *testing.T, device rpc.Device, preserve bool,
) (grpc.BidiStreamingClient[rpc.AttachRequest, rpc.AttachResponse], error) {
	stream, err := r.client.Attach(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&rpc.AttachRequest{Device: device, PreserveSession: preserve}))
	_, err = stream.Recv()
	return stream, err
}

func TestBytesGoBothWaysUntilOneSideEnds(t *testing.T) {
	r := start(t, server.Guest{})
	stream, err := r.attach(t, rpc.Device_DEVICE_SERIAL_CONSOLE, false)
	require.NoError(t, err)
	guest := <-r.guest
	defer guest.Close()
	go func() { _, _ = io.Copy(guest, guest) }()
	sent := bytes.Repeat([]byte("0123456789abcdef"), 20<<10)
	go func() {
		for rest := sent; len(rest) > 0; {
			n := min(len(rest), 30000)
			if stream.Send(&rpc.AttachRequest{Data: rest[:n]}) != nil {
				return
			}
			rest = rest[n:]
		}
	}()
	var got []byte
	for len(got) < len(sent) {
		m, err := stream.Recv()
		require.NoError(t, err)
		require.LessOrEqual(t, len(m.GetData()), 32<<10)
		got = append(got, m.GetData()...)
	}
	require.True(t, bytes.Equal(sent, got))

	require.NoError(t, stream.CloseSend())
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF)
	_, err = guest.Read(make([]byte, 1))
	require.Error(t, err, "the device is released")
}

func TestNewerSessionTakesOver(t *testing.T) {
	r := start(t, server.Guest{})
	older, err := r.attach(t, rpc.Device_DEVICE_SERIAL_CONSOLE, false)
	require.NoError(t, err)
	first := <-r.guest
	defer first.Close()

	_, err = r.attach(t, rpc.Device_DEVICE_SERIAL_CONSOLE, true)
	require.Equal(t, codes.AlreadyExists, status.Code(err))
	require.ErrorContains(t, err, "Active VNC connection. Request denied.")

	newer, err := r.attach(t, rpc.Device_DEVICE_SERIAL_CONSOLE, false)
	require.NoError(t, err)
	_, err = older.Recv()
	require.Equal(t, codes.Aborted, status.Code(err))
	second := <-r.guest
	_, err = second.Write([]byte("hello"))
	require.NoError(t, err)
	m, err := newer.Recv()
	require.NoError(t, err)
	require.Equal(t, "hello", string(m.GetData()))
	second.Close()
	_, err = newer.Recv()
	require.ErrorIs(t, err, io.EOF, "the guest ended")
}

func TestMissingDevice(t *testing.T) {
	r := start(t, server.Guest{})
	for _, d := range []rpc.Device{rpc.Device_DEVICE_VNC, rpc.Device_DEVICE_UNSPECIFIED, 77} {
		_, err := r.attach(t, d, false)
		require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
	}
}

func TestScreenshotComesInPieces(t *testing.T) {
	picture := bytes.Repeat([]byte("pixel"), 50<<10)
	r := start(t, server.Guest{Screen: screen{picture: picture}})
	stream, err := r.client.Screenshot(t.Context(), &rpc.ScreenshotRequest{MoveCursor: true})
	require.NoError(t, err)
	var got []byte
	for {
		m, err := stream.Recv()
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
		require.LessOrEqual(t, len(m.GetData()), 32<<10)
		got = append(got, m.GetData()...)
	}
	require.True(t, bytes.Equal(picture, got))

	r = start(t, server.Guest{Screen: screen{err: errors.New("no screen")}})
	stream, err = r.client.Screenshot(t.Context(), &rpc.ScreenshotRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
}

func TestGuestDetails(t *testing.T) {
	r := start(t, server.Guest{Agent: answers{
		"guest-info":            `{"return":{"version":"7.2.0","supported_commands":[{"name":"guest-ping","enabled":true}]}}`,
		"guest-get-host-name":   `{"return":{"host-name":"web\u0007"}}`,
		"guest-get-timezone":    `{"return":{"zone":"UTC","offset":0}}`,
		"guest-get-users":       `{"return":[{"user":"root","login-time":12.5}]}`,
		"guest-get-fsinfo":      `{"return":[{"name":"vda1","mountpoint":"/","type":"ext4","used-bytes":1,"total-bytes":2,"disk":[{"serial":"s","bus-type":"virtio"}]}]}`,
		"guest-fsfreeze-status": `{"return":"thawed"}`,
	}})
	d, err := r.client.GuestDetails(t.Context(), &rpc.GuestDetailsRequest{})
	require.NoError(t, err)
	require.Equal(t, "7.2.0", d.GetAgentVersion())
	require.Equal(t, "guest-ping", d.GetCommands()[0].GetName())
	require.Equal(t, "web", d.GetHostname())
	require.Equal(t, "UTC, 0", d.GetTimeZone())
	require.Nil(t, d.GetOs(), "what the agent does not know is left out")
	require.InDelta(t, 12.5, d.GetUsers()[0].GetLoginTime(), 0)
	require.EqualValues(t, 2, d.GetFileSystems()[0].GetTotalBytes())
	require.Equal(t, "virtio", d.GetFileSystems()[0].GetDisks()[0].GetBusType())
	require.Equal(t, "thawed", d.GetFreezeStatus())

	r = start(t, server.Guest{Agent: answers{}})
	_, err = r.client.GuestDetails(t.Context(), &rpc.GuestDetailsRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err))
}
