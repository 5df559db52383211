package support

import (
	"testing"

	"github.com/stretchr/testify/require"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestWithoutEffect(t *testing.T) {
	of := func(spec string) []string {
		kv := &kubevirtv1.KubeVirt{}
		require.NoError(t, yaml.Unmarshal([]byte(spec), &kv.Spec))
		paths, err := WithoutEffect(kv)
		require.NoError(t, err)
		return paths
	}
	require.Empty(t, of(`{}`))
	require.Empty(t, of(`configuration: {evictionStrategy: None, developerConfiguration: {useEmulation: true}}`))
	require.Equal(t, []string{
		"spec.configuration.ksmConfiguration", "spec.configuration.minCPUModel",
		"spec.configuration.virtualMachineInstancesPerNode", "spec.customizeComponents.patches", "spec.infra",
		"spec.configuration.permittedHostDevices.pciHostDevices[0].externalResourceProvider",
	}, of(`
infra: {replicas: 2}
customizeComponents: {patches: [{resourceName: a, resourceType: Deployment, patch: "{}", type: json}]}
configuration:
  minCPUModel: Penryn
  ksmConfiguration: {}
  virtualMachineInstancesPerNode: 40
  permittedHostDevices: {pciHostDevices: [{pciVendorSelector: "10DE:1EB8", resourceName: a/b}]}
`))
	const developer, migrations = "spec.configuration.developerConfiguration.", "spec.configuration.migrations."
	require.Equal(t, []string{
		developer + "featureGates[3]", developer + "minimumClusterTSCFrequency",
		migrations + "matchSELinuxLevelOnMigration", migrations + "utilityVolumesTimeout",
		developer + "featureGates[1]", developer + "featureGates[2]", developer + "disabledFeatureGates[1]",
	}, of(`
configuration:
  developerConfiguration:
    featureGates: [HostDisk, LiveMigration, Macvtap, NoSuchGate]
    disabledFeatureGates: [RebootPolicy, HostDisk]
    minimumClusterTSCFrequency: 2000000000
  migrations: {matchSELinuxLevelOnMigration: true, utilityVolumesTimeout: 5, nodeDrainTaintKey: a/b}
`))
	require.Equal(t, []string{
		migrations + "disableTLS", migrations + "progressTimeout", migrations + "nodeDrainTaintKey",
		"spec.configuration.cpuRequest",
	}, of(`
configuration:
  cpuRequest: "-1"
  migrations: {disableTLS: true, progressTimeout: -1, nodeDrainTaintKey: a b}
`), "invalid values count as not set")
	const architectures = "spec.configuration.architectureConfiguration."
	require.Equal(t, []string{
		architectures + "amd64.machineType", architectures + "amd64.ovmfPath", architectures + "arm64",
		architectures + "s390x",
	}, of(`
configuration:
  architectureConfiguration:
    amd64: {machineType: pc-i440fx, emulatedMachines: [q35*], ovmfPath: /usr/share/OVMF}
    arm64: {machineType: virt}
    s390x: {}
    defaultArchitecture: amd64
`))
	for path, accepted := range map[string]bool{"amd64.machineType": false, "amd64.ovmfPath": false,
		"arm64.machineType": true, "s390x": true, "defaultArchitecture": false} {
		require.Equal(t, accepted, WhyNoEffect("configuration.architectureConfiguration."+path) != "", path)
	}
}
