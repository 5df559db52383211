//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"image/png"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/suite"
)

const (
	subresourcesPath = "/apis/subresources.kubevirt.io/v1/namespaces/"
	plainProtocol    = "plain.kubevirt.io"
)

// subresource returns the path of a subresource of the machine.
func (m *machine) subresource(resource, what string) string {
	return subresourcesPath + m.namespace + "/" + resource + "/" + m.name + "/" + what
}

// connect opens a stream through the API server, as KubeVirt's client does. For a refusal it returns the code and text.
func (m *machine) connect(path string) (stream *websocket.Conn, code int, text string) {
	m.t.Helper()
	return m.connectAs(path, "")
}

// Users for connectAs.
const (
	anonymousUser      = "system:anonymous" // impersonated
	withoutCredentials = "-"                // a request without credentials
)

// connectAs is connect with an impersonated user; "": kubectl's own user.
func (m *machine) connectAs(path, user string) (stream *websocket.Conn, code int, text string) {
	m.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	require.NoError(m.t, err)
	tlsConfig, err := rest.TLSConfigFor(config)
	require.NoError(m.t, err)
	dialer := &websocket.Dialer{TLSClientConfig: tlsConfig, Subprotocols: []string{plainProtocol},
		HandshakeTimeout: time.Minute}
	header := http.Header{}
	if config.BearerToken != "" {
		header.Set("Authorization", "Bearer "+config.BearerToken)
	}
	switch user {
	case "":
	case anonymousUser:
		header.Set("Impersonate-User", anonymousUser)
		header.Set("Impersonate-Group", "system:unauthenticated")
	case withoutCredentials:
		header = http.Header{}
		tlsConfig.Certificates, tlsConfig.GetClientCertificate = nil, nil
	default:
		header.Set("Impersonate-User", user)
		header.Set("Impersonate-Group", "system:authenticated")
	}
	c, answer, err := dialer.Dial("wss"+strings.TrimPrefix(config.Host, "https")+path, header)
	if answer != nil {
		defer answer.Body.Close()
	}
	if err != nil {
		require.NotNil(m.t, answer, "%v", err)
		b, _ := io.ReadAll(answer.Body)
		return nil, answer.StatusCode, strings.ReplaceAll(string(b), `\"`, `"`)
	}
	require.Equal(m.t, plainProtocol, c.Subprotocol())
	m.t.Cleanup(func() { c.Close() })
	require.NoError(m.t, c.SetReadDeadline(time.Now().Add(bootTime)))
	return c, answer.StatusCode, ""
}

// stream opens a stream, and requires that it succeeds.
func (m *machine) stream(path string) *websocket.Conn {
	m.t.Helper()
	c, code, text := m.connect(path)
	require.NotNil(m.t, c, "%s: %d %s", path, code, text)
	return c
}

// readUntil reads until the guest has written a text, and returns all that it wrote.
func readUntil(t *testing.T, c *websocket.Conn, what string) string {
	t.Helper()
	seen := ""
	for !strings.Contains(seen, what) {
		kind, p, err := c.ReadMessage()
		require.NoError(t, err, "waiting for %q, saw %q", what, seen)
		require.Equal(t, websocket.BinaryMessage, kind)
		seen += string(p)
	}
	return seen
}

func writeTo(t *testing.T, c *websocket.Conn, what string) {
	t.Helper()
	require.NoError(t, c.WriteMessage(websocket.BinaryMessage, []byte(what)))
}

