package defaults

import (
	"maps"
	"slices"
)

// KnownGates returns KubeVirt's feature gates (v1.9.0), which may be turned on and off by name. Those besides the
// inactive ones only permit what the rules of admission check: a feature that is permitted but not supported is refused
// by its field. CPUManager makes KubeVirt label the nodes whose kubelets assign dedicated CPUs, which virtflow always
// does.
func KnownGates() []string {
	out := []string{
		"CPUManager", GateContainerPathVolumes, GateDownwardMetrics, GateHostDevices, GateHostDisk, GateNetworkDevicesWithDRA,
		GatePortRanges, GateReservedOverhead, GateSidecar, GateTDX, GateUtilityVolumes, GateVirtioFSStorage, GateVSOCK,
	}
	out = append(append(out, onByDefault()...), withoutEffect()...)
	out = slices.AppendSeq(out, maps.Keys(warnings()))
	return append(out, alwaysOn()...)
}

// withoutEffect returns gates of KubeVirt that change nothing here: what they permit or turn on is missing, or always
// on.
func withoutEffect() []string {
	return []string{
		"AlignCPUs", "ConfigurableHypervisor", "CrossArchitectureVirtualization", "DecentralizedLiveMigration",
		"ExperimentalIgnitionSupport", "ExternalNetResourceInjection", "FirmwareAutoSelection", "GraceIOVirtualization",
		"HypervStrictCheck", "IOMMUFD", "ImageVolume", "IncrementalBackup", "KubevirtSeccompProfile",
		"LibvirtHooksServerAndClient", "MigrationStallDetection", "OCIExport", "ObjectGraph", "OptOutRoleAggregation",
		"PCINUMAAwareTopology", "Plugins", "PodSecondaryInterfaceNamingUpgrade", "Root", "Snapshot", "Template",
		"VGPULiveMigration", "VMStatsCollector", "VmiMemoryOverheadReport",
	}
}

// alwaysOn returns gates of KubeVirt that have become general: naming one has no effect.
func alwaysOn() []string {
	return []string{
		"AutoResourceLimitsGate", "BochsDisplayForEFIGuests", "CPUNodeDiscovery", "ClusterProfiler",
		"CommonInstancetypesDeploymentGate", "DisableCustomSELinuxPolicy", "DynamicPodInterfaceNaming",
		"EnableVirtioFsConfigVolumes", "ExpandDisks", "GPU", "HotplugNICs", "InstancetypeReferencePolicy",
		"LiveMigration", "LiveUpdateNADRef", "MigrationPriorityQueue", "NUMA", "NetworkBindingPlugins", "NonRoot",
		"PSA", "PanicDevices", "PersistentReservation", "SRIOVLiveMigration", "SecureExecution", "VMExport",
		"VMLiveUpdateFeatures", "VMPersistentState", "VideoConfig", "VolumeMigration", "VolumesUpdateStrategy",
	}
}

// warnings returns KubeVirt's messages for gates that are gone, or are about to go.
func warnings() map[string]string {
	const guide = " Please refer to Kubevirt user guide for alternatives."
	return map[string]string{
		"DockerSELinuxMCSWorkaround": "DockerSELinuxMCSWorkaround has been deprecated since v1.4.",
		"DisableMDEVConfiguration":   "DisableMDEVConfiguration has been deprecated since v1.8.0",
		"ExperimentalVirtiofsSupport": "Virtiofs ExperimentalVirtiofsSupport feature gate is discontinued since v1.7. " +
			"Please use EnableVirtioFsConfigVolumes or EnableVirtioFsPVC feature gates instead",
		"HotplugVolumes": "HotplugVolumes has been deprecated since v1.9.0 and has been replaced by " +
			"DeclarativeHotplugVolumes",
		"Macvtap":           "Macvtap network binding is discontinued since v1.3." + guide,
		"MultiArchitecture": "MultiArchitecture has been deprecated since v1.8.0",
		"Passt":             "Passt network binding is discontinued since v1.3." + guide,
		"PasstIPStackMigration": "Seamless migration with passt network binding plugin is no longer supported since " +
			"KubeVirt v1.8. Please use the passt core binding instead.",
	}
}

// GateWarning returns the warning for a gate that is turned on; "" if there is none.
func GateWarning(gate string) string {
	switch {
	case slices.Contains(alwaysOn(), gate):
		return "feature gate " + gate + ` is deprecated (feature state is "General Availability"), therefore it can be ` +
			"safely removed and is redundant. For more info, please look at: " +
			"https://github.com/kubevirt/kubevirt/blob/main/docs/deprecation.md"
	case slices.Contains(withoutEffect(), gate):
		return "feature gate " + gate + " has no effect in virtflow"
	}
	return warnings()[gate]
}

// DisabledGateWarning returns the warning for a gate that is turned off; "" if virtflow has it on by default.
func DisabledGateWarning(gate string) string {
	if slices.Contains(onByDefault(), gate) {
		return ""
	}
	return "disabling the feature gate " + gate + " has no effect in virtflow"
}
