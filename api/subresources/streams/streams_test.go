package streams_test

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtflow/virtflow/api/subresources/streams"
	"github.com/virtflow/virtflow/api/subresources/streams/plain"
	"github.com/virtflow/virtflow/internal/streams/relay"
	"github.com/virtflow/virtflow/testsuite/chain"
	"github.com/virtflow/virtflow/workers/node/access"
)

const deadline = 20 * time.Second

// newChain returns a chain, which checks at the end that nothing remains.
func newChain(t *testing.T, o chain.Options) *chain.Chain {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	return chain.New(t, o)
}

func open(t *testing.T, c *chain.Chain, path string) *websocket.Conn {
	t.Helper()
	conn, code, text := c.Dial(t, path, "anna")
	require.NotNil(t, conn, "%d: %s", code, text)
	require.Equal(t, plain.Subprotocol, conn.Subprotocol())
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(deadline)))
	return conn
}

// said reads messages until they have so many bytes; they must be binary.
func said(t *testing.T, c *websocket.Conn, n int) []byte {
	t.Helper()
	var all []byte
	for len(all) < n {
		kind, p, err := c.ReadMessage()
		require.NoError(t, err, "after %d of %d bytes", len(all), n)
		require.Equal(t, websocket.BinaryMessage, kind)
		all = append(all, p...)
	}
	return all
}

// ends reads to the end of a stream and returns the server's close message.
func ends(t *testing.T, c *websocket.Conn) int {
	t.Helper()
	for {
		_, _, err := c.ReadMessage()
		var closed *websocket.CloseError
		if errors.As(err, &closed) {
			return closed.Code
		}
		require.NoError(t, err)
	}
}

// hungUp waits until the other side of a device's connection is gone.
func hungUp(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(deadline)))
	_, err := io.Copy(io.Discard, c)
	require.NoError(t, err)
}

func TestConsoleBothWays(t *testing.T) {
	c := newChain(t, chain.Options{})
	conn := open(t, c, "/web/vmi/console")
	guest := <-c.Serial
	defer guest.Close()
	go func() { _, _ = io.Copy(guest, guest) }()
	sent := make([]byte, 3<<20)
	_, _ = rand.Read(sent)
	go func() {
		for rest := sent; len(rest) > 0; {
			n := min(len(rest), 100000)
			if conn.WriteMessage(websocket.BinaryMessage, rest[:n]) != nil {
				return
			}
			rest = rest[n:]
		}
	}()
	require.True(t, bytes.Equal(sent, said(t, conn, len(sent))))
	require.NoError(t, conn.WriteControl(websocket.CloseMessage,
		websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second)))
	require.Equal(t, websocket.CloseNormalClosure, ends(t, conn))
	hungUp(t, guest)
}

func TestLastBytesOfGuestArrive(t *testing.T) {
	c := newChain(t, chain.Options{})
	conn := open(t, c, "/web/vmi/console")
	guest := <-c.Serial
	last := bytes.Repeat([]byte("bye"), 100000)
	go func() {
		_, _ = guest.Write(last)
		guest.Close()
	}()
	require.True(t, bytes.Equal(last, said(t, conn, len(last))))
	require.Equal(t, websocket.CloseAbnormalClosure, ends(t, conn))
}

func TestNewerConsoleTakesOver(t *testing.T) {
	c := newChain(t, chain.Options{})
	older := open(t, c, "/web/vmi/console")
	(<-c.Serial).Close()
	require.Equal(t, websocket.CloseAbnormalClosure, ends(t, older))
	older = open(t, c, "/web/vmi/console")
	first := <-c.Serial
	defer first.Close()
	newer := open(t, c, "/web/vmi/console")
	second := <-c.Serial
	defer second.Close()
	require.Equal(t, websocket.CloseAbnormalClosure, ends(t, older))
	_, err := second.Write([]byte("x"))
	require.NoError(t, err)
	require.Equal(t, "x", string(said(t, newer, 1)))
}

