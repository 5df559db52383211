package support

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestBindingPlugins(t *testing.T) {
	kv := &kubevirtv1.KubeVirt{}
	require.NoError(t, yaml.Unmarshal([]byte(`
configuration:
  network:
    binding:
      tap: {domainAttachmentType: tap, networkAttachmentDefinition: a/b, migration: {}}
      l2: {domainAttachmentType: managedTap, computeResourceOverhead: {requests: {memory: 1Mi}}}
      sidecar: {domainAttachmentType: tap, sidecarImage: x, downwardAPI: device-info, migration: {method: link-refresh}}
      nothing: {}
`), &kv.Spec))
	const plugin = "spec.configuration.network.binding"
	want := []string{plugin + "[nothing].domainAttachmentType", plugin + "[sidecar].sidecarImage",
		plugin + "[sidecar].downwardAPI", plugin + "[sidecar].migration.method"}
	require.Equal(t, want, fieldsOfCauses(BindingPlugins(&kv.Spec.Configuration)))
	paths, err := WithoutEffect(kv)
	require.NoError(t, err)
	require.Equal(t, want, paths)

	spec := &kubevirtv1.VirtualMachineInstanceSpec{}
	for _, name := range []string{"tap", "l2", "", "sidecar", "unknown"} {
		f := kubevirtv1.Interface{Name: name}
		if name != "" {
			f.Binding = &kubevirtv1.PluginBinding{Name: name}
		}
		spec.Domain.Devices.Interfaces = append(spec.Domain.Devices.Interfaces, f)
	}
	spec.Networks = []kubevirtv1.Network{{Name: "l2", NetworkSource: kubevirtv1.NetworkSource{
		ResourceClaim: &kubevirtv1.ClaimRequest{}}}}
	const at = "spec.domain.devices.interfaces"
	require.Equal(t, []string{at + "[1].binding.name", at + "[3].binding.name", at + "[4].binding.name"},
		fieldsOfCauses(Bindings(spec, &kv.Spec.Configuration, "spec")))
}

func fieldsOfCauses(causes []metav1.StatusCause) (out []string) {
	for _, c := range causes {
		out = append(out, c.Field)
	}
	return out
}
