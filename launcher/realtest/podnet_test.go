//go:build libvirt

package realtest

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/dhcpv6/nclient6"
	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/internal/multus"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/testsuite/suite"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/podnet"
)

// Addresses of the pod, and of another host on its network (RFC 5737 and 3849).
const (
	podIPv4, otherIPv4 = "192.0.2.2", "192.0.2.1"
	podIPv6, otherIPv6 = "2001:db8::2", "2001:db8::1"
)

// realNetwork makes a pod's network namespace with both families, as a CNI plugin does, and one of another host on the
// same network.
func realNetwork(t *testing.T) (pod, other string) {
	t.Helper()
	pod = "vf-pod-" + strconv.Itoa(syscall.Getpid())
	other = "vf-other-" + strconv.Itoa(syscall.Getpid())
	for _, name := range []string{pod, other} {
		ip(t, "netns", "add", name)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
		ip(t, "-n", name, "link", "set", "lo", "up")
	}
	ip(t, "-n", pod, "link", "add", "eth0", "mtu", "1400", "type", "veth", "peer", "name", "eth0", "netns", other)
	for name, addresses := range map[string][]string{
		pod: {podIPv4 + "/24", podIPv6 + "/64"}, other: {otherIPv4 + "/24", otherIPv6 + "/64"},
	} {
		for _, a := range addresses {
			arguments := []string{"-n", name, "addr", "add", a, "dev", "eth0"}
			if netip.MustParsePrefix(a).Addr().Is6() {
				arguments = append(arguments, "nodad")
			}
			ip(t, arguments...)
		}
		ip(t, "-n", name, "link", "set", "eth0", "up")
	}
	ip(t, "-n", pod, "route", "add", "default", "via", otherIPv4)
	return pod, other
}

func ip(t *testing.T, arguments ...string) {
	t.Helper()
	out, err := exec.Command("ip", arguments...).CombinedOutput()
	require.NoError(t, err, "ip %v: %s", arguments, out)
}

// prepared does what the node worker does for the networks that the launcher says its guest needs.
func (p *pod) prepared() []*rpc.PodInterface {
	p.t.Helper()
	said, err := p.client.Networks(p.context(), &rpc.NetworksRequest{})
	require.NoError(p.t, err)
	namespace, err := os.Open(filepath.Join("/run/netns", p.namespace))
	require.NoError(p.t, err)
	defer namespace.Close() //nolint:errcheck // only entered
	var all []launchers.Interface
	for i, n := range said.GetNetworks() {
		wanted, err := launchers.Wanted(n)
		require.NoError(p.t, err)
		wanted.Number = i
		plan, err := podnet.NewPlan(wanted)
		require.NoError(p.t, err)
		done, err := plan.Prepare(p.context(), podnet.Pod{NetworkNamespace: namespace})
		require.NoError(p.t, err)
		all = append(all, launchers.Interface{Network: n.GetName(), Tap: plan.Tap, PodInterface: plan.PodInterface,
			Bridge: plan.Bridge, Prepared: done})
	}
	return launchers.PodInterfaces(all)
}

func oneInterface(network, settings map[string]any, change func(domain map[string]any)) func(map[string]any) {
	return func(spec map[string]any) {
		settings["name"] = "default"
		spec["networks"] = []any{map[string]any{"name": "default", "pod": network}}
		domain := spec["domain"].(map[string]any)
		domain["devices"].(map[string]any)["interfaces"] = []any{settings}
		if change != nil {
			change(domain)
		}
	}
}

// TestDualStackGuestBehindMasquerade: the guest has a private network, and only the ports that its VMI lists are
// reached.
func TestDualStackGuestBehindMasquerade(t *testing.T) {
	suite.TakeTurn(t, 1)
	namespace, other := realNetwork(t)
	p := newPodIn(t, vmi(oneInterface(
		map[string]any{"vmNetworkCIDR": "10.9.8.0/28", "vmIPv6NetworkCIDR": "fd09::/120"},
		map[string]any{"masquerade": map[string]any{}, "portRanges": []any{
			map[string]any{"start": 79, "end": 81, "protocol": "TCP"}}}, nil)), namespace)
	p.bootWith(p.prepared()...)
	require.Contains(t, p.log(), "ip=10.9.8.2")
	p.eventually("the guest's web server answers by the pod's IPv4 address", func() bool {
		return strings.Contains(get(other, podIPv4+":80"), "hello from")
	})
	require.Empty(t, get(other, podIPv4+":22"), "SSH listens in the guest, but is in no range that the VMI lists")
	require.NotEmpty(t, get(namespace, "10.9.8.2:22"))

	// The test guest has no DHCPv6 client: this does what one would, with the route from the network data.
	require.Equal(t, "fd09::2", p.askForIPv6("k6t-eth0"))
	p.shell("ip -6 addr add fd09::2/120 dev eth0; sleep 2; ip -6 route add default via fd09::1")
	p.eventually("it answers by the pod's IPv6 address", func() bool {
		return strings.Contains(get(other, "["+podIPv6+"]:80"), "hello from")
	})
}

