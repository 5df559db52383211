package dhcp

import (
	"fmt"
	"net"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/insomniacslk/dhcp/rfc1035label"
)

// Lease6 has what the guest gets by DHCPv6, which has no option for a default route: as with KubeVirt, the guest's own
// network data must have it.
type Lease6 struct {
	Interface string // that the server listens on
	// Server is the MAC that identifies the server.
	Server  net.HardwareAddr
	Address net.IP
	DNS     []net.IP
	Search  []string
}

// Reply6 returns the answer to a guest's message; nil if there is none. Every client on the bridge gets the one
// address: behind masquerade the guest is the only one, and may identify itself as it likes (RFC 8415, section 11).
func Reply6(l Lease6, request *dhcpv6.Message) (*dhcpv6.Message, error) {
	server := &dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: l.Server}
	if id := request.Options.ServerID(); id != nil && !id.Equal(server) {
		return nil, nil // the guest has chosen another server
	}
	modifiers := []dhcpv6.Modifier{dhcpv6.WithServerID(server)}
	if ia := request.Options.OneIANA(); ia != nil {
		modifiers = append(modifiers, dhcpv6.WithIAID(ia.IaId), dhcpv6.WithIANA(dhcpv6.OptIAAddress{
			IPv6Addr: l.Address, PreferredLifetime: leaseTime, ValidLifetime: leaseTime}))
	}
	if len(l.DNS) > 0 {
		modifiers = append(modifiers, dhcpv6.WithDNS(l.DNS...))
	}
	if len(l.Search) > 0 {
		modifiers = append(modifiers, dhcpv6.WithOption(dhcpv6.OptDomainSearchList(
			&rfc1035label.Labels{Labels: l.Search})))
	}
	var reply *dhcpv6.Message
	var err error
	switch request.MessageType {
	case dhcpv6.MessageTypeSolicit:
		if request.GetOneOption(dhcpv6.OptionRapidCommit) != nil {
			reply, err = dhcpv6.NewReplyFromMessage(request, append(modifiers, dhcpv6.WithRapidCommit)...)
			break
		}
		reply, err = dhcpv6.NewAdvertiseFromSolicit(request, modifiers...)
	case dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRebind,
		dhcpv6.MessageTypeInformationRequest:
		reply, err = dhcpv6.NewReplyFromMessage(request, modifiers...)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("building a reply: %w", err)
	}
	return reply, nil
}
