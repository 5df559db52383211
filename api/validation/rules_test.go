package validation

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtflow/virtflow/internal/defaults"
)

// TestRules: each case violates one rule; the texts are KubeVirt's.
func TestRules(t *testing.T) {
	for name, c := range map[string]struct{ spec, field, message string }{
		"hostname": {`hostname: "a+b"`, "spec.hostname",
			"spec.hostname does not conform to the kubernetes DNS_LABEL rules : "},
		"subdomain": {`subdomain: "a+b"`, "spec.subdomain",
			"spec.subdomain does not conform to the kubernetes DNS_SUBDOMAIN rules : "},
		"small memory": {`{domain: {resources: {requests: {memory: 64m}}}}`,
			"spec.domain.resources.requests.memory",
			"spec.domain.resources.requests.memory '64m': must be greater than or equal to 1M."},
		"negative memory": {`{domain: {resources: {requests: {memory: "-64Mi"}}}}`,
			"spec.domain.resources.requests.memory",
			"spec.domain.resources.requests.memory '-64Mi': must be greater than or equal to 0."},
		"memory and limit": {`{domain: {resources: {requests: {memory: 128Mi}, limits: {memory: 64Mi}}}}`,
			"spec.domain.resources.requests.memory",
			"spec.domain.resources.requests.memory '128Mi' is greater than spec.domain.resources.limits.memory '64Mi'"},
		"cpu and limit": {`{domain: {resources: {requests: {cpu: 2500m}, limits: {cpu: 500m}}}}`,
			"spec.domain.resources.requests.cpu",
			"spec.domain.resources.requests.cpu '2500m' is greater than spec.domain.resources.limits.cpu '500m'"},
		"small guest": {`{domain: {memory: {guest: "128"}}}`, "spec.domain.memory.guest",
			"spec.domain.memory.guest '128': must be greater than or equal to 1M."},
		"machine": {`{domain: {machine: {type: virt}}}`, "spec.domain.machine.type",
			"spec.domain.machine.type is not supported: virt (allowed values: [q35* pc-q35*])"},
		"start strategy": {`startStrategy: Fast`, "spec.startStrategy",
			"spec.startStrategy is set with an unrecognized option: Fast"},
		"eviction": {`evictionStrategy: Never`, "spec.evictionStrategy",
			"spec.evictionStrategy is set with an unrecognized option: Never"},
		"grace period": {`terminationGracePeriodSeconds: -1`, "spec.terminationGracePeriodSeconds",
			"spec.terminationGracePeriodSeconds '-1': must be greater than or equal to 0."},
		"two probes": {`livenessProbe: {exec: {command: [a]}, guestAgentPing: {}}`, "spec.livenessProbe",
			"spec.livenessProbe must have exactly one probe type set"},
		"no probe": {`readinessProbe: {}`, "spec.readinessProbe",
			"either spec.readinessProbe.tcpSocket, spec.readinessProbe.exec or spec.readinessProbe.httpGet must be " +
				"set if a spec.readinessProbe is specified"},
		"probe, no pod": {
			`{readinessProbe: {tcpSocket: {port: 1}}, domain: {devices: {autoattachPodInterface: false}}}`,
			"spec.readinessProbe.tcpSocket",
			"spec.readinessProbe.tcpSocket is only allowed if the Pod Network is attached",
		},
		"io threads": {`{domain: {ioThreadsPolicy: bad}}`, "spec.domain.ioThreadsPolicy",
			"Invalid IOThreadsPolicy (bad)"},
		"input": {`{domain: {devices: {inputs: [{name: i, bus: ps2, type: tablet}]}}}`,
			"spec.domain.devices.inputs[0].bus", "Input device can have only virtio or usb bus."},
		"unknown volume": {`{domain: {devices: {disks: [{name: x}]}}}`, "spec.domain.devices.disks[0].name",
			"spec.domain.devices.disks[0].Name 'x' not found."},
		"bus": {disk(`disk: {bus: floppy}`), "spec.domain.devices.disks[0].disk.bus",
			"spec.domain.devices.disks[0] is set with an unrecognized bus floppy, must be one of: [virtio scsi " +
				"sata usb]"},
		"ide": {disk(`disk: {bus: ide}`), "spec.domain.devices.disks[0].disk.bus",
			"IDE bus is not supported"},
		"virtio cdrom": {disk(`cdrom: {bus: virtio}`), "spec.domain.devices.disks[0].cdrom.bus",
			"Bus type virtio is invalid for CD-ROM device"},
		"read-only sata": {disk(`disk: {bus: sata, readonly: true}`), "spec.domain.devices.disks[0].disk.bus",
			"sata hard-disks do not support read-only."},
		"two targets": {disk(`disk: {}, cdrom: {}`), "spec.domain.devices.disks[0]",
			"spec.domain.devices.disks[0] can only have a single target type defined"},
		"serial": {disk(`serial: "a b"`), "spec.domain.devices.disks[0].serial",
			"spec.domain.devices.disks[0] must be made up of the following characters [A-Za-z0-9_.+-], if specified"},
		"cache": {disk(`cache: big`), "spec.domain.devices.disks[0].cache",
			"spec.domain.devices.disks[0].cache has invalid value big"},
		"boot order": {disk(`bootOrder: 0`), "spec.domain.devices.disks[0].bootOrder",
			"spec.domain.devices.disks[0] must have a boot order > 0, if supplied"},
		"two sources": {`{volumes: [{name: a, emptyDisk: {capacity: 1Gi}, containerDisk: {image: i}}]}`,
			"spec.volumes[0]", "spec.volumes[0] must have exactly one source type set"},
		"same volume": {`{volumes: [{name: a, emptyDisk: {capacity: 1Gi}}, {name: a, emptyDisk: {capacity: 1Gi}}]}`,
			"spec.volumes[1].name", "spec.volumes[1] and spec.volumes[0] must not have the same Name."},
		"relative path": {`{volumes: [{name: a, containerDisk: {image: i, path: disk/a}}]}`,
			"spec.volumes[0].containerDisk",
			"spec.volumes[0].containerDisk must be an absolute path to a file without relative components"},
		"root path": {`{volumes: [{name: a, containerDisk: {image: i, path: /}}]}`,
			"spec.volumes[0].containerDisk", "spec.volumes[0].containerDisk must not point to root"},
		"no cloud-init": {`{volumes: [{name: a, cloudInitNoCloud: {}}]}`, "spec.volumes[0].cloudInitNoCloud",
			"spec.volumes[0].cloudInitNoCloud must have at least one userdatasource or one networkdatasource set."},
		"two user data": {`{volumes: [{name: a, cloudInitNoCloud: {userData: x, userDataBase64: eA==}}]}`,
			"spec.volumes[0].cloudInitNoCloud",
			"spec.volumes[0].cloudInitNoCloud must have only one userdatasource set."},
		"long user data": {`{volumes: [{name: a, cloudInitNoCloud: {userData: ` + strings.Repeat("x", 2049) + `}}]}`,
			"spec.volumes[0].cloudInitNoCloud",
			"spec.volumes[0].cloudInitNoCloud userdata exceeds 2048 byte limit. Should use UserDataSecretRef for " +
				"larger data."},
		"no network": {`{domain: {devices: {interfaces: [{name: a, bridge: {}}]}}}`,
			"spec.domain.devices.interfaces[0].name", "spec.domain.devices.interfaces[0].name 'a' not found."},
		"no interface": {`{networks: [{name: a, pod: {}}]}`, "spec.networks[0].name",
			"spec.networks[0].name 'a' not found."},
		"two pod networks": {
			`{networks: [{name: a, pod: {}}, {name: b, pod: {}}], domain: {devices: {interfaces: [{name: a, ` +
				`masquerade: {}}, {name: b, masquerade: {}}]}}}`,
			"spec.interfaces", "more than one interface is connected to a pod network in spec.interfaces",
		},
		"two bindings": {iface(`masquerade: {}, bridge: {}`), "spec.domain.devices.interfaces[0]",
			"logical a interface must have exactly one binding method or binding plugin"},
		"model": {iface(`masquerade: {}, model: fast`), "spec.domain.devices.interfaces[0].model",
			"interface spec.domain.devices.interfaces[0].name uses model fast that is not supported."},
		"MAC": {iface(`masquerade: {}, macAddress: de-ad`), "spec.domain.devices.interfaces[0].macAddress",
			"interface spec.domain.devices.interfaces[0].name has malformed MAC address (de-ad)."},
		"reserved MAC": {iface(`masquerade: {}, macAddress: "02:00:00:00:00:00"`),
			"spec.domain.devices.interfaces[0].macAddress",
			"The requested MAC address is reserved for the in-pod bridge. Please choose another one."},
		"nameserver": {`{dnsPolicy: None, dnsConfig: {nameservers: [1.2.3.c]}}`, "nameservers",
			"must be valid IP address: 1.2.3.c"},
		"dns config": {`dnsPolicy: None`, "spec.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None"},
	} {
		t.Run(name, func(t *testing.T) {
			var spec kubevirtv1.VirtualMachineInstanceSpec
			require.NoError(t, yaml.Unmarshal([]byte(c.spec), &spec))
			causes := Spec(field.NewPath("spec"), &spec, defaults.Cluster{Architecture: "amd64"})
			causes = append(causes, subject{spec: &spec, path: field.NewPath("spec")}.apply(ownRules())...)
			require.Len(t, causes, 1, "%v", causes)
			require.Equal(t, c.field, causes[0].Field)
			require.Contains(t, causes[0].Message, c.message)
		})
	}
}

func disk(settings string) string {
	return `{volumes: [{name: a, emptyDisk: {capacity: 1Gi}}], domain: {devices: {disks: [{name: a, ` + settings +
		`}]}}}`
}

func iface(settings string) string {
	return `{networks: [{name: a, pod: {}}], domain: {devices: {interfaces: [{name: a, ` + settings + `}]}}}`
}
