package dhcp

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	v1 "kubevirt.io/api/core/v1"
)

// leaseTime is KubeVirt's "infinite": the guest keeps the address for as long as the pod lives.
const leaseTime = 999 * 24 * time.Hour

// firstPrivateOption and lastPrivateOption bound the site-specific options (RFC 3942), which a VMI may set.
const (
	firstPrivateOption = 224
	lastPrivateOption  = 254
)

// Lease has what the guest gets by DHCP.
type Lease struct {
	Interface string // that the server listens on
	MAC       net.HardwareAddr
	Address   net.IPNet // the guest's, with its network's mask
	// Server is the server's own address. Gateway is that of the default route; nil if there is none.
	Server, Gateway net.IP
	// Routes besides the default route; one with gateway 0.0.0.0 is on the link.
	Routes   []*dhcpv4.Route
	MTU      int
	Hostname string
	DNS      []net.IP
	Search   []string
	Options  *v1.DHCPOptions
}

// Reply returns the answer to a guest's message; nil if there is none. It serves only the guest's own MAC, so that no
// other device on the bridge gets its lease.
func Reply(l Lease, request *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, error) {
	if request.OpCode != dhcpv4.OpcodeBootRequest || request.ClientHWAddr.String() != l.MAC.String() {
		return nil, nil
	}
	var kind dhcpv4.MessageType
	switch request.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		kind = dhcpv4.MessageTypeOffer
	case dhcpv4.MessageTypeRequest:
		kind = dhcpv4.MessageTypeAck
	case dhcpv4.MessageTypeInform:
		kind = dhcpv4.MessageTypeAck
	default:
		return nil, nil
	}
	if id := request.ServerIdentifier(); id != nil && !id.Equal(l.Server) {
		return nil, nil // the guest has chosen another server
	}
	wanted := requestedAddress(request)
	if kind == dhcpv4.MessageTypeAck && wanted != nil && !wanted.Equal(l.Address.IP) {
		reply, err := dhcpv4.NewReplyFromRequest(request,
			dhcpv4.WithMessageType(dhcpv4.MessageTypeNak), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(l.Server)))
		if err != nil {
			return nil, fmt.Errorf("building a refusal: %w", err)
		}
		return reply, nil
	}
	options := []dhcpv4.Modifier{dhcpv4.WithMessageType(kind), dhcpv4.WithYourIP(l.Address.IP),
		dhcpv4.WithServerIP(l.Server)}
	for _, o := range l.options() {
		options = append(options, dhcpv4.WithOption(o))
	}
	reply, err := dhcpv4.NewReplyFromRequest(request, options...)
	if err != nil {
		return nil, fmt.Errorf("building a reply: %w", err)
	}
	return reply, nil
}

// requestedAddress returns the address that a client asks for, or has; nil: neither.
func requestedAddress(request *dhcpv4.DHCPv4) net.IP {
	if ip := request.RequestedIPAddress(); ip != nil && !ip.IsUnspecified() {
		return ip
	}
	if ip := request.ClientIPAddr; ip != nil && !ip.IsUnspecified() {
		return ip
	}
	return nil
}

func (l Lease) options() []dhcpv4.Option {
	out := []dhcpv4.Option{
		dhcpv4.OptServerIdentifier(l.Server),
		dhcpv4.OptSubnetMask(l.Address.Mask),
		dhcpv4.OptIPAddressLeaseTime(leaseTime),
	}
	if l.Gateway != nil {
		out = append(out, dhcpv4.OptRouter(l.Gateway))
	}
	if routes := l.routes(); len(routes) > 0 {
		out = append(out, dhcpv4.OptClasslessStaticRoute(routes...))
	}
	if len(l.DNS) > 0 {
		out = append(out, dhcpv4.OptDNS(l.DNS...))
	}
	if l.MTU > 0 {
		mtu := []byte{byte(l.MTU >> 8), byte(l.MTU)} // 16 bits by protocol
		out = append(out, dhcpv4.OptGeneric(dhcpv4.OptionInterfaceMTU, mtu))
	}
	if l.Hostname != "" {
		out = append(out, dhcpv4.OptHostName(l.Hostname))
	}
	if len(l.Search) > 0 {
		out = append(out, dhcpv4.OptDomainName(l.Search[0]), domainSearch(l.Search))
	}
	return append(out, l.private()...)
}

// routes returns the routes of option 121 (RFC 3442). A client that gets it ignores the router option, so the default
// route is among them. A gateway outside the guest's network needs a route of its own.
func (l Lease) routes() []*dhcpv4.Route {
	outside := l.Gateway != nil && !l.Address.Contains(l.Gateway)
	if len(l.Routes) == 0 && !outside {
		return nil
	}
	routes := slices.Clone(l.Routes)
	if outside && !slices.ContainsFunc(routes, func(r *dhcpv4.Route) bool { return r.Dest.Contains(l.Gateway) }) {
		routes = append(routes, &dhcpv4.Route{Dest: &net.IPNet{IP: l.Gateway, Mask: net.CIDRMask(32, 32)},
			Router: net.IPv4zero})
	}
	if l.Gateway != nil {
		routes = append(routes, &dhcpv4.Route{Dest: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)},
			Router: l.Gateway})
	}
	return routes
}

func (l Lease) private() []dhcpv4.Option {
	o := l.Options
	if o == nil {
		return nil
	}
	var out []dhcpv4.Option
	if o.TFTPServerName != "" {
		out = append(out, dhcpv4.OptTFTPServerName(o.TFTPServerName))
	}
	if o.BootFileName != "" {
		out = append(out, dhcpv4.OptBootFileName(o.BootFileName))
	}
	var ntp []net.IP
	for _, s := range o.NTPServers {
		if ip := net.ParseIP(s).To4(); ip != nil {
			ntp = append(ntp, ip)
		}
	}
	if len(ntp) > 0 {
		out = append(out, dhcpv4.OptNTPServers(ntp...))
	}
	for _, p := range o.PrivateOptions {
		if p.Option >= firstPrivateOption && p.Option <= lastPrivateOption {
			out = append(out, dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(p.Option), []byte(p.Value)))
		}
	}
	return out
}

// domainSearch encodes option 119 (RFC 3397) without compression.
func domainSearch(domains []string) dhcpv4.Option {
	var b []byte
	for _, d := range domains {
		for _, label := range strings.Split(strings.Trim(d, "."), ".") {
			if len(label) == 0 || len(label) > 63 {
				continue
			}
			b = append(append(b, byte(len(label))), label...)
		}
		b = append(b, 0)
	}
	return dhcpv4.OptGeneric(dhcpv4.OptionDNSDomainSearchList, b)
}
