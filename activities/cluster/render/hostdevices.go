package render

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/settings"
)

// hostDevices are the extended resources that a guest's devices of the host are, one for each device.
func hostDevices(d *kubevirt.DomainSpec) []corev1.ResourceName {
	var out []corev1.ResourceName
	for _, g := range d.Devices.GPUs {
		out = append(out, corev1.ResourceName(g.DeviceName))
	}
	for _, h := range d.Devices.HostDevices {
		out = append(out, corev1.ResourceName(h.DeviceName))
	}
	return out
}

// permitted says which device of the host the KubeVirt object does not permit, in KubeVirt's words.
func permitted(d *kubevirt.DomainSpec, s settings.Settings) error {
	names := map[string]bool{}
	if p := s.Configuration.PermittedHostDevices; p != nil {
		for i := range p.PciHostDevices {
			names[p.PciHostDevices[i].ResourceName] = true
		}
		for i := range p.MediatedDevices {
			names[p.MediatedDevices[i].ResourceName] = true
		}
		for i := range p.USB {
			names[p.USB[i].ResourceName] = true
		}
	}
	for _, g := range d.Devices.GPUs {
		if !names[g.DeviceName] {
			return fmt.Errorf("GPU %s is not permitted in permittedHostDevices configuration", g.DeviceName)
		}
	}
	for _, h := range d.Devices.HostDevices {
		if !names[h.DeviceName] {
			return fmt.Errorf("HostDevice %s is not permitted in permittedHostDevices configuration", h.DeviceName)
		}
	}
	return nil
}

// resourceClaims are the user's, held by the pod.
func resourceClaims(vmi *kubevirt.VirtualMachineInstance) []corev1.PodResourceClaim {
	var out []corev1.PodResourceClaim
	for _, c := range vmi.Spec.ResourceClaims {
		out = append(out, corev1.PodResourceClaim{
			Name:              c.Name,
			ResourceClaimName: c.ResourceClaimName, ResourceClaimTemplateName: c.ResourceClaimTemplateName,
		})
	}
	return out
}
