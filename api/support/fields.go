package support

import (
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/defaults"
)

// VMISpec lists the supported fields of a VirtualMachineInstance's spec.
func VMISpec() []Field {
	return join(placement(), podSettings(), domain(), devices(), volumes(), networks())
}

// VMSpec lists the supported fields of a VirtualMachine's spec; those of its template's spec are VMISpec.
func VMSpec() []Field {
	return []Field{
		{Path: "running"},
		{Path: "runStrategy", Values: []string{"Always", "RerunOnFailure", "Manual", "Halted", "Once"}},
		{Path: "template.metadata.labels.**"},
		{Path: "template.metadata.annotations.**"},
		{Path: "template.metadata.name"},
		{Path: "template.metadata.namespace"},
		{Path: "template.spec.**"},
		{Path: "dataVolumeTemplates[].apiVersion"},
		{Path: "dataVolumeTemplates[].kind"},
		{Path: "dataVolumeTemplates[].metadata.name"},
		{Path: "dataVolumeTemplates[].metadata.namespace"},
		{Path: "dataVolumeTemplates[].metadata.labels.**"},
		{Path: "dataVolumeTemplates[].metadata.annotations.**"},
		{Path: "dataVolumeTemplates[].spec.**"},
	}
}

// Configuration lists the supported fields of the KubeVirt object's spec.
func Configuration() []Field {
	return []Field{
		{Path: "configuration.additionalGuestMemoryOverheadRatio"},
		{Path: "configuration.architectureConfiguration.amd64.emulatedMachines.**"},
		{Path: "configuration.architectureConfiguration.amd64.machineType", Values: machines()},
		{Path: "configuration.architectureConfiguration.defaultArchitecture", Values: []string{"amd64"}},
		{Path: "configuration.autoCPULimitNamespaceLabelSelector.**"},
		{Path: "configuration.cpuModel"},
		{Path: "configuration.cpuRequest"},
		{Path: "configuration.defaultRuntimeClass"},
		{Path: "configuration.developerConfiguration.cpuAllocationRatio"},
		{Path: "configuration.developerConfiguration.disabledFeatureGates[]", Values: defaults.KnownGates()},
		{Path: "configuration.developerConfiguration.diskVerification.memoryLimit"},
		{Path: "configuration.developerConfiguration.featureGates[]", Values: defaults.KnownGates()},
		{Path: "configuration.developerConfiguration.logVerbosity.virtAPI"},
		{Path: "configuration.developerConfiguration.logVerbosity.virtController"},
		{Path: "configuration.developerConfiguration.logVerbosity.virtLauncher"},
		{Path: "configuration.developerConfiguration.memoryOvercommit"},
		{Path: "configuration.developerConfiguration.minimumReservePVCBytes"},
		{Path: "configuration.developerConfiguration.nodeSelectors.**"},
		{Path: "configuration.developerConfiguration.pvcTolerateLessSpaceUpToPercent"},
		{Path: "configuration.developerConfiguration.useEmulation"},
		{Path: "configuration.emulatedMachines.**"},
		{Path: "configuration.evictionStrategy", Values: evictionStrategies()},
		{Path: "configuration.imagePullPolicy"},
		{Path: "configuration.machineType", Values: machines()},
		{Path: "configuration.memBalloonStatsPeriod"},
		{Path: "configuration.migrations.allowAutoConverge"},
		{Path: "configuration.migrations.allowPostCopy"},
		{Path: "configuration.migrations.allowWorkloadDisruption"},
		{Path: "configuration.migrations.bandwidthPerMigration"},
		{Path: "configuration.migrations.completionTimeoutPerGiB"},
		{Path: "configuration.migrations.disableTLS", Values: []string{"false"}},
		{Path: "configuration.migrations.network"},
		{Path: "configuration.migrations.nodeDrainTaintKey"},
		{Path: "configuration.migrations.parallelMigrationsPerCluster"},
		{Path: "configuration.migrations.parallelOutboundMigrationsPerNode"},
		{Path: "configuration.migrations.progressTimeout"},
		{Path: "configuration.migrations.unsafeMigrationOverride"},
		{Path: "configuration.network.binding.**"},
		{Path: "configuration.network.defaultNetworkInterface", Values: []string{"bridge", "masquerade"}},
		{Path: "configuration.network.permitBridgeInterfaceOnPodNetwork"},
		{Path: "configuration.obsoleteCPUModels.**"},
		{Path: "configuration.permittedHostDevices.pciHostDevices[].**"},
		{Path: "configuration.permittedHostDevices.mediatedDevices[].**"},
		{Path: "configuration.permittedHostDevices.usb[].**"},
		{Path: "configuration.seccompConfiguration.virtualMachineInstanceProfile.customProfile.localhostProfile"},
		{Path: "configuration.seccompConfiguration.virtualMachineInstanceProfile.customProfile.runtimeDefaultProfile"},
		{Path: "configuration.smbios.**"},
		{Path: "configuration.virtualMachineOptions.**"},
		{Path: "configuration.vmStateStorageClass"},
		{Path: "configuration.vmRolloutStrategy", Values: []string{"LiveUpdate", "Stage"}},
		{Path: "imagePullSecrets[].name"},
		{Path: "workloadUpdateStrategy.batchEvictionInterval"},
		{Path: "workloadUpdateStrategy.batchEvictionSize"},
		{Path: "workloadUpdateStrategy.workloadUpdateMethods[]", Values: []string{"LiveMigrate", "Evict"}},
		// They are not pointers in the Go types: they are always present, and mean nothing while they are empty.
		{Path: "certificateRotateStrategy"},
		{Path: "workloadUpdateStrategy"},
		{Path: "customizeComponents"},
	}
}

