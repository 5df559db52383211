package validation

import (
	"net"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func (s subject) iface(i int) *field.Path { return s.domain("devices", "interfaces").Index(i) }

func (s subject) network(i int) *field.Path { return s.path.Child("networks").Index(i) }

func networkSources(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	first := map[string]bool{}
	for i, n := range s.spec.Networks {
		sources := 0
		for _, set := range []bool{n.Pod != nil, n.Multus != nil, n.ResourceClaim != nil} {
			if set {
				sources++
			}
		}
		switch {
		case sources == 0:
			causes = append(causes, required(s.network(i), "should have a network type")...)
		case sources > 1:
			causes = append(causes, required(s.network(i), "should have only one network type")...)
		}
		if n.Multus != nil && n.Multus.NetworkName == "" {
			causes = append(causes, required(s.network(i), "CNI delegating plugin must have a networkName")...)
		}
		if first[n.Name] {
			causes = append(causes, cause(metav1.CauseTypeFieldValueDuplicate, s.network(i).Child("name"),
				"Network with name %q already exists, every network must have a unique name", n.Name))
		}
		first[n.Name] = true
	}
	return causes
}

func networksHaveInterfaces(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for i, n := range s.spec.Networks {
		if !slices.ContainsFunc(s.spec.Domain.Devices.Interfaces, func(f kubevirtv1.Interface) bool { return f.Name == n.Name }) {
			p := s.network(i).Child("name")
			causes = append(causes, required(p, "%s '%s' not found.", p, n.Name)...)
		}
	}
	return causes
}

func onePodNetwork(s subject) []metav1.StatusCause {
	pods := 0
	for _, n := range s.spec.Networks {
		if n.Pod != nil {
			pods++
		}
	}
	if pods > 1 {
		p := s.path.Child("interfaces")
		return []metav1.StatusCause{cause(metav1.CauseTypeFieldValueDuplicate, p, "more than one interface is connected to a pod network in %s", p)}
	}
	return nil
}

func interfacesHaveNetworks(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	used := map[string]bool{}
	for i, f := range s.spec.Domain.Devices.Interfaces {
		p := s.iface(i).Child("name")
		if _, ok := s.networkOf(f); !ok {
			causes = append(causes, invalid(p, "%s '%s' not found.", p, f.Name)...)
		}
		if used[f.Name] {
			causes = append(causes, cause(metav1.CauseTypeFieldValueDuplicate, p, "Only one interface can be connected to one specific network"))
		}
		used[f.Name] = true
	}
	return causes
}

func (s subject) networkOf(f kubevirtv1.Interface) (kubevirtv1.Network, bool) {
	for _, n := range s.spec.Networks {
		if n.Name == f.Name {
			return n, true
		}
	}
	return kubevirtv1.Network{}, false
}

func interfaceNames(s subject) []metav1.StatusCause {
	allowed := regexp.MustCompile(`^[A-Za-z0-9-_]+$`)
	var causes []metav1.StatusCause
	for i, f := range s.spec.Domain.Devices.Interfaces {
		if !allowed.MatchString(f.Name) {
			causes = append(causes, invalid(s.iface(i).Child("name"),
				"Network interface name can only contain alphabetical characters, numbers, dashes (-) or underscores (_)")...)
		}
	}
	return causes
}

func interfaceBindings(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for i, f := range s.spec.Domain.Devices.Interfaces {
		bindings := 0
		for _, set := range []bool{
			f.Bridge != nil, f.Masquerade != nil, f.SRIOV != nil, f.PasstBinding != nil, f.Binding != nil,
			f.DeprecatedSlirp != nil, f.DeprecatedMacvtap != nil, f.DeprecatedPasst != nil,
		} {
			if set {
				bindings++
			}
		}
		if bindings != 1 {
			causes = append(causes, invalid(s.iface(i), "logical %s interface must have exactly one binding method or binding plugin", f.Name)...)
		}
	}
	return causes
}

func bindingsFitNetworks(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for i, f := range s.spec.Domain.Devices.Interfaces {
		p := s.iface(i).Child("name")
		network, ok := s.networkOf(f)
		switch {
		case !ok:
		case f.Masquerade != nil && network.Pod == nil:
			causes = append(causes, invalid(p, "Masquerade interface only implemented with pod network")...)
		case f.Bridge != nil && network.Pod != nil && !s.cluster.BridgeOnPodNetwork():
			causes = append(causes, invalid(p, "Bridge on pod network configuration is not enabled under kubevirt-config")...)
		case f.PasstBinding != nil && network.Pod == nil:
			causes = append(causes, invalid(p, "PasstBinding interface only implemented with pod network")...)
		}
	}
	return causes
}

func interfaceModels(s subject) []metav1.StatusCause {
	models := []string{"", "e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", kubevirtv1.VirtIO}
	var causes []metav1.StatusCause
	for i, f := range s.spec.Domain.Devices.Interfaces {
		if !slices.Contains(models, f.Model) {
			causes = append(causes, unsupported(s.iface(i).Child("model"), "interface %s uses model %s that is not supported.", s.iface(i).Child("name"), f.Model)...)
		}
	}
	return causes
}

const (
	macLength = 6
	// reservedMAC is that of the bridge which stands for the router in a masqueraded pod.
	reservedMAC = "02:00:00:00:00:00"
)

func macAddresses(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for i, f := range s.spec.Domain.Devices.Interfaces {
		if f.MacAddress == "" {
			continue
		}
		p, name := s.iface(i).Child("macAddress"), s.iface(i).Child("name")
		mac, err := net.ParseMAC(f.MacAddress)
		switch {
		case err != nil:
			causes = append(causes, invalid(p, "interface %s has malformed MAC address (%s).", name, f.MacAddress)...)
		case len(mac) > macLength:
			causes = append(causes, invalid(p, "interface %s has too long MAC address (%s).", name, f.MacAddress)...)
		case f.Masquerade != nil && mac.String() == reservedMAC:
			causes = append(causes, invalid(p, "The requested MAC address is reserved for the in-pod bridge. Please choose another one.")...)
		}
	}
	return causes
}