// upgrade returns the headers of a request for a WebSocket.
func upgrade() http.Header {
	return http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
	}
}

// TestOnlyWebSocketTakesOver: a request that cannot become a stream is refused before the guest is reached, and does
// not end the existing session.
func TestOnlyWebSocketTakesOver(t *testing.T) {
	c := newChain(t, chain.Options{})
	console, vnc := open(t, c, "/web/vmi/console"), open(t, c, "/web/vmi/vnc")
	serial, screen := <-c.Serial, <-c.VNC
	defer serial.Close()
	defer screen.Close()
	for name, change := range map[string]func(http.Header){
		"nothing of it":      func(h http.Header) { clear(h) },
		"no connection":      func(h http.Header) { h.Del("Connection") },
		"another protocol":   func(h http.Header) { h.Set("Upgrade", "SPDY/3.1") },
		"an older version":   func(h http.Header) { h.Set("Sec-Websocket-Version", "8") },
		"no key":             func(h http.Header) { h.Del("Sec-Websocket-Key") },
		"a key of no length": func(h http.Header) { h.Set("Sec-Websocket-Key", "c2hvcnQ=") },
	} {
		for _, path := range []string{"/web/vmi/console", "/web/vmi/vnc"} {
			header := upgrade()
			change(header)
			code, _, body := c.GetWith(t, path, header)
			require.Equal(t, http.StatusBadRequest, code, "%s: %s", name, body)
			require.Contains(t, body, `"kind":"Status"`, name)
		}
	}
	for _, side := range []struct {
		guest  net.Conn
		client *websocket.Conn
	}{{serial, console}, {screen, vnc}} {
		_, err := side.guest.Write([]byte("still"))
		require.NoError(t, err)
		require.Equal(t, "still", string(said(t, side.client, 5)))
	}
	require.Empty(t, c.Serial)
	require.Empty(t, c.VNC)
}

// TestOriginsOfWebSockets: a page of another site gets no stream if the browser authenticates by itself, as through
// kubectl proxy. virtctl sends no Origin.
func TestOriginsOfWebSockets(t *testing.T) {
	guest := echo(t)
	for name, c := range map[string]struct {
		permitted []string
		origin    string
		refused   bool
	}{
		"a page of another site":   {origin: "https://evil.example", refused: true},
		"another port of it":       {origin: "https://evil.example:8443", refused: true},
		"a file":                   {origin: "null", refused: true},
		"not a URL":                {origin: "::", refused: true},
		"a name that begins alike": {origin: "http://localhost.evil.example", refused: true},
		"this machine":             {origin: "http://localhost:8001"},
		"its address":              {origin: "http://127.0.0.1"},
		"its other address":        {origin: "http://[::1]:8001"},
		"a permitted page":         {permitted: []string{"ui.example"}, origin: "https://UI.example:8443"},
		"no longer this machine": {permitted: []string{"ui.example"}, origin: "http://localhost:8001",
			refused: true},
		"any": {permitted: []string{"*"}, origin: "https://evil.example"},
	} {
		t.Run(name, func(t *testing.T) {
			ch := newChain(t, chain.Options{Guest: guest, Origins: c.permitted})
			for _, path := range []string{"/web/vmi/console", "/web/vmi/portforward/22"} {
				conn, code, body := ch.DialWith(t, path, http.Header{"Origin": {c.origin}})
				if c.refused {
					require.Equal(t, http.StatusForbidden, code, body)
					require.Contains(t, body, "--stream-origins")
					require.Empty(t, ch.Serial, "the guest was reached")
					continue
				}
				require.NotNil(t, conn, "%d: %s", code, body)
				require.NoError(t, conn.Close())
			}
		})
	}
}

func TestVNCSessionThatIsPreserved(t *testing.T) {
	c := newChain(t, chain.Options{})
	conn := open(t, c, "/web/vmi/vnc")
	screen := <-c.VNC
	defer screen.Close()
	_, code, text := c.Dial(t, "/web/vmi/vnc?preserveSession=true", "otto")
	require.Equal(t, http.StatusInternalServerError, code)
	require.Contains(t, text, "Active VNC connection. Request denied.")
	_, err := screen.Write([]byte("RFB 003.008\n"))
	require.NoError(t, err)
	require.Equal(t, "RFB 003.008\n", string(said(t, conn, 12)))
}