// evictionStrategies are all applied by the eviction webhook; whether a guest can migrate is decided elsewhere.
func evictionStrategies() []string {
	return []string{"None", "LiveMigrate", "LiveMigrateIfPossible", "External"}
}

func machines() []string { return []string{"q35", "pc-q35*"} }

func placement() []Field {
	return []Field{
		{Path: "architecture", Values: []string{"amd64"}},
		{Path: "nodeSelector.**"},
		{Path: "affinity.**"},
		{Path: "tolerations.**"},
		{Path: "topologySpreadConstraints.**"},
		{Path: "priorityClassName"},
		{Path: "schedulerName"},
		{Path: "startStrategy", Values: []string{"Paused"}},
		{Path: "evictionStrategy", Values: evictionStrategies()},
	}
}

func podSettings() []Field {
	fields := []Field{
		{Path: "terminationGracePeriodSeconds"},
		{Path: "hostname"},
		{Path: "subdomain"},
		{Path: "dnsPolicy"},
		{Path: "dnsConfig.**"},
		{Path: "serviceAccountName"},
		{Path: "resourceClaims[].**"},
		{Path: "accessCredentials[].sshPublicKey.source.secret.secretName"},
		{Path: "accessCredentials[].sshPublicKey.propagationMethod.noCloud"},
		{Path: "accessCredentials[].sshPublicKey.propagationMethod.configDrive"},
		{Path: "accessCredentials[].sshPublicKey.propagationMethod.qemuGuestAgent.users[]"},
		{Path: "accessCredentials[].userPassword.source.secret.secretName"},
		{Path: "accessCredentials[].userPassword.propagationMethod.qemuGuestAgent"},
	}
	for _, probe := range []string{"readinessProbe", "livenessProbe"} {
		for _, f := range []string{"httpGet.**", "tcpSocket.**", "exec.command[]", "guestAgentPing.**",
			"initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"} {
			fields = append(fields, Field{Path: probe + "." + f})
		}
	}
	return fields
}

