package podnet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The addresses of the pod and of another host on its network (RFC 5737).
const (
	podAddress   = "192.0.2.2"
	otherAddress = "192.0.2.1"
	deadline     = 10 * time.Second
)

// TestPrepareTwice prepares a pod twice and finds the same network both times.
func TestPrepareTwice(t *testing.T) {
	pod := newPod(t)
	done, err := masqueraded(t).Prepare(context.Background(), pod.Pod)
	require.NoError(t, err)
	require.Equal(t, Prepared{
		MTU: 1400, IPv4: netip.MustParsePrefix("10.0.2.2/24"), Gateway: netip.MustParseAddr("10.0.2.1"),
		Server: netip.MustParseAddr("10.0.2.1"),
	}, done)
	first := pod.look(t)
	require.Equal(t, 1400, first.tapMTU)
	require.Equal(t, uint32(107), first.tapOwner)
	require.Equal(t, "k6t-eth0", first.tapMaster)
	require.Equal(t, "02:00:00:00:00:00", first.bridgeMAC)
	require.Equal(t, []string{"10.0.2.1/24"}, first.bridgeAddresses)
	require.Equal(t, map[string]int{"guard": 3, "inbound": 2, "local": 1, "outbound": 3}, first.rules)
	require.Equal(t, []string{"1", "1", "0"}, first.sysctls)

	_, err = masqueraded(t).Prepare(context.Background(), pod.Pod)
	require.NoError(t, err)
	require.Equal(t, first, pod.look(t))
}

// TestTraffic puts a guest behind the bridge and speaks to it and from it in every way that a guest's network has.
func TestTraffic(t *testing.T) {
	pod := newPod(t)
	_, err := masqueraded(t).Prepare(context.Background(), pod.Pod)
	require.NoError(t, err)
	guest := namespace(t)
	pod.attachGuest(t, guest)

	t.Run("others reach the guest by the pod's address and keep their own", func(t *testing.T) {
		require.Equal(t, otherAddress, dialled(t, guest, "0.0.0.0", pod.other, net.JoinHostPort(podAddress, "8080")))
	})
	t.Run("localhost in the pod is the guest, which sees its gateway", func(t *testing.T) {
		require.Equal(t, "10.0.2.1", dialled(t, guest, "0.0.0.0", pod.NetworkNamespace, "127.0.0.1:8080"))
	})
	t.Run("the guest reaches others with the pod's address", func(t *testing.T) {
		require.Equal(t, podAddress, dialled(t, pod.other, otherAddress, guest, net.JoinHostPort(otherAddress, "8080")))
	})
	t.Run("the guest reaches itself by the pod's address, as a pod does", func(t *testing.T) {
		require.Equal(t, podAddress, dialled(t, guest, "0.0.0.0", guest, net.JoinHostPort(podAddress, "8080")))
	})
	t.Run("the guest does not reach the pod's loopback", func(t *testing.T) {
		require.NoError(t, inNamespace(guest, func() error {
			l, err := netlink.LinkByName("guest")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/conf/guest/route_localnet", []byte("1"), 0))
			lo, err := netlink.LinkByName("lo")
			require.NoError(t, err)
			require.NoError(t, netlink.LinkSetDown(lo))
			return netlink.RouteAdd(&netlink.Route{
				LinkIndex: l.Attrs().Index, Gw: net.IPv4(10, 0, 2, 1),
				Dst: &net.IPNet{IP: net.IPv4(127, 0, 0, 9), Mask: net.CIDRMask(32, 32)},
			})
		}))
		listener := listen(t, pod.NetworkNamespace, "127.0.0.9:9090")
		defer listener.Close()
		require.Error(t, inNamespace(guest, func() error {
			c, err := (&net.Dialer{Timeout: 300 * time.Millisecond}).Dial("tcp", "127.0.0.9:9090")
			if err == nil {
				c.Close()
			}
			return err
		}))
	})
}

func TestNodeNetworkIsRefused(t *testing.T) {
	own, err := os.Open("/proc/self/ns/net")
	require.NoError(t, err)
	defer own.Close()
	_, err = masqueraded(t).Prepare(context.Background(), Pod{NetworkNamespace: own})
	require.ErrorContains(t, err, "node's own network namespace")
}

func TestMissingPodLink(t *testing.T) {
	_, err := masqueraded(t).Prepare(context.Background(), Pod{NetworkNamespace: namespace(t)})
	require.ErrorContains(t, err, "pod link (eth0) is missing")
}

// masqueraded is the plan of a guest that asks for nothing special.
func masqueraded(t *testing.T) Plan { return planned(t, PodNetwork()) }

func planned(t *testing.T, i Interface) Plan {
	p, err := NewPlan(i)
	require.NoError(t, err)
	return p
}

// testPod has eth0 with an address, and another host at the other end of it. All of it is gone with its file
// descriptors.
type testPod struct {
	Pod
	other *os.File
}

func newPod(t *testing.T) testPod {
	p := testPod{Pod: Pod{NetworkNamespace: namespace(t)}, other: namespace(t)}
	p.veth(t, "eth0", podAddress+"/24", p.other, "eth0", otherAddress+"/24")
	return p
}

