package render

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/internal/settings"
)

// Where a launcher finds what its pod gives it.
const (
	socketsDir        = "/run/virtflow/sockets"
	privateDir        = "/run/virtflow/private"
	disksDir          = "/run/virtflow/disks"
	containerDisksDir = "/run/virtflow/container-disks/"
	kernelBootDir     = "/run/virtflow/kernel-boot"
	hugepagesDir      = "/dev/hugepages"
	cloudInitDir      = "/run/virtflow/cloud-init/"
	userDataDir       = "/run/virtflow/user-data/"
	networkDataDir    = "/run/virtflow/network-data/"
	filesDir          = "/run/virtflow/files/"
	credentialsDir    = "/run/virtflow/access-credentials/"
	vmiDir            = "/etc/virtflow"
)

func podVolumes(vmi *kubevirt.VirtualMachineInstance, podName string) ([]corev1.Volume, []corev1.VolumeMount, error) {
	spec := corev1.DownwardAPIVolumeFile{Path: contract.FileVMI, FieldRef: &corev1.ObjectFieldSelector{
		APIVersion: "v1", FieldPath: "metadata.annotations['" + contract.AnnotationVMISpec + "']",
	}}
	volumes := []corev1.Volume{
		emptyDirVolume("sockets"), emptyDirVolume("private"), disks(vmi), emptyDirVolume("tmp"),
		emptyDirVolume("run-lock"),
		{Name: contract.VolumeVMI, VolumeSource: corev1.VolumeSource{
			DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{spec}},
		}},
	}
	mounts := []corev1.VolumeMount{
		{Name: "sockets", MountPath: socketsDir},
		{Name: "private", MountPath: privateDir},
		{Name: "disks", MountPath: disksDir},
		{Name: "tmp", MountPath: "/tmp"},
		{Name: "run-lock", MountPath: "/run/lock"},
		{Name: contract.VolumeVMI, MountPath: vmiDir, ReadOnly: true},
	}
	if c := kernelBoot(vmi); c != nil {
		volumes = append(volumes, corev1.Volume{Name: "kernel-boot", VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: c.Image, PullPolicy: c.ImagePullPolicy},
		}})
		mounts = append(mounts, corev1.VolumeMount{Name: "kernel-boot", MountPath: kernelBootDir, ReadOnly: true})
	}
	if m := vmi.Spec.Domain.Memory; m != nil && m.Hugepages != nil {
		volumes = append(volumes, corev1.Volume{Name: "hugepages", VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumHugePages},
		}})
		mounts = append(mounts, corev1.VolumeMount{Name: "hugepages", MountPath: hugepagesDir})
	}
	for i := range vmi.Spec.Volumes {
		v := &vmi.Spec.Volumes[i]
		if err := safeName(v.Name); err != nil {
			return nil, nil, fmt.Errorf("spec.volumes[%d].name: %w", i, err)
		}
		_, isClaim := claims.Of(v)
		switch {
		case v.ContainerDisk != nil:
			name := volumeName("image", v.Name)
			volumes = append(volumes,
				corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{
					Reference: v.ContainerDisk.Image, PullPolicy: v.ContainerDisk.ImagePullPolicy,
				}}})
			mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: containerDisksDir + v.Name,
				ReadOnly: true})
		case cloudInitSource(v) != nil:
			own, at := cloudInit(v, podName)
			volumes, mounts = append(volumes, own...), append(mounts, at...)
		case v.EmptyDisk != nil: // a file among the disks
		case isClaim:
			own, at, err := claim(vmi, v)
			if err != nil {
				return nil, nil, fmt.Errorf("spec.volumes[%d] (%s): %w", i, v.Name, err)
			}
			volumes = append(volumes, own)
			if at != nil {
				mounts = append(mounts, *at)
			}
		default:
			source := files(v)
			if source == nil {
				return nil, nil, fmt.Errorf("spec.volumes[%d] (%s): this kind of volume is not supported yet", i, v.Name)
			}
			name := volumeName("files", v.Name)
			volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: *source})
			mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: filesDir + v.Name, ReadOnly: true})
		}
	}
	own, at, err := state(vmi)
	if err != nil {
		return nil, nil, err
	}
	volumes, mounts = append(volumes, own...), append(mounts, at...)
	own, at, err = accessCredentials(vmi)
	return append(volumes, own...), append(mounts, at...), err
}

// kernelBoot returns the image with the kernel that a guest is started with; nil: it has its own.
func kernelBoot(vmi *kubevirt.VirtualMachineInstance) *kubevirt.KernelBootContainer {
	f := vmi.Spec.Domain.Firmware
	if f == nil || f.KernelBoot == nil {
		return nil
	}
	return f.KernelBoot.Container
}

// pullSecrets returns the pull secrets of the container disks and of the kernel, and the administrator's for the
// launcher's own image.
func pullSecrets(vmi *kubevirt.VirtualMachineInstance, s settings.Settings) []corev1.LocalObjectReference {
	var out []corev1.LocalObjectReference
	add := func(secret corev1.LocalObjectReference) {
		if secret.Name != "" && !slices.Contains(out, secret) {
			out = append(out, secret)
		}
	}
	for i := range vmi.Spec.Volumes {
		if disk := vmi.Spec.Volumes[i].ContainerDisk; disk != nil {
			add(corev1.LocalObjectReference{Name: disk.ImagePullSecret})
		}
	}
	if c := kernelBoot(vmi); c != nil {
		add(corev1.LocalObjectReference{Name: c.ImagePullSecret})
	}
	for _, secret := range s.PullSecrets {
		add(secret)
	}
	return out
}

func emptyDirVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

// overlayLimit limits what may be written over one containerDisk or ephemeral volume, in bytes. Its overlay can grow to
// the disk's virtual size, which only the launcher learns, when the image is there. Images of systems are made for 2 to
// 60 GiB; a larger need is stated in the ephemeral-storage that the VMI's domain is limited to.
const overlayLimit = 64 << 30

// disks returns the volume with what the guest writes to: a node is not filled by one guest, whose pod is evicted
// instead. A guest that uses all of its disks stays below the limit.
func disks(vmi *kubevirt.VirtualMachineInstance) corev1.Volume {
	var limit int64
	overlays := int64(overlayLimit)
	if q, ok := vmi.Spec.Domain.Resources.Limits[corev1.ResourceEphemeralStorage]; ok {
		overlays = q.Value()
	}
	for i := range vmi.Spec.Volumes {
		switch v := &vmi.Spec.Volumes[i]; {
		case v.EmptyDisk != nil:
			limit += qcow2Size(v.EmptyDisk.Capacity.Value())
		case v.ContainerDisk != nil, v.Ephemeral != nil:
			limit += qcow2Size(overlays)
		case files(v) != nil:
			limit += imageOfFiles
		}
	}
	v := emptyDirVolume("disks")
	v.EmptyDir.SizeLimit = resource.NewQuantity(limit+diskSlack, resource.BinarySI)
	return v
}

// qcow2Size returns the most that an image of QEMU's takes for so many bytes of content: 8 bytes of its tables and 2 of
// reference counts for each 64 KiB, rounded up, and some clusters.
func qcow2Size(content int64) int64 { return content + content/4096 + mi }