// echo is a guest whose ports repeat their input.
func echo(t *testing.T) func(string, uint16) (net.Conn, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close(); p.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	go func() {
		b := make([]byte, 70000)
		for {
			n, from, err := p.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = p.WriteTo(b[:n], from)
		}
	}()
	return func(network string, port uint16) (net.Conn, error) {
		if port != 22 && port != 53 {
			return nil, errors.New("dialing VM: dial tcp 10.0.2.2:23: connect: connection refused")
		}
		if network == "udp" {
			return net.Dial("udp", p.LocalAddr().String())
		}
		return net.Dial("tcp", l.Addr().String())
	}
}

func TestPortForward(t *testing.T) {
	vm := &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: chain.Namespace, Name: chain.Name,
			UID: "web-vm"}, Status: kubevirtv1.VirtualMachineStatus{Created: true}}
	idle := vm.DeepCopy()
	idle.Name, idle.Status.Created = "idle", false
	vmi := chain.Running()
	vmi.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Name: vm.Name, UID: vm.UID}}
	c := newChain(t, chain.Options{Guest: echo(t), Objects: []client.Object{vmi, vm, idle}})
	for _, path := range []string{"/web/vmi/portforward/22", "/web/vmi/portforward/22/tcp", "/web/vm/portforward/22"} {
		conn := open(t, c, path)
		require.NoError(t, conn.WriteMessage(websocket.BinaryMessage, []byte("SSH-2.0-test\r\n")))
		require.Equal(t, "SSH-2.0-test\r\n", string(said(t, conn, 14)))
	}
	conn := open(t, c, "/web/vmi/portforward/53/udp")
	for _, size := range []int{1, 0, 1400, 60000} {
		datagram := bytes.Repeat([]byte("d"), size)
		require.NoError(t, conn.WriteMessage(websocket.BinaryMessage, datagram))
		_, p, err := conn.ReadMessage()
		require.NoError(t, err)
		require.Equal(t, len(datagram), len(p), "each message is a datagram")
	}
	require.NoError(t, conn.WriteMessage(websocket.BinaryMessage, make([]byte, 65508)))
	require.Equal(t, websocket.CloseMessageTooBig, ends(t, conn))

	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/web/vmi/portforward/23": {500,
			"Internal error occurred: dialing VM: dial tcp 10.0.2.2:23: connect: connection refused"},
		"/web/vmi/portforward/0":       {400, "is not a port"},
		"/web/vmi/portforward/65536":   {400, "is not a port"},
		"/web/vmi/portforward/22/sctp": {400, "is not a protocol"},
		"/idle/vm/portforward/22": {409,
			`Operation cannot be fulfilled on virtualmachine.kubevirt.io "idle": VMI is not started`},
		"/missing/vm/portforward/22":    {404, `virtualmachine.kubevirt.io "missing" not found`},
		"/missing/vmi/portforward/22":   {404, `virtualmachineinstance.kubevirt.io "missing" not found`},
		"/missing/vmi/console":          {404, `virtualmachineinstance.kubevirt.io "missing" not found`},
		"/missing/vmi/vnc":              {404, `virtualmachineinstance.kubevirt.io "missing" not found`},
		"/missing/vmi/screenshot":       {500, `virtualmachineinstance.kubevirt.io "missing" not found`},
		"/missing/vmi/guestosinfo":      {500, `virtualmachineinstance.kubevirt.io "missing" not found`},
		"/web/vmi/usbredir":             {409, "Not configured with USB Redirection"},
		"/web/vmi/vsock?port=22&tls=no": {400, "VSOCK is not attached."},
		"/web/vmi/console":              {400, "must upgrade to a WebSocket"},
	} {
		code, _, body := c.Get(t, path)
		require.Equal(t, want.code, code, "%s: %s", path, body)
		require.Contains(t, strings.ReplaceAll(body, `\"`, `"`), want.text, path)
	}
}

