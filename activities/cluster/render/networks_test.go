package render

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/settings"
)

// TestAPodAsksForTheDevicesOfItsNetworks: one for each network, and its launcher's environment names which is which.
func TestAPodAsksForTheDevicesOfItsNetworks(t *testing.T) {
	vmi := example()
	for _, name := range []string{"a", "b", "c"} {
		vmi.Spec.Networks = append(vmi.Spec.Networks, kubevirt.Network{Name: name,
			NetworkSource: kubevirt.NetworkSource{Multus: &kubevirt.MultusNetwork{NetworkName: "blue"}}})
	}
	pod, err := Pod(vmi, Options{Settings: settings.Default(),
		NetworkResources: map[string]string{"a": "vendor.example/vf", "b": "vendor.example/vf"}})
	require.NoError(t, err)
	c := pod.Spec.Containers[0]
	for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
		q := list["vendor.example/vf"]
		require.EqualValues(t, 2, q.Value())
	}
	require.Contains(t, c.Env, corev1.EnvVar{Name: "KUBEVIRT_RESOURCE_NAME_a", Value: "vendor.example/vf"})
	require.Contains(t, c.Env, corev1.EnvVar{Name: "KUBEVIRT_RESOURCE_NAME_b", Value: "vendor.example/vf"})
	require.NotContains(t, c.Env, corev1.EnvVar{Name: "KUBEVIRT_RESOURCE_NAME_c"})
}
