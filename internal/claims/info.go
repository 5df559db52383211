package claims

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// overhead is the part of a file system that KubeVirt reserves for the file system itself, unless CDI has another
// value.
const overhead = "0.055"

// Info returns the entry about a PVC in the status of an instance.
func Info(c contract.VolumeClaim) *kubevirt.PersistentVolumeClaimInfo {
	out := &kubevirt.PersistentVolumeClaimInfo{ClaimName: c.Claim, Preallocated: c.Preallocated,
		Capacity: storage(c.Capacity), Requests: storage(c.Requests)}
	for _, m := range c.AccessModes {
		out.AccessModes = append(out.AccessModes, corev1.PersistentVolumeAccessMode(m))
	}
	if c.VolumeMode != "" {
		mode := corev1.PersistentVolumeMode(c.VolumeMode)
		out.VolumeMode = &mode
	}
	percent := kubevirt.Percent(overhead)
	out.FilesystemOverhead = &percent
	return out
}

func storage(quantity string) corev1.ResourceList {
	q, err := resource.ParseQuantity(quantity)
	if err != nil { // there is none
		return nil
	}
	return corev1.ResourceList{corev1.ResourceStorage: q}
}
