package validation

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/defaults"
)

// plugged returns a cause for a change of a VMI's spec that its running guest cannot follow. Only the first is
// reported.
func plugged(old, vmi *kubevirtv1.VirtualMachineInstance, cluster defaults.Cluster) []metav1.StatusCause {
	for _, rule := range []func() []metav1.StatusCause{
		func() []metav1.StatusCause { return sameLimits(&old.Spec.Domain, &vmi.Spec.Domain) },
		func() []metav1.StatusCause { return utilityVolumes(old, vmi, cluster) },
		func() []metav1.StatusCause { return pluggedVolumes(old, vmi, cluster) },
	} {
		if causes := rule(); len(causes) > 0 {
			return causes
		}
	}
	return nil
}

func sameLimits(old, domain *kubevirtv1.DomainSpec) []metav1.StatusCause {
	if old.CPU != nil && domain.CPU != nil && old.CPU.MaxSockets != domain.CPU.MaxSockets {
		return invalid(nowhere{}, "CPU topology maxSockets changed")
	}
	if old.Memory == nil || old.Memory.MaxGuest == nil || domain.Memory == nil || domain.Memory.MaxGuest == nil {
		return nil
	}
	if !old.Memory.MaxGuest.Equal(*domain.Memory.MaxGuest) {
		return invalid(nowhere{}, "Memory maxGuest changed")
	}
	return nil
}

func utilityVolumes(old, vmi *kubevirtv1.VirtualMachineInstance, cluster defaults.Cluster) []metav1.StatusCause {
	list := field.NewPath("spec", "utilityVolumes")
	if len(vmi.Spec.UtilityVolumes) > 0 && !cluster.Enabled(defaults.GateUtilityVolumes) {
		return invalid(list, "UtilityVolumes feature gate is not enabled")
	}
	volumes := map[string]int{}
	for i, v := range vmi.Spec.Volumes {
		volumes[v.Name] = i
	}
	permanent := permanentNames(old)
	first := map[string]int{}
	var causes []metav1.StatusCause
	for i, u := range vmi.Spec.UtilityVolumes {
		p := list.Index(i)
		if u.Name == "" {
			causes = append(causes, required(p.Child("name"), "UtilityVolume 'name' must be set")...)
		}
		if j, ok := first[u.Name]; ok {
			causes = append(causes, duplicate(p.Child("name"), "%s and %s must not have the same Name.", p,
				list.Index(j))...)
		} else {
			first[u.Name] = i
		}
		if j, ok := volumes[u.Name]; ok {
			causes = append(causes, duplicate(p.Child("name"),
				"%s conflicts with %s. UtilityVolume names must be unique across both volumes and utilityVolumes.",
				p, field.NewPath("spec", "volumes").Index(j))...)
		}
		if u.ClaimName == "" {
			causes = append(causes, required(p.Child("claimName"), "UtilityVolume PVC 'claimName' must be set")...)
		}
	}
	if len(causes) > 0 {
		return causes
	}
	before := map[string]kubevirtv1.UtilityVolume{}
	for _, u := range old.Spec.UtilityVolumes {
		before[u.Name] = u
	}
	for _, u := range vmi.Spec.UtilityVolumes {
		if permanent[u.Name] {
			return invalid(nowhere{},
				"utility volume %s cannot be a permanent volume, utility volumes must always be hotplug", u.Name)
		}
	}
	for _, u := range vmi.Spec.UtilityVolumes {
		if b, ok := before[u.Name]; ok && !equality.Semantic.DeepEqual(b, u) {
			return invalid(nowhere{}, "utility volume %s has changed", u.Name)
		}
	}
	return nil
}

// permanentNames returns the volumes that the guest had when it booted.
func permanentNames(vmi *kubevirtv1.VirtualMachineInstance) map[string]bool {
	names := map[string]bool{}
	for _, v := range vmi.Status.VolumeStatus {
		if v.HotplugVolume == nil {
			names[v.Name] = true
		}
	}
	return names
}

// attached has the volumes and disks of an instance by name, with permanent and hot-plugged volumes separately.
type attached struct {
	permanent, plugged map[string]kubevirtv1.Volume
	disks              map[string]kubevirtv1.Disk
}

func attachedTo(spec *kubevirtv1.VirtualMachineInstanceSpec, permanent map[string]bool) attached {
	a := attached{map[string]kubevirtv1.Volume{}, map[string]kubevirtv1.Volume{}, map[string]kubevirtv1.Disk{}}
	for _, v := range spec.Volumes {
		if permanent[v.Name] {
			a.permanent[v.Name] = v
		} else {
			a.plugged[v.Name] = v
		}
	}
	for _, d := range spec.Domain.Devices.Disks {
		if d.Name != "" {
			a.disks[d.Name] = d
		}
	}
	return a
}

