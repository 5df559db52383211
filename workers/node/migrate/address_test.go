package migrate

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChoose(t *testing.T) {
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
		"loopback is not reachable":     {own: []string{"127.0.0.1/8"}, pod: podAddress, fails: "other nodes can reach"},
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
			address, network, err := chooseAddress(own, pod)
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

// TestInterfaceAddresses: what the kernel says is understood.
func TestInterfaceAddresses(t *testing.T) {
	own, err := interfaceAddresses("lo")
	require.NoError(t, err)
	require.Contains(t, own, netip.MustParsePrefix("127.0.0.1/8"))
	none, err := interfaceAddresses(Interface)
	require.NoError(t, err)
	require.Nil(t, none)
}

// TestSourceAddresses: the source's addresses are those that the target expects, and the target cuts their list to
// size, too.
func TestSourceAddresses(t *testing.T) {
	targets := NewTargets(TargetOptions{Pod: netip.MustParseAddr("::ffff:10.244.1.7"),
		Addresses: func(string) ([]netip.Prefix, error) {
			return []netip.Prefix{netip.MustParsePrefix("192.168.9.4/24"), netip.MustParsePrefix("fe80::1/64")}, nil
		}})
	own, err := targets.SourceAddresses()
	require.NoError(t, err)
	require.Equal(t, []string{"10.244.1.7", "192.168.9.4"}, own)
	own, err = NewTargets(TargetOptions{}).SourceAddresses()
	require.NoError(t, err)
	require.Empty(t, own)

	require.Equal(t, []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
		ParseAddresses([]string{"::ffff:10.0.0.1", "no address", "fd00::1"}))
	require.Len(t, ParseAddresses(slices.Repeat([]string{"10.0.0.1"}, 100)), maxSourceAddresses)
}

// TestChecksRequiredNetwork: a guest moves over the required network or not at all.
func TestChecksRequiredNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		required, network string
		own               []netip.Prefix
		fails             string
	}{
		"none is required":        {},
		"it is there":             {required: "virtflow/moves", network: "virtflow/moves", own: []netip.Prefix{netip.MustParsePrefix("192.168.9.4/24")}},
		"no network is requested": {required: "virtflow/moves", fails: "requests no network as migration0: annotate the pods of node workers"},
		"another is requested":    {required: "virtflow/moves", network: "infra/moves", fails: "requests infra/moves as migration0"},
		"it was not made":         {required: "virtflow/moves", network: "virtflow/moves", fails: "has no migration0"},
		"it has no address": {required: "virtflow/moves", network: "virtflow/moves",
			own: []netip.Prefix{netip.MustParsePrefix("fe80::1/64")}, fails: "has no address that other nodes can reach"},
	} {
		t.Run(name, func(t *testing.T) {
			own, err := NewTargets(TargetOptions{Pod: netip.MustParseAddr("10.244.1.7"), Network: c.network,
				Addresses: func(string) ([]netip.Prefix, error) { return c.own, nil }}).RequiredAddress(c.required)
			if c.fails == "" {
				require.NoError(t, err)
				require.Equal(t, c.required != "", own == netip.MustParseAddr("192.168.9.4"))
				return
			}
			require.ErrorContains(t, err, c.fails)
		})
	}
}