// TestUSBDevicesOfCallers: each gets a port of the guest, and none ends another's session.
func TestUSBDevicesOfCallers(t *testing.T) {
	vmi := chain.Running()
	vmi.Spec.Domain.Devices.ClientPassthrough = &kubevirtv1.ClientPassthroughDevices{}
	c := newChain(t, chain.Options{Objects: []client.Object{vmi}})
	var all []*websocket.Conn
	for _, at := range c.USB {
		all = append(all, open(t, c, "/web/vmi/usbredir"))
		port := <-at
		defer port.Close()
		go func() { _, _ = io.Copy(port, port) }()
	}
	none, code, body := c.Dial(t, "/web/vmi/usbredir", "anna")
	require.Nil(t, none)
	require.Equal(t, 503, code, body)
	require.Contains(t, body, "each of the guest's ports for USB devices is in use")
	for _, conn := range all {
		require.NoError(t, conn.WriteMessage(websocket.BinaryMessage, []byte("a stick")))
		require.Equal(t, "a stick", string(said(t, conn, 7)), "no session was ended")
	}
}

func TestStatesThatAreRefused(t *testing.T) {
	no, yes := false, true
	for name, c := range map[string]struct {
		change func(*kubevirtv1.VirtualMachineInstance)
		path   string
		code   int
		text   string
	}{
		"not running": {phase(kubevirtv1.Scheduled), "console", 400, "VMI is not running"},
		"failed":      {phase(kubevirtv1.Failed), "console", 409, "VMI is in failed status"},
		"no serial console": {func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Domain.Devices.AutoattachSerialConsole = &no
		}, "console", 400, "No serial consoles are present."},
		"no screen": {func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Domain.Devices.AutoattachGraphicsDevice = &no
		}, "vnc", 400, "No graphics devices are present."},
		"no screen to picture": {func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Domain.Devices.AutoattachGraphicsDevice = &no
		}, "screenshot", 500, "No graphics devices are present."},
		"vnc, not running":     {phase(kubevirtv1.Pending), "vnc", 400, "VMI is not running"},
		"picture, not running": {phase(kubevirtv1.Pending), "screenshot", 500, "VMI is not running"},
		"agent, not running":   {phase(kubevirtv1.Pending), "userlist", 500, `"web": VMI is not running`},
		"no agent": {func(v *kubevirtv1.VirtualMachineInstance) {
			v.Status.Conditions = nil
		}, "filesystemlist", 500,
			`Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io "web": VMI does not have guest ` +
				`agent connected`},
		"no network": {func(v *kubevirtv1.VirtualMachineInstance) {
			v.Status.Interfaces = nil
		}, "portforward/22", 400, "no network interfaces are present"},
		"paused": {paused, "portforward/22", 409, "VMI is paused"},
		"port, ended": {phase(kubevirtv1.Succeeded), "portforward/22", 400,
			"Unable to connect to VirtualMachineInstance because phase is Succeeded instead of Running or Scheduled"},
		"usb, not running": {func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Domain.Devices.ClientPassthrough = &kubevirtv1.ClientPassthroughDevices{}
			v.Status.Phase = kubevirtv1.Scheduled
		}, "usbredir", 400, "VMI is not running"},
		"vsock is unsupported": {func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Domain.Devices.AutoattachVSOCK = &yes
		}, "vsock", 501, "VSOCK is not supported yet."},
		"no worker on the node": {func(v *kubevirtv1.VirtualMachineInstance) {
			v.Status.NodeName = "kwok-node-1"
		}, "console", 400, "No virt-handler on node kwok-node-1 found"},
		"no pod": {func(v *kubevirtv1.VirtualMachineInstance) {
			v.Status.ActivePods = nil
		}, "console", 500, "does not know the guest's launcher yet"},
		"another's pod": {func(v *kubevirtv1.VirtualMachineInstance) { v.UID = "11111111-0b5d-4c6e-8f70-112233445566" },
			"console", 500, "that guest is not on this node"},
	} {
		t.Run(name, func(t *testing.T) {
			vmi := chain.Running()
			c.change(vmi)
			code, kind, body := newChain(t, chain.Options{Objects: []client.Object{vmi}}).
				GetWith(t, "/web/vmi/"+c.path, upgrade())
			require.Equal(t, c.code, code, body)
			body = strings.ReplaceAll(body, `\"`, `"`)
			require.Contains(t, body, c.text)
			if plain := c.path == "screenshot" || c.path == "userlist" || c.path == "filesystemlist"; plain {
				require.Equal(t, "text/plain; charset=utf-8", kind)
			} else {
				require.Contains(t, body, `"kind":"Status"`)
			}
		})
	}
}

