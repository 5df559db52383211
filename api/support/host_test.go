package support

import (
	"testing"

	"github.com/stretchr/testify/require"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestNothingOfHost: the list has no field that would give a VM something of its host, or a file that others have
// prepared. Devices of other vendors' device plugins are on it: any pod can request these.
func TestNothingOfHost(t *testing.T) {
	for field, spec := range map[string]string{
		"spec.volumes[0].hostDisk": `volumes: [{name: a, hostDisk: {path: /etc/shadow, type: ` +
			`DiskOrCreate}}]`,
		"spec.volumes[0].downwardMetrics":     `volumes: [{name: a, downwardMetrics: {}}]`,
		"spec.volumes[0].containerPath":       `volumes: [{name: a, containerPath: {path: /etc}}]`,
		"spec.domain.devices.downwardMetrics": `domain: {devices: {downwardMetrics: {}}}`,
		"spec.domain.launchSecurity":          `domain: {launchSecurity: {sev: {}}}`,
	} {
		t.Run(field, func(t *testing.T) {
			var s kubevirtv1.VirtualMachineInstanceSpec
			require.NoError(t, yaml.UnmarshalStrict([]byte(spec), &s))
			causes, err := Check(s, VMISpec(), "spec")
			require.NoError(t, err)
			require.NotEmpty(t, causes)
			for _, c := range causes {
				require.Contains(t, c.Message, "not supported yet")
				require.Contains(t, c.Field, field)
			}
		})
	}
}
