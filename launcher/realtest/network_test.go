//go:build libvirt

package realtest

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workflows/contract"
)

// podNetwork makes a network namespace as the node's worker prepares it: a bridge with the gateway's address and a tap for the launcher's
// user.
func podNetwork(t *testing.T) string {
	t.Helper()
	name := "vf-real-" + strconv.Itoa(syscall.Getpid())
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
	do(inside + "ip tuntap add tap0 mode tap user " + strconv.Itoa(nobody))
	do(inside + "ip link set tap0 mtu 1400 master k6t-eth0 up")
	do(inside + "ip link set k6t-eth0 mtu 1400 up")
	do(inside + "sysctl -q -w net.ipv4.ip_unprivileged_port_start=67")
	return name
}

func TestTheGuestGetsItsAddressAndAnswers(t *testing.T) {
	namespace := podNetwork(t)
	p := newPodIn(t, vmi(func(spec map[string]any) {
		spec["networks"] = []any{map[string]any{"name": "default", "pod": map[string]any{}}}
		devices := spec["domain"].(map[string]any)["devices"].(map[string]any)
		devices["interfaces"] = []any{map[string]any{"name": "default", "masquerade": map[string]any{}}}
	}), namespace)
	d := p.bootWith(&rpc.PodInterface{
		Network: "default", Tap: "tap0", PodInterface: "eth0", Mtu: 1400, Bridge: "k6t-eth0", GuestAddress: "10.0.2.2/24", Gateway: "10.0.2.1",
	})
	require.Len(t, d.GetInterfaces(), 1)
	require.Equal(t, "default", d.GetInterfaces()[0].GetName())
	require.Equal(t, "eth0", d.GetInterfaces()[0].GetPodInterface())
	require.Equal(t, "up", d.GetInterfaces()[0].GetLinkState())
	require.Contains(t, p.log(), "ip=10.0.2.2")
	p.eventually("the guest's web server answers", func() bool {
		out, err := exec.Command("ip", "netns", "exec", namespace, "busybox", "wget", "-Y", "off", "-q", "-T", "2", "-O", "-", "http://10.0.2.2/").Output()
		return err == nil && strings.Contains(string(out), "hello from")
	})
	p.shell("cat /etc/resolv.conf; ip link show eth0; cat /proc/net/route; hostname")
	p.signal("launcher", syscall.SIGTERM)
	m, _ := p.ends()
	require.Equal(t, contract.ReasonShutdown, m.Reason)
}
