package support

import "slices"

// reason is the reason why a field, and all below it, is unsupported.
type reason struct {
	section, path string
	why           string
}

// nothing is the reason for a field all of whose values on amd64 are supported.
const nothing = ""

const (
	inVM            = "VM"
	inInstance      = "VMI"
	inConfiguration = "KubeVirt"
)

// reasons has one for each unsupported field. The first that matches counts.
func reasons() []reason {
	var all []reason
	for _, section := range []struct {
		name    string
		reasons [][2]string
	}{{inVM, whyOfVMs()}, {inInstance, whyOfInstances()}, {inConfiguration, whyOfConfiguration()}} {
		for _, r := range section.reasons {
			all = append(all, reason{section: section.name, path: r[0], why: r[1]})
		}
	}
	return all
}

const (
	later     = "not built yet"
	plugLater = later + ": nothing is plugged into a running guest; name the volume, stop and start the VM"
	noHost    = "on purpose: nothing of its host is given to a guest, and launchers are PodSecurity \"restricted\""
	removed   = "KubeVirt itself has removed it"
	otherCPUs = "guests are amd64"

	ownFirmware = "the launcher's image has its firmware"

	// These are the reasons for settings of KubeVirt's operator and of the processes that it deploys.
	byManifests = "virtflow's processes are deployed by its manifests, which no operator changes: edit those"
	byHand      = "no operator deletes virtflow: see docs/uninstall.md"
	ownRotation = "virtflow rotates its certificates in intervals of its own"
	byFlag      = "the flag `--max-devices` of the node workers bounds their guests: set it there"
	noReader    = "KubeVirt v1.9.0 reads it nowhere"
	ofOthers    = "it is for guests of another architecture, and guests are amd64"
	byLogFlag   = "node workers do not read the KubeVirt object: set their flag `--log-level`"
	noProcess   = "virtflow has no such process"
	noLevel     = "virtflow sets no SELinux level of launchers"
	noFrequency = "no guest has a fixed frequency of its time stamp counter"
	noUtility   = "no migration waits for a utility volume, since none is plugged in"
)

// hasNoEffect reports whether the setting is accepted: that it has no effect here changes nothing for a guest.
func (r reason) hasNoEffect() bool {
	return slices.Contains([]string{
		byManifests, byHand, ownRotation, byFlag, noReader, ofOthers, byLogFlag, noProcess, noLevel, noFrequency,
		noUtility,
	}, r.why)
}

func whyOfVMs() [][2]string {
	return [][2]string{
		{"runStrategy", "`WaitAsReceiver` is for moves between clusters, which do not exist here"},
		{"dataVolumeTemplates", "its status is CDI's to write"},
		{"instancetype", later + ": write CPU and memory into the template"},
		{"preference", later + ": write what it prefers into the template"},
		{"updateVolumesStrategy", later + ": volumes of a running VM are not exchanged; stop it, and change them"},
	}
}

func whyOfInstances() [][2]string {
	return [][2]string{
		{"architecture", otherCPUs},
		{"domain.cpu.realtime", "its launcher would need CAP_SYS_NICE, which PodSecurity \"restricted\" refuses"},
		{"domain.devices.autoattachVSOCK", later + ": no node offers `/dev/vhost-vsock`; use a port " +
			"of the guest's network"},
		{"domain.devices.disks[].changedBlockTracking", later + ": there are no incremental backups"},
		{"domain.devices.disks[].cdrom.tray", "a drive that is open when the guest starts; its guest can open it"},
		{"domain.devices.disks[].cdrom.bus", nothing},
		{"domain.devices.disks[].disk.bus", nothing},
		{"domain.devices.disks[].lun.bus", nothing},
		{"domain.devices.disks[].lun.reservation", "reservations need a helper with CAP_SYS_RAWIO beside the launcher"},
		{"domain.devices.downwardMetrics", noHost},
		{"domain.devices.gpus[].tag", later + ": a config drive names none of them to the guest"},
		{"domain.devices.hostDevices[].tag", later + ": a config drive names none of them to the guest"},
		{"domain.devices.inputs", nothing},
		{"domain.devices.interfaces[].macvtap", removed},
		{"domain.devices.interfaces[].slirp", removed},
		{"domain.devices.interfaces[].passt", removed},
		{"domain.devices.interfaces[].passtBinding", "passt makes a user namespace, which RuntimeDefault seccomp " +
			"refuses; use masquerade"},
		{"domain.devices.interfaces[].model", nothing},
		{"domain.devices.interfaces[].state", nothing},
		{"domain.devices.panicDevices", nothing},
		{"domain.devices.sound", nothing},
		{"domain.devices.video", nothing},
		{"domain.devices.watchdog.diag288", otherCPUs},
		{"domain.ioThreadsPolicy", nothing},
		{"domain.launchSecurity", "SEV and TDX need processors on which it was not tried"},
		{"domain.machine", nothing},
		{"domain.memory.reservedOverhead", nothing},
		{"domain.rebootPolicy", nothing},
		{"evictionStrategy", nothing},
		{"startStrategy", nothing},
		{"utilityVolumes", plugLater},
		{"volumes[].containerPath", "it would give a guest any path of its launcher's"},
		{"volumes[].dataVolume.hotpluggable", plugLater},
		{"volumes[].downwardMetrics", noHost},
		{"volumes[].hostDisk", noHost + "; use a claim, which may be on a local volume"},
		{"volumes[].memoryDump", plugLater},
		{"volumes[].persistentVolumeClaim.hotpluggable", plugLater},
	}
}

