package defaults

import "slices"

// Feature gates of KubeVirt v1.9.0 on which rules depend.
const (
	GateContainerPathVolumes  = "ContainerPathVolumes"
	GateDecentralizedLive     = "DecentralizedLiveMigration"
	GateDeclarativeHotplug    = "DeclarativeHotplugVolumes"
	GateDownwardMetrics       = "DownwardMetrics"
	GateGPUsWithDRA           = "GPUsWithDRA"
	GateHostDevices           = "HostDevices"
	GateHostDevicesWithDRA    = "HostDevicesWithDRA"
	GateHostDisk              = "HostDisk"
	GateIgnition              = "ExperimentalIgnitionSupport"
	GateMigrationStall        = "MigrationStallDetection"
	GateNetworkDevicesWithDRA = "NetworkDevicesWithDRA"
	GateNodeRestriction       = "NodeRestriction"
	GatePasstBinding          = "PasstBinding"
	GatePortRanges            = "PortRangesSpec"
	GateRebootPolicy          = "RebootPolicy"
	GateReservedOverhead      = "ReservedOverheadMemlock"
	GateRoot                  = "Root"
	GateSEV                   = "WorkloadEncryptionSEV"
	GateSidecar               = "Sidecar"
	GateTDX                   = "WorkloadEncryptionTDX"
	GateUtilityVolumes        = "UtilityVolumes"
	GateVirtioFSStorage       = "EnableVirtioFsStorageVolumes"
	GateVSOCK                 = "VSOCK"
)

// onByDefault returns the gates that are on unless they are disabled by name.
func onByDefault() []string {
	return []string{
		GateDeclarativeHotplug, GateGPUsWithDRA, GateHostDevicesWithDRA, GateNodeRestriction, GatePasstBinding,
		GateRebootPolicy, GateSEV,
	}
}

// Enabled reports whether a feature gate is on.
func (c Cluster) Enabled(gate string) bool {
	if d := c.Configuration.DeveloperConfiguration; d != nil {
		if slices.Contains(d.FeatureGates, gate) {
			return true
		}
		if slices.Contains(d.DisabledFeatureGates, gate) {
			return false
		}
	}
	return slices.Contains(onByDefault(), gate)
}

// PersistentReservation reports whether LUNs may be reserved.
func (c Cluster) PersistentReservation() bool {
	p := c.Configuration.PersistentReservationConfiguration
	return p != nil && p.Enabled != nil && *p.Enabled
}
