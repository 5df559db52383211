package render

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/multus"
	"github.com/virtflow/virtflow/internal/settings"
)

// withPlugins returns settings with binding plugins.
func withPlugins() settings.Settings {
	s := settings.Default()
	s.Configuration.NetworkConfiguration = &kubevirt.NetworkConfiguration{
		Binding: map[string]kubevirt.InterfaceBindingPlugin{
			"l2": {DomainAttachmentType: kubevirt.ManagedTap, NetworkAttachmentDefinition: "infra/l2",
				ComputeResourceOverhead: &kubevirt.ResourceRequirementsWithoutClaims{
					Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}},
			"sidecar": {SidecarImage: "x"},
			"unused":  {DomainAttachmentType: kubevirt.Tap, NetworkAttachmentDefinition: "infra/unused"},
		}}
	return s
}

// TestBindingPlugin: the pod gets the plugin's network and its memory, and the launcher how to attach the domain. What
// a VMI itself says of an attachment does not reach the launcher.
func TestBindingPlugin(t *testing.T) {
	vmi := example()
	plain, err := Pod(vmi, Options{Image: "x", Settings: withPlugins()})
	require.NoError(t, err)
	vmi.Spec.Domain.Devices.Interfaces[0].Binding = &kubevirt.PluginBinding{Name: "l2"}
	vmi.Annotations = map[string]string{"attachment.virtflow.io/l2": "tap", "attachment.virtflow.io/other": "tap"}
	pod, err := Pod(vmi, Options{Image: "x", Settings: withPlugins()})
	require.NoError(t, err)
	require.JSONEq(t, `[{"name":"l2","namespace":"infra","cni-args":{"logicNetworkName":"default"}}]`,
		pod.Annotations[multus.AnnotationNetworks])
	more := pod.Spec.Containers[0].Resources.Requests.Memory().DeepCopy()
	more.Sub(*plain.Spec.Containers[0].Resources.Requests.Memory())
	require.Equal(t, "64Mi", more.String())
	var launched kubevirt.VirtualMachineInstance
	require.NoError(t, json.Unmarshal([]byte(pod.Annotations["virtflow.io/vmi"]), &launched))
	require.Equal(t, map[string]string{"attachment.virtflow.io/l2": "managedTap"}, launched.Annotations)
}

func TestRefusesUnsupportedBindingPlugin(t *testing.T) {
	for name, want := range map[string]string{
		"sidecar": "spec.domain.devices.interfaces[0].binding.name: the binding plugin sidecar cannot be used: " +
			"configuration.network.binding[sidecar].sidecarImage: ",
		"unknown": "spec.domain.devices.interfaces[0].binding.name: couldn't find configuration for network binding: unknown",
	} {
		vmi := example()
		vmi.Spec.Domain.Devices.Interfaces[0].Binding = &kubevirt.PluginBinding{Name: name}
		_, err := Pod(vmi, Options{Image: "x", Settings: withPlugins()})
		require.ErrorContains(t, err, want)
	}
}

// TestTargetKeepsMACOfBindingPlugin: the target's pod lets the guest use the address that it has.
func TestTargetKeepsMACOfBindingPlugin(t *testing.T) {
	vmi := example()
	vmi.Status.Interfaces = []kubevirt.VirtualMachineInstanceNetworkInterface{
		{Name: "default", MAC: "02:00:00:00:be:02"}}
	require.Empty(t, withMACs(vmi).Spec.Domain.Devices.Interfaces[0].MacAddress)
	vmi.Spec.Domain.Devices.Interfaces[0].Binding = &kubevirt.PluginBinding{Name: "l2"}
	require.Equal(t, "02:00:00:00:be:02", withMACs(vmi).Spec.Domain.Devices.Interfaces[0].MacAddress)
}
