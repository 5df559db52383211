package admission

import virtadmission "github.com/virtflow/virtflow/api/admission"

const (
	controllerUser = "system:serviceaccount:kubevirt:kubevirt-controller"
	nodeUser       = "system:serviceaccount:kubevirt:kubevirt-handler"

	template = `{spec: {domain: {devices: {}, memory: {guest: 64Mi}}}}`
	vmPlain  = `{metadata: {name: a, namespace: ns}, spec: {runStrategy: Halted, template: ` + template + `}}`
)

func vmCall(id, object string) call {
	return call{id: "vm " + id, path: virtadmission.PathValidateVM, resource: "virtualmachines", operation: "CREATE",
		object: object, namespace: "ns"}
}

func vmUpdate(id, old, object string) call {
	c := vmCall(id, object)
	c.operation, c.old = "UPDATE", old
	return c
}

// vmCases are about what only a VM has.
func vmCases() []callCase {
	vm := func(spec string) string {
		return `{metadata: {name: a, namespace: ns}, spec: {template: ` + template + `, ` + spec + `}}`
	}
	claim := `{spec: {domain: {devices: {disks: [{name: d}]}, memory: {guest: 64Mi}}, volumes: [{name: d, ` +
		`dataVolume: {name: dv}}]}}`
	withTemplates := func(list string) string {
		return `{metadata: {name: a, namespace: ns}, spec: {runStrategy: Halted, dataVolumeTemplates: [` + list +
			`], template: ` + claim + `}}`
	}
	status := func(strategy, status string) string {
		return `{metadata: {name: a, namespace: ns}, spec: {runStrategy: ` + strategy + `, template: ` + template +
			`}, status: {` + status + `}}`
	}
	return []callCase{
		{call: vmCall("of no strategy", `{metadata: {name: a}, spec: {template: `+template+`}}`),
			causes: []why{{invalid, "spec.running", "RunStrategy must be specified"}}},
		{call: vmCall("of both strategies", vm(`running: true, runStrategy: Always`)), causes: []why{
			{invalid, "spec.running",
				"Running and RunStrategy are mutually exclusive. Note that Running is deprecated, please use " +
					"RunStrategy instead"},
		}},
		{call: vmCall("of another strategy", vm(`runStrategy: Often`)),
			causes: []why{{invalid, "spec.runStrategy", "Invalid RunStrategy (Often)"}}},
		{call: vmCall("that waits for another cluster", vm(`runStrategy: WaitAsReceiver`)), causes: []why{
			{invalid, "spec.runStrategy",
				"Invalid RunStrategy (WaitAsReceiver), DecentralizedLiveMigration feature gate is not enabled in " +
					"kubevirt resource"},
		}},
		{call: vmCall("of an instance type that is not there",
			`{metadata: {name: a}, spec: {runStrategy: Halted, instancetype: {name: small}, preference: {name: odd}, `+
				`template: {spec: {domain: {devices: {}}}}}}`), allowed: true},
		{call: vmCall("of running, which goes away",
			`{metadata: {name: a}, spec: {running: true, template: {spec: {domain: {devices: `+
				`{autoattachPodInterface: false}, memory: {guest: 64Mi}}}}}}`), allowed: true,
			warning: "spec.running is deprecated, please use spec.runStrategy instead."},
		{call: vmCall("of no template", `{metadata: {name: a}, spec: {runStrategy: Always}}`),
			causes: []why{{"", "", "spec.template in body is required"}}},
		{call: vmCall("of no spec", `{metadata: {name: a}}`),
			causes: []why{{"", "", "spec in body is required"},
				{"", "", `spec in body must be of type object: "null"`}}},
		{call: vmCall("with an unknown field", vm(`runStrategy: Always, paused: true`)),
			causes: []why{{"", "", "spec.paused in body is a forbidden property"}}},
		{call: vmCall("with an unknown part",
			`{metadata: {name: a}, data: {}, spec: {runStrategy: Always, template: `+template+`}}`), causes: []why{
			{"", "", ".data in body is a forbidden property"},
		}},
		{call: vmCall("with a field of another type", vm(`running: "yes"`)),
			causes: []why{{"", "", `spec.running in body must be of type boolean: "string"`}}},
		{call: vmCall("with a list of another type",
			`{metadata: {name: a}, spec: {runStrategy: Always, template: {spec: {volumes: {}, domain: {devices: `+
				`{disks: [1]}}}}}}`), causes: []why{
			{"", "", `spec.template.spec.domain.devices.disks in body must be of type object: "number"`},
			{"", "", `spec.template.spec.volumes in body must be of type array: "object"`},
		}},
		{call: vmCall("with a part of a number",
			vm(`runStrategy: Always, template: {spec: {domain: {devices: {}, cpu: {cores: 1.5}}}}`)), causes: []why{
			{"", "", `spec.template.spec.domain.cpu.cores in body must be of type int64: "float64"`},
		}},
		{call: vmCall("with a truth for a number",
			vm(`runStrategy: Always, template: {spec: {domain: {devices: {}, cpu: {cores: true, threads: "1"}}}}`)),
			causes: []why{
				{"", "", `spec.template.spec.domain.cpu.cores in body must be of type int64: ""`},
				{"", "", `spec.template.spec.domain.cpu.threads in body must be of type integer: "string"`},
			}},
		{call: vmCall("with a number beyond 32 bits",
			vm(`runStrategy: Always, template: {spec: {domain: {devices: {},
				clock: {utc: {offsetSeconds: 1e18}}}}}`)), causes: []why{
			{"", "", `spec.template.spec.domain.clock.utc.offsetSeconds in body must be of type int32: "float64"`},
		}},
		{call: vmCall("with an object for a quantity",
			vm(`runStrategy: Always, template: {spec: {domain: {devices: {}, memory: {guest: {size: 1}}}}}`)),
			causes: []why{
				{"", "", `spec.template.spec.domain.memory.guest in body must be of type string,integer,number: ` +
					`"object"`},
				{"", "", "spec.template.spec.domain.memory.guest.size in body is a forbidden property"},
			}},
		{call: vmCall("with nothing for a policy",
			vm(`runStrategy: Always, template: {spec: {dnsPolicy: null, domain: {devices: {}}}}`)), causes: []why{
			{"", "", `spec.template.spec.dnsPolicy in body must be of type string: "null"`},
			{"", "", "spec.template.spec.dnsPolicy in body should be one of [ClusterFirst ClusterFirstWithHostNet " +
				"Default None]"},
		}},
		{call: vmCall("with the same mistake twice",
			vm(`runStrategy: Always, template: {spec: {volumes: [{name: a, emptyDisk: {}}, {name: b, emptyDisk: `+
				`{}}], domain: {devices: {}}}}`)), causes: []why{
			{"", "", "spec.template.spec.volumes.emptyDisk.capacity in body is required"},
		}},
		{call: vmCall("with null for users",
			vm(`runStrategy: Always, template: {spec: {accessCredentials: [{sshPublicKey: {source: {secret: `+
				`{secretName: s}}, propagationMethod: {qemuGuestAgent: {users: null}}}}], domain: {devices: {}}}}`)),
			causes: []why{
				{"", "", `spec.template.spec.accessCredentials.sshPublicKey.propagationMethod.qemuGuestAgent.users ` +
					`in body must be of type array: "null"`},
			}},
		{call: vmCall("unknown before what is missing",
			vm(`runStrategy: Always, paused: true, template: {spec: {domain: {}}}`)), causes: []why{
			{"", "", "spec.paused in body is a forbidden property"},
			{"", "", "spec.template.spec.domain.devices in body is required"},
		}},
		{call: vmCall("of a network without a name",
			vm(`runStrategy: Always, template: {spec: {networks: [{pod: {}}], domain: {devices: {interfaces: [{name: `+
				`a, bridge: {}}]}, memory: {guest: 64Mi}}}}`)), causes: []why{
			{missing, "spec.template.spec.networks[0].name", "spec.template.spec.networks[0].name '' not found."},
			{invalid, "spec.template.spec.domain.devices.interfaces[0].name",
				"spec.template.spec.domain.devices.interfaces[0].name 'a' not found."},
		}},
		{call: vmCall("with another DNS policy",
			`{metadata: {name: a}, spec: {runStrategy: Always, template: {spec: {dnsPolicy: Mine, domain: `+
				`{devices: {}}}}}}`), causes: []why{
			{"", "", "spec.template.spec.dnsPolicy in body should be one of [ClusterFirst ClusterFirstWithHostNet " +
				"Default None]"},
		}},
		{call: call{
			id: "vm as another resource", path: virtadmission.PathValidateVM, resource: "virtualmachineinstances",
			operation: "CREATE", object: vmPlain,
		}, code: 400, message: "expect resource to be 'virtualmachines'"},
		{call: vmCall("with a reserved label",
			`{metadata: {name: a}, spec: {runStrategy: Always, template: {metadata: {labels: {kubevirt.io/nodeName: `+
				`ns}}, spec: {domain: {devices: {}}}}}}`), causes: []why{
			{notSupported, "spec.template.metadata.labels",
				"creation of the following reserved kubevirt.io/ labels on a VMI object is prohibited"},
		}},
		{call: vmCall("with a sidecar",
			`{metadata: {name: a}, spec: {runStrategy: Always, template: {metadata: {annotations: `+
				`{hooks.kubevirt.io/hookSidecars: "[]"}}, spec: {domain: {devices: {}}}}}}`), causes: []why{
			{
				invalid, "spec.template.metadata.annotations",
				"sidecar feature gate is not enabled in kubevirt-config, invalid entry " +
					"spec.template.metadata.annotations.hooks.kubevirt.io/hookSidecars",
			},
		}},
		{call: vmCall("with slirp",
			`{metadata: {name: a}, spec: {runStrategy: Always, template: {spec: {domain: {devices: {interfaces: `+
				`[{name: a, slirp: {}}]}}, networks: [{name: a, pod: {}}]}}}}`), causes: []why{
			{invalid, "spec.domain.devices.interfaces[0].slirp",
				"Slirp interface support has been discontinued since v1.3"},
		}},
		{call: vmCall("with a data volume of no name", withTemplates(`{metadata: {}, spec: {}}`)), causes: []why{
			{missing, "spec.dataVolumeTemplate[0].name",
				"'name' field must not be empty for DataVolumeTemplate entry @."},
		}},
		{call: vmCall("with a data volume of no storage",
			withTemplates(`{metadata: {name: dv}, spec: {source: {blank: {}}}}`)), causes: []why{
			{invalid, "spec.dataVolumeTemplate[0].PVC.Storage", "Missing Data volume PVC or Storage"},
		}},
		{call: vmCall("with a data volume of both storages",
			withTemplates(`{metadata: {name: dv}, spec: {pvc: {}, storage: {}, source: {blank: {}}}}`)), causes: []why{
			{invalid, "spec.dataVolumeTemplate[0].PVC.Storage",
				"Duplicate storage definition, both target storage and target pvc defined"},
		}},
		{call: vmCall("with a data volume from nowhere", withTemplates(`{metadata: {name: dv}, spec: {storage: {}}}`)),
			causes: []why{
				{invalid, "spec.dataVolumeTemplate[0].source.sourceRef",
					"Data volume should have either Source, SourceRef, or be externally populated"},
			}},
		{call: vmCall("with a data volume of no source",
			withTemplates(`{metadata: {name: dv}, spec: {storage: {}, source: {}}}`)), causes: []why{
			{invalid, "spec.dataVolumeTemplate[0].source", "Missing dataVolume valid source"},
		}},
		{call: vmCall("with a data volume of two sources",
			withTemplates(`{metadata: {name: dv}, spec: {storage: {}, source: {blank: {}, upload: {}}}}`)),
			causes: []why{
				{invalid, "spec.dataVolumeTemplate[0].source", "Multiple dataVolume sources"},
			}},
		{call: vmCall("with a data volume that nothing shows",
			withTemplates(`{metadata: {name: other}, spec: {storage: {}, source: {blank: {}}}}`)), causes: []why{
			{missing, "spec.dataVolumeTemplate[0]",
				"DataVolumeTemplate entry @ must be referenced in the VMI template's 'volumes' list"},
		}},
		{call: vmCall("with a data volume elsewhere",
			withTemplates(`{metadata: {name: dv, namespace: m}, spec: {storage: {}, source: {blank: {}}}}`)),
			causes: []why{
				{invalid, "spec.dataVolumeTemplates[0]",
					"Embedded DataVolume namespace m differs from VM namespace ns"},
			}},
		{call: vmUpdate("that is going", vmPlain,
			`{metadata: {name: a, deletionTimestamp: "2026-01-01T00:00:00Z"}, spec: {runStrategy: Sometimes,
				template: `+template+`}}`), allowed: true},
		{call: vmUpdate("while a snapshot is taken", vmPlain, status("Always", "snapshotInProgress: s")), causes: []why{
			{notSupported, "spec", `Cannot update vm running state until snapshot "s" completes`},
		}},
		{call: vmUpdate("while it is restored", vmPlain, status("Always", "restoreInProgress: r")), causes: []why{
			{notSupported, "spec", `Cannot update VM runStrategy until restore "r" completes`},
		}},
		{call: vmCall("that adds and removes",
			status("Halted", `volumeRequests: [{addVolumeOptions: {name: v, disk: {name: v}, volumeSource: {}}, `+
				`removeVolumeOptions: {name: v}}]`)), causes: []why{
			{invalid, "Status.volumeRequests",
				"VolumeRequests require either addVolumeOptions or removeVolumeOptions to be set, not both"},
		}},
		{call: vmCall("that asks for nothing", status("Halted", `volumeRequests: [{}]`)), causes: []why{
			{invalid, "Status.volumeRequests",
				"VolumeRequests require one of either addVolumeOptions or removeVolumeOptions to be set"},
		}},
		{call: vmCall("that adds a SATA disk",
			status("Halted", `volumeRequests: [{addVolumeOptions: {name: v, disk: {name: v, disk: {bus: sata}}, `+
				`volumeSource: {persistentVolumeClaim: {claimName: c}}}}]`)), causes: []why{
			{invalid, "Status.volumeRequests",
				"AddVolume request for disk [v] requires bus to be 'scsi' or 'virtio'. [sata] is not permitted."},
		}},
		{call: call{
			id: "vm status asks for nothing", path: virtadmission.PathValidateStatus, resource: "virtualmachines",
			operation: "UPDATE", old: vmPlain,
			object: `{kind: VirtualMachine, apiVersion: kubevirt.io/v1, ` +
				status("Halted", `volumeRequests: [{}]`)[1:],
		}, causes: []why{{invalid, "Status.volumeRequests",
			"VolumeRequests require one of either addVolumeOptions or removeVolumeOptions to be set"}}},
		{call: call{
			id: "vm status of another type", path: virtadmission.PathValidateStatus, resource: "virtualmachines",
			operation: "UPDATE", old: vmPlain,
			object: `{kind: VirtualMachine, apiVersion: kubevirt.io/v1, ` + status("Halted", `ready: maybe`)[1:],
		}, causes: []why{{"", "", `status.ready in body must be of type boolean: "string"`}}},
		{call: call{
			id: "vm status", path: virtadmission.PathValidateStatus, resource: "virtualmachines", operation: "UPDATE",
			old:    vmPlain,
			object: `{kind: VirtualMachine, apiVersion: kubevirt.io/v1, ` + status("Halted", `ready: true`)[1:],
		}, allowed: true},
	}
}

