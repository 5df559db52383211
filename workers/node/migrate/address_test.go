package migrate

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhereToListen(t *testing.T) {
	const podAddress = "10.244.1.7"
	for name, c := range map[string]struct {
		own     []string // of migration0
		pod     string
		address string
		network Network
		fails   string
	}{
		"no network for migrations":     {pod: podAddress, address: podAddress, network: NetworkPod},
		"one":                           {own: []string{"192.168.9.4/24"}, pod: podAddress, address: "192.168.9.4", network: NetworkMigration},
		"IPv4 first":                    {own: []string{"fe80::1/64", "fd00::4/64", "192.168.9.4/24"}, address: "192.168.9.4", network: NetworkMigration},
		"IPv6 only":                     {own: []string{"fe80::1/64", "fd00::4/64"}, address: "fd00::4", network: NetworkMigration},
		"the first of several":          {own: []string{"192.168.9.4/24", "192.168.9.5/24"}, address: "192.168.9.4", network: NetworkMigration},
		"one that has no address yet":   {own: []string{"fe80::1/64"}, pod: podAddress, fails: "other nodes can reach"},
		"one that has none at all":      {own: []string{}, pod: podAddress, fails: "other nodes can reach"},
		"neither":                       {fails: "neither migration0 nor"},
		"a pod's IPv6":                  {pod: "fd00::7", address: "fd00::7", network: NetworkPod},
		"loopback is nobody's":          {own: []string{"127.0.0.1/8"}, pod: podAddress, fails: "other nodes can reach"},
		"an address for all interfaces": {own: []string{"0.0.0.0/0"}, pod: podAddress, fails: "other nodes can reach"},
	} {
		t.Run(name, func(t *testing.T) {
			var own []netip.Prefix
			if c.own != nil {
				own = []netip.Prefix{}
			}
			for _, p := range c.own {
				own = append(own, netip.MustParsePrefix(p))
			}
			var pod netip.Addr
			if c.pod != "" {
				pod = netip.MustParseAddr(c.pod)
			}
			address, network, err := choose(own, pod)
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.address, address.String())
			require.Equal(t, c.network, network)
		})
	}
}

// TestTheSystemsOwnAddresses: what the kernel says is understood.
func TestTheSystemsOwnAddresses(t *testing.T) {
	own, err := interfaceAddresses("lo")
	require.NoError(t, err)
	require.Contains(t, own, netip.MustParsePrefix("127.0.0.1/8"))
	none, err := interfaceAddresses(migrationInterface)
	require.NoError(t, err)
	require.Nil(t, none)
}
