package support

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func check(t *testing.T, spec string, fields []Field, into any) map[string]string {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(spec), into))
	causes, err := Check(into, fields, "spec")
	require.NoError(t, err)
	got := map[string]string{}
	for _, c := range causes {
		require.Equal(t, metav1.CauseTypeFieldValueNotSupported, c.Type)
		got[c.Field] = c.Message
	}
	return got
}

func TestRefusesUnlistedFieldsByName(t *testing.T) {
	got := check(t, `{
		"domain": {
			"cpu": {"cores": 2, "realtime": {}}, "machine": {"type": "pc-i440fx"},
			"devices": {
				"disks": [{"name": "c", "disk": {"bus": "usb"}}, {"name": "d", "cdrom": {"bus": "usb"}},
					{"name": "a", "disk": {"bus": "virtio"}}, {"name": "b", "lun": {"reservation": true}}],
				"interfaces": [{"name": "other", "model": "igb"}, {"name": "default", "masquerade": {}, "model": "i82551", "tag": "x"}],
				"tpm": {"persistent": true, "enabled": true}, "downwardMetrics": {}, "gpus": []
			},
			"resources": {"requests": {"memory": "64Mi", "hugepages-2Mi": "1"}}
		},
		"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
		"evictionStrategy": "LiveMigrate", "startStrategy": "Paused",
		"volumes": [{"name": "a", "containerDisk": {"image": "i"}}, {"name": "b", "hostDisk": {"path": "/c"}}]
	}`, VMISpec(), &kubevirtv1.VirtualMachineInstanceSpec{})
	require.Equal(t, map[string]string{
		"spec.domain.cpu.realtime": "spec.domain.cpu.realtime is not supported yet",
		"spec.domain.machine.type": "spec.domain.machine.type: pc-i440fx is not supported yet " +
			"(supported: q35, pc-q35*)",
		"spec.domain.devices.disks[3].lun.reservation": "spec.domain.devices.disks[3].lun.reservation: true is not " +
			"supported yet (supported: false)",
		"spec.domain.devices.interfaces[1].model": "spec.domain.devices.interfaces[1].model: i82551 is not " +
			"supported yet (supported: virtio, e1000, e1000e, igb, ne2k_pci, pcnet, rtl8139)",
		"spec.domain.devices.downwardMetrics": "spec.domain.devices.downwardMetrics is not supported yet",
		"spec.domain.resources.requests.hugepages-2Mi": "spec.domain.resources.requests.hugepages-2Mi is not " +
			"supported yet",
		"spec.volumes[1].hostDisk": "spec.volumes[1].hostDisk is not supported yet",
	}, got)
}

func TestRunStrategies(t *testing.T) {
	for strategy, supported := range map[string]bool{"Always": true, "Halted": true, "Once": true, "Manual": true,
		"RerunOnFailure": true, "WaitAsReceiver": false} {
		got := check(t, `{"runStrategy": "`+strategy+
			`", "template": {"metadata": {"labels": {"a": "b"}, "creationTimestamp": null}}}`,
			VMSpec(), &kubevirtv1.VirtualMachineSpec{})
		require.Equal(t, supported, len(got) == 0, "%s: %v", strategy, got)
	}
}

func TestAcceptsEmptyConfiguration(t *testing.T) {
	require.Empty(t, check(t, `{}`, Configuration(), &kubevirtv1.KubeVirtSpec{}))
}