func phase(p kubevirtv1.VirtualMachineInstancePhase) func(*kubevirtv1.VirtualMachineInstance) {
	return func(v *kubevirtv1.VirtualMachineInstance) { v.Status.Phase = p }
}

func paused(v *kubevirtv1.VirtualMachineInstance) {
	v.Status.Conditions = append(v.Status.Conditions,
		kubevirtv1.VirtualMachineInstanceCondition{Type: kubevirtv1.VirtualMachineInstancePaused, Status: "True"})
}

func TestReadsFromGuest(t *testing.T) {
	picture := bytes.Repeat([]byte("\x89PNG"), 100000)
	c := newChain(t, chain.Options{Picture: picture, Agent: func(command string) (string, error) {
		for name, answer := range map[string]string{
			"guest-info":          `{"version":"7.2","supported_commands":[{"name":"guest-ping","enabled":true}]}`,
			"guest-get-host-name": `{"host-name":"web"}`,
			"guest-get-osinfo":    `{"id":"debian","name":"Debian"}`, "guest-get-timezone": `{"zone":"UTC","offset":0}`,
			"guest-get-users": `[{"user":"root","login-time":1.5}]`, "guest-fsfreeze-status": `"thawed"`,
			"guest-get-fsinfo": `[{"name":"vda","mountpoint":"/","type":"ext4","used-bytes":1,"total-bytes":2,"disk":[{"bus-type":"virtio"}]}]`,
		} {
			if strings.Contains(command, `"`+name+`"`) {
				return `{"return":` + answer + `}`, nil
			}
		}
		return "", errors.New("no such command")
	}})
	code, kind, body := c.Get(t, "/web/vmi/screenshot?moveCursor=true")
	require.Equal(t, 200, code)
	require.Equal(t, "image/png", kind)
	require.True(t, string(picture) == body)

	for path, want := range map[string]string{
		"guestosinfo": `{"guestAgentVersion":"7.2","supportedCommands":[{"name":"guest-ping","enabled":true}],"hostname":"web","os":{"name":"Debian","id":"debian"},
			"timezone":"UTC, 0","userList":[{"userName":"root","loginTime":1.5}],
			"fsInfo":{"disks":[{"diskName":"vda","mountPoint":"/","fileSystemType":"ext4","usedBytes":1,"totalBytes":2,"disk":[{"busType":"virtio"}]}]}}`,
		"userlist":       `{"metadata":{},"items":[{"userName":"root","loginTime":1.5}]}`,
		"filesystemlist": `{"metadata":{},"items":[{"diskName":"vda","mountPoint":"/","fileSystemType":"ext4","usedBytes":1,"totalBytes":2,"disk":[{"busType":"virtio"}]}]}`,
	} {
		code, kind, body := c.Get(t, "/web/vmi/"+path)
		require.Equal(t, 200, code, body)
		require.Equal(t, "application/json", kind)
		require.True(t, json.Valid([]byte(body)))
		require.JSONEq(t, want, body)
	}

	silent := newChain(t, chain.Options{})
	code, _, body = silent.Get(t, "/web/vmi/guestosinfo")
	require.Equal(t, 500, code)
	require.Contains(t, body, "the agent does not answer")
	code, _, body = silent.Get(t, "/web/vmi/screenshot")
	require.Equal(t, 500, code)
	require.Contains(t, body, "there is no screen")
}

