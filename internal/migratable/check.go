package migratable

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/bindings"
	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/internal/settings"
)

// gateVGPU is the feature gate that lets guests with a virtual GPU migrate.
const gateVGPU = "VGPULiveMigration"

// Node has the facts about a guest's node that matter here. HostModel is true if it names a CPU model for guests with
// host-model.
type Node struct {
	Name      string
	HostModel bool
}

// refusal has one of KubeVirt's reasons with its message.
type refusal struct{ reason, message string }

// Check returns whether the guest of an instance can migrate, and why not. node is nil while the instance has no node,
// or if its node does not matter (see AsksHostModel).
func Check(vmi *kubevirt.VirtualMachineInstance, s settings.Settings, node *Node) contract.Migratable {
	block, disks := volumes(vmi)
	out := contract.Migratable{Method: string(kubevirt.LiveMigration)}
	if block {
		out.Method = string(kubevirt.BlockMigration)
	}
	all := refusals(vmi, s, node)
	first := slices.IndexFunc(all, func(r refusal) bool {
		return r.reason != kubevirt.VirtualMachineInstanceReasonPRNotMigratable
	})
	switch {
	case first >= 0:
		out.Reason, out.Message = all[first].reason, all[first].message
	case disks != nil:
		out.Reason, out.Message = kubevirt.VirtualMachineInstanceReasonDisksNotMigratable, disks.Error()
	}
	words := make([]string, 0, len(all))
	for _, r := range all {
		words = append(words, r.reason+": "+r.message)
	}
	out.Storage = strings.Join(words, ", ")
	return out
}

// AsksHostModel reports whether it matters that the node names a CPU model. Emulated CPUs are the same on all nodes.
func AsksHostModel(vmi *kubevirt.VirtualMachineInstance, s settings.Settings) bool {
	c := vmi.Spec.Domain.CPU
	return c != nil && c.Model == kubevirt.CPUModeHostModel && !s.UseEmulation
}

// refusals returns all reasons that do not depend on disks, in KubeVirt's order.
func refusals(vmi *kubevirt.VirtualMachineInstance, s settings.Settings, node *Node) []refusal {
	var out []refusal
	add := func(holds bool, reason, message string) {
		if holds {
			out = append(out, refusal{reason, message})
		}
	}
	domain := &vmi.Spec.Domain
	add(!hasMigratableBinding(&vmi.Spec, bindings.From(&s.Configuration)),
		kubevirt.VirtualMachineInstanceReasonInterfaceNotMigratable,
		"cannot migrate VMI which does not use masquerade or a migratable plugin to connect to the pod network"+
			ignored(vmi))
	add(slices.ContainsFunc(domain.Devices.Interfaces, func(n kubevirt.Interface) bool { return n.SRIOV != nil }),
		kubevirt.VirtualMachineInstanceReasonInterfaceNotMigratable,
		"cannot migrate VMI with an SR-IOV interface: its device is not detached for a migration yet")
	if node != nil {
		add(AsksHostModel(vmi, s) && !node.HostModel, kubevirt.VirtualMachineInstanceReasonCPUModeNotMigratable,
			fmt.Sprintf("the node %q does not allow migration with host-model", node.Name))
	}
	add(len(domain.Devices.Filesystems) > 0, kubevirt.VirtualMachineInstanceReasonVirtIOFSNotMigratable,
		"VMI uses virtiofs: moving its file systems is not supported yet")
	device := deviceRefusal(domain, s)
	add(device != "", kubevirt.VirtualMachineInstanceReasonHostDeviceNotMigratable, device)
	c := domain.CPU
	add(c != nil && c.DedicatedCPUPlacement, contract.ReasonDedicatedCPUs,
		"VMI has CPUs of its own, and those of another node have other numbers: moving it is not supported yet")
	security := domain.LaunchSecurity
	add(security != nil && (security.SEV != nil || security.SNP != nil),
		kubevirt.VirtualMachineInstanceReasonSEVNotMigratable, "VMI uses SEV")
	add(security != nil && security.TDX != nil, kubevirt.VirtualMachineInstanceReasonTDXNotMigratable, "VMI uses TDX")
	add(security != nil && vmi.Spec.Architecture == "s390x",
		kubevirt.VirtualMachineInstanceReasonSecureExecutionNotMigratable, "VMI uses Secure Execution")
	add(hasReservation(domain), kubevirt.VirtualMachineInstanceReasonPRNotMigratable,
		"VMI uses SCSI persistent reservation")
	add(hasReenlightenment(domain) && !hasKnownTSCFrequency(vmi),
		kubevirt.VirtualMachineInstanceReasonNoTSCFrequencyMigratable,
		"HyperV Reenlightenment VMIs cannot migrate when TSC Frequency is not exposed on the cluster: guest timers "+
			"might be inconsistent")
	f := domain.Features
	add(f != nil && f.HypervPassthrough != nil && isOn(f.HypervPassthrough.Enabled),
		kubevirt.VirtualMachineInstanceReasonHypervPassthroughNotMigratable, "VMI uses hyperv passthrough")
	return out
}

