package observe

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// VolumeClaim observes the PVC of that name (nil: it does not exist) behind a volume of an instance.
func VolumeClaim(volume, name string, pvc *corev1.PersistentVolumeClaim) contract.VolumeClaim {
	o := contract.VolumeClaim{Volume: word(volume), Claim: word(name)}
	if pvc == nil {
		return o
	}
	o.UID, o.Phase = string(pvc.UID), word(string(pvc.Status.Phase))
	for _, m := range pvc.Spec.AccessModes {
		o.AccessModes = append(o.AccessModes, word(string(m)))
	}
	if pvc.Spec.VolumeMode != nil {
		o.VolumeMode = word(string(*pvc.Spec.VolumeMode))
	}
	if q, ok := pvc.Status.Capacity[corev1.ResourceStorage]; ok {
		o.Capacity = q.String()
	}
	if q, ok := pvc.Spec.Resources.Requests[corev1.ResourceStorage]; ok {
		o.Requests = q.String()
	}
	for key, value := range ThickAnnotations(pvc.Annotations) {
		o.Preallocated = o.Preallocated || key != "" && value == "true"
	}
	return o
}

// ThickAnnotations returns the annotations by which CDI marks the space of a PVC as allocated, and to stay so.
func ThickAnnotations(annotations map[string]string) map[string]string {
	var out map[string]string
	for key, value := range annotations {
		if strings.HasSuffix(key, "/storage.preallocation") || strings.HasSuffix(key, "/storage.thick-provisioned") {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}
