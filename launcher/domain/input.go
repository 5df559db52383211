package domain

import (
	"fmt"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/hardware"
)

// Input is what a domain is built from.
type Input struct {
	VMI *v1.VirtualMachineInstance
	// KVM says that virtual CPUs truly run; otherwise QEMU's emulation is used.
	KVM bool
	// Hardware is what the cluster's configuration says of all guests'.
	Hardware hardware.Hardware
	// Volumes holds, by volume name, the file that each disk of the VMI reads and writes.
	Volumes map[string]Volume
	// Interfaces are the devices that the node's worker has made, by network name.
	Interfaces map[string]Interface
	// FileSystems holds, by volume name, the socket of the daemon behind each file system of the VMI.
	FileSystems map[string]string
	// HostDevices are those that the node's device plugins have given this pod.
	HostDevices HostDevices
	// CPUs are the host's that this launcher may run on; only a guest that has CPUs of its own needs them.
	CPUs []HostCPU
	// Boot holds the files of firmware.kernelBoot.
	Boot Boot
	// ACPITables holds the files of firmware.acpi.
	ACPITables ACPITables
	Paths      Paths
}

// Boot is the kernel that the firmware starts without a disk, and its initial RAM disk ("": none).
type Boot struct {
	Kernel string
	Initrd string
}

// ACPITables are whole tables, with their headers: the licences that some guests look for ("": none).
type ACPITables struct{ SLIC, MSDM string }

// Volume is the prepared image behind a disk.
type Volume struct {
	Path   string
	Block  bool   // Path is a device
	Format string // raw or qcow2
	// Size is what the guest sees, in bytes; 0 when not known.
	Size int64
	// DirectIO says that the file, and whatever backs it, can be opened with O_DIRECT.
	DirectIO bool
	// ReadOnly volumes cannot be written.
	ReadOnly bool
	// Allocated says that all of its space is there already; Thick says that it has to stay so.
	Allocated, Thick bool
	// Claim says that others may have it, too.
	Claim bool
	// Blocks are those of what it lies on, where its disk is to have the same.
	Blocks Blocks
}

// Blocks are sizes of a disk's blocks, and of what is discarded, in bytes.
type Blocks struct{ Logical, Physical, Discard uint }

// Interface is a tap device in the pod's network namespace, or a device of the host's (SR-IOV).
type Interface struct {
	Tap string
	// PCI is the address of the host's device.
	PCI string
	MTU int
	// MAC that a bridged guest takes over from the pod, unless its VMI says another.
	MAC string
}

// Paths are the places in the launcher's file system that the domain refers to.
type Paths struct {
	Emulator  string
	Serial    string   // socket of the first serial port
	SerialLog string   // everything that the guest writes to it
	VNC       string   // socket
	USB       []string // sockets of the ports for callers' USB devices, if the guest is to have such
	Agent     string   // socket of the guest agent's channel
	NVRAM     string   // file with the variables of a firmware that is to remember them
	TPM       string   // directory of a TPM that is to remember
}

// InvalidError says which part of a VMI cannot be built into a domain. Trying again does not help.
type InvalidError struct {
	Field   string // as in spec.domain.devices.disks[0]
	Problem string
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + ": " + e.Problem }

func invalid(field, format string, args ...any) error {
	return &InvalidError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
