package render

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/hardware"
	"github.com/virtflow/virtflow/internal/settings"
)

// hostDevices are the extended resources that a guest's devices of the host are, one for each device that is not one of
// a resource claim.
func hostDevices(d *kubevirt.DomainSpec) []corev1.ResourceName {
	var out []corev1.ResourceName
	for _, g := range d.Devices.GPUs {
		if g.ClaimRequest == nil {
			out = append(out, corev1.ResourceName(g.DeviceName))
		}
	}
	for _, h := range d.Devices.HostDevices {
		if h.ClaimRequest == nil {
			out = append(out, corev1.ResourceName(h.DeviceName))
		}
	}
	return out
}

// checkPermitted fails for a device of the host that the KubeVirt object does not permit, in KubeVirt's words. Devices
// of resource claims are not checked: their classes permit them.
func checkPermitted(d *kubevirt.DomainSpec, s settings.Settings) error {
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
		if g.ClaimRequest == nil && !names[g.DeviceName] {
			return fmt.Errorf("GPU %s is not permitted in permittedHostDevices configuration", g.DeviceName)
		}
	}
	for _, h := range d.Devices.HostDevices {
		if h.ClaimRequest == nil && !names[h.DeviceName] {
			return fmt.Errorf("HostDevice %s is not permitted in permittedHostDevices configuration", h.DeviceName)
		}
	}
	return nil
}

// resourceClaims returns the VMI's ResourceClaims, which the pod holds.
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

// claimed are the requests of them whose devices the container gets, each once.
func claimed(vmi *kubevirt.VirtualMachineInstance) []corev1.ResourceClaim {
	var out []corev1.ResourceClaim
	for _, r := range hardware.ClaimRequests(&vmi.Spec) {
		if c := (corev1.ResourceClaim{Name: r.ClaimName, Request: r.RequestName}); !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}
