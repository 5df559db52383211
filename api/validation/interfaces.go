package validation

import (
	"net"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/defaults"
)

func interfaceStateRules() []element {
	return []element{{"state", interfaceState}}
}

func interfaceBindingRules() []element {
	return []element{
		{"one binding", oneBinding},
		{"masquerade", masqueradeBinding},
		{"bridge", bridgeBinding},
		{"passt", passtBinding},
	}
}

func interfaceRules() []element {
	name := regexp.MustCompile(`^[A-Za-z0-9-_]+$`)
	return []element{
		{"name", func(s subject, i int) []metav1.StatusCause { return interfaceName(s, i, name) }},
		{"model", interfaceModel},
		{"MAC address", macAddress},
		{"PCI address", interfacePCIAddress},
		{"ports", ports},
		{"port ranges", portRanges},
		{"DHCP options", dhcpOptions},
		{"NTP servers", ntpServers},
	}
}

func interfaceCount(s subject) int { return len(s.spec.Domain.Devices.Interfaces) }

func (s subject) iface(i int) *field.Path { return s.domain("devices", "interfaces").Index(i) }

func (s subject) ifaceOf(i int) *kubevirtv1.Interface { return &s.spec.Domain.Devices.Interfaces[i] }

// networkOf returns the network of an interface; if several have its name, the last one, and an empty one if none has.
func (s subject) networkOf(name string) kubevirtv1.Network {
	for _, n := range slices.Backward(s.spec.Networks) {
		if n.Name == name {
			return n
		}
	}
	return kubevirtv1.Network{}
}

func interfaceState(s subject, i int) []metav1.StatusCause {
	f, p := s.ifaceOf(i), s.iface(i).Child("state")
	var causes []metav1.StatusCause
	known := []kubevirtv1.InterfaceState{"", kubevirtv1.InterfaceStateAbsent, kubevirtv1.InterfaceStateLinkDown,
		kubevirtv1.InterfaceStateLinkUp}
	if !slices.Contains(known, f.State) {
		causes = append(causes, invalid(p, "logical %s interface state value is unsupported: %s", f.Name, f.State)...)
	}
	if f.SRIOV != nil && (f.State == kubevirtv1.InterfaceStateLinkDown || f.State == kubevirtv1.InterfaceStateLinkUp) {
		causes = append(causes, invalid(p, "%q interface's state %q is not supported for SR-IOV NICs", f.Name,
			f.State)...)
	}
	if f.State != kubevirtv1.InterfaceStateAbsent {
		return causes
	}
	if f.Bridge == nil {
		causes = append(causes, invalid(p, "%q interface's state %q is supported only for bridge binding", f.Name,
			f.State)...)
	}
	first := slices.IndexFunc(s.spec.Networks, func(n kubevirtv1.Network) bool {
		return n.Pod != nil || n.Multus != nil && n.Multus.Default
	})
	if first >= 0 && s.spec.Networks[first].Name == f.Name {
		causes = append(causes, invalid(p, "%q interface's state %q is not supported on default networks", f.Name,
			f.State)...)
	}
	return causes
}

func oneBinding(s subject, i int) []metav1.StatusCause {
	f, bindings := s.ifaceOf(i), 0
	for _, set := range []bool{f.Bridge != nil, f.Masquerade != nil, f.SRIOV != nil, f.PasstBinding != nil,
		f.Binding != nil} {
		if set {
			bindings++
		}
	}
	if bindings == 1 {
		return nil
	}
	return invalid(s.iface(i), "logical %s interface must have exactly one binding method or binding plugin", f.Name)
}

// reservedMAC is the MAC of the bridge that is the router in a masqueraded pod.
const reservedMAC = "02:00:00:00:00:00"