func TestFramesOutOfProtocol(t *testing.T) {
	for name, c := range map[string]struct {
		frames []byte
		code   int
	}{
		"a text message":        {[]byte{0x81, 0x81, 0, 0, 0, 0, 'a'}, websocket.CloseUnsupportedData},
		"a frame without mask":  {[]byte{0x82, 0x01, 'a'}, websocket.CloseProtocolError},
		"a reserved bit":        {[]byte{0xc2, 0x81, 0, 0, 0, 0, 'a'}, websocket.CloseProtocolError},
		"an unknown opcode":     {[]byte{0x83, 0x80, 0, 0, 0, 0}, websocket.CloseProtocolError},
		"a rest without a head": {[]byte{0x80, 0x81, 0, 0, 0, 0, 'a'}, websocket.CloseProtocolError},
		"a ping that is long":   {[]byte{0x89, 0xfe, 0x01, 0x00}, websocket.CloseProtocolError},
		"an enormous message": {[]byte{0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4},
			websocket.CloseMessageTooBig},
	} {
		t.Run(name, func(t *testing.T) {
			chained := newChain(t, chain.Options{})
			conn := open(t, chained, "/web/vmi/console")
			guest := <-chained.Serial
			defer guest.Close()
			_, err := conn.NetConn().Write(c.frames)
			require.NoError(t, err)
			require.Equal(t, c.code, ends(t, conn))
			hungUp(t, guest)
		})
	}
}

func TestClientThatIsCutOff(t *testing.T) {
	c := newChain(t, chain.Options{})
	conn := open(t, c, "/web/vmi/console")
	guest := <-c.Serial
	require.NoError(t, conn.NetConn().Close())
	hungUp(t, guest)
}

func TestClientThatAnswersNoPing(t *testing.T) {
	c := newChain(t, chain.Options{
		Streams: streams.Bounds{PingInterval: 10 * time.Millisecond, PongTimeout: 200 * time.Millisecond}})
	answering := open(t, c, "/web/vmi/vnc")
	go func() { _, _, _ = answering.ReadMessage() }() // answers while it reads
	screen := <-c.VNC
	open(t, c, "/web/vmi/console") // the test does not read
	hungUp(t, <-c.Serial)
	_, err := screen.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, answering.WriteMessage(websocket.BinaryMessage, []byte("y")))
	b := make([]byte, 1)
	_, err = screen.Read(b)
	require.NoError(t, err, "the one that answers continues")
	screen.Close()
}

// TestGuestFloodsClientThatDoesNotRead: the guest floods its console, and the client reads nothing. The guest is
// blocked, no buffer grows, and the stream ends.
func TestGuestFloodsClientThatDoesNotRead(t *testing.T) {
	c := newChain(t, chain.Options{Streams: streams.Bounds{Bounds: relay.Bounds{StallTimeout: 300 * time.Millisecond}}})
	open(t, c, "/web/vmi/console")
	guest := <-c.Serial
	taken, p := 0, make([]byte, 64<<10)
	for {
		n, err := guest.Write(p)
		taken += n
		if err != nil {
			break
		}
	}
	// Between them are buffers of kernels (some MB on loopback), of gRPC and of relays.
	require.Less(t, taken, 64<<20)
	t.Logf("%d bytes were on their way", taken)
}

// TestGuestThatAcceptsNothing: the client sends, and the guest's device accepts nothing.
func TestGuestThatAcceptsNothing(t *testing.T) {
	c := newChain(t, chain.Options{Access: access.Bounds{Bounds: relay.Bounds{StallTimeout: 300 * time.Millisecond}}})
	conn := open(t, c, "/web/vmi/console")
	guest := <-c.Serial
	defer guest.Close()
	go func() {
		for p := make([]byte, 64<<10); conn.WriteMessage(websocket.BinaryMessage, p) == nil; {
		}
	}()
	require.Equal(t, websocket.CloseAbnormalClosure, ends(t, conn),
		"the node hangs up; that it has not read all that was under way is no error")
}

