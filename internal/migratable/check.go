package migratable

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/internal/settings"
	"github.com/virtflow/virtflow/workflows/contract"
)

// gateVGPU lets guests with a virtual GPU move.
const gateVGPU = "VGPULiveMigration"

// Node is what counts of the node that a guest runs on. HostModel says that it names a CPU model for guests that ask
// for the host's.
type Node struct {
	Name      string
	HostModel bool
}

// refusal is one of KubeVirt's reasons with its message.
type refusal struct{ reason, message string }

// Check says whether the guest of an instance can be moved. Node is nil while it has none, or that does not matter:
// see AsksHostModel.
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

// AsksHostModel says that it matters whether the node names a CPU model. Emulated CPUs are the same on all nodes.
func AsksHostModel(vmi *kubevirt.VirtualMachineInstance, s settings.Settings) bool {
	c := vmi.Spec.Domain.CPU
	return c != nil && c.Model == kubevirt.CPUModeHostModel && !s.UseEmulation
}

// refusals are all that hold whatever the disks are, in KubeVirt's order.
func refusals(vmi *kubevirt.VirtualMachineInstance, s settings.Settings, node *Node) []refusal {
	var out []refusal
	add := func(holds bool, reason, message string) {
		if holds {
			out = append(out, refusal{reason, message})
		}
	}
	domain := &vmi.Spec.Domain
	add(!interfaces(vmi), kubevirt.VirtualMachineInstanceReasonInterfaceNotMigratable,
		"cannot migrate VMI which does not use masquerade or a migratable plugin to connect to the pod network")
	add(slices.ContainsFunc(domain.Devices.Interfaces, func(n kubevirt.Interface) bool { return n.SRIOV != nil }),
		kubevirt.VirtualMachineInstanceReasonInterfaceNotMigratable,
		"cannot migrate VMI with an SR-IOV interface: its device is not detached for a migration yet")
	if node != nil {
		add(AsksHostModel(vmi, s) && !node.HostModel, kubevirt.VirtualMachineInstanceReasonCPUModeNotMigratable,
			fmt.Sprintf("the node %q does not allow migration with host-model", node.Name))
	}
	add(len(domain.Devices.Filesystems) > 0, kubevirt.VirtualMachineInstanceReasonVirtIOFSNotMigratable,
		"VMI uses virtiofs: moving its file systems is not supported yet")
	device := devices(domain, s)
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
	add(reserved(domain), kubevirt.VirtualMachineInstanceReasonPRNotMigratable,
		"VMI uses SCSI persistent reservation")
	add(reenlightened(domain) && !clocked(vmi), kubevirt.VirtualMachineInstanceReasonNoTSCFrequencyMigratable,
		"HyperV Reenlightenment VMIs cannot migrate when TSC Frequency is not exposed on the cluster: guest timers "+
			"might be inconsistent")
	f := domain.Features
	add(f != nil && f.HypervPassthrough != nil && on(f.HypervPassthrough.Enabled),
		kubevirt.VirtualMachineInstanceReasonHypervPassthroughNotMigratable, "VMI uses hyperv passthrough")
	return out
}

// on says that a switch is not turned off: KubeVirt's are on unless they say something else.
func on(enabled *bool) bool { return enabled == nil || *enabled }

// interfaces says that the pod network, or what is in its place, suits: its binding leaves the guest its own address. A
// bridged guest has its pod's, which the next pod's guard drops. KubeVirt's annotation that lets it move all the same
// is not heeded.
func interfaces(vmi *kubevirt.VirtualMachineInstance) bool {
	pod := slices.IndexFunc(vmi.Spec.Networks, func(n kubevirt.Network) bool {
		return n.Pod != nil || n.Multus != nil && n.Multus.Default
	})
	if pod < 0 {
		return true
	}
	all := vmi.Spec.Domain.Devices.Interfaces
	i := slices.IndexFunc(all, func(n kubevirt.Interface) bool { return n.Name == vmi.Spec.Networks[pod].Name })
	return i < 0 || all[i].Masquerade != nil
}

// devices of the host that stay behind, "" for none.
func devices(domain *kubevirt.DomainSpec, s settings.Settings) string {
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

func reserved(domain *kubevirt.DomainSpec) bool {
	return slices.ContainsFunc(domain.Devices.Disks, func(d kubevirt.Disk) bool {
		return d.LUN != nil && d.LUN.Reservation
	})
}

func reenlightened(domain *kubevirt.DomainSpec) bool {
	f := domain.Features
	return f != nil && f.Hyperv != nil && f.Hyperv.Reenlightenment != nil && on(f.Hyperv.Reenlightenment.Enabled)
}

// clocked says that the frequency of the guest's time stamp counter is known.
func clocked(vmi *kubevirt.VirtualMachineInstance) bool {
	h := vmi.Status.TopologyHints
	return h != nil && h.TSCFrequency != nil && *h.TSCFrequency > 0
}

// volumes says whether any disk is copied, and why one keeps the guest where it is.
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
		case v.Ephemeral != nil: // what is above the claim is copied
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
		return true, fmt.Errorf("cannot migrate VMI with %d CD-ROMs that are made of files, %d are the most", carried,
			contract.MostMigrationFiles)
	}
	return block, nil
}

// sharedClaim says why a claim's disk cannot be had on two nodes. Read says that nobody writes to it.
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

// readOnly says that a volume is in a CD-ROM drive: libvirt lets nobody write to it, whatever the drive says.
func readOnly(vmi *kubevirt.VirtualMachineInstance, volume string) bool {
	return slices.ContainsFunc(vmi.Spec.Domain.Devices.Disks, func(d kubevirt.Disk) bool {
		return d.Name == volume && d.CDRom != nil
	})
}

// fileSystem says that the guest has a volume by virtiofs.
func fileSystem(vmi *kubevirt.VirtualMachineInstance, volume string) bool {
	return slices.ContainsFunc(vmi.Spec.Domain.Devices.Filesystems, func(f kubevirt.Filesystem) bool {
		return f.Name == volume && f.Virtiofs != nil
	})
}
