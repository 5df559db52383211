package admission

// machineCases are about CPU, memory, firmware and features.
func machineCases() []specCase {
	const dedicated = "F.domain.cpu.dedicatedCpuPlacement"
	return []specCase{
		{name: "plain", spec: `{}`, only: "vmi vmirs"},
		{name: "memory below zero", spec: `{domain: {resources: {requests: {memory: "-1Mi"}}}}`, causes: []why{
			{invalid, "F.domain.resources.requests.memory", "@ '-1Mi': must be greater than or equal to 0."},
		}},
		{name: "memory in milli", spec: `{domain: {resources: {requests: {memory: 500m}}}}`, causes: []why{
			{invalid, "F.domain.resources.requests.memory", "@ '500m': must be greater than or equal to 1M."},
		}},
		{name: "memory limit below zero", spec: `{domain: {resources: {limits: {memory: "-1Mi"}}}}`, causes: []why{
			{invalid, "F.domain.resources.limits.memory", "@ '-1Mi': must be greater than or equal to 0."},
		}},
		{name: "memory above its limit",
			spec: `{domain: {resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}}}`, causes: []why{
				{invalid, "F.domain.resources.requests.memory",
					"@ '2Gi' is greater than F.domain.resources.limits.memory '1Gi'"},
			}},
		{name: "CPU below zero", spec: `{domain: {cpu: {cores: 1}, resources: {requests: {cpu: -200m}}}}`,
			causes: []why{
				{invalid, "F.domain.resources.requests.cpu", "@ '-200m': must be greater than or equal to 0."},
			}},
		{name: "CPU limit below zero",
			spec: `{domain: {cpu: {cores: 1}, resources: {requests: {cpu: "-3"}, limits: {cpu: "-3"}}}}`, causes: []why{
				{invalid, "F.domain.resources.requests.cpu", "@ '-3': must be greater than or equal to 0."},
				{invalid, "F.domain.resources.limits.cpu", "@ '-3': must be greater than or equal to 0."},
			}},
		{name: "CPU above its limit",
			spec: `{domain: {cpu: {cores: 1}, resources: {requests: {cpu: "3"}, limits: {cpu: "2"}}}}`, causes: []why{
				{invalid, "F.domain.resources.requests.cpu", "@ '3' is greater than F.domain.resources.limits.cpu '2'"},
			}},
		{name: "pages that are no quantity", spec: `{domain: {memory: {hugepages: {pageSize: 2Mb}}}}`, causes: []why{
			{
				invalid, "F.domain.memory.hugepages.pageSize",
				"@ '2Mb': quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
			},
		}},
		{name: "a page larger than the guest", spec: `{domain: {memory: {hugepages: {pageSize: 1Gi}}}}`, causes: []why{
			{invalid, "F.domain.resources.requests.memory",
				"@ '0' must be equal to or larger than page size F.domain.memory.hugepages.pageSize '1Gi'"},
		}},
		{name: "part of a page", spec: `{domain: {memory: {guest: 65Mi, hugepages: {pageSize: 2Mi}}}}`, causes: []why{
			{invalid, "F.domain.resources.requests.memory",
				"@ '0' is not a multiple of the page size F.domain.memory.hugepages.pageSize '2Mi'"},
		}},
		{name: "machine of another architecture", spec: `{domain: {machine: {type: virt-9}}}`, causes: []why{
			{invalid, "F.domain.machine.type", "@ is not supported: virt-9 (allowed values: [q35* pc-q35*])"},
		}},
		{name: "ACPI without a table", spec: `{domain: {firmware: {acpi: {}}}}`, causes: []why{
			{invalid, "F.acpi", "ACPI was set but no SLIC nor MSDM volume reference was set"},
		}},
		{name: "ACPI table of no volume", spec: `{domain: {firmware: {acpi: {slicNameRef: x}}}}`, causes: []why{
			{invalid, "F.acpi.slicNameRef", "F.acpi does not have a matching Volume."},
		}},
		{name: "ACPI table of a disk",
			spec: `{domain: {devices: {disks: [{name: x}]}, firmware: {acpi: {msdmNameRef: x}}}, volumes: [{name: x, ` +
				`containerDisk: {image: i}}]}`, causes: []why{
				{invalid, "F.acpi.msdmNameRef", "F.acpi refers to Volume of unsupported type."},
			}},
		{name: "three threads pinned",
			spec: `{domain: {cpu: {dedicatedCpuPlacement: true, sockets: 1, cores: 1, threads: 3}}}`, causes: []why{
				{invalid, dedicated, "Not more than two threads must be provided at F.domain.cpu.threads (got 3) " +
					"when DedicatedCPUPlacement is true"},
			}},
		{name: "pinned CPUs twice",
			spec: `{domain: {cpu: {dedicatedCpuPlacement: true, cores: 4, sockets: 1, threads: 1}, resources: ` +
				`{requests: {cpu: "2"}, limits: {cpu: "2"}}}}`, causes: []why{
				{
					invalid, dedicated,
					"F.domain.resources.requests.cpu or F.domain.resources.limits.cpu must not be provided at the " +
						"same time with F.domain.cpu.cores when DedicatedCPUPlacement is true ",
				},
			}},
		{name: "part of a CPU pinned",
			spec: `{domain: {cpu: {dedicatedCpuPlacement: true, cores: 2, sockets: 1, threads: 1}, resources: ` +
				`{requests: {cpu: 1500m}, limits: {cpu: 1500m}}}}`, causes: []why{
				{invalid, "F.domain.resources.requests.cpu", "provided resources CPU requests must be an interger"},
				{invalid, "F.domain.resources.limits.cpu", "provided resources CPU limits must be an interger"},
			}},
		{name: "pinned CPUs and less memory than the limit",
			spec: `{domain: {cpu: {dedicatedCpuPlacement: true, cores: 2, sockets: 1, threads: 1}, resources: ` +
				`{requests: {memory: 1Gi}, limits: {memory: 2Gi}}}}`, causes: []why{
				{invalid, "F.domain.resources.requests.memory", "@ must be equal to F.domain.resources.limits.memory"},
			}},
		{name: "emulator thread alone", spec: `{domain: {cpu: {cores: 1, isolateEmulatorThread: true}}}`, causes: []why{
			{invalid, "F.domain.cpu.isolateEmulatorThread",
				"IsolateEmulatorThread should be only set in combination with DedicatedCPUPlacement"},
		}},
		{name: "CPU feature", spec: `{domain: {cpu: {cores: 1, features: [{name: lahf, policy: want}]}}}`,
			causes: []why{
				{notSupported, "F.domain.cpu.features[0].policy",
					"CPU feature lahf uses policy want that is not supported."},
			}},
		{name: "NUMA of shared CPUs", spec: `{domain: {cpu: {cores: 1, numa: {guestMappingPassthrough: {}}}}}`,
			causes: []why{
				{
					invalid, "F.domain.cpu.numa.guestMappingPassthrough",
					dedicated + " must be set to true when NUMA topology strategy is set in " +
						"F.domain.cpu.numa.guestMappingPassthrough",
				},
				{
					invalid, "F.domain.cpu.numa.guestMappingPassthrough",
					"F.domain.memory.hugepages must be requested when NUMA topology strategy is set in " +
						"F.domain.cpu.numa.guestMappingPassthrough",
				},
			}},
		{name: "realtime", spec: `{domain: {cpu: {cores: 1, realtime: {}}}}`, causes: []why{
			{missing, dedicated, "@ must be set to true when F.domain.cpu.realtime is used"},
			{missing, "F.domain.cpu.numa.guestMappingPassthrough",
				"@ must be defined when F.domain.cpu.realtime is used"},
		}},
		{name: "sockets above their maximum", only: "vmi vmirs", spec: `{domain: {cpu: {sockets: 5, maxSockets: 2}}}`,
			causes: []why{
				{invalid, "F.domain.cpu.sockets",
					"Number of sockets in CPU topology is greater than the maximum sockets allowed"},
			}},
		{name: "both boot loaders", spec: `{domain: {firmware: {bootloader: {bios: {}, efi: {secureBoot: false}}}}}`,
			causes: []why{
				{invalid, "F.domain.firmware.bootloader",
					"@ has both EFI and BIOS configured, but they are mutually exclusive."},
			}},
		{name: "secure boot without SMM", spec: `{domain: {firmware: {bootloader: {efi: {}}}}}`, causes: []why{
			{invalid, "F.domain",
				"@ has EFI SecureBoot enabled. SecureBoot requires SMM, which is currently disabled."},
		}},
		{name: "kernel arguments without a kernel", spec: `{domain: {firmware: {kernelBoot: {kernelArgs: quiet}}}}`,
			causes: []why{
				{invalid, "F.domain.firmware.kernelBoot.kernelArgs",
					"kernel arguments cannot be provided without an external kernel"},
			}},
		{name: "kernel without an image",
			spec: `{domain: {firmware: {kernelBoot: {container: {image: "", kernelPath: boot/vmlinuz}}}}}`,
			causes: []why{
				{missing, "F.domain.firmware.kernelBoot.container.image",
					"F.domain.firmware.kernelBoot.container must be defined with an image"},
				{invalid, "F.domain.firmware.kernelBoot.container.kernelPath",
					"@ must be an absolute path to a file without relative components"},
			}},
		{name: "image without a kernel", spec: `{domain: {firmware: {kernelBoot: {container: {image: i}}}}}`,
			causes: []why{
				{missing, "F.domain.firmware.kernelBoot.container",
					"@ must be defined with at least one of the following: kernelPath, initrdPath"},
			}},
		{name: "launch security of two kinds", spec: `{domain: {launchSecurity: {sev: {}, snp: {}}}}`, causes: []why{
			{forbidden, "F.launchSecurity", "One and only one launchSecurity type can be set"},
		}},
		{name: "TDX without its gate", spec: `{domain: {launchSecurity: {tdx: {}}}}`, causes: []why{
			{invalid, "F.launchSecurity", "WorkloadEncryptionTDX feature gate is not enabled in kubevirt-config"},
		}},
		{name: "SEV without UEFI", spec: `{domain: {launchSecurity: {sev: {attestation: {}}}}}`, causes: []why{
			{invalid, "F.launchSecurity", "SEV requires OVMF (UEFI)"},
			{invalid, "F.launchSecurity", "SEV attestation requires VMI StartStrategy 'Paused'"},
		}},
		{name: "reserved overhead", spec: `{domain: {memory: {reservedOverhead: {addedOverhead: 1Mi}}}}`, causes: []why{
			{invalid, "F.domain.memory.reservedOverhead",
				"Reserved overhead memlock feature gate is not enabled in kubevirt-config"},
		}},
		{name: "no memory", only: "vmi", spec: `{domain: {memory: null}}`, causes: []why{
			{missing, "", "no memory requested, at least one of 'F.domain.memory.guest', " +
				"'F.domain.memory.hugepages.pageSize' or 'F.domain.resources.requests.memory' must be set"},
		}},
		{name: "unknown architecture", only: "vmi", spec: `{architecture: riscv64}`, causes: []why{
			{invalid, "F.architecture", "unsupported architecture: riscv64"},
		}},
		{name: "BIOS on arm64", only: "vmi",
			spec: `{architecture: arm64, domain: {firmware: {bootloader: {bios: {}}}, cpu: {model: host-model}}}`,
			causes: []why{
				{notSupported, "F.domain.firmware.bootloader.bios",
					"Arm64 does not support bios boot, please change to uefi boot"},
				{notSupported, "F.domain.cpu.model",
					"currently, host-passthrough is the only model supported on Arm64"},
			}},
		{name: "Hyper-V without its ground", only: "vmi",
			spec: `{domain: {features: {hyperv: {ipi: {enabled: true}, vpindex: {enabled: false}}}}}`, causes: []why{
				{
					invalid, "F.domain.features.hyperv.domain.features.hyperv.ipi",
					"'@' requires 'spec.domain.features.hyperv.domain.features.hyperv.vpindex', which was disabled.",
				},
			}},
		{name: "Hyper-V both ways", only: "vmi",
			spec: `{domain: {features: {hyperv: {relaxed: {}}, hypervPassthrough: {enabled: true}}}}`, causes: []why{
				{invalid, "F.domain.features.hyperv",
					"Cannot explicitly set hyperV features if HypervPassthrough is being used. Please use either " +
						"HyperV or HypervPassthrough."},
			}},
		{name: "EVMCS without its CPU", only: "vmi", spec: `{domain: {features: {hyperv: {evmcs: {}}}}}`, causes: []why{
			{missing, "spec.domain.cpu.features", "vmx cpu feature is required when evmcs is set"},
		}},
	}
}
