package hostdevices

import (
	"strings"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/domain"
)

// Prefixes of the variables, as KubeVirt's device plugins and those of vendors name them. The name of the resource
// follows, and the value is a comma-separated list of addresses.
const (
	pci      = "PCI_RESOURCE_"
	mediated = "MDEV_PCI_RESOURCE_"
	usb      = "USB_RESOURCE_"
)

// Find returns the addresses of the devices that a guest requests.
func Find(spec *v1.DomainSpec, getenv func(string) string) domain.HostDevices {
	out := domain.HostDevices{PCI: map[string][]string{}, Mediated: map[string][]string{}, USB: map[string][]string{}}
	read := func(name string) {
		for prefix, into := range map[string]map[string][]string{pci: out.PCI, mediated: out.Mediated, usb: out.USB} {
			if value := getenv(prefix + variable(name)); value != "" {
				into[name] = split(value)
			}
		}
	}
	for i := range spec.Devices.GPUs {
		read(spec.Devices.GPUs[i].DeviceName)
	}
	for i := range spec.Devices.HostDevices {
		read(spec.Devices.HostDevices[i].DeviceName)
	}
	return out
}

// variable returns the form of a resource's name within a variable's: VENDOR_EXAMPLE_GPU for vendor.example/gpu.
func variable(resource string) string {
	return strings.NewReplacer("/", "_", ".", "_").Replace(strings.ToUpper(resource))
}

func split(list string) []string {
	var out []string
	for address := range strings.SplitSeq(list, ",") {
		if address = strings.TrimSpace(address); address != "" {
			out = append(out, address)
		}
	}
	return out
}