// instanceCases are about changes of an instance.
func instanceCases() []callCase {
	vmi := func(more, spec string) string {
		return `{metadata: {name: a` + more + `}, spec: {domain: {devices: {disks: [{name: p, disk: {bus: virtio}}` +
			spec + `]}, cpu: {maxSockets: 4}}, volumes: [{name: p, containerDisk: {image: i}}]}, status: ` +
			`{volumeStatus: [{name: p, target: vda}], nodeName: x}}`
	}
	plain := vmi("", "")
	update := func(id, user, object string) call {
		return call{
			id: "vmi " + id, path: virtadmission.PathValidateVMIPatch, resource: "virtualmachineinstances",
			operation: "UPDATE", user: user, old: plain, object: object,
		}
	}
	return []callCase{
		{call: update("spec by a user", "", vmi("", ", {name: c, cdrom: {}}")),
			causes: []why{{notSupported, "", "update of VMI object is restricted"}}},
		{call: update("reserved label by a user", "", vmi(", labels: {kubevirt.io/nodeName: yy}", "")), causes: []why{
			{notSupported, "", "modification of the following reserved kubevirt.io/ labels on a VMI object is " +
				"prohibited"},
		}},
		{call: update("label by a user", "", vmi(", labels: {app: yy}", "")), allowed: true},
		{call: update("drive by the controller", controllerUser, vmi("", ", {name: c, cdrom: {}}")), allowed: true},
		{call: update("disk of nothing by the controller", controllerUser, vmi("", ", {name: c, disk: {bus: scsi}}")),
			causes: []why{
				{invalid, "", "mismatch between volumes declared (1) and required (2)"},
			}},
		{call: update("node by no node", nodeUser, plain),
			causes: []why{{invalid, "", "Node restriction failed, virt-handler service account is missing node name"}}},
		{call: update("label by the controller", controllerUser, vmi(", labels: {kubevirt.io/nodeName: yy}", "")),
			allowed: true},
		{call: call{
			id: "vmi reserved label at birth", path: virtadmission.PathValidateVMI, resource: "virtualmachineinstances",
			operation: "CREATE",
			object:    `{metadata: {name: a, labels: {kubevirt.io/created-by: me}}, spec: ` + plainSpec + `}`,
		}, causes: []why{{notSupported, "metadata.labels",
			"creation of the following reserved kubevirt.io/ labels on a VMI object is prohibited"}}},
		{call: call{
			id: "vmi ignition", path: virtadmission.PathValidateVMI, resource: "virtualmachineinstances",
			operation: "CREATE",
			object:    `{metadata: {name: a, annotations: {kubevirt.io/ignitiondata: x}}, spec: ` + plainSpec + `}`,
		}, causes: []why{{
			invalid, "metadata.annotations",
			"ExperimentalIgnitionSupport feature gate is not enabled in kubevirt-config, invalid entry " +
				"metadata.annotations.kubevirt.io/ignitiondata",
		}}},
	}
}

