package validation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func TestMachineConfiguration(t *testing.T) {
	t.Parallel()
	request := resource.MustParse("250m")
	require.Empty(t, MachineConfiguration(&kubevirtv1.KubeVirtConfiguration{
		CPURequest: &request, CPUModel: "Skylake-Client-noTSX-IBRS", DefaultRuntimeClass: "kata.example",
		SMBIOSConfig: &kubevirtv1.SMBiosConfiguration{Manufacturer: "Größe & Söhne", Sku: "$1 <2>"}}))
	require.Empty(t, MachineConfiguration(&kubevirtv1.KubeVirtConfiguration{CPUModel: "host-model",
		AutoCPULimitNamespaceLabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}}))

	limit := resource.MustParse("64Mi")
	require.Empty(t, MachineConfiguration(&kubevirtv1.KubeVirtConfiguration{
		DeveloperConfiguration: &kubevirtv1.DeveloperConfiguration{LessPVCSpaceToleration: 100,
			MinimumReservePVCBytes: 1 << 40, DiskVerification: &kubevirtv1.DiskVerification{MemoryLimit: &limit}}}))

	none, many := resource.MustParse("-1"), map[string]bool{}
	for i := range 65 {
		many[fmt.Sprint("model", i)] = true
	}
	var fields []string
	for _, c := range MachineConfiguration(&kubevirtv1.KubeVirtConfiguration{
		CPURequest: &none, CPUModel: "a model", DefaultRuntimeClass: "Kata",
		AutoCPULimitNamespaceLabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "team", Operator: "Is", Values: []string{"a"}}}},
		ObsoleteCPUModels: many,
		DeveloperConfiguration: &kubevirtv1.DeveloperConfiguration{LessPVCSpaceToleration: 101,
			MinimumReservePVCBytes: 1 << 63, DiskVerification: &kubevirtv1.DiskVerification{MemoryLimit: &none}},
		SMBIOSConfig: &kubevirtv1.SMBiosConfiguration{Product: "a\nb", Family: strings.Repeat("x", 257)}}) {
		fields = append(fields, c.Field)
		require.NotEmpty(t, c.Message)
	}
	require.Equal(t, []string{"spec.configuration.cpuRequest", "spec.configuration.cpuModel",
		"spec.configuration.defaultRuntimeClass",
		"spec.configuration.obsoleteCPUModels",
		"spec.configuration.autoCPULimitNamespaceLabelSelector.matchExpressions[0].operator",
		"spec.configuration.developerConfiguration.pvcTolerateLessSpaceUpToPercent",
		"spec.configuration.developerConfiguration.minimumReservePVCBytes",
		"spec.configuration.developerConfiguration.diskVerification.memoryLimit", "spec.configuration.smbios.product",
		"spec.configuration.smbios.family"}, fields)
}

func TestRefusesObsoleteModelWithoutName(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{
		"Penryn": false, strings.Repeat("x", 63): false, "": true, strings.Repeat("x", 64): true,
	} {
		models := map[string]bool{name: true}
		causes := MachineConfiguration(&kubevirtv1.KubeVirtConfiguration{ObsoleteCPUModels: models})
		if !refused {
			require.Empty(t, causes, name)
			continue
		}
		require.Len(t, causes, 1, name)
		require.Equal(t, "spec.configuration.obsoleteCPUModels["+strings.Repeat("x", min(len(name), 63))+"]",
			causes[0].Field)
	}
}