func pluggedVolumes(old, vmi *kubevirtv1.VirtualMachineInstance, cluster defaults.Cluster) []metav1.StatusCause {
	if causes := volumesMatchDisks(&vmi.Spec, cluster); len(causes) > 0 {
		return causes
	}
	migrated := map[string]bool{}
	for _, m := range vmi.Status.MigratedVolumes {
		migrated[m.VolumeName] = true
	}
	permanent := permanentNames(old)
	before, after := attachedTo(&old.Spec, permanent), attachedTo(&vmi.Spec, permanent)
	if causes := permanentVolumes(before, after, migrated); len(causes) > 0 {
		return causes
	}
	for _, name := range slices.Sorted(maps.Keys(after.plugged)) {
		causes := newVolume(name, before, after)
		if _, ok := before.plugged[name]; ok {
			causes = keptVolume(name, before, after, migrated[name])
		}
		if len(causes) > 0 {
			return causes
		}
	}
	return nil
}

func volumesMatchDisks(spec *kubevirtv1.VirtualMachineInstanceSpec, cluster defaults.Cluster) []metav1.StatusCause {
	names := map[string]bool{}
	for _, v := range spec.Volumes {
		if v.MemoryDump == nil {
			names[v.Name] = true
		}
	}
	needed := len(spec.Domain.Devices.Filesystems)
	for _, d := range spec.Domain.Devices.Disks {
		if empty := !names[d.Name] && d.CDRom != nil && cluster.Enabled(defaults.GateDeclarativeHotplug); !empty {
			needed++
		}
	}
	if needed == len(names) {
		return nil
	}
	return invalid(nowhere{}, "mismatch between volumes declared (%d) and required (%d)", len(names), needed)
}

func permanentVolumes(before, after attached, migrated map[string]bool) []metav1.StatusCause {
	if len(before.permanent) != len(after.permanent) {
		return invalid(nowhere{}, "Number of permanent volumes has changed")
	}
	for _, name := range slices.Sorted(maps.Keys(after.permanent)) {
		old, ok := before.permanent[name]
		switch {
		case !ok:
			return invalid(nowhere{}, "permanent volume %s, not found", name)
		case migrated[name]:
		case !equality.Semantic.DeepEqual(after.permanent[name], old):
			return invalid(nowhere{}, "permanent volume %s, changed", name)
		case !equality.Semantic.DeepEqual(after.disks[name], before.disks[name]):
			return invalid(nowhere{}, "permanent disk %s, changed", name)
		}
	}
	return nil
}

func keptVolume(name string, before, after attached, migrated bool) []metav1.StatusCause {
	v := after.plugged[name]
	if !equality.Semantic.DeepEqual(v, before.plugged[name]) && !migrated {
		return invalid(nowhere{}, "hotplug volume %s, changed", name)
	}
	if v.MemoryDump != nil {
		return nil
	}
	d, ok := after.disks[name]
	switch {
	case !ok:
		return invalid(nowhere{}, "volume %s doesn't have a matching disk", name)
	case !equality.Semantic.DeepEqual(d, before.disks[name]):
		return invalid(nowhere{}, "hotplug disk %s, changed", name)
	default:
		return nil
	}
}

func newVolume(name string, before, after attached) []metav1.StatusCause {
	v := after.plugged[name]
	if v.DataVolume == nil && v.PersistentVolumeClaim == nil && v.MemoryDump == nil {
		return invalid(nowhere{}, "volume %s is not a PVC or DataVolume", name)
	}
	if v.MemoryDump != nil {
		return nil
	}
	d, ok := after.disks[name]
	if !ok {
		return invalid(nowhere{}, "disk %s does not exist", name)
	}
	if hasKey(before.disks, name) {
		return nil
	}
	return pluggedDisk(&d, name, "Hotplug configuration", nowhere{})
}

// pluggedDisk: only some buses accept a disk while the guest runs. Prefix begins each message.
func pluggedDisk(d *kubevirtv1.Disk, name, prefix string, at interface{ String() string }) []metav1.StatusCause {
	if d == nil {
		return invalid(at, "%s for [%s] requires the disk field to be set.", prefix, name)
	}
	_, bus := target(d)
	switch {
	case d.Disk != nil && bus != kubevirtv1.DiskBusSCSI && bus != kubevirtv1.DiskBusVirtio:
		return invalid(at, "%s for disk [%s] requires bus to be 'scsi' or 'virtio'. [%s] is not permitted.", prefix,
			name, bus)
	case d.Disk == nil && d.LUN != nil && bus != kubevirtv1.DiskBusSCSI:
		return invalid(at, "%s for LUN [%s] requires bus to be 'scsi'. [%s] is not permitted.", prefix, name, bus)
	case d.Disk == nil && d.LUN == nil:
		return invalid(at, "%s for [%s] requires diskDevice of type 'disk' or 'lun' to be used.", prefix, name)
	case isTrue(d.DedicatedIOThread) && bus != kubevirtv1.DiskBusVirtio:
		return invalid(at, "%s for [%s] requires virtio bus for IOThreads.", prefix, name)
	case d.BootOrder != nil && *d.BootOrder < 1: // the field is always given as this one
		p := field.NewPath("spec", "domain", "devices", "disks").Index(1)
		return invalid(p.Child("bootOrder"), "%s must have a boot order > 0, if supplied", p)
	default:
		return nil
	}
}