// TestBridgedGuest: a bridged guest takes the pod's address, MAC and route. Its card has several queues, and the PCI
// address that the VMI names.
func TestBridgedGuest(t *testing.T) {
	suite.TakeTurn(t, 2)
	namespace, other := realNetwork(t)
	p := newPodIn(t, vmi(oneInterface(map[string]any{},
		map[string]any{"bridge": map[string]any{}, "pciAddress": "0000:01:00.0"},
		func(domain map[string]any) {
			domain["cpu"] = map[string]any{"cores": 2}
			domain["devices"].(map[string]any)["networkInterfaceMultiqueue"] = true
		})), namespace)
	d := p.bootWith(p.prepared()...)
	require.Len(t, d.GetInterfaces(), 1)
	require.EqualValues(t, 2, d.GetInterfaces()[0].GetQueues())
	require.Contains(t, p.log(), "ip="+podIPv4)
	p.eventually("the guest's web server answers by the pod's address", func() bool {
		return strings.Contains(get(other, podIPv4+":80"), "hello from")
	})
	said := p.run("echo mac=$(cat /sys/class/net/eth0/address) mtu=$(cat /sys/class/net/eth0/mtu) " +
		"queues=$(ls -d /sys/class/net/eth0/queues/rx-* | wc -l) at=$(readlink -f /sys/class/net/eth0/device) " +
		"by=$(ip route | sed -n 's/^default via \\([0-9.]*\\).*/\\1/p')")
	require.Contains(t, said, fmt.Sprintf("mac=%s mtu=1400 queues=2", d.GetInterfaces()[0].GetMac()))
	require.Contains(t, said, "0000:01:00.0")
	require.Contains(t, said, "by="+otherIPv4)

	// It renews its lease at the server's address, which is on none of its networks. One that is not answered would ask
	// for another.
	const answered = "answered DHCP"
	before := countLog(p, answered)
	p.run("kill -USR1 $(pidof udhcpc)")
	p.eventually("the guest's lease is renewed", func() bool { return countLog(p, answered) > before })
	require.Equal(t, before+1, countLog(p, answered))

	// It shuts down when the pod is terminated: its network does not change that.
	p.signal("launcher", syscall.SIGTERM)
	p.ends()
}

// TestGuestOnTwoNetworks: the guest is masqueraded on the pod network, and bridged to another network, which assigns no
// addresses: the guest's addresses there are its own.
func TestGuestOnTwoNetworks(t *testing.T) {
	suite.TakeTurn(t, 3)
	namespace, other := realNetwork(t)
	link := "pod" + multus.Suffix("second")
	ip(t, "-n", namespace, "link", "add", link, "mtu", "1300", "type", "veth", "peer", "name", "net1", "netns", other)
	ip(t, "-n", namespace, "link", "set", link, "up")
	ip(t, "-n", other, "addr", "add", "198.51.100.1/24", "dev", "net1")
	ip(t, "-n", other, "link", "set", "net1", "up")
	p := newPodIn(t, vmi(func(spec map[string]any) {
		spec["networks"] = []any{map[string]any{"name": "default", "pod": map[string]any{}},
			map[string]any{"name": "second", "multus": map[string]any{"networkName": "blue"}}}
		spec["domain"].(map[string]any)["devices"].(map[string]any)["interfaces"] = []any{
			map[string]any{"name": "default", "masquerade": map[string]any{}},
			map[string]any{"name": "second", "bridge": map[string]any{}}}
	}), namespace)
	d := p.bootWith(p.prepared()...)
	require.Len(t, d.GetInterfaces(), 2)
	require.Equal(t, link, d.GetInterfaces()[1].GetPodInterface())
	p.eventually("the guest's web server answers by the pod's address", func() bool {
		return strings.Contains(get(other, podIPv4+":80"), "hello from")
	})
	said := p.run("ip addr add 198.51.100.2/24 dev eth1; ip link set eth1 up; " +
		"echo mac=$(cat /sys/class/net/eth1/address) mtu=$(cat /sys/class/net/eth1/mtu)")
	require.Contains(t, said, fmt.Sprintf("mac=%s mtu=1300", d.GetInterfaces()[1].GetMac()))
	p.eventually("and on the other network", func() bool {
		return strings.Contains(get(other, "198.51.100.2:80"), "hello from")
	})
}

// askForIPv6 has a DHCPv6 client on a bridge of the pod, where a guest would be.
func (p *pod) askForIPv6(bridge string) string {
	p.t.Helper()
	name := "vf-client-" + strconv.Itoa(syscall.Getpid())
	ip(p.t, "netns", "add", name)
	p.t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	ip(p.t, "-n", p.namespace, "link", "add", "port", "type", "veth", "peer", "name", "eth0", "netns", name)
	ip(p.t, "-n", p.namespace, "link", "set", "port", "master", bridge, "up")
	out, err := exec.Command("ip", "netns", "exec", name,
		"sysctl", "-w", "net.ipv6.conf.eth0.accept_dad=0").CombinedOutput()
	require.NoError(p.t, err, "%s", out)
	ip(p.t, "-n", name, "link", "set", "eth0", "up")
	var reply *dhcpv6.Message
	p.eventually("DHCPv6 answers", func() bool {
		inNamespace(name, func() {
			client, err := nclient6.New("eth0", nclient6.WithTimeout(time.Second))
			if err != nil {
				return
			}
			defer client.Close() //nolint:errcheck // all was read
			reply, _ = client.RapidSolicit(p.context())
		})
		return reply != nil
	})
	return reply.Options.OneIANA().Options.OneAddress().IPv6Addr.String()
}