// gatesOfKubeVirt are those that KubeVirt v1.9.0 registers in pkg/virt-config/featuregate.
const gatesOfKubeVirt = `
	AlignCPUs AutoResourceLimitsGate BochsDisplayForEFIGuests ClusterProfiler
	CommonInstancetypesDeploymentGate ConfigurableHypervisor ContainerPathVolumes CPUManager CPUNodeDiscovery
	CrossArchitectureVirtualization DecentralizedLiveMigration DeclarativeHotplugVolumes
	DisableCustomSELinuxPolicy DisableMDEVConfiguration DockerSELinuxMCSWorkaround DownwardMetrics
	DynamicPodInterfaceNaming EnableVirtioFsConfigVolumes EnableVirtioFsStorageVolumes ExpandDisks
	ExperimentalIgnitionSupport ExperimentalVirtiofsSupport ExternalNetResourceInjection FirmwareAutoSelection
	GPU GPUsWithDRA GraceIOVirtualization HostDevices HostDevicesWithDRA HostDisk HotplugNICs HotplugVolumes
	HypervStrictCheck ImageVolume IncrementalBackup InstancetypeReferencePolicy IOMMUFD KubevirtSeccompProfile
	LibvirtHooksServerAndClient LiveMigration LiveUpdateNADRef Macvtap MigrationPriorityQueue
	MigrationStallDetection MultiArchitecture NetworkBindingPlugins NetworkDevicesWithDRA NodeRestriction
	NonRoot NUMA ObjectGraph OCIExport OptOutRoleAggregation PanicDevices Passt PasstBinding
	PasstIPStackMigration PCINUMAAwareTopology PersistentReservation Plugins
	PodSecondaryInterfaceNamingUpgrade PortRangesSpec PSA RebootPolicy ReservedOverheadMemlock Root
	SecureExecution Sidecar Snapshot SRIOVLiveMigration Template UtilityVolumes VGPULiveMigration VideoConfig
	VMExport VmiMemoryOverheadReport VMLiveUpdateFeatures VMPersistentState VMStatsCollector VolumeMigration
	VolumesUpdateStrategy VSOCK WorkloadEncryptionSEV WorkloadEncryptionTDX
`

// TestFeatureGates: each of KubeVirt's is accepted by its name, and no other.
func TestFeatureGates(t *testing.T) {
	gates := func(list, name string) map[string]string {
		return check(t, `{"configuration": {"developerConfiguration": {"`+list+`": ["`+name+`"]}}}`, Configuration(),
			&kubevirtv1.KubeVirtSpec{})
	}
	require.Len(t, strings.Fields(gatesOfKubeVirt), 84)
	for _, list := range []string{"featureGates", "disabledFeatureGates"} {
		for _, name := range strings.Fields(gatesOfKubeVirt) {
			require.Empty(t, gates(list, name), name)
		}
		require.Contains(t, gates(list, "NoSuchGate"), "spec.configuration.developerConfiguration."+list+"[0]")
	}
}

func TestWorkloadUpdateMethods(t *testing.T) {
	require.Empty(t, check(t, `{"workloadUpdateStrategy": {"workloadUpdateMethods": ["LiveMigrate", "Evict"],
		"batchEvictionSize": 3, "batchEvictionInterval": "90s"}}`, Configuration(), &kubevirtv1.KubeVirtSpec{}))
	require.Contains(t, check(t, `{"workloadUpdateStrategy": {"workloadUpdateMethods": ["Restart"]}}`,
		Configuration(), &kubevirtv1.KubeVirtSpec{}), "spec.workloadUpdateStrategy.workloadUpdateMethods[0]")
}

// A path with a typing error would never match, and its field would stay refused.
func TestEveryListedPathExists(t *testing.T) {
	for _, o := range objects() {
		for _, f := range o.supported {
			require.True(t, exists(o.of, split(f.Path)), "%s: %s", o.name, f.Path)
		}
	}
}

func exists(at reflect.Type, parts []string) bool {
	for at.Kind() == reflect.Pointer {
		at = at.Elem()
	}
	if len(parts) == 0 || parts[0] == "**" {
		return true
	}
	switch at.Kind() {
	case reflect.Slice:
		return parts[0] == "[]" && exists(at.Elem(), parts[1:])
	case reflect.Map:
		return exists(at.Elem(), parts[1:])
	case reflect.Struct:
		return slices.ContainsFunc(fieldsOf(at), func(f member) bool {
			return f.name == parts[0] && exists(f.of, parts[1:])
		})
	default:
		return false
	}
}

func TestProbesOfEveryKindAreServed(t *testing.T) {
	for _, probe := range []string{
		`{"httpGet": {"port": 80}}`, `{"tcpSocket": {"port": 22}}`, `{"guestAgentPing": {}}`,
		`{"exec": {"command": ["test", "-e", "/run/ready"]}, "timeoutSeconds": 3}`,
	} {
		require.Empty(t, check(t, `{"readinessProbe": `+probe+`, "livenessProbe": `+probe+`}`, VMISpec(),
			&kubevirtv1.VirtualMachineInstanceSpec{}), probe)
	}
}
