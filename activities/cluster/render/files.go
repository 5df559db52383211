package render

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"
)

const (
	// imageOfFiles limits what a launcher needs for the image of a volume that is made of files, in bytes: they are 1
	// MiB, and lie beside the image while it is made.
	imageOfFiles = 8 << 20
	// tokenSeconds is Kubernetes' default for pods' tokens, which are then good for a year where that is asked for: a
	// guest has the token that its instance was started with.
	tokenSeconds = 3607
)

// files is where the pod has the files of a volume from that the guest finds on a disk; nil: it is of another kind. As
// with KubeVirt the pod waits for a Secret or ConfigMap that is not there yet, unless that is optional.
func files(v *kubevirt.Volume) *corev1.VolumeSource {
	switch {
	case v.Secret != nil:
		return &corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: v.Secret.SecretName, Optional: v.Secret.Optional,
		}}
	case v.ConfigMap != nil:
		return &corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: v.ConfigMap.LocalObjectReference, Optional: v.ConfigMap.Optional,
		}}
	case v.DownwardAPI != nil:
		return &corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: v.DownwardAPI.Fields}}
	case v.ServiceAccount != nil:
		return &corev1.VolumeSource{Projected: token()}
	case v.Sysprep != nil && v.Sysprep.Secret != nil:
		return &corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: v.Sysprep.Secret.Name}}
	case v.Sysprep != nil && v.Sysprep.ConfigMap != nil:
		return &corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: *v.Sysprep.ConfigMap,
		}}
	default:
		return nil
	}
}

// token returns the volume that Kubernetes mounts into pods for their service account. It is for the guest: the
// launcher mounts it among its volumes, and not where Kubernetes' clients look for one. It is bound to the pod: a guest
// that is moved keeps that of the first one, as with KubeVirt, and can use it as long as that is there.
func token() *corev1.ProjectedVolumeSource {
	seconds := int64(tokenSeconds)
	return &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
		{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
			Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
		}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
			Path:     "namespace",
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
		}}}},
	}}
}

// serviceAccount returns the pod's service account: spec.serviceAccountName, or the one whose token the guest has on a
// disk.
func serviceAccount(vmi *kubevirt.VirtualMachineInstance) string {
	if name := vmi.Spec.ServiceAccountName; name != "" {
		return name
	}
	for i := range vmi.Spec.Volumes {
		if a := vmi.Spec.Volumes[i].ServiceAccount; a != nil {
			return a.ServiceAccountName
		}
	}
	return ""
}

// accessCredentials brings each Secret that accessCredentials name to a directory of its name.
func accessCredentials(vmi *kubevirt.VirtualMachineInstance) ([]corev1.Volume, []corev1.VolumeMount, error) {
	var volumes []corev1.Volume
	var mounts []corev1.VolumeMount
	known := map[string]bool{}
	for i, c := range vmi.Spec.AccessCredentials {
		var secret *kubevirt.AccessCredentialSecretSource
		switch {
		case c.SSHPublicKey != nil:
			secret = c.SSHPublicKey.Source.Secret
		case c.UserPassword != nil:
			secret = c.UserPassword.Source.Secret
		}
		if secret == nil || secret.SecretName == "" || known[secret.SecretName] {
			continue
		}
		if err := safeName(secret.SecretName); err != nil {
			return nil, nil, fmt.Errorf("spec.accessCredentials[%d]: secretName: %w", i, err)
		}
		known[secret.SecretName] = true
		name := volumeName("access-cred", secret.SecretName)
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: secret.SecretName}}})
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: credentialsDir + secret.SecretName,
			ReadOnly: true})
	}
	return volumes, mounts, nil
}
