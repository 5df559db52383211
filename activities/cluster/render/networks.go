package render

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/multus"
)

// computeResources returns all requests and limits of the launcher's container.
func computeResources(vmi *kubevirt.VirtualMachineInstance, o Options) corev1.ResourceRequirements {
	return withNetworks(o.Limited.apply(resources(vmi, o.Settings), vmi), vmi, o.NetworkResources)
}

// withNetworks requests what a pod on the VMI's networks needs: one for each network.
func withNetworks(
	r corev1.ResourceRequirements, vmi *kubevirt.VirtualMachineInstance, resources map[string]string,
) corev1.ResourceRequirements {
	for _, n := range vmi.Spec.Networks {
		name := corev1.ResourceName(resources[n.Name])
		if name == "" {
			continue
		}
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			q := list[name]
			q.Add(resource.MustParse("1"))
			list[name] = q
		}
	}
	return r
}

// networkEnv names to the launcher the resource that the device of each network is one of. The device plugin names the
// devices of the resource.
func networkEnv(vmi *kubevirt.VirtualMachineInstance, resources map[string]string) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, n := range vmi.Spec.Networks {
		if name := resources[n.Name]; name != "" {
			out = append(out, corev1.EnvVar{Name: multus.ResourceVariable(n.Name), Value: name})
		}
	}
	return out
}