// TestStreams: console, screen, ports and the guest's agent of a running machine.
func TestStreams(t *testing.T) {
	suite.TakeTurn(t, 2)
	m := newMachine(t, "web", "Always", "")
	m.untilBooted()

	t.Run("console", func(t *testing.T) {
		older := m.stream(m.subresource("virtualmachineinstances", "console"))
		c := m.stream(m.subresource("virtualmachineinstances", "console"))
		for {
			if _, _, err := older.ReadMessage(); err != nil {
				require.True(t, websocket.IsCloseError(err, websocket.CloseAbnormalClosure), "%v", err)
				break
			}
		}
		writeTo(t, c, "\n")
		readUntil(t, c, "login: ")
		writeTo(t, c, "root\n")
		readUntil(t, c, "assword: ")
		writeTo(t, c, "secret-of-web\n")
		readUntil(t, c, "# ")
		writeTo(t, c, "echo $((6*7))-is-it\n")
		readUntil(t, c, "42-is-it")
		writeTo(t, c, "exit\n")
	})
	t.Run("screen", func(t *testing.T) {
		c := m.stream(m.subresource("virtualmachineinstances", "vnc"))
		require.Equal(t, "RFB 003.008\n", readUntil(t, c, "\n"))
		_, code, text := m.connect(m.subresource("virtualmachineinstances", "vnc") + "?preserveSession=true")
		require.Equal(t, http.StatusInternalServerError, code)
		require.Contains(t, text, "Active VNC connection. Request denied.")
		picture, err := try("get", "--raw", m.subresource("virtualmachineinstances", "vnc/screenshot?moveCursor=true"))
		require.NoError(t, err)
		image, err := png.Decode(bytes.NewReader([]byte(picture)))
		require.NoError(t, err)
		require.GreaterOrEqual(t, image.Bounds().Dx(), 640)
	})
	t.Run("ports", func(t *testing.T) {
		for _, resource := range []string{"virtualmachines", "virtualmachineinstances"} {
			ssh := m.stream(m.subresource(resource, "portforward/22"))
			readUntil(t, ssh, "SSH-2.0-dropbear")
			web := m.stream(m.subresource(resource, "portforward/80/tcp"))
			writeTo(t, web, "GET / HTTP/1.0\r\n\r\n")
			readUntil(t, web, "hello from web")
			_, code, text := m.connect(m.subresource(resource, "portforward/81"))
			require.Equal(t, http.StatusInternalServerError, code)
			require.Contains(t, text, "dialing VM: dial tcp 10.0.2.2:81: connect: connection refused")
		}
	})
	t.Run("agent", func(t *testing.T) {
		until(t, bootTime, "the guest's agent is connected", func() error {
			_, err := try("get", "--raw", m.subresource("virtualmachineinstances", "guestosinfo"))
			return err
		})
		info := m.kubectl("get", "--raw", m.subresource("virtualmachineinstances", "guestosinfo"))
		require.Contains(t, info, `"id":"virtflow-guest"`)
		require.Contains(t, info, `"hostname":"web"`)
		require.Contains(t, m.kubectl("get", "--raw", m.subresource("virtualmachineinstances", "userlist")),
			`"items":[`)
		require.Contains(t, m.kubectl("get", "--raw", m.subresource("virtualmachineinstances", "filesystemlist")),
			`"items":[`)
	})
	m.remove()
}

// TestStreamsRefused: KubeVirt's codes and texts for instances that do not exist or do not run.
func TestStreamsRefused(t *testing.T) {
	suite.TakeTurn(t, 2)
	m := newMachine(t, "waiting", "Always", `      nodeSelector: {nowhere: "yes"}`)
	until(t, bootTime, "the instance is there", func() error {
		v, err := m.vmi()
		if err == nil && v.Status.Phase != kubevirt.Scheduling && v.Status.Phase != kubevirt.Pending {
			err = fmt.Errorf("it is %s", v.Status.Phase)
		}
		return err
	})
	refused := func(resource, what string, code int, text string) {
		t.Helper()
		c, got, body := m.connect(m.subresource(resource, what))
		require.Nil(t, c, what)
		require.Equal(t, code, got, "%s: %s", what, body)
		require.Contains(t, body, text, what)
	}
	const vm, vmi = "virtualmachines", "virtualmachineinstances"
	refused(vmi, "console", 400, "VMI is not running")
	refused(vmi, "vnc", 400, "VMI is not running")
	refused(vmi, "vnc/screenshot", 500, "VMI is not running")
	refused(vmi, "portforward/22", 400, "no network interfaces are present")
	refused(vmi, "usbredir", 409, "Not configured with USB Redirection")
	refused(vmi, "vsock?port=22", 400, "VSOCK is not attached.")
	for _, read := range []string{"guestosinfo", "userlist", "filesystemlist"} {
		refused(vmi, read, 500, `Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io "waiting": VMI `+
			`is not running`)
	}
	m.strategy("Halted")
	m.untilStatus("Stopped")
	refused(vm, "portforward/22", 409,
		`Operation cannot be fulfilled on virtualmachine.kubevirt.io "waiting": VMI is not started`)
	refused(vmi, "console", 404, `virtualmachineinstance.kubevirt.io "waiting" not found`)
	refused(vmi, "vnc", 404, `virtualmachineinstance.kubevirt.io "waiting" not found`)
	refused(vmi, "vnc/screenshot", 500, `virtualmachineinstance.kubevirt.io "waiting" not found`)
	refused(vmi, "portforward/22", 404, `virtualmachineinstance.kubevirt.io "waiting" not found`)
	refused(vmi, "guestosinfo", 500, `virtualmachineinstance.kubevirt.io "waiting" not found`)
	m.remove()
	refused(vm, "portforward/22", 404, `virtualmachine.kubevirt.io "waiting" not found`)
}
