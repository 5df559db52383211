package podnet

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func read(tb table) map[string][]string {
	got := map[string][]string{}
	for _, c := range tb.chains {
		for _, r := range c.rules {
			got[c.name] = append(got[c.name], r.String())
		}
	}
	return got
}

func TestMasqueradeRules(t *testing.T) {
	require.Equal(t, map[string][]string{
		"guard": {
			`iifname "k6t-eth0" ip daddr 127.0.0.0/8 drop`,
			`iifname "k6t-eth0" ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept`,
			`iifname "k6t-eth0" ip saddr != 10.0.2.2 drop`,
		},
		"inbound": {
			`iifname "eth0" dnat to 10.0.2.2`,
			`iifname "k6t-eth0" ip daddr 192.0.2.2 dnat to 10.0.2.2`,
		},
		"local": {`ip daddr 127.0.0.1 dnat to 10.0.2.2`},
		"outbound": {
			`oifname "eth0" ip saddr 10.0.2.2 masquerade`,
			`oifname "k6t-eth0" ip saddr 10.0.2.2 ip daddr 10.0.2.2 snat to 192.0.2.2`,
			`oifname "k6t-eth0" ip saddr 127.0.0.0/8 snat to 10.0.2.1`,
		},
	}, read(masqueraded(t).translation(privateIPv4, netip.MustParseAddr(podAddress))))
	require.Equal(t, map[string][]string{
		"guard": {
			`iifname "k6t-eth0" ip6 saddr fe80::/10 ip6 daddr fe80::/10 accept`,
			`iifname "k6t-eth0" ip6 saddr fe80::/10 ip6 daddr ff02::/16 accept`,
			`iifname "k6t-eth0" ip6 saddr :: ip6 daddr ff02::/16 accept`,
			`iifname "k6t-eth0" ip6 saddr != fd10:0:2::2 drop`,
		},
		"inbound": {
			`iifname "eth0" dnat to fd10:0:2::2`,
			`iifname "k6t-eth0" ip6 daddr 2001:db8::2 dnat to fd10:0:2::2`,
		},
		"outbound": {
			`oifname "eth0" ip6 saddr fd10:0:2::2 masquerade`,
			`oifname "k6t-eth0" ip6 saddr fd10:0:2::2 ip6 daddr fd10:0:2::2 snat to 2001:db8::2`,
		},
	}, read(masqueraded(t).translation(privateIPv6, netip.MustParseAddr(podAddress6))))
}

func TestOnlyNamedPortsAreForwarded(t *testing.T) {
	i := PodNetwork()
	i.Ports = []Ports{{First: 80, Last: 80}, {UDP: true, First: 5000, Last: 5010}}
	got := read(planned(t, i).translation(netip.MustParsePrefix("10.9.0.0/28"), netip.MustParseAddr(podAddress)))
	require.Equal(t, []string{
		`iifname "eth0" tcp dport 80 dnat to 10.9.0.2`,
		`iifname "eth0" udp dport 5000-5010 dnat to 10.9.0.2`,
		`iifname "k6t-eth0" ip daddr 192.0.2.2 tcp dport 80 dnat to 10.9.0.2`,
		`iifname "k6t-eth0" ip daddr 192.0.2.2 udp dport 5000-5010 dnat to 10.9.0.2`,
	}, got["inbound"])
	require.Equal(t, []string{
		`ip daddr 127.0.0.1 tcp dport 80 dnat to 10.9.0.2`,
		`ip daddr 127.0.0.1 udp dport 5000-5010 dnat to 10.9.0.2`,
	}, got["local"])
}