func TestIdleStreamsEnd(t *testing.T) {
	c := newChain(t, chain.Options{Streams: streams.Bounds{Bounds: relay.Bounds{IdleTimeout: 100 * time.Millisecond}}})
	conn := open(t, c, "/web/vmi/console")
	require.Equal(t, websocket.ClosePolicyViolation, ends(t, conn))
	hungUp(t, <-c.Serial)
}

func TestLimitsStreams(t *testing.T) {
	refused := func(c *chain.Chain, path, user string, code int) {
		t.Helper()
		_, got, text := c.Dial(t, path, user)
		require.Equal(t, code, got, text)
	}
	c := newChain(t, chain.Options{Guest: echo(t),
		Streams: streams.Bounds{MaxStreams: 3, MaxPerUser: 2, MaxPerNamespace: 3}})
	for range 2 {
		open(t, c, "/web/vmi/portforward/22") // as anna
	}
	refused(c, "/web/vmi/portforward/22", "anna", http.StatusTooManyRequests)
	conn, _, text := c.Dial(t, "/web/vmi/portforward/22", "otto")
	require.NotNil(t, conn, text)
	refused(c, "/web/vmi/portforward/22", "otto", http.StatusServiceUnavailable)
	conn.Close()
	require.Eventually(t, func() bool {
		conn, _, _ := c.Dial(t, "/web/vmi/portforward/22", "otto")
		if conn != nil {
			conn.Close()
		}
		return conn != nil
	}, deadline, 10*time.Millisecond, "a stream that has ended frees its quota")

	node := newChain(t, chain.Options{Guest: echo(t), Access: access.Bounds{MaxPerGuest: 1}})
	open(t, node, "/web/vmi/portforward/22")
	code, _, body := node.Get(t, "/web/vmi/portforward/22")
	require.Equal(t, 429, code)
	require.Contains(t, body, "there are 1 open streams to this guest")
	require.Contains(t, body, `"reason":"TooManyRequests"`)
}

func TestLimitsStreamsOfNamespace(t *testing.T) {
	c := newChain(t, chain.Options{Guest: echo(t), Streams: streams.Bounds{MaxPerNamespace: 2}})
	for _, user := range []string{"system:serviceaccount:default:a", "system:serviceaccount:default:b"} {
		conn, _, text := c.Dial(t, "/web/vmi/portforward/22", user)
		require.NotNil(t, conn, text)
		defer conn.Close()
	}
	_, code, text := c.Dial(t, "/web/vmi/portforward/22", "system:serviceaccount:default:c")
	require.Equal(t, http.StatusTooManyRequests, code)
	require.Contains(t, text, "Guests of this namespace have 2 open streams")
}

// TestNodesQuotaForNamespaceSuffices: fifty consoles of one namespace may be open on a node.
func TestNodesQuotaForNamespaceSuffices(t *testing.T) {
	c := newChain(t, chain.Options{Guest: echo(t), Access: access.Bounds{MaxPerGuest: 1000}})
	for range 51 {
		open(t, c, "/web/vmi/portforward/22")
	}
	_, code, text := c.Dial(t, "/web/vmi/portforward/22", "anna")
	require.Equal(t, http.StatusTooManyRequests, code)
	require.Contains(t, text, "there are 51 open streams to guests of this namespace on this node")
}

func TestNodeAtItsLimit(t *testing.T) {
	c := newChain(t, chain.Options{Guest: echo(t), Access: access.Bounds{MaxStreams: 1}})
	open(t, c, "/web/vmi/portforward/22")
	code, _, body := c.Get(t, "/web/vmi/screenshot")
	require.Equal(t, 503, code)
	require.Contains(t, body, "this node has 1 open streams to guests")
	require.Contains(t, body, `"reason":"ServiceUnavailable"`)
	code, _, body = c.Get(t, "/web/vmi/userlist")
	require.Equal(t, 500, code)
	require.Contains(t, body, "the agent does not answer", "questions to agents have a limit of their own")
}

