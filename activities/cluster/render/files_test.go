package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtflow/virtflow/internal/settings"
)

// TestWhatVolumesOfFilesReferTo: each is mounted where the launcher looks for it, and nowhere else.
func TestWhatVolumesOfFilesReferTo(t *testing.T) {
	for volume, want := range map[string]string{
		`secret: {secretName: s, optional: true, volumeLabel: x}`: `secret: {secretName: s, optional: true}`,
		`configMap: {name: s, optional: false}`:                   `configMap: {name: s, optional: false}`,
		`downwardAPI: {fields: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}`: `downwardAPI: {items: [` +
			`{path: labels, fieldRef: {fieldPath: metadata.labels}}]}`,
		`sysprep: {secret: {name: s}}`:    `secret: {secretName: s}`,
		`sysprep: {configMap: {name: s}}`: `configMap: {name: s}`,
		`serviceAccount: {serviceAccountName: s}`: `projected: {sources: [` +
			`{serviceAccountToken: {path: token, expirationSeconds: 3607}}, ` +
			`{configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}}, ` +
			`{downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]}}]}`,
	} {
		vmi := example()
		var v kubevirt.Volume
		// (Unmarshalling YAML into it sets secret, too, where that is sysprep's.)
		text, err := yaml.YAMLToJSONStrict([]byte("name: v\n" + volume))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &v))
		vmi.Spec.Volumes = append(vmi.Spec.Volumes, v)
		pod, err := Pod(vmi, Options{Image: "x", Settings: settings.Default()})
		require.NoError(t, err)
		var source corev1.VolumeSource
		require.NoError(t, yaml.UnmarshalStrict([]byte(want), &source))
		last := pod.Spec.Volumes[len(pod.Spec.Volumes)-1]
		require.Equal(t, corev1.Volume{Name: "files-v", VolumeSource: source}, last, volume)
		require.Contains(t, pod.Spec.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: "files-v", MountPath: "/run/virtflow/files/v", ReadOnly: true})
		require.False(t, *pod.Spec.AutomountServiceAccountToken)
		account := map[bool]string{true: "s"}[v.ServiceAccount != nil]
		require.Equal(t, account, pod.Spec.ServiceAccountName)
	}
}

// TestNamesAreNoPaths: nothing is mounted but where the launcher looks for it, whatever a user calls it.
func TestNamesAreNoPaths(t *testing.T) {
	const path = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/../../../../usr/bin"
	for _, source := range []kubevirt.VolumeSource{
		{ConfigMap: &kubevirt.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}}},
		{ContainerDisk: &kubevirt.ContainerDiskSource{Image: "x"}},
		{CloudInitNoCloud: &kubevirt.CloudInitNoCloudSource{}},
		{EmptyDisk: &kubevirt.EmptyDiskSource{}},
	} {
		for _, name := range []string{path, "..", ".", "", "a/b", "A"} {
			vmi := example()
			vmi.Spec.Volumes = append(vmi.Spec.Volumes, kubevirt.Volume{Name: name, VolumeSource: source})
			_, err := Pod(vmi, Options{Image: "x", Settings: settings.Default()})
			require.ErrorContains(t, err, "is not a valid name", name)
		}
	}
	vmi := example()
	vmi.Spec.AccessCredentials = []kubevirt.AccessCredential{{UserPassword: &kubevirt.UserPasswordAccessCredential{
		Source: kubevirt.UserPasswordAccessCredentialSource{
			Secret: &kubevirt.AccessCredentialSecretSource{SecretName: "../../../usr/bin"}}}}}
	_, err := Pod(vmi, Options{Image: "x", Settings: settings.Default()})
	require.ErrorContains(t, err, "spec.accessCredentials[0]")
}

// TestAConfigDriveIsAsANoCloud: its data is in the Secret, and in nothing that others can read.
func TestAConfigDriveIsAsANoCloud(t *testing.T) {
	vmi := example()
	vmi.Spec.Volumes[2].VolumeSource = kubevirt.VolumeSource{CloudInitConfigDrive: &kubevirt.CloudInitConfigDriveSource{
		UserDataBase64: "aHVudGVyMg==", NetworkDataSecretRef: &corev1.LocalObjectReference{Name: "net"},
	}}
	s, err := Secret(vmi)
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"init.userdata": []byte("hunter2")}, s.Data)
	pod, err := Pod(vmi, Options{Image: "x", Settings: settings.Default()})
	require.NoError(t, err)
	got, err := yaml.Marshal(pod)
	require.NoError(t, err)
	require.NotContains(t, string(got), "aHVudGVyMg==")
	require.Contains(t, string(got), "/run/virtflow/cloud-init/init")
	require.Contains(t, string(got), "/run/virtflow/network-data/init")
}

func TestEachSecretOfAccessCredentialsIsMountedOnce(t *testing.T) {
	vmi := example()
	long := strings.Repeat("long.", 50)
	require.NoError(t, yaml.UnmarshalStrict([]byte(`
- sshPublicKey: {source: {secret: {secretName: a}}, propagationMethod: {noCloud: {}}}
- sshPublicKey: {source: {secret: {secretName: a}}, propagationMethod: {qemuGuestAgent: {users: [b]}}}
- userPassword: {source: {secret: {secretName: `+long+`x}}, propagationMethod: {qemuGuestAgent: {}}}
`), &vmi.Spec.AccessCredentials))
	pod, err := Pod(vmi, Options{Image: "x", Settings: settings.Default()})
	require.NoError(t, err)
	mounted := map[string]string{}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if at, ok := strings.CutPrefix(m.MountPath, "/run/virtflow/access-credentials/"); ok {
			require.True(t, m.ReadOnly)
			mounted[m.Name] = at
		}
	}
	require.Len(t, mounted, 2)
	for _, v := range pod.Spec.Volumes {
		if at, ok := mounted[v.Name]; ok {
			require.Equal(t, at, v.Secret.SecretName)
			delete(mounted, v.Name)
		}
	}
	require.Empty(t, mounted)
}