func domain() []Field {
	return []Field{
		{Path: "domain.cpu.cores"},
		{Path: "domain.cpu.sockets"},
		{Path: "domain.cpu.threads"},
		{Path: "domain.cpu.maxSockets"},
		{Path: "domain.cpu.model"},
		{Path: "domain.cpu.features.**"},
		{Path: "domain.cpu.dedicatedCpuPlacement"},
		{Path: "domain.cpu.isolateEmulatorThread"},
		{Path: "domain.cpu.numa.guestMappingPassthrough"},
		{Path: "domain.memory.guest"},
		{Path: "domain.memory.maxGuest"},
		{Path: "domain.memory.hugepages.pageSize"},
		{Path: "domain.memory.reservedOverhead.addedOverhead"},
		{Path: "domain.memory.reservedOverhead.memLock", Values: []string{kubevirtv1.MemLockNotRequired,
			kubevirtv1.MemLockRequired}},
		{Path: "domain.resources.requests.cpu"},
		{Path: "domain.resources.requests.memory"},
		{Path: "domain.resources.requests.ephemeral-storage"},
		{Path: "domain.resources.limits.cpu"},
		{Path: "domain.resources.limits.memory"},
		{Path: "domain.resources.limits.ephemeral-storage"},
		{Path: "domain.resources.overcommitGuestOverhead"},
		{Path: "domain.rebootPolicy", Values: []string{"Reboot", "Terminate"}},
		{Path: "domain.machine.type", Values: machines()},
		{Path: "domain.firmware.uuid"},
		{Path: "domain.firmware.serial"},
		{Path: "domain.firmware.acpi.slicNameRef"},
		{Path: "domain.firmware.acpi.msdmNameRef"},
		{Path: "domain.features.acpi.enabled"},
		{Path: "domain.features.apic.enabled"},
		{Path: "domain.features.apic.endOfInterrupt"},
		{Path: "domain.features.hyperv.**"},
		{Path: "domain.features.hypervPassthrough.enabled"},
		{Path: "domain.features.kvm.hidden"},
		{Path: "domain.features.pvspinlock.enabled"},
		{Path: "domain.features.smm.enabled"},
		{Path: "domain.firmware.bootloader.bios.useSerial"},
		{Path: "domain.firmware.bootloader.efi.secureBoot"},
		{Path: "domain.firmware.bootloader.efi.persistent"},
		{Path: "domain.firmware.kernelBoot.kernelArgs"},
		{Path: "domain.firmware.kernelBoot.container.**"},
		{Path: "domain.chassis.**"},
		{Path: "domain.clock.utc.offsetSeconds"},
		{Path: "domain.clock.timezone"},
		{Path: "domain.clock.timer.hpet.**"},
		{Path: "domain.clock.timer.hyperv.**"},
		{Path: "domain.clock.timer.kvm.**"},
		{Path: "domain.clock.timer.pit.**"},
		{Path: "domain.clock.timer.rtc.**"},
		{Path: "domain.ioThreads.supplementalPoolThreadCount"},
		{Path: "domain.ioThreadsPolicy", Values: []string{"shared", "auto", "supplementalPool"}},
	}
}

