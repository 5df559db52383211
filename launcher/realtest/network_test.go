//go:build libvirt

package realtest

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// podNetwork makes a network namespace as the node worker prepares it: a bridge with the gateway's address and a tap
// for the launcher's user.
func podNetwork(t *testing.T) string {
	t.Helper()
	return podNetworkNamed(t, "vf-real-"+strconv.Itoa(syscall.Getpid()))
}

func podNetworkNamed(t *testing.T, name string) string {
	t.Helper()
	do := func(command string) {
		t.Helper()
		fields := strings.Fields(command)
		out, err := exec.Command(fields[0], fields[1:]...).CombinedOutput()
		require.NoError(t, err, "%s: %s", command, out)
	}
	do("ip netns add " + name)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	inside := "ip netns exec " + name + " "
	do(inside + "ip link set lo up")
	do(inside + "ip link add k6t-eth0 type bridge")
	do(inside + "ip addr add 10.0.2.1/24 dev k6t-eth0")
	do(inside + "ip tuntap add tap0 mode tap user " + strconv.Itoa(qemuUser))
	do(inside + "ip link set tap0 mtu 1400 master k6t-eth0 up")
	do(inside + "ip link set k6t-eth0 mtu 1400 up")
	do(inside + "sysctl -q -w net.ipv4.ip_unprivileged_port_start=67")
	return name
}

// podInterface is what the node worker says of it.
func podInterface() *rpc.PodInterface {
	return &rpc.PodInterface{
		Network: "default", Tap: "tap0", PodInterface: "eth0", Mtu: 1400, Bridge: "k6t-eth0",
		GuestAddress: "10.0.2.2/24", Gateway: "10.0.2.1",
	}
}

// masquerade is the interface of a guest there.
func masquerade(spec map[string]any) {
	spec["networks"] = []any{map[string]any{"name": "default", "pod": map[string]any{}}}
	devices := spec["domain"].(map[string]any)["devices"].(map[string]any)
	devices["interfaces"] = []any{map[string]any{"name": "default", "masquerade": map[string]any{}}}
}

func TestGuestGetsItsAddressAndAnswers(t *testing.T) {
	namespace := podNetwork(t)
	p := newPodIn(t, vmi(masquerade), namespace)
	d := p.bootWith(podInterface())
	require.Len(t, d.GetInterfaces(), 1)
	require.Equal(t, "default", d.GetInterfaces()[0].GetName())
	require.Equal(t, "eth0", d.GetInterfaces()[0].GetPodInterface())
	require.Equal(t, "up", d.GetInterfaces()[0].GetLinkState())
	require.Contains(t, p.log(), "ip=10.0.2.2")
	p.eventually("the guest's web server answers", func() bool {
		return strings.Contains(get(namespace, "10.0.2.2:80"), "hello from")
	})
	p.signal("launcher", syscall.SIGTERM)
	m, _ := p.ends()
	require.Equal(t, contract.ReasonShutdown, m.Reason)
}

// inNamespace does something in a network namespace, if that is there.
func inNamespace(name string, do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread stays in the namespace, so it ends with this goroutine.
		runtime.LockOSThread()
		ns, err := os.Open(filepath.Join("/run/netns", name))
		if err != nil {
			return
		}
		defer ns.Close() //nolint:errcheck // only entered
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return
		}
		do()
	}()
	<-done
}

// get asks a web server from within a network namespace; "": it did not answer.
func get(namespace, address string) (answer string) {
	inNamespace(namespace, func() {
		conn, err := net.DialTimeout("tcp", address, 2*time.Second)
		if err != nil {
			return
		}
		defer conn.Close() //nolint:errcheck // all was read
		_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
		_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
		b, _ := io.ReadAll(conn)
		answer = string(b)
	})
	return answer
}
