package render

import (
	"encoding/base64"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/settings"
	"github.com/virtflow/virtflow/workflows/contract"
)

// Where a launcher finds what its pod gives it.
const (
	socketsDir        = "/run/virtflow/sockets"
	privateDir        = "/run/virtflow/private"
	disksDir          = "/run/virtflow/disks"
	containerDisksDir = "/run/virtflow/container-disks/"
	cloudInitDir      = "/run/virtflow/cloud-init/"
	userDataDir       = "/run/virtflow/user-data/"
	networkDataDir    = "/run/virtflow/network-data/"
	vmiDir            = "/etc/virtflow"
	vmiFileName       = "vmi.json"
	userDataKey       = "userdata"
	networkDataKey    = "networkdata"
)

func podVolumes(vmi *kubevirt.VirtualMachineInstance, podName string) ([]corev1.Volume, []corev1.VolumeMount, error) {
	spec := corev1.DownwardAPIVolumeFile{Path: vmiFileName, FieldRef: &corev1.ObjectFieldSelector{
		APIVersion: "v1", FieldPath: "metadata.annotations['" + contract.AnnotationVMISpec + "']",
	}}
	volumes := []corev1.Volume{
		scratch("sockets"), scratch("private"), disks(vmi), scratch("tmp"), scratch("run-lock"),
		{Name: "vmi", VolumeSource: corev1.VolumeSource{
			DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{spec}},
		}},
	}
	mounts := []corev1.VolumeMount{
		{Name: "sockets", MountPath: socketsDir},
		{Name: "private", MountPath: privateDir},
		{Name: "disks", MountPath: disksDir},
		{Name: "tmp", MountPath: "/tmp"},
		{Name: "run-lock", MountPath: "/run/lock"},
		{Name: "vmi", MountPath: vmiDir, ReadOnly: true},
	}
	for i := range vmi.Spec.Volumes {
		v := &vmi.Spec.Volumes[i]
		switch {
		case v.ContainerDisk != nil:
			name := volumeName("image", v.Name)
			volumes = append(volumes,
				corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{
					Reference: v.ContainerDisk.Image, PullPolicy: v.ContainerDisk.ImagePullPolicy,
				}}})
			mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: containerDisksDir + v.Name,
				ReadOnly: true})
		case v.CloudInitNoCloud != nil:
			own, at := cloudInit(v, podName)
			volumes, mounts = append(volumes, own...), append(mounts, at...)
		case v.EmptyDisk != nil: // a file among the disks
		default:
			return nil, nil, fmt.Errorf(
				"spec.volumes[%d] (%s): this kind of volume is not supported yet; use containerDisk, emptyDisk or "+
					"cloudInitNoCloud", i, v.Name)
		}
	}
	return volumes, mounts, nil
}

// pullSecrets are those of the container disks, and the administrator's for the launcher's own image.
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
	for _, secret := range s.PullSecrets {
		add(secret)
	}
	return out
}

func scratch(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

// overlayLimit is what may be written over one containerDisk, in bytes. Its overlay can grow to the disk's virtual
// size, which only the launcher learns, when the image is there. Images of systems are made for 2 to 60 GiB; who needs
// more says so in the ephemeral-storage that the VMI's domain is limited to.
const overlayLimit = 64 << 30

// disks is the volume with what the guest writes to: a node is not filled by one guest, whose pod is evicted instead. A
// guest that uses all of its disks stays below the limit.
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
		case v.ContainerDisk != nil:
			limit += qcow2Size(overlays)
		}
	}
	v := scratch("disks")
	v.EmptyDir.SizeLimit = resource.NewQuantity(limit+diskSlack, resource.BinarySI)
	return v
}

// qcow2Size is what an image of QEMU's takes at most for so many bytes of content: 8 bytes of its tables and 2 of
// reference counts for each 64 KiB, rounded up, and some clusters.
func qcow2Size(content int64) int64 { return content + content/4096 + mi }

// cloudInit brings the data of a volume to directories of its name: what is inline by the Secret that was made of it,
// and each of the user's own Secrets whole, because its key may be spelled userdata or userData (networkdata or
// networkData). As with KubeVirt the pod waits for a Secret that is not there yet.
func cloudInit(v *kubevirt.Volume, podName string) ([]corev1.Volume, []corev1.VolumeMount) {
	c := v.CloudInitNoCloud
	inlined := &corev1.SecretVolumeSource{SecretName: SecretName(podName)}
	own := inline(v)
	for _, key := range []string{userDataKey, networkDataKey} {
		if _, ok := own[key]; ok {
			inlined.Items = append(inlined.Items, corev1.KeyToPath{Key: secretKey(v.Name, key), Path: key})
		}
	}
	var volumes []corev1.Volume
	var mounts []corev1.VolumeMount
	add := func(kind, dir string, source *corev1.SecretVolumeSource) {
		name := volumeName(kind, v.Name)
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: source}})
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: dir + v.Name, ReadOnly: true})
	}
	if len(inlined.Items) > 0 {
		add("cloud-init", cloudInitDir, inlined)
	}
	if ref := c.UserDataSecretRef; ref != nil {
		add("user-data", userDataDir, &corev1.SecretVolumeSource{SecretName: ref.Name})
	}
	if ref := c.NetworkDataSecretRef; ref != nil {
		add("network-data", networkDataDir, &corev1.SecretVolumeSource{SecretName: ref.Name})
	}
	return volumes, mounts
}

func secretKey(volume, key string) string { return volume + "." + key }

// inline is the cloud-init data that a volume has in itself, where no Secret is named for it.
func inline(v *kubevirt.Volume) map[string]string {
	out := map[string]string{}
	c := v.CloudInitNoCloud
	if c == nil {
		return out
	}
	if c.UserDataSecretRef == nil {
		if c.UserData != "" {
			out[userDataKey] = base64.StdEncoding.EncodeToString([]byte(c.UserData))
		} else if c.UserDataBase64 != "" {
			out[userDataKey] = c.UserDataBase64
		}
	}
	if c.NetworkDataSecretRef == nil {
		if c.NetworkData != "" {
			out[networkDataKey] = base64.StdEncoding.EncodeToString([]byte(c.NetworkData))
		} else if c.NetworkDataBase64 != "" {
			out[networkDataKey] = c.NetworkDataBase64
		}
	}
	return out
}

// Secret makes the Secret with a VMI's inline cloud-init data, or nil when there is none. The VMI owns it, and it
// cannot be changed: the next instance has its own.
func Secret(vmi *kubevirt.VirtualMachineInstance) (*corev1.Secret, error) {
	data := map[string][]byte{}
	for i := range vmi.Spec.Volumes {
		v := &vmi.Spec.Volumes[i]
		for key, encoded := range inline(v) {
			raw, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				return nil, fmt.Errorf("spec.volumes[%d].cloudInitNoCloud (%s): the %s given is not base64", i, v.Name,
					key)
			}
			data[secretKey(v.Name, key)] = raw
		}
	}
	if len(data) == 0 {
		return nil, nil //nolint:nilnil // no data, no Secret
	}
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name:            SecretName(PodName(vmi.Name, string(vmi.UID))),
			Namespace:       vmi.Namespace,
			Labels:          map[string]string{contract.LabelCreatedBy: string(vmi.UID)},
			OwnerReferences: owners(vmi),
		},
		Immutable: yes(),
		Data:      data,
	}, nil
}
