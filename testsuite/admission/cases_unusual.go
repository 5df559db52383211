package admission

import "strings"

// unusualCases are rules that are seldom met.
func unusualCases() []specCase {
	const noTerm = "F.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
	term := func(expression string) string {
		return `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [` +
			expression + `]}}}}`
	}
	return []specCase{
		{name: "pinned CPUs without memory", only: "vm vmirs",
			spec: `{domain: {memory: null, cpu: {dedicatedCpuPlacement: true, cores: 1, sockets: 1, threads: 1}}}`,
			causes: []why{
				{
					invalid, "F.domain.resources.limits.memory",
					"F.domain.resources.requests.memory, F.domain.resources.limits.memory, " +
						"F.domain.memory.hugepages or " +
						"F.domain.memory.guest should be provided",
				},
			}},
		{name: "a long serial number", spec: disk(`serial: "` + strings.Repeat("a", 257) + `"`), causes: []why{
			{invalid, "F.domain.devices.disks[0].serial",
				"F.domain.devices.disks[0] must be less than or equal to 256 in length, if specified"},
		}},
		{name: "disk bus on arm64", only: "vmi", spec: `{architecture: arm64, domain: {machine: {type: virt},
			devices: {disks: [{name: a, disk: {bus: sata}}, {name: b, cdrom: {bus: sata}}]}},
			volumes: [{name: a, containerDisk: {image: i}}, {name: b, containerDisk: {image: i}}]}`, causes: []why{
			{notSupported, "F.domain.devices.disks[0].disk.bus",
				"Arm64 not support this disk bus type, please use virtio or scsi"},
			{notSupported, "F.domain.devices.disks[1].cdrom.bus",
				"Arm64 not support this disk bus type, please use virtio or scsi"},
		}},
		{name: "watchdog and sound on arm64", only: "vmi",
			spec: `{architecture: arm64, domain: {machine: {type: virt}, devices: {watchdog: {name: w, i6300esb: ` +
				`{action: reset}}, sound: {name: s, model: ac97}}}}`, causes: []why{
				{notSupported, "F.domain.devices.watchdog", "Arm64 not support Watchdog device"},
				{notSupported, "F.domain.devices.sound", "Arm64 not support sound device"},
			}},
		{name: "watchdog on s390x", only: "vmi",
			spec: `{architecture: s390x, domain: {machine: {type: s390-ccw-virtio}, devices: {watchdog: {name: w, ` +
				`i6300esb: {action: reset}}}}}`, causes: []why{
				{notSupported, "F.domain.devices.watchdog", "s390x only supports Diag288 watchdog device"},
			}},
		{name: "node above two numbers", spec: term(`{matchExpressions: [{key: a, operator: Gt, values: ["1", "2"]}]}`),
			causes: []why{
				{invalid, noTerm + ".matchExpressions[0].values",
					"@: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"},
			}},
		{name: "node that exists with values",
			spec: term(`{matchExpressions: [{key: a, operator: Exists, values: ["1"]}]}`), causes: []why{
				{invalid, noTerm + ".matchExpressions[0].values",
					"@: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"},
			}},
		{name: "node by another field", spec: term(`{matchFields: [{key: metadata.uid, operator: In, values: ["1"]}]}`),
			causes: []why{
				{invalid, noTerm + ".matchFields[0].key",
					`@: Invalid value: "metadata.uid": not a valid field selector key`},
			}},
		{name: "spread over no topology",
			spec: `{topologySpreadConstraints: [{maxSkew: 1, topologyKey: "", whenUnsatisfiable: DoNotSchedule}]}`,
			causes: []why{
				{invalid, "F.topologySpreadConstraints[0].topologyKey", "@: Required value: can not be empty"},
			}},
		{name: "spread over a topology of two parts too many",
			spec: `{topologySpreadConstraints: [{maxSkew: 1, topologyKey: a/b/c, whenUnsatisfiable: DoNotSchedule}]}`,
			causes: []why{
				{
					invalid, "F.topologySpreadConstraints[0].topologyKey",
					`@: Invalid value: "a/b/c": a qualified name must consist of alphanumeric characters, '-', '_' ` +
						`or '.', and must start and end with an alphanumeric character ` +
						`(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is ` +
						`'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' ` +
						`(e.g. 'example.com/MyName')`,
				},
			}},
		{name: "spread over a long topology",
			spec: `{topologySpreadConstraints: [{maxSkew: 1, topologyKey: ` + strings.Repeat("a", 64) +
				`, whenUnsatisfiable: DoNotSchedule}]}`, causes: []why{
				{invalid, "F.topologySpreadConstraints[0].topologyKey",
					`@: Invalid value: "` + strings.Repeat("a", 64) +
						`": name part must be no more than 63 characters`},
			}},
		{name: "HTTP probe without the pod's network",
			spec: `{livenessProbe: {httpGet: {port: 80}}, domain: {devices: {autoattachPodInterface: false}}}`,
			causes: []why{
				{invalid, "F.livenessProbe.httpGet", "@ is only allowed if the Pod Network is attached"},
			}},
		{name: "long search list", spec: `{dnsConfig: {searches: [` + strings.Join([]string{
			strings.Repeat("a", 60) + "." + strings.Repeat("b", 60),
			strings.Repeat("c", 60) + "." + strings.Repeat("d", 60), strings.Repeat("e", 60),
		}, ", ") + `]}}`, causes: []why{
			{invalid, "searchDomains",
				"must not have more than 256 characters (including spaces) in the search list"}}},
	}
}
