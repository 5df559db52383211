package support

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRefusesHarmfulMetadata(t *testing.T) {
	refused := func(annotations map[string]string) []string {
		var got []string
		for _, c := range Metadata(&metav1.ObjectMeta{Annotations: annotations}, "metadata") {
			require.Contains(t, c.Message, c.Field)
			got = append(got, c.Message)
		}
		return got
	}
	require.Equal(t, []string{
		"metadata.annotations[kubevirt.io/create-migration-target] is not supported yet: no guest is received from " +
			"another cluster",
		"metadata.annotations[hooks.kubevirt.io/hookSidecars] is not supported yet: nothing runs beside the launcher",
		"metadata.annotations[kubevirt.io/pci-topology-version]: v2 is not supported yet (supported: v3)",
		"metadata.annotations[kubevirt.io/pci-interface-slot-count] is not supported yet: ports are laid out as v3",
	}, refused(map[string]string{
		"kubevirt.io/create-migration-target": "true", "kubevirt.io/pci-topology-version": "v2",
		"kubevirt.io/pci-interface-slot-count": "4", "hooks.kubevirt.io/hookSidecars": "[]",
	}))
	require.Equal(t, []string{
		"metadata.annotations[hooks.kubevirt.io/hookSidecars] is not supported yet: nothing runs beside the launcher",
		"metadata.annotations[sidecar.istio.io/inject]: true is not supported yet (supported: false): nothing runs " +
			"beside the launcher",
	}, refused(map[string]string{"hooks.kubevirt.io/hookSidecars": "[]", "sidecar.istio.io/inject": "true"}))
	require.Equal(t, "template.metadata.labels[sidecar.istio.io/inject]", Metadata(&metav1.ObjectMeta{
		Labels: map[string]string{"sidecar.istio.io/inject": "true"}}, "template.metadata")[0].Field)
	require.Empty(t, Metadata(&metav1.ObjectMeta{Labels: map[string]string{"sidecar.istio.io/inject": "false"}}, "m"))
	require.Empty(t, refused(map[string]string{
		"kubevirt.io/pci-topology-version": "v3", "kubevirt.io/keep-launcher-alive-after-failure": "true",
		"kubevirt.io/libvirt-log-filters": "1:qemu", "example.com/mine": "x",
	}))
}