func masqueradeBinding(s subject, i int) []metav1.StatusCause {
	f := s.ifaceOf(i)
	if f.Masquerade == nil {
		return nil
	}
	var causes []metav1.StatusCause
	if n := s.networkOf(f.Name); n.Pod == nil {
		causes = invalid(s.iface(i).Child("name"), "Masquerade interface only implemented with pod network")
	}
	if f.MacAddress == reservedMAC {
		causes = append(causes, invalid(s.iface(i).Child("macAddress"),
			"The requested MAC address is reserved for the in-pod bridge. Please choose another one.")...)
	}
	return causes
}

func bridgeBinding(s subject, i int) []metav1.StatusCause {
	f := s.ifaceOf(i)
	if n := s.networkOf(f.Name); f.Bridge == nil || n.Pod == nil || s.cluster.BridgeOnPodNetwork() {
		return nil
	}
	return invalid(s.iface(i).Child("name"), "Bridge on pod network configuration is not enabled under kubevirt-config")
}

func passtBinding(s subject, i int) []metav1.StatusCause {
	f := s.ifaceOf(i)
	if f.PasstBinding == nil {
		return nil
	}
	var causes []metav1.StatusCause
	if !s.cluster.Enabled(defaults.GatePasstBinding) {
		causes = invalid(s.iface(i).Child("name"), "PasstBinding feature gate is not enabled")
	}
	if n := s.networkOf(f.Name); n.Pod == nil {
		causes = append(causes, invalid(s.iface(i).Child("name"),
			"PasstBinding interface only implemented with pod network")...)
	}
	return causes
}

func interfaceNamesDiffer(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	known := map[string]bool{}
	for i, f := range s.spec.Domain.Devices.Interfaces {
		if known[f.Name] {
			causes = append(causes, duplicate(s.iface(i).Child("name"),
				"Only one interface can be connected to one specific network")...)
		}
		known[f.Name] = true
	}
	return causes
}

func interfacesHaveNetworks(s subject) []metav1.StatusCause {
	networks := map[string]bool{}
	for _, n := range s.spec.Networks {
		networks[n.Name] = true
	}
	var causes []metav1.StatusCause
	for i, f := range s.spec.Domain.Devices.Interfaces {
		if !networks[f.Name] {
			p := s.iface(i).Child("name")
			causes = append(causes, invalid(p, "%s '%s' not found.", p, f.Name)...)
		}
	}
	return causes
}

func interfaceName(s subject, i int, allowed *regexp.Regexp) []metav1.StatusCause {
	if allowed.MatchString(s.ifaceOf(i).Name) {
		return nil
	}
	return invalid(s.iface(i).Child("name"),
		"Network interface name can only contain alphabetical characters, numbers, dashes (-) or underscores (_)")
}

func interfaceModel(s subject, i int) []metav1.StatusCause {
	models := []string{"", "e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", kubevirtv1.VirtIO}
	model := s.ifaceOf(i).Model
	if slices.Contains(models, model) {
		return nil
	}
	return unsupported(s.iface(i).Child("model"), "interface %s uses model %s that is not supported.",
		s.iface(i).Child("name"), model)
}

const macLength = 6

func macAddress(s subject, i int) []metav1.StatusCause {
	address := s.ifaceOf(i).MacAddress
	if address == "" {
		return nil
	}
	p, name := s.iface(i).Child("macAddress"), s.iface(i).Child("name")
	mac, err := net.ParseMAC(address)
	switch {
	case err != nil:
		return invalid(p, "interface %s has malformed MAC address (%s).", name, address)
	case len(mac) > macLength:
		return invalid(p, "interface %s has too long MAC address (%s).", name, address)
	default:
		return nil
	}
}

func interfacePCIAddress(s subject, i int) []metav1.StatusCause {
	address := s.ifaceOf(i).PciAddress
	if address == "" || isPCIAddress(address) {
		return nil
	}
	return invalid(s.iface(i).Child("pciAddress"), "interface %s has malformed PCI address (%s).",
		s.iface(i).Child("name"), address)
}
