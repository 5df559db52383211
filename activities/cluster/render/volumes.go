package render

import (
	"encoding/base64"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Where a launcher finds what its pod gives it.
const (
	socketsDir        = "/run/virtflow/sockets"
	privateDir        = "/run/virtflow/private"
	disksDir          = "/run/virtflow/disks"
	containerDisksDir = "/run/virtflow/container-disks/"
	cloudInitDir      = "/run/virtflow/cloud-init/"
	vmiDir            = "/etc/virtflow"
	vmiFileName       = "vmi.json"
	userDataKey       = "userdata"
	networkDataKey    = "networkdata"
)

func podVolumes(vmi *kubevirt.VirtualMachineInstance, podName string) ([]corev1.Volume, []corev1.VolumeMount, []corev1.LocalObjectReference, error) {
	volumes := []corev1.Volume{
		scratch("sockets"), scratch("private"), scratch("disks"), scratch("tmp"), scratch("run-lock"),
		{Name: "vmi", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
			Path:     vmiFileName,
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['" + contract.AnnotationVMISpec + "']"},
		}}}}},
	}
	mounts := []corev1.VolumeMount{
		{Name: "sockets", MountPath: socketsDir},
		{Name: "private", MountPath: privateDir},
		{Name: "disks", MountPath: disksDir},
		{Name: "tmp", MountPath: "/tmp"},
		{Name: "run-lock", MountPath: "/run/lock"},
		{Name: "vmi", MountPath: vmiDir, ReadOnly: true},
	}
	var secrets []corev1.LocalObjectReference
	for i := range vmi.Spec.Volumes {
		v := &vmi.Spec.Volumes[i]
		switch {
		case v.ContainerDisk != nil:
			name := volumeName("image", v.Name)
			volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{
				Reference: v.ContainerDisk.Image, PullPolicy: v.ContainerDisk.ImagePullPolicy,
			}}})
			mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: containerDisksDir + v.Name, ReadOnly: true})
			if s := (corev1.LocalObjectReference{Name: v.ContainerDisk.ImagePullSecret}); s.Name != "" && !slices.Contains(secrets, s) {
				secrets = append(secrets, s)
			}
		case v.CloudInitNoCloud != nil:
			name := volumeName("cloud-init", v.Name)
			volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: cloudInit(v, podName)}})
			mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: cloudInitDir + v.Name, ReadOnly: true})
		case v.EmptyDisk != nil: // a file among the disks
		default:
			return nil, nil, nil, fmt.Errorf(
				"spec.volumes[%d] (%s): this kind of volume is not supported yet; use containerDisk, emptyDisk or cloudInitNoCloud", i, v.Name)
		}
	}
	return volumes, mounts, secrets, nil
}

func scratch(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

// cloudInit brings the user's Secrets, or the one made from inline data, to one directory. The user's Secrets may spell their keys
// userdata or userData (networkdata or networkData): whichever is there becomes a file of that name.
func cloudInit(v *kubevirt.Volume, podName string) *corev1.ProjectedVolumeSource {
	c := v.CloudInitNoCloud
	p := &corev1.ProjectedVolumeSource{}
	own := inline(v)
	for _, source := range []struct {
		ref       *corev1.LocalObjectReference
		key, also string
	}{
		{c.UserDataSecretRef, userDataKey, "userData"},
		{c.NetworkDataSecretRef, networkDataKey, "networkData"},
	} {
		if source.ref != nil {
			for _, key := range []string{source.key, source.also} {
				p.Sources = append(p.Sources, secretFile(source.ref.Name, key, key, yes()))
			}
			continue
		}
		if _, ok := own[source.key]; ok {
			p.Sources = append(p.Sources, secretFile(SecretName(podName), secretKey(v.Name, source.key), source.key, nil))
		}
	}
	return p
}

// secretFile projects one key of a Secret. In a user's Secret a missing key is no error (one of two spellings always is): the launcher
// says what it misses.
func secretFile(secret, key, path string, optional *bool) corev1.VolumeProjection {
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: secret},
		Items:                []corev1.KeyToPath{{Key: key, Path: path}},
		Optional:             optional,
	}}
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

// Secret makes the Secret with a VMI's inline cloud-init data, or nil when there is none. The VMI owns it, and it cannot be changed: the
// next instance has its own.
func Secret(vmi *kubevirt.VirtualMachineInstance) (*corev1.Secret, error) {
	data := map[string][]byte{}
	for i := range vmi.Spec.Volumes {
		v := &vmi.Spec.Volumes[i]
		for key, encoded := range inline(v) {
			raw, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				return nil, fmt.Errorf("spec.volumes[%d].cloudInitNoCloud (%s): the %s given is not base64", i, v.Name, key)
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
