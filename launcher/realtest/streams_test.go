//go:build libvirt

package realtest

import (
	"bytes"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/testsuite/suite"
)

type attached = grpc.BidiStreamingClient[rpc.AttachRequest, rpc.AttachResponse]

func (p *pod) attach(device rpc.Device) attached {
	p.t.Helper()
	s, err := p.client.Attach(p.context())
	require.NoError(p.t, err)
	require.NoError(p.t, s.Send(&rpc.AttachRequest{Device: device}))
	_, err = s.Recv()
	require.NoError(p.t, err)
	return s
}

// expect reads until the device has said something; the stream's context bounds it.
func expect(t *testing.T, s attached, what string) {
	t.Helper()
	for seen := ""; !strings.Contains(seen, what); {
		m, err := s.Recv()
		require.NoError(t, err, "waiting for %q, saw %q", what, seen)
		seen += string(m.GetData())
	}
}

func send(t *testing.T, s attached, data string) {
	t.Helper()
	require.NoError(t, s.Send(&rpc.AttachRequest{Data: []byte(data)}))
}

func TestConsoleOfGuest(t *testing.T) {
	suite.TakeTurn(t, 4)
	p := newPod(t, vmi(nil))
	_, err := p.client.StartDomain(p.context(), &rpc.StartDomainRequest{})
	require.NoError(t, err)
	p.guestUp(1)
	older := p.attach(rpc.Device_DEVICE_SERIAL_CONSOLE)
	s := p.attach(rpc.Device_DEVICE_SERIAL_CONSOLE)
	for {
		if _, err = older.Recv(); err != nil {
			break
		}
	}
	require.Equal(t, codes.Aborted, status.Code(err), "%v", err)
	send(t, s, "\n")
	expect(t, s, "login: ")
	send(t, s, "root\n")
	expect(t, s, "assword: ")
	send(t, s, "virtflow\n")
	expect(t, s, "# ")
	send(t, s, "echo $((6*7))-is-it\n")
	expect(t, s, "42-is-it")
	require.NoError(t, s.CloseSend())
	_, err = s.Recv()
	for err == nil {
		_, err = s.Recv()
	}
	require.ErrorIs(t, err, io.EOF)
	expect(t, p.loggedIn(), "# ")
}

// loggedIn attaches once more: the earlier caller has left the port usable.
func (p *pod) loggedIn() attached {
	s := p.attach(rpc.Device_DEVICE_SERIAL_CONSOLE)
	send(p.t, s, "\n")
	return s
}

func TestScreenOfGuest(t *testing.T) {
	suite.TakeTurn(t, 5)
	p := newPod(t, vmi(nil))
	_, err := p.client.StartDomain(p.context(), &rpc.StartDomainRequest{})
	require.NoError(t, err)
	s := p.attach(rpc.Device_DEVICE_VNC)
	expect(t, s, "RFB 003.008\n")
	p.guestUp(1)
	for _, move := range []bool{false, true} {
		shot, err := p.client.Screenshot(p.context(), &rpc.ScreenshotRequest{MoveCursor: move})
		require.NoError(t, err)
		var picture bytes.Buffer
		for {
			m, err := shot.Recv()
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
			picture.Write(m.GetData())
		}
		image, err := png.Decode(&picture)
		require.NoError(t, err)
		require.GreaterOrEqual(t, image.Bounds().Dx(), 640)
		require.GreaterOrEqual(t, image.Bounds().Dy(), 400)
	}
	send(t, s, "RFB 003.008\n")
	m, err := s.Recv()
	require.NoError(t, err, "a screenshot leaves the session alone")
	require.Equal(t, byte(1), m.GetData()[0], "one security type")
}

func TestWithoutSerialPortAndScreen(t *testing.T) {
	suite.TakeTurn(t, 6)
	p := newPod(t, vmi(func(spec map[string]any) {
		devices := spec["domain"].(map[string]any)["devices"].(map[string]any)
		devices["autoattachSerialConsole"], devices["autoattachGraphicsDevice"] = false, false
	}))
	_, err := p.client.StartDomain(p.context(), &rpc.StartDomainRequest{})
	require.NoError(t, err)
	for _, device := range []rpc.Device{rpc.Device_DEVICE_SERIAL_CONSOLE, rpc.Device_DEVICE_VNC} {
		s, err := p.client.Attach(p.context())
		require.NoError(t, err)
		require.NoError(t, s.Send(&rpc.AttachRequest{Device: device}))
		_, err = s.Recv()
		require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
	}
	shot, err := p.client.Screenshot(p.context(), &rpc.ScreenshotRequest{})
	require.NoError(t, err)
	_, err = shot.Recv()
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
}

// TestUSBDevicesOfCallers: QEMU greets each that brings one, while there are ports.
func TestUSBDevicesOfCallers(t *testing.T) {
	suite.TakeTurn(t, 3)
	p := newPod(t, vmi(func(spec map[string]any) {
		spec["domain"].(map[string]any)["devices"].(map[string]any)["clientPassthrough"] = map[string]any{}
	}))
	_, err := p.client.StartDomain(p.context(), &rpc.StartDomainRequest{})
	require.NoError(t, err)
	for range 4 {
		expect(t, p.attach(rpc.Device_DEVICE_USB_REDIRECTION), "qemu usb-redir guest")
	}
	s, err := p.client.Attach(p.context())
	require.NoError(t, err)
	require.NoError(t, s.Send(&rpc.AttachRequest{Device: rpc.Device_DEVICE_USB_REDIRECTION}))
	_, err = s.Recv()
	require.Equal(t, codes.AlreadyExists, status.Code(err), "%v", err)
}

func TestGuestDetails(t *testing.T) {
	suite.TakeTurn(t, 7)
	p := newPod(t, vmi(nil))
	p.boot()
	var d *rpc.GuestDetailsResponse
	p.eventually("the agent answers", func() bool {
		var err error
		d, err = p.client.GuestDetails(p.context(), &rpc.GuestDetailsRequest{})
		return err == nil
	})
	require.NotEmpty(t, d.GetAgentVersion())
	require.NotEmpty(t, d.GetCommands())
	require.Equal(t, "vm1", d.GetHostname())
	require.Equal(t, "virtflow-guest", d.GetOs().GetId())
	require.Contains(t, d.GetTimeZone(), ", 0")
	require.Equal(t, "thawed", d.GetFreezeStatus())
}
