package render

import (
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/claims"
)

// claim is the pod's volume for a volume that is a claim, and where that is mounted; nil: it is a device. What the
// VMI's status says of the claim decides.
func claim(vmi *kubevirt.VirtualMachineInstance, v *kubevirt.Volume) (corev1.Volume, *corev1.VolumeMount, error) {
	name, _ := claims.Of(v)
	known := claims.Known(vmi, v.Name)
	if known == nil {
		return corev1.Volume{}, nil, fmt.Errorf("nothing is known of PersistentVolumeClaim %s", name)
	}
	volume := corev1.Volume{Name: volumeName("claim", v.Name), VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
			ClaimName: name, ReadOnly: claims.ReadOnly(v) && (v.Ephemeral == nil || !claims.Block(known)),
		},
	}}
	if claims.Block(known) {
		return volume, nil, nil
	}
	return volume, &corev1.VolumeMount{Name: volume.Name, MountPath: path.Join(claims.Directory, v.Name),
		ReadOnly: claims.ReadOnly(v)}, nil
}

// claimDevices returns the claims that are devices.
func claimDevices(vmi *kubevirt.VirtualMachineInstance) []corev1.VolumeDevice {
	var out []corev1.VolumeDevice
	for i := range vmi.Spec.Volumes {
		v := &vmi.Spec.Volumes[i]
		if _, isClaim := claims.Of(v); !isClaim {
			continue
		}
		if known := claims.Known(vmi, v.Name); known != nil && claims.Block(known) {
			out = append(out, corev1.VolumeDevice{Name: volumeName("claim", v.Name),
				DevicePath: path.Join(claims.Devices, v.Name)})
		}
	}
	return out
}

// claimStatus returns what the VMI's status has of its claims, for the launcher.
func claimStatus(vmi *kubevirt.VirtualMachineInstance) []kubevirt.VolumeStatus {
	var out []kubevirt.VolumeStatus
	for i := range vmi.Status.VolumeStatus {
		if s := &vmi.Status.VolumeStatus[i]; s.PersistentVolumeClaimInfo != nil {
			out = append(out, kubevirt.VolumeStatus{Name: s.Name,
				PersistentVolumeClaimInfo: s.PersistentVolumeClaimInfo.DeepCopy()})
		}
	}
	return out
}
