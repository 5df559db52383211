package domain

import (
	"crypto/sha256"
	"net"
	"strings"

	"github.com/google/uuid"
	v1 "kubevirt.io/api/core/v1"
)

// firmwareNamespace is the UUID namespace in which KubeVirt derives a VMI's firmware UUID when the spec has none.
const firmwareNamespace = "6a1a24a1-4061-4607-8bf4-a3963d0c5895"

// Name returns the libvirt name of a VMI's domain, as in KubeVirt: <namespace>_<name>.
func Name(vmi *v1.VirtualMachineInstance) string { return vmi.Namespace + "_" + vmi.Name }

// UUID returns the domain's UUID, which the guest sees as its machine's: firmware.uuid, or one derived from the VMI's
// name as KubeVirt does, so that it stays the same when the VM is started again.
func UUID(vmi *v1.VirtualMachineInstance) string {
	if f := vmi.Spec.Domain.Firmware; f != nil && f.UUID != "" {
		return string(f.UUID)
	}
	return uuid.NewSHA1(uuid.MustParse(firmwareNamespace), []byte(vmi.Name)).String()
}

// MAC returns the hardware address of an interface: the one in the spec, or the pod's where the guest replaces it, or
// one derived from the machine's UUID, namespace and the interface's name, so that a VM that is started again keeps it.
// Derived addresses are locally administered and unicast.
func MAC(vmi *v1.VirtualMachineInstance, iface *v1.Interface, pods string) string {
	if iface.MacAddress != "" {
		return strings.ToLower(strings.ReplaceAll(iface.MacAddress, "-", ":"))
	}
	if pods != "" {
		return pods
	}
	sum := sha256.Sum256([]byte(UUID(vmi) + "/" + vmi.Namespace + "/" + vmi.Name + "/" + iface.Name))
	hw := net.HardwareAddr(sum[:6])
	hw[0] = hw[0]&^0x01 | 0x02
	return hw.String()
}

// Hostname returns the guest's name for cloud-init and DHCP: spec.hostname or the VMI's name, up to the first dot, at
// most 63 characters.
func Hostname(vmi *v1.VirtualMachineInstance) string {
	name := vmi.Spec.Hostname
	if name == "" {
		name = vmi.Name
	}
	name, _, _ = strings.Cut(name, ".")
	if len(name) > 63 {
		name = name[:63]
	}
	return strings.Trim(name, "-")
}
