package dhcp_test

import (
	"net"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/dhcp"
)

func lease6() dhcp.Lease6 {
	return dhcp.Lease6{
		Interface: "k6t-eth0", Server: net.HardwareAddr{2, 0, 0, 0, 0, 0}, Address: net.ParseIP("fd10:0:2::2"),
		DNS: []net.IP{net.ParseIP("fd00::a")}, Search: []string{"default.svc.cluster.local"},
	}
}

var mac = net.HardwareAddr{2, 0, 0, 0, 0, 1}

func TestGuestGetsItsIPv6Address(t *testing.T) {
	solicit, err := dhcpv6.NewSolicit(mac)
	require.NoError(t, err)
	advertise, err := dhcp.Reply6(lease6(), solicit)
	require.NoError(t, err)
	require.Equal(t, dhcpv6.MessageTypeAdvertise, advertise.MessageType)
	request, err := dhcpv6.NewRequestFromAdvertise(advertise)
	require.NoError(t, err)
	reply, err := dhcp.Reply6(lease6(), request)
	require.NoError(t, err)
	require.Equal(t, dhcpv6.MessageTypeReply, reply.MessageType)
	require.Equal(t, request.TransactionID, reply.TransactionID)
	ia := reply.Options.OneIANA()
	require.Equal(t, solicit.Options.OneIANA().IaId, ia.IaId)
	require.Equal(t, "fd10:0:2::2", ia.Options.OneAddress().IPv6Addr.String())
	require.Equal(t, 999*24*time.Hour, ia.Options.OneAddress().ValidLifetime)
	require.Equal(t, "fd00::a", reply.Options.DNS()[0].String())
	require.Equal(t, []string{"default.svc.cluster.local"}, reply.Options.DomainSearchList().Labels)
}

func TestRapidCommit(t *testing.T) {
	solicit, err := dhcpv6.NewSolicit(mac, dhcpv6.WithRapidCommit)
	require.NoError(t, err)
	reply, err := dhcp.Reply6(lease6(), solicit)
	require.NoError(t, err)
	require.Equal(t, dhcpv6.MessageTypeReply, reply.MessageType)
	require.NotNil(t, reply.GetOneOption(dhcpv6.OptionRapidCommit))
}

func TestIgnoresMessageForAnotherServer(t *testing.T) {
	solicit, err := dhcpv6.NewSolicit(mac)
	require.NoError(t, err)
	other := lease6()
	other.Server = net.HardwareAddr{2, 0, 0, 0, 0, 9}
	advertise, err := dhcp.Reply6(other, solicit)
	require.NoError(t, err)
	request, err := dhcpv6.NewRequestFromAdvertise(advertise)
	require.NoError(t, err)
	reply, err := dhcp.Reply6(lease6(), request)
	require.NoError(t, err)
	require.Nil(t, reply)
}
