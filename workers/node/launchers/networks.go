package launchers

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/internal/multus"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/podnet"
)

// networksTimeout is how long a launcher may take to return what its VMI specifies.
const networksTimeout = 10 * time.Second

// Interface is a network interface that was prepared for the guest in the pod.
type Interface struct {
	Network      string // of the VMI; "" is the pod's network
	Tap          string
	PodInterface string
	Bridge       string
	podnet.Prepared
}

// Networks returns what the guest needs in the pod's network namespace. A launcher of an earlier version cannot return
// it: its guest is masqueraded on the pod network. It fails with a RefusedError for what cannot be prepared.
func (l *Launcher) Networks(ctx context.Context) ([]podnet.Plan, error) {
	ctx, cancel := context.WithTimeout(ctx, networksTimeout)
	defer cancel()
	said, err := l.rpc.Networks(ctx, &rpc.NetworksRequest{})
	switch {
	case status.Code(err) == codes.Unimplemented:
		plan, err := podnet.NewPlan(podnet.PodNetwork())
		return []podnet.Plan{plan}, err
	case err != nil:
		return nil, l.failure("asking for the networks", err)
	case len(said.GetNetworks()) > podnet.MaxInterfaces:
		return nil, &RefusedError{Message: fmt.Sprintf("%d interfaces: a guest cannot have more than %d",
			len(said.GetNetworks()), podnet.MaxInterfaces)}
	}
	var plans []podnet.Plan
	for i, n := range said.GetNetworks() {
		name := sanitize(n.GetName(), maxName)
		wanted, err := Wanted(n)
		if err != nil {
			return nil, &RefusedError{Message: fmt.Sprintf("network %s: %s", name, sanitize(err.Error(), maxText))}
		}
		wanted.Network, wanted.Number = name, i
		plan, err := podnet.NewPlan(wanted)
		if err != nil {
			return nil, &RefusedError{Message: fmt.Sprintf("network %s: %s", name, sanitize(err.Error(), maxText))}
		}
		if slices.ContainsFunc(plans, func(p podnet.Plan) bool { return p.PodInterface == plan.PodInterface }) {
			return nil, &RefusedError{Message: fmt.Sprintf("network %s: another interface is on it", name)}
		}
		plans = append(plans, plan)
	}
	return plans, nil
}

// Wanted reads what a launcher returns about one interface.
func Wanted(n *rpc.GuestNetwork) (podnet.Interface, error) {
	i := podnet.Interface{Queues: int(n.GetQueues())}
	switch n.GetBinding() {
	case rpc.Binding_BINDING_MASQUERADE:
		i.Binding = podnet.Masquerade
	case rpc.Binding_BINDING_BRIDGE:
		i.Binding = podnet.Bridge
	case rpc.Binding_BINDING_FURTHER_BRIDGE:
		i.Binding, i.Suffix = podnet.Bridge, multus.Suffix(n.GetName())
	case rpc.Binding_BINDING_MANAGED_TAP:
		i.Binding = podnet.ManagedTap
	case rpc.Binding_BINDING_FURTHER_MANAGED_TAP:
		i.Binding, i.Suffix = podnet.ManagedTap, multus.Suffix(n.GetName())
	case rpc.Binding_BINDING_TAP:
		i.Binding = podnet.Tap
	case rpc.Binding_BINDING_FURTHER_TAP:
		i.Binding, i.Suffix = podnet.Tap, multus.Suffix(n.GetName())
	case rpc.Binding_BINDING_UNSPECIFIED:
	default:
		return i, fmt.Errorf("the node worker is of an earlier version, which does not know the binding %d: update it",
			n.GetBinding())
	}
	for _, network := range []struct {
		text string
		into *netip.Prefix
	}{{n.GetIpv4(), &i.IPv4}, {n.GetIpv6(), &i.IPv6}} {
		if network.text == "" {
			continue
		}
		var err error
		if *network.into, err = netip.ParsePrefix(network.text); err != nil {
			return i, fmt.Errorf("the guest's private network: %w", err)
		}
	}
	if n.GetMac() != "" {
		var err error
		if i.MAC, err = net.ParseMAC(n.GetMac()); err != nil {
			return i, fmt.Errorf("the guest's MAC: %w", err)
		}
	}
	for _, p := range n.GetPorts() {
		if p.GetFirst() < 1 || p.GetLast() > 65535 || p.GetLast() < p.GetFirst() {
			return i, fmt.Errorf("there are no ports from %d to %d", p.GetFirst(), p.GetLast())
		}
		i.Ports = append(i.Ports, podnet.Ports{UDP: p.GetUdp(), First: uint16(p.GetFirst()), Last: uint16(p.GetLast())})
	}
	return i, nil
}

// PodInterfaces converts interfaces for a launcher.
func PodInterfaces(interfaces []Interface) (out []*rpc.PodInterface) {
	for _, i := range interfaces {
		p := &rpc.PodInterface{
			Network: i.Network, Tap: i.Tap, PodInterface: i.PodInterface, Mtu: int32(i.MTU), Bridge: i.Bridge,
			Mac: i.MAC.String(), GuestAddress: printed(i.IPv4), GuestAddress6: printed(i.IPv6),
			Gateway: printed(i.Gateway), DhcpServer: printed(i.Server),
		}
		for _, r := range i.Routes {
			p.Routes = append(p.Routes, &rpc.Route{Destination: r.Destination.String(), Gateway: printed(r.Gateway)})
		}
		out = append(out, p)
	}
	return out
}

// printed returns the text of a valid value, or "".
func printed(a interface {
	IsValid() bool
	String() string
}) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
