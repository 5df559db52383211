package launcher

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/insomniacslk/dhcp/dhcpv4"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/dhcp"
	"github.com/virtflow/virtflow/launcher/domain"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// serveDHCP starts the servers for each interface that has addresses to assign. Servers that an earlier attempt started
// keep running.
func (l *Launcher) serveDHCP(ctx context.Context) error {
	for _, p := range l.preparation.interfaces {
		if l.preparation.dhcp[p.GetBridge()] || p.GetGuestAddress() == "" && p.GetGuestAddress6() == "" {
			continue
		}
		conf, err := os.ReadFile(l.cfg.ResolvConf)
		if err != nil {
			return fmt.Errorf("reading the pod's resolver settings: %w", err)
		}
		if p.GetGuestAddress() != "" {
			lease, err := lease(l.vmi, p, string(conf))
			if err != nil {
				return err
			}
			if err := dhcp.Serve(ctx, lease, l.log); err != nil {
				return fmt.Errorf("network %s: %w", p.GetNetwork(), err)
			}
		}
		if p.GetGuestAddress6() != "" {
			lease, err := lease6(l.vmi, p, string(conf))
			if err != nil {
				return err
			}
			if err := dhcp.Serve6(ctx, lease, l.log); err != nil {
				return fmt.Errorf("network %s: %w", p.GetNetwork(), err)
			}
		}
		l.preparation.dhcp[p.GetBridge()] = true
	}
	return nil
}

// lease returns the DHCP lease for an interface of the guest.
func lease(vmi *v1.VirtualMachineInstance, p *rpc.PodInterface, resolvConf string) (dhcp.Lease, error) {
	none := func(err error) (dhcp.Lease, error) {
		return dhcp.Lease{}, fmt.Errorf("network %s: %w", p.GetNetwork(), err)
	}
	address, network, err := net.ParseCIDR(p.GetGuestAddress())
	if err != nil {
		return none(fmt.Errorf("the guest's address: %w", err))
	}
	servers, _, search := dhcp.Resolver(resolvConf)
	out := dhcp.Lease{
		Interface: p.GetBridge(), Address: net.IPNet{IP: address, Mask: network.Mask},
		Gateway: net.ParseIP(p.GetGateway()), Server: net.ParseIP(p.GetDhcpServer()),
		MTU: int(p.GetMtu()), Hostname: domain.Hostname(vmi), DNS: servers,
		Search: dhcp.WithSubdomain(search, vmi.Spec.Subdomain, vmi.Namespace),
	}
	if out.Server == nil {
		out.Server = out.Gateway
	}
	if out.Server == nil {
		return none(fmt.Errorf("%q is not the address of a DHCP server", p.GetDhcpServer()))
	}
	for _, r := range p.GetRoutes() {
		_, to, err := net.ParseCIDR(r.GetDestination())
		if err != nil {
			return none(fmt.Errorf("a route of the guest: %w", err))
		}
		by := net.IPv4zero
		if r.GetGateway() != "" {
			by = net.ParseIP(r.GetGateway())
		}
		out.Routes = append(out.Routes, &dhcpv4.Route{Dest: to, Router: by})
	}
	for i := range vmi.Spec.Domain.Devices.Interfaces {
		iface := &vmi.Spec.Domain.Devices.Interfaces[i]
		if iface.Name != p.GetNetwork() {
			continue
		}
		out.Options = iface.DHCPOptions
		out.MAC, err = net.ParseMAC(domain.MAC(vmi, iface, p.GetMac()))
		if err != nil {
			return dhcp.Lease{}, &domain.InvalidError{
				Field: fmt.Sprintf("spec.domain.devices.interfaces[%d].macAddress", i), Problem: err.Error()}
		}
		return out, nil
	}
	return dhcp.Lease{}, &domain.InvalidError{Field: "spec.domain.devices.interfaces",
		Problem: "none belongs to network " + p.GetNetwork()}
}

func lease6(vmi *v1.VirtualMachineInstance, p *rpc.PodInterface, resolvConf string) (dhcp.Lease6, error) {
	address, _, err := net.ParseCIDR(p.GetGuestAddress6())
	if err != nil {
		return dhcp.Lease6{}, fmt.Errorf("network %s: the guest's IPv6 address: %w", p.GetNetwork(), err)
	}
	_, servers, search := dhcp.Resolver(resolvConf)
	return dhcp.Lease6{
		Interface: p.GetBridge(), Address: address, DNS: servers,
		Search: dhcp.WithSubdomain(search, vmi.Spec.Subdomain, vmi.Namespace),
	}, nil
}