func devices() []Field {
	return []Field{
		{Path: "domain.devices.rng"},
		{Path: "domain.devices.filesystems[].name"},
		{Path: "domain.devices.filesystems[].virtiofs"},
		{Path: "domain.devices.gpus[].name"},
		{Path: "domain.devices.gpus[].deviceName"},
		{Path: "domain.devices.gpus[].claimName"},
		{Path: "domain.devices.gpus[].requestName"},
		{Path: "domain.devices.gpus[].virtualGPUOptions.**"},
		{Path: "domain.devices.hostDevices[].name"},
		{Path: "domain.devices.hostDevices[].deviceName"},
		{Path: "domain.devices.hostDevices[].claimName"},
		{Path: "domain.devices.hostDevices[].requestName"},
		{Path: "domain.devices.panicDevices[].model", Values: []string{"isa", "hyperv", "pvpanic"}},
		{Path: "domain.devices.sound.name"},
		{Path: "domain.devices.sound.model", Values: []string{"ich9", "ac97"}},
		{Path: "domain.devices.tpm.enabled"},
		{Path: "domain.devices.tpm.persistent"},
		{Path: "domain.devices.video.type", Values: []string{"vga", "virtio", "bochs", "ramfb", "cirrus"}},
		{Path: "domain.devices.watchdog.name"},
		{Path: "domain.devices.watchdog.i6300esb.action"},
		{Path: "domain.devices.useVirtioTransitional"},
		{Path: "domain.devices.clientPassthrough"},
		{Path: "domain.devices.disableHotplug"},
		{Path: "domain.devices.blockMultiQueue"},
		{Path: "domain.devices.autoattachSerialConsole"},
		{Path: "domain.devices.logSerialConsole"},
		{Path: "domain.devices.autoattachGraphicsDevice"},
		{Path: "domain.devices.autoattachInputDevice"},
		{Path: "domain.devices.autoattachMemBalloon"},
		{Path: "domain.devices.autoattachPodInterface"},
		{Path: "domain.devices.disks[].name"},
		{Path: "domain.devices.disks[].disk.bus", Values: diskBuses()},
		{Path: "domain.devices.disks[].disk.readonly"},
		{Path: "domain.devices.disks[].disk.pciAddress"},
		{Path: "domain.devices.disks[].lun.bus", Values: diskBuses()},
		{Path: "domain.devices.disks[].lun.readonly"},
		{Path: "domain.devices.disks[].lun.reservation", Values: []string{"false"}},
		{Path: "domain.devices.disks[].tag"},
		{Path: "domain.devices.disks[].cdrom.bus", Values: []string{"sata", "scsi", "usb"}},
		{Path: "domain.devices.disks[].cdrom.readonly"},
		{Path: "domain.devices.disks[].cdrom.tray", Values: []string{"closed"}},
		{Path: "domain.devices.disks[].serial"},
		{Path: "domain.devices.disks[].blockSize.custom.**"},
		{Path: "domain.devices.disks[].blockSize.matchVolume.**"},
		{Path: "domain.devices.disks[].bootOrder"},
		{Path: "domain.devices.disks[].cache"},
		{Path: "domain.devices.disks[].io"},
		{Path: "domain.devices.disks[].dedicatedIOThread"},
		{Path: "domain.devices.disks[].errorPolicy"},
		{Path: "domain.devices.disks[].shareable"},
		{Path: "domain.devices.inputs[].name"},
		{Path: "domain.devices.inputs[].type", Values: []string{"tablet"}},
		{Path: "domain.devices.inputs[].bus", Values: []string{"usb", "virtio"}},
		{Path: "domain.devices.interfaces[].name"},
		{Path: "domain.devices.interfaces[].bridge"},
		{Path: "domain.devices.interfaces[].masquerade"},
		{Path: "domain.devices.interfaces[].sriov"},
		{Path: "domain.devices.interfaces[].binding.name"},
		{Path: "domain.devices.interfaces[].ports[].name"},
		{Path: "domain.devices.interfaces[].ports[].port"},
		{Path: "domain.devices.interfaces[].ports[].protocol"},
		{Path: "domain.devices.interfaces[].portRanges[].start"},
		{Path: "domain.devices.interfaces[].portRanges[].end"},
		{Path: "domain.devices.interfaces[].portRanges[].protocol"},
		{Path: "domain.devices.interfaces[].macAddress"},
		{Path: "domain.devices.interfaces[].model", Values: interfaceModels()},
		{Path: "domain.devices.interfaces[].acpiIndex"},
		{Path: "domain.devices.interfaces[].bootOrder"},
		{Path: "domain.devices.interfaces[].dhcpOptions.bootFileName"},
		{Path: "domain.devices.interfaces[].dhcpOptions.tftpServerName"},
		{Path: "domain.devices.interfaces[].dhcpOptions.ntpServers[]"},
		{Path: "domain.devices.interfaces[].dhcpOptions.privateOptions[].option"},
		{Path: "domain.devices.interfaces[].dhcpOptions.privateOptions[].value"},
		{Path: "domain.devices.interfaces[].pciAddress"},
		{Path: "domain.devices.interfaces[].tag"},
		{Path: "domain.devices.interfaces[].state", Values: []string{"up", "down"}},
		{Path: "domain.devices.networkInterfaceMultiqueue"},
	}
}

func diskBuses() []string { return []string{"virtio", "sata", "scsi", "usb"} }

func interfaceModels() []string {
	return []string{"virtio", "e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139"}
}

func volumes() []Field {
	return []Field{
		{Path: "volumes[].name"},
		{Path: "volumes[].containerDisk.image"},
		{Path: "volumes[].containerDisk.imagePullSecret"},
		{Path: "volumes[].containerDisk.imagePullPolicy"},
		{Path: "volumes[].containerDisk.path"},
		{Path: "volumes[].emptyDisk.capacity"},
		{Path: "volumes[].cloudInitNoCloud.**"},
		{Path: "volumes[].cloudInitConfigDrive.**"},
		{Path: "volumes[].secret.**"},
		{Path: "volumes[].configMap.**"},
		{Path: "volumes[].downwardAPI.**"},
		{Path: "volumes[].serviceAccount.serviceAccountName"},
		{Path: "volumes[].sysprep.**"},
		{Path: "volumes[].persistentVolumeClaim.claimName"},
		{Path: "volumes[].persistentVolumeClaim.readOnly"},
		{Path: "volumes[].dataVolume.name"},
		{Path: "volumes[].ephemeral.persistentVolumeClaim.claimName"},
		{Path: "volumes[].ephemeral.persistentVolumeClaim.readOnly"},
	}
}

func networks() []Field {
	return []Field{
		{Path: "networks[].name"},
		{Path: "networks[].pod.vmNetworkCIDR"},
		{Path: "networks[].pod.vmIPv6NetworkCIDR"},
		{Path: "networks[].multus.networkName"},
		{Path: "networks[].multus.default"},
		{Path: "networks[].resourceClaim.claimName"},
		{Path: "networks[].resourceClaim.requestName"},
	}
}

func join(lists ...[]Field) []Field {
	var all []Field
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}
