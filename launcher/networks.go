package launcher

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/multus"
	"github.com/virtflow/virtflow/launcher/domain"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// networks implements the service's call: it returns what the guest needs in the pod's network namespace. The node
// worker does not know the VMI.
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
			return nil, problem("the VMI has no network %q", iface.Name)
		case network.Pod == nil && network.Multus == nil:
			return nil, problem("the type of its network is not supported yet")
		}
		n := &rpc.GuestNetwork{Name: iface.Name, Mac: iface.MacAddress, Queues: int32(domain.Queues(vmi, iface))}
		switch {
		case iface.Masquerade != nil && network.Pod != nil:
			n.Binding = rpc.Binding_BINDING_MASQUERADE
			n.Ipv4, n.Ipv6 = network.Pod.VMNetworkCIDR, network.Pod.VMIPv6NetworkCIDR
			n.Ports = ports(iface)
		case iface.Bridge != nil && multus.Further(network):
			n.Binding = rpc.Binding_BINDING_FURTHER_BRIDGE
		case iface.Bridge != nil:
			n.Binding = rpc.Binding_BINDING_BRIDGE
		case iface.Binding != nil:
			if n.Binding = pluginBinding(vmi, iface, network); n.GetBinding() == rpc.Binding_BINDING_UNSPECIFIED {
				return nil, problem("its binding plugin %q is not supported", iface.Binding.Name)
			}
		default:
			return nil, problem("its binding is not supported yet")
		}
		out = append(out, n)
	}
	return out, nil
}

// pluginBinding returns the binding of an interface by its plugin's attachment; unspecified: it is unknown.
func pluginBinding(vmi *v1.VirtualMachineInstance, iface *v1.Interface, network *v1.Network) rpc.Binding {
	attachment := v1.DomainAttachmentType(vmi.Annotations[contract.AnnotationAttachment+iface.Binding.Name])
	switch further := multus.Further(network); {
	case attachment == v1.ManagedTap && further:
		return rpc.Binding_BINDING_FURTHER_MANAGED_TAP
	case attachment == v1.ManagedTap:
		return rpc.Binding_BINDING_MANAGED_TAP
	case attachment == v1.Tap && further:
		return rpc.Binding_BINDING_FURTHER_TAP
	case attachment == v1.Tap:
		return rpc.Binding_BINDING_TAP
	default:
		return rpc.Binding_BINDING_UNSPECIFIED
	}
}

// ports returns the ports that reach the guest, which an interface lists as single ports or ranges. Empty means all.
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

// preparedInterfaces returns the interfaces that the node worker has prepared, each with its network. A node worker of
// an earlier version names no network: it masquerades the pod's network in a fixed way, and cannot apply other settings
// of the VMI.
func preparedInterfaces(vmi *v1.VirtualMachineInstance, interfaces []*rpc.PodInterface) ([]*rpc.PodInterface, error) {
	var out []*rpc.PodInterface
	for _, p := range interfaces {
		if p.GetNetwork() == "" {
			wanted, err := guestNetworks(vmi)
			if err != nil {
				return nil, err
			}
			if len(wanted) == 0 {
				continue // the guest has no interface for it
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

// errOldWorker is returned until the node worker has this version.
var errOldWorker = errors.New(
	"the node worker is of an earlier version, which cannot prepare the network of this VMI: update it")
