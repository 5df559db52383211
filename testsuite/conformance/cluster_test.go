package main

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIsOn: a run changes no cluster whose API server is on another machine.
func TestIsOn(t *testing.T) {
	addresses := []net.Addr{
		&net.IPNet{IP: net.IPv4(127, 0, 0, 1), Mask: net.CIDRMask(8, 32)},
		&net.IPNet{IP: net.IPv4(10, 210, 0, 1), Mask: net.CIDRMask(24, 32)},
	}
	for server, is := range map[string]bool{
		"https://10.210.0.1:6443":      true,
		"https://127.0.0.1:6443":       true,
		"https://10.210.0.2:6443":      false, // of the same network
		"https://10.210.0.1.example":   false,
		"https://cluster.example:6443": false,
		"":                             false,
	} {
		require.Equal(t, is, isOn(server, addresses), server)
	}
}
