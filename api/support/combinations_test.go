package support

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func TestRefusesCombinations(t *testing.T) {
	var spec kubevirtv1.VirtualMachineInstanceSpec
	require.NoError(t, json.Unmarshal([]byte(`{
		"domain": {"devices": {"disks": [
			{"name": "a"}, {"name": "drive", "cdrom": {}}, {"name": "b", "cdrom": {}}, {"name": "e", "io": "native", "cache": "writeback"},
			{"name": "f", "io": "native", "tag": "t"}, {"name": "e", "shareable": true}, {"name": "g", "shareable": true, "disk": {"bus": "virtio"}},
			{"name": "g", "disk": {}}
		], "filesystems": [{"name": "p", "virtiofs": {}}, {"name": "p", "virtiofs": {}}, {"name": "g", "virtiofs": {}},
			{"name": "a-name-of-thirty-seven-bytes-as-a-tag", "virtiofs": {}}, {"name": "a", "virtiofs": {}}],
		"interfaces": [{"name": "n"}, {"name": "m", "tag": "t"},
			{"name": "o", "sriov": {}, "macAddress": "02:00:00:00:00:01"}],
			"gpus": [{"name": "g", "claimName": "c", "requestName": "../gpu"}]},
			"ioThreadsPolicy": "supplementalPool", "ioThreads": {"supplementalPoolThreadCount": 1025}},
		"networks": [{"name": "o", "resourceClaim": {"claimName": "c", "requestName": "a*"}}],
		"volumes": [
			{"name": "a", "cloudInitNoCloud": {}}, {"name": "b", "cloudInitConfigDrive": {}}, {"name": "e", "emptyDisk": {"capacity": "1M"}},
			{"name": "f", "emptyDisk": {"capacity": "1Mi"}}, {"name": "s", "sysprep": {}}, {"name": "h", "sysprep": {"secret": {"name": "x"}}},
			{"name": "g", "persistentVolumeClaim": {"claimName": "c", "readOnly": true}},
			{"name": "l", "secret": {"secretName": "s", "volumeLabel": "a label of thirty-two characters"}},
			{"name": "m", "secret": {"secretName": "s", "volumeLabel": "a label of more, thirty-three bytes"}},
			{"name": "n", "configMap": {"name": "s", "volumeLabel": "a label of more, thirty-three bytes"}},
			{"name": "o", "downwardAPI": {"volumeLabel": "a label of more, thirty-three bytes"}},
			{"name": "p", "configMap": {"name": "s"}}, {"name": "a-name-of-thirty-seven-bytes-as-a-tag", "secret": {"secretName": "s"}},
			{"name": "../x", "configMap": {"name": "s"}}
		]
	}`), &spec))
	const noLabel = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start " +
		"and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is " +
		`'[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	var got []string
	for _, c := range Combinations(&spec, nil, "spec") {
		require.Contains(t, c.Message, c.Field)
		got = append(got, c.Message)
	}
	require.Equal(t, []string{
		"spec.volumes[1].cloudInitConfigDrive: a second cloud-init volume, beside a, is not supported yet",
		"spec.volumes[2].emptyDisk.capacity: less than 1Mi is not supported yet",
		"spec.volumes[4].sysprep: must set secret or configMap",
		"spec.volumes[8].secret.volumeLabel: more than 32 bytes are not supported yet",
		"spec.volumes[9].configMap.volumeLabel: more than 32 bytes are not supported yet",
		"spec.volumes[10].downwardAPI.volumeLabel: more than 32 bytes are not supported yet",
		"spec.volumes[13].name: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', " +
			"and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is " +
			`'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		"spec.domain.devices.disks[3].io: native needs cache mode none",
		"spec.domain.devices.disks[4].tag: a tag together with a config drive is not supported yet",
		"spec.domain.devices.disks[5].shareable: shareable for a volume of a single pod is not supported yet",
		"spec.domain.devices.disks[7].disk.bus: sata for a PersistentVolumeClaim that is mounted read-only is not supported yet",
		"spec.domain.devices.filesystems[1].name: a second file system of one volume is not supported yet",
		"spec.domain.devices.filesystems[2].name: a volume that is a disk as well is not supported yet",
		"spec.domain.devices.filesystems[3].name: more than 36 bytes are not supported yet",
		"spec.domain.devices.filesystems[4].name: a file system of another kind of volume than persistentVolumeClaim, " +
			"dataVolume, configMap, secret, serviceAccount and downwardAPI is not supported yet",
		"spec.domain.devices.filesystems[4].name: a volume that is a disk as well is not supported yet",
		"spec.domain.devices.gpus[0].requestName: " + noLabel,
		"spec.networks[0].resourceClaim.requestName: " + noLabel,
		"spec.domain.ioThreads.supplementalPoolThreadCount: more than 1024 are not supported yet",
		"spec.domain.devices.interfaces[1].tag: a tag together with a config drive is not supported yet",
		"spec.domain.devices.interfaces[2].macAddress: a MAC address for a device of a ResourceClaim is not " +
			"supported yet: its driver sets the address",
	}, got)
	spec.Volumes, spec.Domain.Devices.Filesystems = spec.Volumes[:1], nil
	spec.Domain.Devices.Disks = spec.Domain.Devices.Disks[4:5]
	spec.Domain.Devices.Interfaces, spec.Domain.Devices.GPUs = spec.Domain.Devices.Interfaces[:2], nil
	spec.Networks, spec.Domain.IOThreads = nil, nil
	require.Empty(t, Combinations(&spec, nil, "spec"), "without a config drive no guest gets a tag")
}

func TestMemLockNeedsVFIODevice(t *testing.T) {
	permitted := &kubevirtv1.PermittedHostDevices{
		USB:            []kubevirtv1.USBHostDevice{{ResourceName: "a/usb"}},
		PciHostDevices: []kubevirtv1.PciHostDevice{{ResourceName: "a/pci"}},
	}
	const required = `{"memory": {"reservedOverhead": {"memLock": "Required"}}, "devices": `
	for text, want := range map[string]int{
		`{}`: 0,
		`{"memory": {"reservedOverhead": {"addedOverhead": "1Mi"}}}`:   0,
		`{"memory": {"reservedOverhead": {"memLock": "NotRequired"}}}`: 0,
		required + `{}}`:                                                      1,
		required + `{"gpus": [{"name": "g"}]}}`:                               0,
		required + `{"interfaces": [{"sriov": {}}]}}`:                         0,
		required + `{"hostDevices": [{"name": "h", "deviceName": "a/pci"}]}}`: 0,
		required + `{"hostDevices": [{"name": "h", "deviceName": "a/usb"}]}}`: 1,
		required + `{"hostDevices": [{"name": "h", "claimName": "c"}]}}`:      0,
	} {
		var spec kubevirtv1.VirtualMachineInstanceSpec
		require.NoError(t, json.Unmarshal([]byte(text), &spec.Domain))
		got := Combinations(&spec, permitted, "spec")
		require.Len(t, got, want, text)
		for _, c := range got {
			require.Equal(t, "spec.domain.memory.reservedOverhead.memLock", c.Field)
		}
	}
}
