package validation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/defaults"
)

func (s subject) network(i int) *field.Path { return s.path.Child("networks").Index(i) }

// oneDefaultNetwork: the pod's own network, or one Multus network that replaces it.
func oneDefaultNetwork(s subject) []metav1.StatusCause {
	pods, multus := 0, 0
	for _, n := range s.spec.Networks {
		if n.Pod != nil {
			pods++
		}
		if n.Multus != nil && n.Multus.Default {
			multus++
		}
	}
	var causes []metav1.StatusCause
	if p := s.path.Child("interfaces"); pods > 1 {
		causes = append(causes, duplicate(p, "more than one interface is connected to a pod network in %s", p)...)
	}
	if multus > 1 {
		causes = append(causes, invalid(s.path.Child("networks"), "Multus CNI should only have one default network")...)
	}
	if pods > 0 && multus > 0 {
		causes = append(causes, invalid(s.path.Child("networks"),
			"Pod network cannot be defined when Multus default network is defined")...)
	}
	return causes
}

func networkSources(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
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
	}
	return causes
}

// multusNetworks: KubeVirt reports the first one only.
func multusNetworks(s subject) []metav1.StatusCause {
	for i, n := range s.spec.Networks {
		if n.Multus != nil && n.Multus.NetworkName == "" {
			return required(s.network(i), "CNI delegating plugin must have a networkName")
		}
	}
	return nil
}

func networkNames(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	known := map[string]bool{}
	for i, n := range s.spec.Networks {
		if known[n.Name] {
			causes = append(causes, duplicate(s.network(i).Child("name"),
				"Network with name %q already exists, every network must have a unique name", n.Name)...)
		}
		known[n.Name] = true
	}
	return causes
}

func networksHaveInterfaces(s subject) []metav1.StatusCause {
	interfaces := map[string]bool{}
	for _, f := range s.spec.Domain.Devices.Interfaces {
		interfaces[f.Name] = true
	}
	var causes []metav1.StatusCause
	for i, n := range s.spec.Networks {
		if !interfaces[n.Name] {
			p := s.network(i).Child("name")
			causes = append(causes, required(p, "%s '%s' not found.", p, n.Name)...)
		}
	}
	return causes
}

// claimedNetworks are devices that the scheduler finds (dynamic resource allocation).
func claimedNetworks(s subject) []metav1.StatusCause {
	claims, multus := false, false
	for _, n := range s.spec.Networks {
		claims = claims || n.ResourceClaim != nil
		multus = multus || n.Multus != nil
	}
	p := s.path.Child("networks")
	switch {
	case !claims:
		return nil
	case !s.cluster.Enabled(defaults.GateNetworkDevicesWithDRA):
		return invalid(p, "vmi.spec.networks contains DRA networks but NetworkDevicesWithDRA feature gate is "+
			"not enabled")
	case multus:
		return invalid(p, "mixing Multus and DRA resourceClaim networks in the same VMI is not supported")
	}
	var causes []metav1.StatusCause
	first := map[string]int{}
	for i, n := range s.spec.Networks {
		if n.ResourceClaim != nil {
			causes = append(causes, s.claimedNetwork(i, n, first)...)
		}
	}
	return causes
}

func (s subject) claimedNetwork(i int, n kubevirtv1.Network, first map[string]int) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for _, f := range s.spec.Domain.Devices.Interfaces {
		if f.Name == n.Name {
			if f.SRIOV == nil && f.Binding == nil {
				causes = append(causes, invalid(s.domain("devices", "interfaces"),
					"DRA network %q requires an SR-IOV or binding plugin interface", n.Name)...)
			}
			break
		}
	}
	claim, request := n.ResourceClaim.ClaimName, n.ResourceClaim.RequestName
	p := s.network(i).Child("resourceClaim")
	if claim == "" {
		causes = append(causes, required(p.Child("claimName"), "claimName is required for DRA network")...)
	}
	if request == "" {
		causes = append(causes, required(p.Child("requestName"), "requestName is required for DRA network")...)
	}
	if claim == "" || request == "" {
		return causes
	}
	if !s.hasClaim(claim) {
		causes = append(causes, cause(metav1.CauseTypeFieldValueNotFound, p.Child("claimName"),
			"network references resourceClaim %q which is not defined in spec.resourceClaims", claim))
	}
	key := claim + "/" + request
	if _, ok := first[key]; ok {
		return append(causes, duplicate(s.network(i), "duplicate claimName/requestName combination %q", key)...)
	}
	first[key] = i
	return causes
}

func (s subject) hasClaim(name string) bool {
	for _, c := range s.spec.ResourceClaims {
		if c.Name == name {
			return true
		}
	}
	return false
}
