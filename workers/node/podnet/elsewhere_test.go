package podnet

import (
	"context"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/google/nftables"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
)

// foreignAddress is that of a host which the node reaches, and no pod does.
const foreignAddress = "198.51.100.7"

// foreign is a host beside the node, which takes connections on port 443 and has packets on port 53 counted.
func (p testPod) foreign(t *testing.T) *os.File {
	host := namespace(t)
	beside := testPod{Pod: Pod{NetworkNamespace: p.other}}
	beside.veth(t, "lan", "198.51.100.1/24", host, "eth0", foreignAddress+"/24")
	l := listen(t, host, foreignAddress+":443")
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return host
}

// TestDialRefusesOtherHosts: the network that a tenant has defined may give a pod any address, and
// the node dials it with all that it can reach.
func TestDialRefusesOtherHosts(t *testing.T) {
	for name, lead := range map[string]func(t *testing.T, pod testPod){
		"the address is that of another host": func(*testing.T, testPod) {},
		"the address is the node's own": func(t *testing.T, pod testPod) {
			require.NoError(t, inNamespace(pod.other, func() error {
				link, err := netlink.LinkByName("lo")
				require.NoError(t, err)
				return addAddress(link, foreignAddress+"/32")
			}))
			l := listen(t, pod.other, "0.0.0.0:443")
			t.Cleanup(func() { l.Close() })
		},
		"the address leads to the pod, but the port is a Service's": func(t *testing.T, pod testPod) {
			require.NoError(t, inNamespace(pod.other, func() error {
				link, err := netlink.LinkByName("eth0")
				require.NoError(t, err)
				require.NoError(t, netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index,
					Dst: ipNet(hostPrefix(netip.MustParseAddr(foreignAddress)))}))
				service := chain{name: "service", nat: true, hook: output, priority: priorityDestNAT}
				for _, port := range []Ports{{First: 443, Last: 443}, {UDP: true, First: 53, Last: 53}} {
					service.rules = append(service.rules, rule{do: dnat, address: netip.MustParseAddr("198.51.100.9"),
						when: []match{destination(hostPrefix(netip.MustParseAddr(foreignAddress))), port.to()}})
				}
				return applyRules(table{family: nftables.TableFamilyIPv4, chains: []chain{service}})
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(t)
			host := pod.foreign(t)
			require.NoError(t, inNamespace(host, func() error {
				link, err := netlink.LinkByName("eth0")
				require.NoError(t, err)
				require.NoError(t, addAddress(link, "198.51.100.9/24"))
				return netlink.RouteAdd(&netlink.Route{Gw: net.IPv4(198, 51, 100, 1)})
			}))
			l := listen(t, host, "198.51.100.9:443")
			t.Cleanup(func() { l.Close() })
			require.NoError(t, inNamespace(pod.NetworkNamespace, func() error {
				link, err := netlink.LinkByName("eth0")
				require.NoError(t, err)
				address := ipNet(netip.MustParsePrefix(podAddress + "/24"))
				require.NoError(t, netlink.AddrDel(link, &netlink.Addr{IPNet: address}))
				return addAddress(link, foreignAddress+"/32")
			}))
			lead(t, pod)
			_, err := bridged(t).Prepare(context.Background(), pod.Pod)
			require.NoError(t, err)
			// The node must reach that namespace, or the connection would fail for another reason.
			require.NoError(t, inNamespace(pod.other, func() error {
				c, err := net.DialTimeout("tcp", foreignAddress+":443", deadline)
				if err == nil {
					c.Close()
				}
				return err
			}))
			ctx, cancel := context.WithTimeout(context.Background(), deadline)
			defer cancel()
			_, err = bridged(t).DialGuest(ctx, pod.Pod, pod.other, "tcp", 443)
			require.ErrorContains(t, err, "the address 198.51.100.7 of its pod leads elsewhere")
			_, err = bridged(t).DialGuest(ctx, pod.Pod, pod.other, "udp", 53)
			require.ErrorContains(t, err, "the address 198.51.100.7 of its pod leads elsewhere")
		})
	}
}
