package render

import (
	"encoding/base64"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// Keys of cloud-init data in a Secret.
const (
	userDataKey    = "userdata"
	networkDataKey = "networkdata"
)

// labelNoBackup has Velero leave an object out of backups (https://velero.io/docs/main/resource-filtering). A restore
// of the Secret would be refused, and each instance has its own.
const labelNoBackup = "velero.io/exclude-from-backup"

// cloudInitSource returns a volume's cloud-init data, whatever data source it is for; nil: it has none.
func cloudInitSource(v *kubevirt.Volume) *kubevirt.CloudInitNoCloudSource {
	if v.CloudInitConfigDrive != nil {
		return (*kubevirt.CloudInitNoCloudSource)(v.CloudInitConfigDrive)
	}
	return v.CloudInitNoCloud
}

// cloudInit brings the data of a volume to directories of its name: what is inline by the Secret that was made of it,
// and each of the user's own Secrets whole, because its key may be spelled userdata or userData (networkdata or
// networkData). As with KubeVirt the pod waits for a Secret that is not there yet.
func cloudInit(v *kubevirt.Volume, podName string) ([]corev1.Volume, []corev1.VolumeMount) {
	c := cloudInitSource(v)
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

// inline returns the cloud-init data that a volume has in itself, where no Secret is named for it.
func inline(v *kubevirt.Volume) map[string]string {
	out := map[string]string{}
	c := cloudInitSource(v)
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
				return nil, fmt.Errorf("spec.volumes[%d] (%s): the %s given is not base64", i, v.Name, key)
			}
			data[secretKey(v.Name, key)] = raw
		}
	}
	if len(data) == 0 {
		return nil, nil // no data, no Secret
	}
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name:            SecretName(PodName(vmi.Name, string(vmi.UID))),
			Namespace:       vmi.Namespace,
			Labels:          map[string]string{contract.LabelCreatedBy: string(vmi.UID), labelNoBackup: "true"},
			OwnerReferences: owners(vmi),
		},
		Immutable: yes(),
		Data:      data,
	}, nil
}
