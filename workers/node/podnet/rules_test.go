package podnet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMasqueradeReadsAsMeant(t *testing.T) {
	got := map[string][]string{}
	for _, c := range Masquerade().chains() {
		for _, r := range c.rules {
			got[c.name] = append(got[c.name], r.String())
		}
	}
	require.Equal(t, map[string][]string{
		"guard": {
			`iifname "k6t-eth0" ip daddr 127.0.0.0/8 drop`,
			`iifname "k6t-eth0" ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept`,
			`iifname "k6t-eth0" ip saddr != 10.0.2.2 drop`,
		},
		"inbound": {`iifname "eth0" dnat to 10.0.2.2`},
		"local":   {`ip daddr 127.0.0.1 dnat to 10.0.2.2`},
		"outbound": {
			`oifname "eth0" ip saddr 10.0.2.2 masquerade`,
			`oifname "k6t-eth0" ip saddr 127.0.0.0/8 snat to 10.0.2.1`,
		},
	}, got)
}
