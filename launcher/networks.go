package launcher

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/multus"
	"github.com/virtflow/virtflow/launcher/domain"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// networks is the service's call: what the guest needs in the pod's network namespace. The node's worker knows no VMI.
func (l *Launcher) networks() ([]*rpc.GuestNetwork, error) {
	out, err := guestNetworks(l.vmi)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return out, nil
}

func guestNetworks(vmi *v1.VirtualMachineInstance) ([]*rpc.GuestNetwork, error) {
	var out []*rpc.GuestNetwork
	for i := range vmi.Spec.Domain.Devices.Interfaces {
		iface := &vmi.Spec.Domain.Devices.Interfaces[i]
		if iface.State == v1.InterfaceStateAbsent || iface.SRIOV != nil {
			continue
		}
		problem := func(format string, args ...any) error {
			return &domain.InvalidError{Field: fmt.Sprintf("spec.domain.devices.interfaces[%d]", i),
				Problem: fmt.Sprintf(format, args...)}
		}
		network := networkOf(vmi, iface.Name)
		switch {
		case network == nil:
			return nil, problem("there is no network %q", iface.Name)
		case network.Pod == nil && network.Multus == nil:
			return nil, problem("the kind of its network is not supported yet")
		}
		n := &rpc.GuestNetwork{Name: iface.Name, Mac: iface.MacAddress, Queues: int32(domain.Queues(vmi, iface))} //nolint:gosec // at most 256
		switch {
		case iface.Masquerade != nil && network.Pod != nil:
			n.Binding = rpc.Binding_BINDING_MASQUERADE
			n.Ipv4, n.Ipv6 = network.Pod.VMNetworkCIDR, network.Pod.VMIPv6NetworkCIDR
			n.Ports = ports(iface)
		case iface.Bridge != nil && multus.Further(network):
			n.Binding = rpc.Binding_BINDING_FURTHER_BRIDGE
		case iface.Bridge != nil:
			n.Binding = rpc.Binding_BINDING_BRIDGE
		default:
			return nil, problem("its binding is not supported yet")
		}
		out = append(out, n)
	}
	return out, nil
}

// ports are those that reach the guest, of which an interface lists single ones or ranges; none is all.
func ports(iface *v1.Interface) []*rpc.PortRange {
	var out []*rpc.PortRange
	for _, p := range iface.Ports {
		out = append(out, &rpc.PortRange{Udp: strings.EqualFold(p.Protocol, "UDP"), First: p.Port, Last: p.Port})
	}
	for _, r := range iface.PortRanges {
		out = append(out, &rpc.PortRange{Udp: strings.EqualFold(r.Protocol, "UDP"), First: r.Start, Last: r.End})
	}
	return out
}

func networkOf(vmi *v1.VirtualMachineInstance, name string) *v1.Network {
	for i := range vmi.Spec.Networks {
		if vmi.Spec.Networks[i].Name == name {
			return &vmi.Spec.Networks[i]
		}
	}
	return nil
}

// prepared gives each interface that the node's worker has prepared its network. A worker of an earlier version names
// none: it masquerades the pod's network in one way, and what the VMI wants otherwise it does not know.
func prepared(vmi *v1.VirtualMachineInstance, interfaces []*rpc.PodInterface) ([]*rpc.PodInterface, error) {
	var out []*rpc.PodInterface
	for _, p := range interfaces {
		if p.GetNetwork() == "" {
			wanted, err := guestNetworks(vmi)
			if err != nil {
				return nil, err
			}
			if len(wanted) == 0 {
				continue // a guest without an interface has no use for it
			}
			n := wanted[0]
			if n.GetBinding() != rpc.Binding_BINDING_MASQUERADE || n.GetIpv4()+n.GetIpv6() != "" ||
				n.GetPorts() != nil || n.GetQueues() > 1 {
				return nil, errOldWorker
			}
			p.Network = n.GetName()
		}
		out = append(out, p)
	}
	return out, nil
}

// errOldWorker passes once the node's worker is of this version.
var errOldWorker = errors.New( //nolint:gochecknoglobals // a constant error
	"the node's worker is of an earlier version, which cannot prepare the network of this VMI")
