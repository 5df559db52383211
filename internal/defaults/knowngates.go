package defaults

import (
	"maps"
	"slices"
)

// KnownGates are the feature gates that may be turned on by name. Those beside the inactive ones permit something that
// the rules of admission ask about, and nothing else: what is permitted and does not run is refused by its field.
// CPUManager has KubeVirt label the nodes whose kubelets give CPUs away, which is always done here.
func KnownGates() []string {
	out := []string{
		"CPUManager", GateContainerPathVolumes, GateDownwardMetrics, GateHostDevices, GateHostDisk, GateNetworkDevicesWithDRA,
		GatePortRanges, GateReservedOverhead, GateSidecar, GateTDX, GateUtilityVolumes, GateVirtioFSStorage, GateVSOCK,
	}
	out = append(out, onByDefault()...)
	out = slices.AppendSeq(out, maps.Keys(warnings()))
	return append(out, alwaysOn()...)
}

// KnownDisabledGates are those that may be turned off by name.
func KnownDisabledGates() []string { return onByDefault() }

// alwaysOn are gates of KubeVirt's that have become general: naming one says nothing.
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

// warnings are KubeVirt's words for gates that are gone, or are about to go.
func warnings() map[string]string {
	const guide = " Please refer to Kubevirt user guide for alternatives."
	return map[string]string{
		"DisableMDEVConfiguration": "DisableMDEVConfiguration has been deprecated since v1.8.0",
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

// GateWarning is what whoever turns a gate on is warned of; "": of nothing.
func GateWarning(gate string) string {
	if slices.Contains(alwaysOn(), gate) {
		return "feature gate " + gate + ` is deprecated (feature state is "General Availability"), therefore it can be ` +
			"safely removed and is redundant. For more info, please look at: " +
			"https://github.com/kubevirt/kubevirt/blob/main/docs/deprecation.md"
	}
	return warnings()[gate]
}