// TestLimitsRequestsToAgents: while one agent does not answer, others are asked.
func TestLimitsRequestsToAgents(t *testing.T) {
	for name, o := range map[string]chain.Options{
		"API server": {Streams: streams.Bounds{MaxReads: 4}}, "node": {Access: access.Bounds{MaxReads: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			asked, hang := make(chan struct{}), make(chan struct{})
			var first sync.Once
			o.Agent = func(string) (string, error) {
				first.Do(func() { close(asked) })
				<-hang
				return "", errors.New("no such command")
			}
			o.Guest = echo(t)
			c := newChain(t, o)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _, _ = c.Get(t, "/web/vmi/guestosinfo")
			}()
			<-asked
			code, _, body := c.Get(t, "/web/vmi/userlist")
			require.Equal(t, 429, code, body)
			open(t, c, "/web/vmi/portforward/22")
			close(hang)
			<-ended
		})
	}
}

func TestListsThatAgentDoesNotReport(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`{"user":"u","login-time":1},`, 12), ",")
	c := newChain(t, chain.Options{Agent: func(command string) (string, error) {
		switch {
		case strings.Contains(command, "guest-info"):
			return `{"return":{"version":"7.2"}}`, nil
		case strings.Contains(command, "guest-get-users"):
			return `{"return":[` + many + `]}`, nil
		}
		return "", errors.New("the command has been disabled")
	}})
	code, _, body := c.Get(t, "/web/vmi/filesystemlist")
	require.Equal(t, 500, code)
	require.Contains(t, body, "the guest's agent does not report its file systems")
	require.Contains(t, body, "the command has been disabled")
	code, _, body = c.Get(t, "/web/vmi/userlist")
	require.Equal(t, 200, code)
	require.Equal(t, 12, strings.Count(body, "userName"))
	code, _, body = c.Get(t, "/web/vmi/guestosinfo")
	require.Equal(t, 200, code)
	require.Equal(t, 10, strings.Count(body, "userName"), "KubeVirt's number")
}

func TestServerNotifiesClientsOfItsEnd(t *testing.T) {
	c := newChain(t, chain.Options{})
	conn := open(t, c, "/web/vmi/console")
	guest := <-c.Serial
	c.Streams.Close()
	require.Equal(t, websocket.CloseGoingAway, ends(t, conn))
	hungUp(t, guest)
	_, code, _ := c.Dial(t, "/web/vmi/console", "anna")
	require.Equal(t, http.StatusServiceUnavailable, code)
}

// TestNodeTrustsOnlyPIServersRole covers what any pod of the cluster could try at a node worker.
func TestNodeTrustsOnlyPIServersRole(t *testing.T) {
	c := newChain(t, chain.Options{})
	good, err := c.Certificates.Client()
	require.NoError(t, err)
	ask := func(config *tls.Config) error {
		conn, err := tls.Dial("tcp", c.AccessAddress, config)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(deadline)); err != nil {
			return err
		}
		_, err = io.WriteString(conn,
			"GET /v1/vmis/"+chain.VMI+"/pods/"+chain.Pod+"/guest HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if err != nil {
			return err
		}
		b, err := io.ReadAll(conn)
		if err == nil && !strings.HasPrefix(string(b), "HTTP/1.1 ") {
			err = errors.New("no answer")
		}
		return err
	}
	require.NoError(t, ask(good))
	anonymous := good.Clone()
	anonymous.Certificates = nil
	require.Error(t, ask(anonymous))
	otherChain := newChain(t, chain.Options{})
	other, err := otherChain.Certificates.Client()
	require.NoError(t, err)
	foreign := good.Clone()
	foreign.Certificates = other.Certificates
	require.Error(t, ask(foreign), "another CA's client of the same name")
	old := good.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	require.Error(t, ask(old))
}
