package domain

import (
	"fmt"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/hardware"
)

// Input has everything from which a domain is built.
type Input struct {
	VMI *v1.VirtualMachineInstance
	// KVM is true if virtual CPUs can run; otherwise QEMU emulates them.
	KVM bool
	// Hardware has the cluster-wide settings for every guest's hardware.
	Hardware hardware.Hardware
	// Volumes has, by volume name, the file behind each disk of the VMI.
	Volumes map[string]Volume
	// Interfaces has, by network name, the devices that the node worker has made.
	Interfaces map[string]Interface
	// FileSystems has, by volume name, the socket of the daemon behind each file system of the VMI.
	FileSystems map[string]string
	// HostDevices has the devices that the node's device plugins have given to this pod.
	HostDevices HostDevices
	// CPUs has the host CPUs on which this launcher may run; only a guest with dedicated CPUs needs them.
	CPUs []HostCPU
	// Boot has the files of firmware.kernelBoot.
	Boot Boot
	// ACPITables has the files of firmware.acpi.
	ACPITables ACPITables
	Paths      Paths
}

// Boot has the paths of the kernel that the firmware starts without a disk, and of its initial RAM disk ("": none).
type Boot struct {
	Kernel string
	Initrd string
}

// ACPITables has the paths of whole tables, with their headers: the licences that some guests look for ("": none).
type ACPITables struct{ SLIC, MSDM string }

// Volume is the prepared image behind a disk.
type Volume struct {
	Path   string
	Block  bool   // Path is a device
	Format string // raw or qcow2
	// Size is the size that the guest sees, in bytes; 0 if it is not known.
	Size int64
	// DirectIO is true if the file, and everything that backs it, can be opened with O_DIRECT.
	DirectIO bool
	// ReadOnly volumes cannot be written.
	ReadOnly bool
	// Allocated is true if all of its space is allocated; Thick, if that has to stay so.
	Allocated, Thick bool
	// Claim is true for a volume on a PVC, which other pods may have open, too.
	Claim bool
	// Blocks are the block sizes of the storage, if the disk must have the same.
	Blocks Blocks
}

// Blocks has the sizes of a disk's blocks, and of a discard, in bytes.
type Blocks struct{ Logical, Physical, Discard uint }

// Interface is a tap device in the pod's network namespace, or a device of the host (SR-IOV).
type Interface struct {
	Tap string
	// PCI is the address of the host's device.
	PCI string
	MTU int
	// MAC is the pod's, which a bridged guest uses unless its VMI has another.
	MAC string
}

// Paths has the files and sockets in the launcher's file system to which the domain refers.
type Paths struct {
	Emulator  string
	Serial    string   // socket of the first serial port
	SerialLog string   // everything that the guest writes to it
	VNC       string   // socket
	USB       []string // sockets of the ports for callers' USB devices, if the guest has them
	Agent     string   // socket of the guest agent's channel
	NVRAM     string   // file with the firmware's persistent variables
	TPM       string   // directory of a persistent TPM
}

// InvalidError names the part of a VMI that cannot be built into a domain. Another attempt does not help.
type InvalidError struct {
	Field   string // as in spec.domain.devices.disks[0]
	Problem string
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + ": " + e.Problem }

func invalid(field, format string, args ...any) error {
	return &InvalidError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
