package render

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/internal/settings"
)

const (
	// stateSize is KubeVirt's: what a TPM and UEFI remember is less than 1 MiB.
	stateSize = "10Mi"
	// stateVolume is the pod's name for it, KubeVirt's.
	stateVolume = "vm-state"
)

// StateClaim renders the PersistentVolumeClaim with the persistent state of a VM; nil: it needs none. As in KubeVirt,
// it is ReadWriteMany if the administrator has chosen the storage class for such PVCs, and ReadWriteOnce in the
// cluster's default class, which may lack volumes that several nodes can use.
func StateClaim(vmi *kubevirt.VirtualMachineInstance, s settings.Settings) *corev1.PersistentVolumeClaim {
	name, needed := claims.State(vmi)
	if !needed {
		return nil
	}
	mode := corev1.PersistentVolumeFilesystem
	pvc := &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: vmi.Namespace,
			Labels:          map[string]string{claims.StatePrefix: observe.NameLabel(vmi.Name)},
			OwnerReferences: []metav1.OwnerReference{claims.StateOwner(vmi)},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			VolumeMode:  &mode,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(stateSize)}},
		},
	}
	if class := s.Configuration.VMStateStorageClass; class != "" {
		pvc.Spec.StorageClassName = &class
		pvc.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	}
	return pvc
}

// state is the pod's volume for that claim, and where it is mounted; nil: there is none.
func state(vmi *kubevirt.VirtualMachineInstance) ([]corev1.Volume, []corev1.VolumeMount, error) {
	if _, needed := claims.State(vmi); !needed {
		return nil, nil, nil
	}
	known := claims.Known(vmi, claims.StateVolume)
	switch {
	case known == nil:
		return nil, nil, errors.New("the PersistentVolumeClaim with the VM's persistent state has not been read")
	case claims.Block(known):
		return nil, nil, errors.New("PersistentVolumeClaim " + known.ClaimName + " is a device, and has to be a file " +
			"system: delete it, and another is made")
	}
	return []corev1.Volume{{Name: stateVolume, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: known.ClaimName}}}},
		[]corev1.VolumeMount{{Name: stateVolume, MountPath: claims.StateDirectory}}, nil
}
