package multus

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	kubevirt "kubevirt.io/api/core/v1"
)

// The annotations of a pod that Multus reads, and the one of a NetworkAttachmentDefinition that names the resource
// which a pod on that network must request (the Network Plumbing Working Group's "de-facto standard").
const (
	AnnotationNetworks     = "k8s.v1.cni.cncf.io/networks"
	AnnotationDefault      = "v1.multus-cni.io/default-network"
	AnnotationResourceName = "k8s.v1.cni.cncf.io/resourceName"
)

// suffixLength is the number of characters of a hash that fit into an interface's name after KubeVirt's prefixes.
const suffixLength = 11

// Suffix returns the end of the names of all devices for one further network.
func Suffix(network string) string {
	sum := sha256.Sum256([]byte(network))
	return hex.EncodeToString(sum[:])[:suffixLength]
}

// Further reports whether a network is one beside the pod's own, or beside the one that replaces it.
func Further(n *kubevirt.Network) bool { return n.Multus != nil && !n.Multus.Default }

// Definition returns the NetworkAttachmentDefinition that a network of a VMI in that namespace names.
func Definition(n *kubevirt.MultusNetwork, namespace string) (inNamespace, name string) {
	return split(n.NetworkName, namespace)
}

// QualifiedName returns the name of a NetworkAttachmentDefinition with its namespace: the given one, if the name has
// none.
func QualifiedName(name, namespace string) string {
	namespace, name = split(name, namespace)
	return namespace + "/" + name
}

// split returns the parts of [namespace/]name. A name without a namespace is in the given one.
func split(qualified, namespace string) (inNamespace, name string) {
	if inNamespace, name, found := strings.Cut(qualified, "/"); found {
		return inNamespace, name
	}
	return namespace, qualified
}

// ResourceVariable returns the name of the environment variable with the resource of a network's device.
func ResourceVariable(network string) string { return "KUBEVIRT_RESOURCE_NAME_" + network }

// DevicesVariable returns the name of the variable in which the device plugin of a resource gives a container the PCI
// addresses of its devices, separated by commas.
func DevicesVariable(resource string) string {
	return "PCIDEVICE_" + strings.ToUpper(strings.NewReplacer(".", "_", "/", "_").Replace(resource))
}

// selection is one element of the annotation with a pod's networks.
type selection struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	MAC       string `json:"mac,omitempty"`
	Interface string `json:"interface,omitempty"`
	// Arguments are those of a binding plugin's network: KubeVirt's name for the network that it changes.
	Arguments map[string]string `json:"cni-args,omitempty"`
}

// Networks returns the Multus networks of a VMI's pod. An interface that the guest no longer has is left out.
func Networks(vmi *kubevirt.VirtualMachineInstance) []*kubevirt.Network {
	var out []*kubevirt.Network
	for i := range vmi.Spec.Networks {
		n := &vmi.Spec.Networks[i]
		if f := interfaceOf(vmi, n); n.Multus != nil && (f == nil || f.State != kubevirt.InterfaceStateAbsent) {
			out = append(out, n)
		}
	}
	return out
}

// interfaceOf returns the interface on a network; nil if there is none.
func interfaceOf(vmi *kubevirt.VirtualMachineInstance, n *kubevirt.Network) *kubevirt.Interface {
	all := vmi.Spec.Domain.Devices.Interfaces
	if at := slices.IndexFunc(all, func(f kubevirt.Interface) bool { return f.Name == n.Name }); at >= 0 {
		return &all[at]
	}
	return nil
}

// Annotations returns the annotations by which a VMI's pod gets its networks. Plugins has the definitions of the
// networks that binding plugins need besides, by the plugins' names; each follows the network that it changes, as in
// KubeVirt.
func Annotations(vmi *kubevirt.VirtualMachineInstance, plugins map[string]string) (map[string]string, error) {
	out := map[string]string{}
	var all []selection
	for i := range vmi.Spec.Networks {
		n := &vmi.Spec.Networks[i]
		f := interfaceOf(vmi, n)
		switch {
		case f != nil && f.State == kubevirt.InterfaceStateAbsent:
			continue
		case Further(n):
			s := selection{Interface: "pod" + Suffix(n.Name)}
			s.Namespace, s.Name = Definition(n.Multus, vmi.Namespace)
			if f != nil {
				s.MAC = f.MacAddress
			}
			all = append(all, s)
		case n.Multus != nil:
			out[AnnotationDefault] = n.Multus.NetworkName
		}
		if f != nil && f.Binding != nil && plugins[f.Binding.Name] != "" {
			s := selection{Arguments: map[string]string{"logicNetworkName": n.Name}}
			s.Namespace, s.Name = split(plugins[f.Binding.Name], vmi.Namespace)
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return out, nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("writing the pod's networks: %w", err)
	}
	out[AnnotationNetworks] = string(text)
	return out, nil
}
