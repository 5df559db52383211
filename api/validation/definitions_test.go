package validation

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func TestDefinitionName(t *testing.T) {
	t.Parallel()
	for value, valid := range map[string]bool{
		"moves": true, "infra/moves": true, "infra/moves.v1": true,
		"": false, "/moves": false, "infra/": false, "in.fra/moves": false, "a/b/c": false, "Moves": false,
		"moves@net1": false,
	} {
		require.Equal(t, valid, len(definitionName(field.NewPath("x"), value)) == 0, value)
	}
}

func TestBindingPlugins(t *testing.T) {
	t.Parallel()
	overhead := func(q string) *kubevirtv1.ResourceRequirementsWithoutClaims {
		return &kubevirtv1.ResourceRequirementsWithoutClaims{
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(q)}}
	}
	var fields []string
	for _, c := range MachineConfiguration(&kubevirtv1.KubeVirtConfiguration{
		NetworkConfiguration: &kubevirtv1.NetworkConfiguration{Binding: map[string]kubevirtv1.InterfaceBindingPlugin{
			"a": {NetworkAttachmentDefinition: "infra/taps", ComputeResourceOverhead: overhead("1Mi")},
			"b": {NetworkAttachmentDefinition: "In/taps", ComputeResourceOverhead: overhead("-1Mi")},
			"":  {}, strings.Repeat("x", 254): {},
		}}}) {
		fields = append(fields, c.Field)
	}
	const at = "spec.configuration.network.binding"
	require.Equal(t, []string{at + "[]", at + "[b].networkAttachmentDefinition",
		at + "[b].computeResourceOverhead.requests.memory", at + "[" + strings.Repeat("x", 253) + "]"}, fields)
}
