package schema

import "reflect"

// optional has the fields that may be left out although their tags do not mark them so.
func optional() map[string]bool {
	return map[string]bool{
		"k8s.io/api/core/v1.TypedLocalObjectReference.apiGroup":            true,
		"k8s.io/api/core/v1.TypedObjectReference.apiGroup":                 true,
		"kubevirt.io/api/core/v1.Machine.type":                             true,
		"kubevirt.io/api/core/v1.VirtualMachineInstanceStatus.runtimeUser": true,
	}
}

// enumerated has the fields whose values the schema lists; rules, with texts of their own, check other lists.
func enumerated(t reflect.Type, field string) []string {
	return enums()[t.Name()+"."+field]
}

func enums() map[string][]string {
	pull := []string{"Always", "IfNotPresent", "Never"}
	access := []string{"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"}
	mode := []string{"Block", "Filesystem", "FromStorageProfile"}
	effect := []string{"NoExecute", "NoSchedule", "PreferNoSchedule"}
	follow := []string{"Honor", "Ignore"}
	return map[string][]string{
		"ClaimPropertySet.volumeMode":                 mode,
		"ContainerDiskSource.imagePullPolicy":         pull,
		"HTTPGetAction.scheme":                        {"HTTP", "HTTPS"},
		"KernelBootContainer.imagePullPolicy":         pull,
		"NodeSelectorRequirement.operator":            {"DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"},
		"PersistentVolumeClaimInfo.accessModes":       access,
		"PersistentVolumeClaimInfo.volumeMode":        mode,
		"PersistentVolumeClaimSpec.accessModes":       access,
		"PersistentVolumeClaimSpec.volumeMode":        mode,
		"StorageSpec.accessModes":                     access,
		"StorageSpec.volumeMode":                      mode,
		"Taint.effect":                                effect,
		"Toleration.effect":                           effect,
		"Toleration.operator":                         {"Equal", "Exists"},
		"TopologySpreadConstraint.nodeAffinityPolicy": follow,
		"TopologySpreadConstraint.nodeTaintsPolicy":   follow,
		"TopologySpreadConstraint.whenUnsatisfiable":  {"DoNotSchedule", "ScheduleAnyway"},
		"VirtualMachineInstanceSpec.dnsPolicy":        {"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"},
		"VirtualMachineInstanceStatus.qosClass":       {"BestEffort", "Burstable", "Guaranteed"},
	}
}
