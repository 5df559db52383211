//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// TestLauncherPodIsRestricted: the namespace enforces the standard, and the pod's own security context states it.
func TestLauncherPodIsRestricted(t *testing.T) {
	m := newMachine(t, "tight", "Always", "")
	m.untilBooted()
	var pod corev1.Pod
	require.NoError(t, json.Unmarshal([]byte(m.kubectl("get", "pod", m.pod(), "-o", "json")), &pod))
	require.False(t, *pod.Spec.AutomountServiceAccountToken)
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.Spec.SecurityContext.SeccompProfile.Type)
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		require.True(t, *pod.Spec.SecurityContext.RunAsNonRoot)
		require.EqualValues(t, 107, *pod.Spec.SecurityContext.RunAsUser)
		require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
		require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
		require.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
		require.Empty(t, c.SecurityContext.Capabilities.Add)
		for _, v := range c.VolumeMounts {
			require.NotContains(t, v.MountPath, "serviceaccount")
		}
	}
	m.remove()
}

// TestRefusesLauncherPodsOfUsers: a namespace's administrator cannot create a pod that looks like a launcher.
func TestRefusesLauncherPodsOfUsers(t *testing.T) {
	ns := newNamespace(t)
	_, err := tryWith(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: impostor, namespace: %s, labels: {kubevirt.io: virt-launcher}}
spec:
  securityContext: {runAsNonRoot: true, runAsUser: 107, seccompProfile: {type: RuntimeDefault}}
  containers:
  - {name: compute, image: none, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}
`, ns), "create", "-f", "-")
	require.ErrorContains(t, err, "ValidatingAdmissionPolicy")
}

// TestRefusesUnsupportedFields: unsupported fields are refused by name, never ignored.
func TestRefusesUnsupportedFields(t *testing.T) {
	ns := newNamespace(t)
	manifest := func(extra, strategy string) string {
		return fmt.Sprintf(`apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: odd, namespace: %s}
spec:
  runStrategy: %s
  template:
    spec:
      domain: {memory: {guest: 128Mi}, devices: {%s}}
`, ns, strategy, extra)
	}
	_, err := tryWith(manifest("disks: [{name: c, cdrom: {bus: sata, tray: open}}]", "Always"), "create", "-f", "-")
	require.ErrorContains(t, err, "spec.template.spec.domain.devices.disks[0].cdrom.tray")
	require.ErrorContains(t, err, "not supported yet")
	_, err = tryWith(manifest("", "WaitAsReceiver"), "create", "-f", "-")
	require.ErrorContains(t, err, "spec.runStrategy")
	_, err = tryWith(manifest("", "Sometimes"), "create", "-f", "-")
	require.ErrorContains(t, err, "Invalid RunStrategy (Sometimes)")
}