// otherCases are about migrations, replica sets and evictions.
func otherCases() []callCase {
	migration := func(id, operation, object, old string) call {
		path := virtadmission.PathValidateVMIM
		if operation == "UPDATE" {
			path = virtadmission.PathValidateVMIMUpdate
		}
		return call{id: "vmim " + id, path: path, resource: "virtualmachineinstancemigrations", operation: operation,
			object: object, old: old}
	}
	const labelled = `{metadata: {name: m, namespace: ns, labels: {kubevirt.io/vmi-name: v}}, spec: {vmiName: v}}`
	set := func(id, object string) call {
		return call{id: "vmirs " + id, path: virtadmission.PathValidateVMIRS,
			resource: "virtualmachineinstancereplicasets", operation: "CREATE", object: object}
	}
	policy := func(id, spec, old string) call {
		c := call{id: "migrationpolicy " + id, path: virtadmission.PathValidatePolicy, resource: "migrationpolicies",
			operation: "CREATE", object: `{metadata: {name: p}, spec: {` + spec + `}}`}
		if old != "" {
			c.operation, c.old = "UPDATE", `{metadata: {name: p}, spec: {`+old+`}}`
		}
		return c
	}
	const downtime = "maxDowntimeMs cannot be modified without enabling the MigrationStallDetection feature gate"
	return []callCase{
		{call: policy("of nothing", `selectors: {}`, ""), allowed: true},
		{call: policy("of less than nothing",
			`selectors: {}, completionTimeoutPerGiB: -1, bandwidthPerMigration: -1Mi`, ""), causes: []why{
			{invalid, "spec.completionTimeoutPerGiB", "must not be negative"},
			{invalid, "spec.bandwidthPerMigration", "must not be negative"},
		}},
		{call: policy("of a word for a switch", `selectors: {}, allowPostCopy: "yes"`, ""), code: 400,
			message: "json: cannot unmarshal string into Go struct field " +
				"MigrationPolicySpec.spec.allowPostCopy of type bool"},
		{call: policy("of the same downtime", `selectors: {}, maxDowntimeMs: 5, allowPostCopy: true`,
			`selectors: {}, maxDowntimeMs: 5`), allowed: true},
		{call: policy("of another downtime", `selectors: {}, maxDowntimeMs: 6`, `selectors: {}, maxDowntimeMs: 5`),
			causes: []why{{invalid, "spec.maxDowntimeMs", downtime}}},
		{call: policy("of no downtime", `selectors: {}`, `selectors: {}, maxDowntimeMs: 5`), allowed: true},
		{call: policy("with compression", `selectors: {}, experimental: {compression: zstd}`, ""), allowed: true},
		{call: policy("without compression", `selectors: {}, experimental: {compression: none}`, ""), allowed: true},
		{call: migration("without an instance", "CREATE", `{metadata: {name: m}, spec: {}}`, ""),
			causes: []why{{missing, "spec.vmiName", "vmiName is missing"}}},
		{call: migration("of a number", "CREATE", `{metadata: {name: m, namespace: ns}, spec: {vmiName: 5}}`, ""),
			code: 400,
			message: "json: cannot unmarshal number into Go struct field " +
				"VirtualMachineInstanceMigrationSpec.spec.vmiName of type string"},
		{call: migration("with an unknown field", "CREATE",
			`{metadata: {name: m, namespace: ns}, spec: {vmiName: v, force: true}}`, ""),
			causes: []why{{"", "", "spec.force in body is a forbidden property"}}},
		{call: migration("of a number, changed", "UPDATE",
			`{metadata: {name: m, namespace: ns, labels: {kubevirt.io/vmi-name: v}}, spec: {vmiName: 5}}`, labelled),
			code: 400,
			message: "json: cannot unmarshal number into Go struct field " +
				"VirtualMachineInstanceMigrationSpec.spec.vmiName of type string"},
		{call: migration("of an absent instance", "CREATE",
			`{metadata: {name: m, namespace: ns}, spec: {vmiName: v}}`, ""), code: 400,
			message: `the VMI "ns/v" does not exist`},
		{call: migration("ahead of others", "CREATE",
			`{metadata: {name: m, namespace: ns}, spec: {vmiName: v, priority: system-critical}}`, ""), causes: []why{
			{forbidden, "spec.migrationPriority",
				"Migration priority queue, only virt-controller is allowed to set priority field"},
		}},
		{call: migration("of another", "UPDATE",
			`{metadata: {name: m, namespace: ns, labels: {kubevirt.io/vmi-name: v}}, spec: {vmiName: w}}`, labelled),
			causes: []why{
				{notSupported, "", "update of Migration object's spec is restricted"},
			}},
		{call: migration("without its label", "UPDATE", `{metadata: {name: m, namespace: ns}, spec: {vmiName: v}}`,
			labelled), causes: []why{
			{notSupported, "", "selector label can't be removed from an in-flight migration"},
		}},
		{call: migration("with another label", "UPDATE",
			`{metadata: {name: m, namespace: ns, labels: {kubevirt.io/vmi-name: w}}, spec: {vmiName: v}}`, labelled),
			causes: []why{
				{notSupported, "", "selector label can't be modified on an in-flight migration"},
			}},
		{call: migration("that has ended", "UPDATE",
			`{metadata: {name: m, namespace: ns}, spec: {vmiName: v}, status: {phase: Succeeded}}`, labelled),
			allowed: true},
		{call: set("of other labels",
			`{metadata: {name: s}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: c}}, `+
				`spec: {domain: {devices: {}}}}}}`), causes: []why{
			{invalid, "spec.selector", "selector does not match labels."},
		}},
		{call: set("of no template", `{metadata: {name: s}, spec: {selector: {matchLabels: {a: b}}}}`),
			causes: []why{{"", "", "spec.template in body is required"}}},
		{call: set("of an odd selector",
			`{metadata: {name: s}, spec: {selector: {matchExpressions: [{key: a, operator: Near}]}, template: {spec: `+
				`{domain: {devices: {}}}}}}`), causes: []why{
			{invalid, "spec.selector", `"Near" is not a valid label selector operator`},
		}},
		{call: call{
			id: "eviction of a pod that is not there", path: virtadmission.PathValidateEviction,
			resource: "pods/eviction", operation: "CREATE", name: "virt-launcher-x", namespace: "ns",
			object: `{apiVersion: policy/v1, kind: Eviction, metadata: {name: virt-launcher-x, namespace: ns}}`,
		}, allowed: true},
	}
}