func whyOfConfiguration() [][2]string {
	const c, d = "configuration.", "configuration.developerConfiguration."
	return [][2]string{
		{"certificateRotateStrategy", ownRotation},
		{c + "apiConfiguration", byManifests},
		{c + "architectureConfiguration.amd64.machineType", nothing},
		{c + "architectureConfiguration.amd64.ovmfPath", ownFirmware},
		{c + "architectureConfiguration.defaultArchitecture", otherCPUs},
		{c + "architectureConfiguration.arm64", ofOthers},
		{c + "architectureConfiguration.ppc64le", ofOthers},
		{c + "architectureConfiguration.s390x", ofOthers},
		{c + "changedBlockTrackingLabelSelectors", later + ": there are no incremental backups"},
		{c + "commonInstancetypesDeployment", later + ": there are no instance types"},
		{c + "confidentialCompute", "SEV and TDX need processors on which it was not tried"},
		{c + "controllerConfiguration", byManifests},
		{d + "disabledFeatureGates", "KubeVirt's gates only"},
		{d + "featureGates", "KubeVirt's gates only. A gate permits fields; those that are not supported are refused by their names"},
		{d + "clusterProfiler", later},
		{d + "logVerbosity.virtHandler", byLogFlag},
		{d + "logVerbosity.nodeVerbosity", byLogFlag},
		{d + "logVerbosity.virtOperator", noProcess},
		{d + "logVerbosity.virtSynchronizationController", noProcess},
		{d + "minimumClusterTSCFrequency", noFrequency},
		{c + "evictionStrategy", nothing},
		{c + "handlerConfiguration", byManifests},
		{c + "hypervisors", "QEMU, by KVM or emulated, is the only one"},
		{c + "instancetype", later + ": there are no instance types"},
		{c + "ksmConfiguration", "it changes hosts: set KSM there"},
		{c + "liveUpdateConfiguration", plugLater},
		{c + "machineType", nothing},
		{c + "mediatedDevicesConfiguration", "it changes hosts: have a device plugin make its devices"},
		{c + "migrations.disableTLS", "guests never move without TLS"},
		{c + "migrations.matchSELinuxLevelOnMigration", noLevel},
		{c + "migrations.utilityVolumesTimeout", noUtility},
		{c + "migrations.maxDowntimeMs", later + ": the downtime grows by itself while a guest does not converge"},
		{c + "minCPUModel", noReader},
		{c + "network.defaultNetworkInterface", removed},
		{c + "network.permitSlirpInterface", removed},
		{c + "ovmfPath", ownFirmware},
		{c + "persistentReservationConfiguration", "reservations need a helper with CAP_SYS_RAWIO beside the launcher"},
		{c + "roleAggregationStrategy", byManifests},
		{c + "selinuxLauncherType", "launchers have their runtime's"},
		{c + "supportContainerResources", "the launcher's pod has one container, whose resources follow from the VM"},
		{c + "supportedGuestAgentVersions", later + ": any agent is asked"},
		{c + "tlsConfiguration", "TLS 1.3 is what virtflow serves, and 1.2 the least that it speaks to Temporal"},
		{c + "virtTemplateDeployment", later},
		{c + "virtualMachineInstancesPerNode", byFlag},
		{c + "vmRolloutStrategy", nothing},
		{c + "webhookConfiguration", byManifests},
		{"customizeComponents", byManifests},
		{"imagePullPolicy", byManifests}, {"imageRegistry", byManifests}, {"imageTag", byManifests},
		{"infra", byManifests}, {"workloads", byManifests}, {"productComponent", byManifests},
		{"productName", byManifests}, {"productVersion", byManifests}, {"synchronizationPort", byManifests},
		{"monitorAccount", byManifests}, {"monitorNamespace", byManifests}, {"serviceMonitorNamespace", byManifests},
		{"uninstallStrategy", byHand},
		{"workloadUpdateStrategy", nothing},
	}
}