// veth joins the pod's and another namespace.
func (p testPod) veth(t *testing.T, name, address string, to *os.File, toName, toAddress string) {
	require.NoError(t, inNamespace(p.NetworkNamespace, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = name, 1400
		if err := netlink.LinkAdd(
			&netlink.Veth{LinkAttrs: attrs, PeerName: toName, PeerNamespace: netlink.NsFd(int(to.Fd()))}); err != nil {
			return err
		}
		return raiseNamed(name, address)
	}))
	require.NoError(t, inNamespace(to, func() error { return raiseNamed(toName, toAddress) }))
}

// attachGuest joins a namespace to the bridge, in the place of a guest.
func (p testPod) attachGuest(t *testing.T, guest *os.File) {
	p.veth(t, "port", "", guest, "guest", "10.0.2.2/24")
	require.NoError(t, inNamespace(p.NetworkNamespace, func() error {
		port, err := netlink.LinkByName("port")
		require.NoError(t, err)
		bridge, err := netlink.LinkByName("k6t-eth0")
		require.NoError(t, err)
		return netlink.LinkSetMaster(port, bridge)
	}))
	require.NoError(t, inNamespace(guest, func() error {
		return netlink.RouteAdd(&netlink.Route{Gw: net.IPv4(10, 0, 2, 1)})
	}))
}

type seen struct {
	tapMTU          int
	tapOwner        uint32
	tapMaster       string
	bridgeMAC       string
	bridgeAddresses []string
	rules           map[string]int
	sysctls         []string
}

func (p testPod) look(t *testing.T) seen {
	s := seen{rules: map[string]int{}}
	require.NoError(t, inNamespace(p.NetworkNamespace, func() error {
		tap, err := netlink.LinkByName("tap0")
		require.NoError(t, err)
		bridge, err := netlink.LinkByIndex(tap.Attrs().MasterIndex)
		require.NoError(t, err)
		s.tapMTU, s.tapOwner = tap.Attrs().MTU, tap.(*netlink.Tuntap).Owner
		s.tapMaster, s.bridgeMAC = bridge.Attrs().Name, bridge.Attrs().HardwareAddr.String()
		addresses, err := netlink.AddrList(bridge, netlink.FAMILY_V4)
		require.NoError(t, err)
		for _, a := range addresses {
			s.bridgeAddresses = append(s.bridgeAddresses, a.IPNet.String())
		}
		for _, c := range forMasquerade("k6t-eth0") {
			b, err := os.ReadFile(filepath.Join("/proc/sys/net", c.path))
			require.NoError(t, err)
			s.sysctls = append(s.sysctls, string(b[:1]))
		}
		c, err := nftables.New()
		require.NoError(t, err)
		table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv4}
		for _, ch := range masqueraded(t).translation(privateIPv4).chains {
			rules, err := c.GetRules(table, &nftables.Chain{Name: ch.name, Table: table})
			require.NoError(t, err)
			s.rules[ch.name] = len(rules)
		}
		return nil
	}))
	return s
}

// dialled has a client in one namespace connect to an address and returns the address that the server in another saw.
func dialled(t *testing.T, server *os.File, listenOn string, client *os.File, to string) string {
	_, port, err := net.SplitHostPort(to)
	require.NoError(t, err)
	listener := listen(t, server, net.JoinHostPort(listenOn, port))
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			_, _ = io.WriteString(c, host)
			c.Close()
		}
	}()
	var from []byte
	require.NoError(t, inNamespace(client, func() error {
		c, err := (&net.Dialer{Timeout: deadline}).Dial("tcp", to)
		for end := time.Now().Add(time.Minute); errors.Is(err, unix.EHOSTUNREACH) && time.Now().Before(end); {
			// On a busy machine the kernel takes its time to join the multicast group of a new IPv6 address, and
			// answers no neighbour solicitation until then.
			c, err = (&net.Dialer{Timeout: deadline}).Dial("tcp", to)
		}
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(deadline))
		from, err = io.ReadAll(c)
		return err
	}))
	return string(from)
}

func listen(t *testing.T, ns *os.File, address string) net.Listener {
	var l net.Listener
	require.NoError(t, inNamespace(ns, func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	}))
	return l
}

func raiseNamed(name, address string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if address != "" {
		if err := addAddress(link, address); err != nil {
			return err
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

func addAddress(link netlink.Link, address string) error {
	p := netip.MustParsePrefix(address)
	a := &netlink.Addr{IPNet: ipNet(p)}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	return netlink.AddrAdd(link, a)
}

// namespace makes a network namespace that lives only as long as the test and has no name anywhere.
func namespace(t *testing.T) *os.File {
	require.Zero(t, os.Geteuid(), "this test makes network namespaces: run it as root")
	own, err := os.Open("/proc/self/ns/net")
	require.NoError(t, err)
	defer own.Close()
	var made *os.File
	require.NoError(t, inNamespace(own, func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		made, err = os.Open("/proc/thread-self/ns/net")
		return err
	}))
	t.Cleanup(func() { made.Close() })
	return made
}