// mutationCases are about what is filled in.
func mutationCases() []callCase {
	vmi := func(id, object string) call {
		return call{id: "mutated vmi " + id, path: virtadmission.PathMutateVMI, resource: "virtualmachineinstances",
			operation: "CREATE", object: object}
	}
	vm := func(id, object string) call {
		return call{id: "mutated vm " + id, path: virtadmission.PathMutateVM, resource: "virtualmachines",
			operation: "CREATE", object: object}
	}
	const born = `metadata: {name: a, annotations: {kubevirt.io/pci-topology-version: v3}, finalizers: ` +
		`[kubevirt.io/foregroundDeleteVirtualMachine]}`
	status := func(sockets, cores, memory string) string {
		return `status: {phase: Pending, runtimeUser: 107, guestOSInfo: {}, currentCPUTopology: {sockets: ` + sockets +
			`, cores: ` + cores + `, threads: 1}` + memory +
			`, phaseTransitionTimestamps: [{phase: Pending, phaseTransitionTimestamp: "2026-01-01T00:00:00Z"}]}`
	}
	const small = `, memory: {guestAtBoot: 64Mi, guestCurrent: 64Mi, guestRequested: 64Mi}`
	const network = `evictionStrategy: None, networks: [{name: default, pod: {}}]`
	inferring := func(policy, source string) string {
		return `{metadata: {name: a}, spec: {runStrategy: Halted, instancetype: {inferFromVolume: v, ` + policy + `},
			dataVolumeTemplates: [{metadata: {name: dv}, spec: {source: {http: {url: u}}, storage: {}}}],
			template: {spec: {domain: {devices: {}}, volumes: [{name: v, ` + source + `}]}}}}`
	}
	return []callCase{
		{call: vmi("plain", `{metadata: {name: a}, spec: {domain: {devices: {}, memory: {guest: 64Mi}}}}`),
			allowed: true, patch: born + `
spec: {architecture: amd64, ` + network + `, domain: {cpu: {cores: 1, sockets: 1, threads: 1, maxSockets: 4,
  model: host-model}, features: {acpi: {enabled: true}},
  firmware: {uuid: x}, machine: {type: q35}, memory: {guest: 64Mi}, resources: {},
  devices: {interfaces: [{name: default, bridge: {}}]}}}
` + status("1", "1", small)},
		{call: vmi("of requests",
			`{metadata: {name: a}, spec: {domain: {devices: {}, resources: {requests: {memory: 64Mi},
				limits: {cpu: 2500m}}}}}`), allowed: true, patch: born + `
spec: {architecture: amd64, ` + network + `, domain: {cpu: {cores: 1, sockets: 3, threads: 1, maxSockets: 12,
  model: host-model}, features: {acpi: {enabled: true}},
  firmware: {uuid: x}, machine: {type: q35}, memory: {guest: 64Mi}, resources: {requests: {memory: 64Mi, cpu: 2500m},
  limits: {cpu: 2500m}},
  devices: {interfaces: [{name: default, bridge: {}}]}}}
` + status("3", "1", small)},
		{call: vmi("large", `{metadata: {name: a}, spec: {domain: {devices: {autoattachPodInterface: false},
			cpu: {cores: 64, sockets: 3, threads: 1}, memory: {guest: 2Gi}}}}`), allowed: true, patch: born + `
spec: {architecture: amd64, evictionStrategy: None, domain: {cpu: {cores: 64, sockets: 3, threads: 1, maxSockets: 8,
  model: host-model}, features: {acpi: {enabled: true}},
  firmware: {uuid: x}, machine: {type: q35}, memory: {guest: 2Gi, maxGuest: 8Gi}, resources: {},
  devices: {autoattachPodInterface: false}}}
` + status("3", "64", `, memory: {guestAtBoot: 2Gi, guestCurrent: 2Gi, guestRequested: 2Gi}`)},
		{call: vmi("on arm64", `{metadata: {name: a}, spec: {architecture: arm64,
			domain: {devices: {disks: [{name: d}]}, memory: {guest: 64Mi}},
			volumes: [{name: d, containerDisk: {image: i}}]}}`), allowed: true, patch: born + `
spec: {architecture: arm64, ` + network + `, domain: {cpu: {cores: 1, sockets: 1, threads: 1,
  model: host-passthrough}, features: {acpi: {enabled: true}},
  firmware: {uuid: x, bootloader: {efi: {secureBoot: false}}}, machine: {type: virt}, memory: {guest: 64Mi},
  resources: {},
  devices: {interfaces: [{name: default, bridge: {}}], disks: [{name: d, disk: {bus: virtio}}]}},
  volumes: [{name: d, containerDisk: {image: i, imagePullPolicy: Always}}]}
` + status("1", "1", small)},
		{call: vmi("with devices",
			`{metadata: {name: a}, spec: {domain: {devices: {watchdog: {name: w},
				inputs: [{name: t, bus: "", type: ""}], disks: [{name: d, cdrom: {}}]}, memory: {guest: 64Mi},
  features: {hyperv: {synictimer: {}}}}, readinessProbe: {exec: {command: [x]}},
  volumes: [{name: d, containerDisk: {image: "i:v1"}}, {name: e, emptyDisk: {capacity: 1Gi}}]}}`), allowed: true,
			patch: born + `
spec: {architecture: amd64, ` + network + `, domain: {cpu: {cores: 1, sockets: 1, threads: 1, maxSockets: 4,
  model: host-model},
  features: {acpi: {enabled: true}, hyperv: {synictimer: {enabled: true}, synic: {enabled: true},
  vpindex: {enabled: true}}},
  firmware: {uuid: x}, machine: {type: q35}, memory: {guest: 64Mi}, resources: {},
  devices: {interfaces: [{name: default, bridge: {}}],
  watchdog: {name: w, i6300esb: {action: reset}}, inputs: [{name: t, bus: usb, type: tablet}],
  disks: [{name: d, cdrom: {bus: sata, readonly: true, tray: closed}}, {name: e, disk: {bus: sata}}]}},
  readinessProbe: {exec: {command: [x]}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1,
  failureThreshold: 3},
  volumes: [{name: d, containerDisk: {image: "i:v1", imagePullPolicy: IfNotPresent}},
  {name: e, emptyDisk: {capacity: 1Gi}}]}
` + status("1", "1", small)},
		{call: vm("plain", vmPlain), allowed: true, patch: `
metadata: {name: a, namespace: ns}
spec: {runStrategy: Halted, template: {metadata: {annotations: {kubevirt.io/pci-topology-version: v3}},
  spec: {architecture: amd64,
  domain: {devices: {}, firmware: {uuid: x, serial: yy}, machine: {type: q35}, memory: {guest: 64Mi},
  resources: {}}}}}`},
		{call: vm("on s390x", `{metadata: {name: a}, spec: {runStrategy: Halted,
			template: {spec: {architecture: s390x, domain: {devices: {}}}}}}`), allowed: true, patch: `
metadata: {name: a}
spec: {runStrategy: Halted, template: {spec: {architecture: s390x, domain: {devices: {}, firmware: {uuid: x,
  serial: yy}, machine: {type: s390-ccw-virtio}}}}}`},
		{call: vm("of an instance type both ways",
			`{metadata: {name: a}, spec: {runStrategy: Halted, instancetype: {name: x, inferFromVolume: yy},
				template: `+template+`}}`), causes: []why{
			{notSupported, "spec.instancetype.name",
				"Name already set, should be cleared before setting inferFromVolume"},
		}},
		{call: vm("of a preference of no name",
			`{metadata: {name: a}, spec: {runStrategy: Halted, preference: {kind: x}, template: `+template+
				`}}`), causes: []why{
			{notFound, "spec.preference",
				"Either Name or InferFromVolume should be provided within the PreferenceMatcher"},
		}},
		{call: vm("of an instance type of no volume",
			`{metadata: {name: a}, spec: {runStrategy: Halted, instancetype: {inferFromVolume: yy}, template: `+
				template+`}}`), code: 400, message: "unable to find volume yy to infer defaults"},
		{call: vm("of an instance type of a container disk", inferring("", `containerDisk: {image: i}`)), code: 400,
			message: "unable to infer defaults from volume v as type is not supported"},
		{call: vm("of an instance type of a download", inferring("", `dataVolume: {name: dv}`)), code: 400,
			message: "unable to infer defaults from DataVolumeSpec as DataVolumeSource is not supported"},
		{call: vm("of an instance type of a download, or of none", inferring("inferFromVolumeFailurePolicy: Ignore",
			`dataVolume: {name: dv}`)), allowed: true, patch: `
metadata: {name: a}
spec: {runStrategy: Halted, dataVolumeTemplates: [{metadata: {name: dv}, spec: {source: {http: {url: u}},
  storage: {resources: {}}}}], template: {metadata: {annotations: {kubevirt.io/pci-topology-version: v3}},
  spec: {architecture: amd64, domain: {devices: {}, firmware: {uuid: x, serial: yy}, machine: {type: q35},
  resources: {}}, volumes: [{name: v, dataVolume: {name: dv}}]}}}`},
		{call: vmi("that a preset was applied to",
			`{metadata: {name: a, annotations: {virtualmachinepreset.kubevirt.io/p: kubevirt.io/v1}}, spec: {domain: `+
				`{devices: {}, memory: {guest: 64Mi}}}}`), allowed: true,
			warning: "kubevirt.io/v1 VirtualMachineInstancePresets is now deprecated and will be removed in v2.",
			patch: `
metadata: {name: a, annotations: {virtualmachinepreset.kubevirt.io/p: kubevirt.io/v1,
  kubevirt.io/pci-topology-version: v3}, finalizers: [kubevirt.io/foregroundDeleteVirtualMachine]}
spec: {architecture: amd64, ` + network + `, domain: {cpu: {cores: 1, sockets: 1, threads: 1, maxSockets: 4,
  model: host-model}, features: {acpi: {enabled: true}},
  firmware: {uuid: x}, machine: {type: q35}, memory: {guest: 64Mi}, resources: {},
  devices: {interfaces: [{name: default, bridge: {}}]}}}
` + status("1", "1", small)},
		{call: vm("of a boolean", `{metadata: {name: a}, spec: {runStrategy: true, template: `+template+`}}`),
			causes: []why{{"", "", `spec.runStrategy in body must be of type string: "boolean"`}}},
		{call: vm("of a quantity",
			`{metadata: {name: a}, spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}, memory: `+
				`{guest: much}}}}}}`), code: 400,
			message: "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"},
		{call: call{
			id: "mutated vmim", path: virtadmission.PathMutateVMIM, resource: "virtualmachineinstancemigrations",
			operation: "CREATE",
			object:    `{metadata: {name: m}, spec: {vmiName: v}}`,
		}, allowed: true, patch: `metadata: {name: m, labels: {kubevirt.io/vmi-name: v}, finalizers: ` +
			`[kubevirt.io/migrationJobFinalize]}`},
		{call: call{
			id: "mutated vmi status by a user", path: virtadmission.PathMutateVMI, resource: "virtualmachineinstances",
			operation: "UPDATE",
			object:    `{metadata: {name: a}, spec: {domain: {devices: {}}}, status: {phase: Failed, nodeName: yy}}`,
			old:       `{metadata: {name: a}, spec: {domain: {devices: {}}}, status: {phase: Running, nodeName: x}}`,
		}, allowed: true, patch: `status: {phase: Running, nodeName: x, guestOSInfo: {}, runtimeUser: 0}`},
		{call: call{
			id: "mutated vmi status by the controller", path: virtadmission.PathMutateVMI,
			resource: "virtualmachineinstances", operation: "UPDATE", user: controllerUser,
			object: `{metadata: {name: a}, spec: {domain: {devices: {}}}, status: {phase: Failed, nodeName: yy}}`,
			old:    `{metadata: {name: a}, spec: {domain: {devices: {}}}, status: {phase: Running, nodeName: x}}`,
		}, allowed: true},
	}
}