// isOn reports whether a switch is not turned off: KubeVirt's are on by default.
func isOn(enabled *bool) bool { return enabled == nil || *enabled }

// bridgeIgnored is the reason why KubeVirt's annotation does not make a bridged guest migratable.
const bridgeIgnored = "the annotation " + kubevirt.AllowPodBridgeNetworkLiveMigrationAnnotation + " has no effect: a " +
	"guest bridged to the pod network has its pod's address, and loses it with its pod"

// ignored returns the part of a condition's message about the annotation; "" without it.
func ignored(vmi *kubevirt.VirtualMachineInstance) string {
	if _, set := vmi.Annotations[kubevirt.AllowPodBridgeNetworkLiveMigrationAnnotation]; set {
		return "; " + bridgeIgnored
	}
	return ""
}

// Warnings returns the warnings for an instance, or a template of instances, that has the annotation and cannot
// migrate. The spec has its defaults.
func Warnings(annotations map[string]string, spec *kubevirt.VirtualMachineInstanceSpec) []string {
	_, set := annotations[kubevirt.AllowPodBridgeNetworkLiveMigrationAnnotation]
	if f := primary(spec); !set || f == nil || f.Masquerade != nil || f.Binding != nil {
		return nil
	}
	return []string{bridgeIgnored + ". Use masquerade for guests that are to move"}
}

// hasMigratableBinding reports whether the binding of the pod network, or of the network that replaces it, permits a
// migration: the guest must have an address of its own, or a plugin whose configuration permits it. A bridged guest has
// its pod's address, whose packets are dropped in the next pod.
func hasMigratableBinding(spec *kubevirt.VirtualMachineInstanceSpec, plugins bindings.Plugins) bool {
	f := primary(spec)
	return f == nil || f.Masquerade != nil || f.Binding != nil && plugins.CanMigrate(f.Binding.Name)
}

