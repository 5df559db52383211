package observe

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtflow/virtflow/contract"
)

// DataVolume observes the DataVolume of that name (nil: it does not exist).
func DataVolume(name string, dv *cdi.DataVolume) contract.DataVolume {
	o := contract.DataVolume{Name: word(name)}
	if dv == nil {
		return o
	}
	o.UID, o.Phase = string(dv.UID), word(string(dv.Status.Phase))
	o.Deleting = dv.DeletionTimestamp != nil
	if ref := metav1.GetControllerOfNoCopy(dv); ref != nil {
		o.OwnerUID = string(ref.UID)
	}
	for _, c := range dv.Status.Conditions {
		switch c.Type {
		case cdi.DataVolumeReady:
			o.Ready = word(string(c.Status))
		case cdi.DataVolumeBound:
			o.Bound = c.Status == corev1.ConditionTrue
			if c.Status != corev1.ConditionTrue && c.Reason == "ErrExceededQuota" {
				o.Error = contract.Cut(c.Message, maxMessage)
			}
		case cdi.DataVolumeRunning: // KubeVirt reports these two as an error
			if c.Status == corev1.ConditionFalse && (c.Reason == "Error" || c.Reason == "ImagePullFailed") {
				o.Error = contract.Cut(c.Message, maxMessage)
				if o.Error == "" {
					o.Error = c.Reason
				}
			}
		}
	}
	return o
}

// Template observes the DataVolume of a template (nil: it does not exist), with the PVC of its name (nil: it does not
// exist either). As in KubeVirt, a PVC that was made without a DataVolume is used as it is.
func Template(name string, dv *cdi.DataVolume, pvc *corev1.PersistentVolumeClaim) contract.DataVolume {
	o := DataVolume(name, dv)
	o.Populated = dv == nil && pvc != nil && pvc.DeletionTimestamp == nil && dataVolumeOf(pvc) == ""
	return o
}

// PopulatedBy observes the DataVolume that populates a PVC; nil if there is none. Volume is the name of the DataVolume
// that a volume names, or "", pvc its PVC, or nil, and read reads a DataVolume (nil: it does not exist). A PVC without
// a DataVolume counts as populated by its owner.
func PopulatedBy(
	volume string, pvc *corev1.PersistentVolumeClaim, read func(name string) (*cdi.DataVolume, error),
) (*contract.DataVolume, error) {
	owner := dataVolumeOf(pvc)
	name := owner
	if name == "" {
		name = volume
	}
	if name == "" {
		return nil, nil
	}
	dv, err := read(name)
	if err != nil || dv == nil && owner == "" {
		return nil, err
	}
	o := DataVolume(name, dv)
	return &o, nil
}

// dataVolumeOf returns the name of the DataVolume that owns a PVC; "" if there is none.
func dataVolumeOf(pvc *corev1.PersistentVolumeClaim) string {
	if pvc == nil {
		return ""
	}
	if ref := metav1.GetControllerOfNoCopy(pvc); ref != nil && ref.Kind == "DataVolume" &&
		strings.HasPrefix(ref.APIVersion, "cdi.kubevirt.io/") {
		return ref.Name
	}
	return ""
}