func TestGuardRules(t *testing.T) {
	mac, err := net.ParseMAC("02:00:00:00:00:07")
	require.NoError(t, err)
	p := planned(t, Interface{Binding: Bridge, Queues: 1})
	require.Equal(t, map[string][]string{
		"guard": {
			`iifname "tap0" ether saddr != 02:00:00:00:00:07 drop`,
			`iifname "tap0" ether type arp arp saddr ether != 02:00:00:00:00:07 drop`,
			`iifname "tap0" ether type arp arp saddr ip 192.0.2.2 accept`,
			`iifname "tap0" ether type arp arp saddr ip 0.0.0.0 accept`,
			`iifname "tap0" ether type ip ip saddr 192.0.2.2 ip daddr 169.254.75.10 udp sport 68 udp dport 67 receive`,
			`iifname "tap0" ether type ip ip saddr 192.0.2.2 accept`,
			`iifname "tap0" ether type ip ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept`,
			`iifname "tap0" drop`,
		},
		"dhcp": {
			`iifname "tap0" ether type ip udp sport 68 udp dport 67 drop`,
			`iifname "tap0" ether type ip udp sport 67 udp dport 68 drop`,
			`iifname "eth0-nic" ether type ip udp sport 68 udp dport 67 drop`,
			`iifname "eth0-nic" ether type ip udp sport 67 udp dport 68 drop`,
		},
		"own": {
			`iifname "tap0" ether type arp accept`,
			`iifname "tap0" ether type ip ip daddr 169.254.75.10 udp sport 68 udp dport 67 accept`,
			`iifname "tap0" ether type ip ip daddr 255.255.255.255 udp sport 68 udp dport 67 accept`,
			`iifname "tap0" drop`,
			`iifname "eth0-nic" drop`,
		},
		"answers": {`oifname "eth0-nic" drop`},
	}, read(p.guarded(mac, netip.MustParseAddr("192.0.2.2"))))
}

// TestWhatALauncherMaySay: what comes from a launcher is refused where no guest can have it.
func TestWhatALauncherMaySay(t *testing.T) {
	for name, change := range map[string]func(*Interface){
		"is no binding":                       func(i *Interface) { i.Binding = "none" },
		"beside the pod's own cannot be masq": func(i *Interface) { i.Suffix = "16367aacb67" },
		"more than 32 interfaces":             func(i *Interface) { i.Number = MaxInterfaces },
		"cannot have 0 queues":                func(i *Interface) { i.Queues = 0 },
		"cannot have 257 queues":              func(i *Interface) { i.Queues = 257 },
		"1025 ports are more":                 func(i *Interface) { i.Ports = make([]Ports, 1025) },
		"no ports from 0 to 5":                func(i *Interface) { i.Ports = []Ports{{Last: 5}} },
		"no ports from 9 to 5":                func(i *Interface) { i.Ports = []Ports{{First: 9, Last: 5}} },
		"is no MAC address of an":             func(i *Interface) { i.MAC = net.HardwareAddr{1, 0, 0, 0, 0, 0} },
		"127.0.0.0/8 is no network":           func(i *Interface) { i.IPv4 = netip.MustParsePrefix("127.0.0.1/8") },
		"169.254.0.0/16 is no network":        func(i *Interface) { i.IPv4 = netip.MustParsePrefix("169.254.0.0/16") },
		"0.0.0.0/0 is no network":             func(i *Interface) { i.IPv4 = netip.MustParsePrefix("10.0.0.0/0") },
		"10.0.0.2/31 has no room":             func(i *Interface) { i.IPv4 = netip.MustParsePrefix("10.0.0.2/31") },
		"fd00::/120 is not of the family of":  func(i *Interface) { i.IPv4 = netip.MustParsePrefix("fd00::/120") },
		"10.0.2.0/24 is not of the family of": func(i *Interface) { i.IPv6 = netip.MustParsePrefix("10.0.2.0/24") },
		"fe80::/64 is no network":             func(i *Interface) { i.IPv6 = netip.MustParsePrefix("fe80::/64") },
	} {
		i := PodNetwork()
		change(&i)
		_, err := NewPlan(i)
		require.ErrorContains(t, err, name)
	}
}