// primary returns the interface on the pod network, or on the network that replaces it; nil if there is none.
func primary(spec *kubevirt.VirtualMachineInstanceSpec) *kubevirt.Interface {
	pod := slices.IndexFunc(spec.Networks, func(n kubevirt.Network) bool {
		return n.Pod != nil || n.Multus != nil && n.Multus.Default
	})
	if pod < 0 {
		return nil
	}
	all := spec.Domain.Devices.Interfaces
	i := slices.IndexFunc(all, func(n kubevirt.Interface) bool { return n.Name == spec.Networks[pod].Name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// deviceRefusal returns why host devices prevent a migration; "" if they do not.
func deviceRefusal(domain *kubevirt.DomainSpec, s settings.Settings) string {
	switch gpus := len(domain.Devices.GPUs); {
	case len(domain.Devices.HostDevices) > 0:
		return "VMI specifies non-migratable generic PCI host device"
	case gpus > 1:
		return "VMI specifies too many GPUs"
	case gpus == 1 && !s.Enabled(gateVGPU):
		return "VMI specifies a GPU but feature gate " + gateVGPU + " is not enabled"
	case gpus == 1:
		return "VMI specifies non-migratable GPU device"
	default:
		return ""
	}
}

func hasReservation(domain *kubevirt.DomainSpec) bool {
	return slices.ContainsFunc(domain.Devices.Disks, func(d kubevirt.Disk) bool {
		return d.LUN != nil && d.LUN.Reservation
	})
}

func hasReenlightenment(domain *kubevirt.DomainSpec) bool {
	f := domain.Features
	return f != nil && f.Hyperv != nil && f.Hyperv.Reenlightenment != nil && isOn(f.Hyperv.Reenlightenment.Enabled)
}

// hasKnownTSCFrequency reports whether the frequency of the guest's time stamp counter is known.
func hasKnownTSCFrequency(vmi *kubevirt.VirtualMachineInstance) bool {
	h := vmi.Status.TopologyHints
	return h != nil && h.TSCFrequency != nil && *h.TSCFrequency > 0
}

// volumes returns whether any disk is copied, and why a disk prevents a migration.
func volumes(vmi *kubevirt.VirtualMachineInstance) (block bool, _ error) {
	block = len(vmi.Status.MigratedVolumes) > 0
	if claim, needed := claims.State(vmi); needed {
		if err := sharedClaim(vmi, claims.StateVolume, claim, false); err != nil {
			return true, err
		}
	}
	carried := 0
	for i := range vmi.Spec.Volumes {
		v := &vmi.Spec.Volumes[i]
		claim, isClaim := claims.Kept(v)
		switch {
		case isClaim:
			if err := sharedClaim(vmi, v.Name, claim, false); err != nil {
				return true, err
			}
		case v.Ephemeral != nil: // the overlay on the PVC is copied
			claim, _ := claims.Of(v)
			if err := sharedClaim(vmi, v.Name, claim, true); err != nil {
				return true, err
			}
			block = true
		case v.HostDisk != nil:
			if v.HostDisk.Shared == nil || !*v.HostDisk.Shared {
				return true, errors.New("cannot migrate VMI with non-shared HostDisk")
			}
		case !readOnly(vmi, v.Name) && !fileSystem(vmi, v.Name):
			block = true
		case v.ContainerDisk == nil && v.EmptyDisk == nil && readOnly(vmi, v.Name):
			carried++
		}
	}
	if carried > contract.MostMigrationFiles {
		return true, fmt.Errorf("cannot migrate VMI with %d CD-ROMs generated from ConfigMaps, Secrets, cloud-init "+
			"and the like: at most %d are supported", carried, contract.MostMigrationFiles)
	}
	return block, nil
}

// sharedClaim returns why a PVC's disk cannot be used on two nodes. Read means that no guest writes to it.
func sharedClaim(vmi *kubevirt.VirtualMachineInstance, volume, claim string, read bool) error {
	if slices.ContainsFunc(vmi.Status.MigratedVolumes, func(m kubevirt.StorageMigratedVolumeInfo) bool {
		return m.VolumeName == volume
	}) {
		return nil
	}
	const must = "live migration requires that all PVCs must be shared (using ReadWriteMany access mode)"
	switch known := claims.Known(vmi, volume); {
	case known == nil:
		return fmt.Errorf("cannot migrate VMI: Unable to determine if PVC %s is shared, %s", claim, must)
	case claims.Shared(known), read && slices.Contains(known.AccessModes, corev1.ReadOnlyMany):
		return nil
	}
	return fmt.Errorf("cannot migrate VMI: PVC %s is not shared, %s", claim, must)
}

// readOnly reports whether a volume is in a CD-ROM drive: libvirt makes it read-only, whatever the spec of the drive
// is.
func readOnly(vmi *kubevirt.VirtualMachineInstance, volume string) bool {
	return slices.ContainsFunc(vmi.Spec.Domain.Devices.Disks, func(d kubevirt.Disk) bool {
		return d.Name == volume && d.CDRom != nil
	})
}

// fileSystem reports whether the guest has a volume by virtiofs.
func fileSystem(vmi *kubevirt.VirtualMachineInstance, volume string) bool {
	return slices.ContainsFunc(vmi.Spec.Domain.Devices.Filesystems, func(f kubevirt.Filesystem) bool {
		return f.Name == volume && f.Virtiofs != nil
	})
}
