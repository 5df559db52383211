package domain

import (
	"fmt"
	"slices"
	"strconv"

	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/internal/hardware"
)

const (
	busVirtio  = "virtio"
	busSATA    = "sata"
	busSCSI    = "scsi"
	busDefault = busSATA // KubeVirt's default on amd64

	// scsiPrefix begins the names of all disks that Linux treats as SCSI, and controllerUnit is the SCSI controller's
	// own unit number.
	scsiPrefix     = "sd"
	controllerUnit = 7

	modelVirtio       = "virtio-non-transitional"
	modelTransitional = "virtio-transitional"
)

// diskNames assigns target names (vda, sda, …) in the order of the spec; buses with one prefix share its letters.
type diskNames map[string]int

func (n diskNames) next(bus string) string {
	prefix := scsiPrefix
	if bus == busVirtio {
		prefix = "vd"
	}
	i := n[prefix]
	n[prefix]++
	return prefix + letters(i)
}

// letters returns a, b, … z, aa, ab, … for 0, 1, …, as Linux names disks.
func letters(i int) string {
	s := ""
	for i >= 0 {
		s = string(rune('a'+i%26)) + s
		i = i/26 - 1
	}
	return s
}

func buildDisks(in Input, vcpus uint) ([]libvirtxml.DomainDisk, uint, error) {
	names := diskNames{}
	spec := &in.VMI.Spec.Domain
	threads := newIOThreads(spec)
	if threads.supplemental && threads.pool > hardware.MostPoolThreads {
		return nil, 0, invalid("spec.domain.ioThreads.supplementalPoolThreadCount", "%d threads exceed the %d queues "+
			"that a disk can have", threads.pool, hardware.MostPoolThreads)
	}
	out := make([]libvirtxml.DomainDisk, 0, len(spec.Devices.Disks))
	for i := range spec.Devices.Disks {
		disk := &spec.Devices.Disks[i]
		field := fmt.Sprintf("spec.domain.devices.disks[%d]", i)
		volume, ok := in.Volumes[disk.Name]
		if !ok && isEmpty(in.VMI, disk) {
			volume, ok = Volume{Format: "raw", Block: true}, true
		}
		if !ok {
			return nil, 0, invalid(field+".name", "no volume is named %q", disk.Name)
		}
		d, err := buildDisk(field, disk, volume, spec, names, vcpus)
		if err != nil {
			return nil, 0, err
		}
		if d.Target.Bus == busVirtio {
			threads.assign(d.Driver, isTrue(disk.DedicatedIOThread))
		}
		out = append(out, *d)
	}
	return out, threads.total(), nil
}

func buildDisk(
	field string, disk *v1.Disk, volume Volume, spec *v1.DomainSpec, names diskNames, vcpus uint,
) (*libvirtxml.DomainDisk, error) {
	d := &libvirtxml.DomainDisk{
		Device: "disk",
		Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: volume.Format, ErrorPolicy: "stop", Discard: "unmap"},
		Source: source(volume),
		Target: &libvirtxml.DomainDiskTarget{Bus: busDefault},
		Serial: disk.Serial,
		Alias:  userAlias(disk.Name),
	}
	readOnly := false
	switch {
	case disk.CDRom != nil:
		d.Device = "cdrom"
		// An image whose content is in another file has no space of its own to give back.
		if volume.Format != "qcow2" && !volume.Block {
			d.Driver.Discard = ""
		}
		d.Target.Tray = string(disk.CDRom.Tray)
		setBus(d, disk.CDRom.Bus)
		readOnly = unlessFalse(disk.CDRom.ReadOnly)
	case disk.LUN != nil:
		if disk.LUN.Reservation {
			return nil, invalid(field+".lun.reservation", "is not supported yet")
		}
		d.Device = "lun"
		setBus(d, disk.LUN.Bus)
		readOnly = disk.LUN.ReadOnly
	case disk.Disk != nil:
		setBus(d, disk.Disk.Bus)
		readOnly = disk.Disk.ReadOnly
		if err := setPCIAddress(field, d, disk.Disk.PciAddress); err != nil {
			return nil, err
		}
	}
	if volume.Thick {
		d.Driver.Discard = ""
	}
	if volume.ReadOnly && !readOnly && d.Target.Bus == busSATA && d.Device != "cdrom" {
		return nil, invalid(field+"."+d.Device+".bus",
			"a SATA disk cannot be read-only, but its PersistentVolumeClaim is: use another bus")
	}
	if readOnly || volume.ReadOnly {
		d.ReadOnly = &libvirtxml.DomainDiskReadOnly{}
	}
	if disk.ErrorPolicy != nil {
		d.Driver.ErrorPolicy = string(*disk.ErrorPolicy)
	}
	if disk.BootOrder != nil {
		d.Boot = &libvirtxml.DomainDeviceBoot{Order: *disk.BootOrder}
	}
	if err := setCache(field, d, disk, volume); err != nil {
		return nil, err
	}
	setBlockSize(d, disk, volume.Blocks)
	if d.Target.Bus == busVirtio {
		d.Model = virtioModel(spec)
		if isTrue(spec.Devices.BlockMultiQueue) {
			d.Driver.Queues = ptr(vcpus)
		}
	}
	d.Target.Dev = names.next(d.Target.Bus)
	if d.Target.Bus == busSCSI {
		d.Address = scsiAddress(names[scsiPrefix] - 1)
	}
	return d, nil
}

// isEmpty reports whether a disk is a CD-ROM drive without a medium: no volume has its name.
func isEmpty(vmi *v1.VirtualMachineInstance, disk *v1.Disk) bool {
	return disk.CDRom != nil && !slices.ContainsFunc(vmi.Spec.Volumes, func(v v1.Volume) bool {
		return v.Name == disk.Name
	})
}

// setPCIAddress sets a disk's PCI address to the one in its VMI; "" leaves the choice to libvirt.
func setPCIAddress(field string, d *libvirtxml.DomainDisk, text string) error {
	if text == "" {
		return nil
	}
	if d.Target.Bus != busVirtio {
		return invalid(field+".disk.pciAddress", "requires a disk on the virtio bus")
	}
	var err error
	if d.Address, err = pciAddress(text); err != nil {
		return invalid(field+".disk.pciAddress", "%s", err)
	}
	return nil
}

func source(volume Volume) *libvirtxml.DomainDiskSource {
	if volume.Block {
		return &libvirtxml.DomainDiskSource{Block: &libvirtxml.DomainDiskSourceBlock{Dev: volume.Path}}
	}
	return &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: volume.Path}}
}

// scsiAddress returns the address of a SCSI disk on the one controller, by its number among the disks with such names.
// libvirt itself would put the eighth on a controller of another model.
func scsiAddress(number int) *libvirtxml.DomainAddress {
	if number >= controllerUnit {
		number++
	}
	return &libvirtxml.DomainAddress{Drive: &libvirtxml.DomainAddressDrive{
		Controller: ptr(uint(0)), Bus: ptr(uint(0)), Target: ptr(uint(0)), Unit: ptr(count(number)),
	}}
}

func setBus(d *libvirtxml.DomainDisk, bus v1.DiskBus) {
	if bus != "" {
		d.Target.Bus = string(bus)
	}
}

// setCache sets the cache mode. Unless the spec has another, the disk bypasses the host's page cache if the file system
// can, so that guests' disks do not fill the pod's memory.
func setCache(field string, d *libvirtxml.DomainDisk, disk *v1.Disk, volume Volume) error {
	d.Driver.Cache = string(disk.Cache)
	if volume.Path == "" { // a drive without a medium
		return nil
	}
	if isTrue(disk.Shareable) {
		if !volume.Claim {
			return invalid(field+".shareable", "is not supported for a volume that belongs to one pod")
		}
		d.Shareable = &libvirtxml.DomainDiskShareable{}
		if disk.Cache != "" && disk.Cache != v1.CacheNone {
			return invalid(field+".cache", "a sharable disk requires cache = none got: %s", disk.Cache)
		}
		d.Driver.Cache = string(v1.CacheNone)
	}
	switch {
	case d.Driver.Cache == "" && volume.DirectIO:
		d.Driver.Cache = string(v1.CacheNone)
	case d.Driver.Cache == "":
		d.Driver.Cache = string(v1.CacheWriteThrough)
	case d.Driver.Cache == string(v1.CacheNone) && !volume.DirectIO:
		return invalid(field+".cache",
			"Unable to use 'none' cache mode, file system where %s is stored does not support direct I/O", volume.Path)
	}
	d.Driver.IO = string(disk.IO)
	if disk.IO == "" && volume.Allocated && d.Driver.Cache == string(v1.CacheNone) {
		d.Driver.IO = string(v1.IONative) // no write has to allocate space, which would block
	}
	if disk.IO == v1.IONative && d.Driver.Cache != string(v1.CacheNone) {
		return invalid(field+".io", "native requires cache mode none, but this disk has %s", d.Driver.Cache)
	}
	return nil
}

// setBlockSize sets the disk's block sizes to those of its VMI, or to those found on the storage.
func setBlockSize(d *libvirtxml.DomainDisk, disk *v1.Disk, found Blocks) {
	switch {
	case disk.BlockSize != nil && disk.BlockSize.Custom != nil:
		custom := disk.BlockSize.Custom
		d.BlockIO = &libvirtxml.DomainDiskBlockIO{
			LogicalBlockSize: custom.Logical, PhysicalBlockSize: custom.Physical,
			DiscardGranularity: custom.DiscardGranularity,
		}
	case found != Blocks{}:
		d.BlockIO = &libvirtxml.DomainDiskBlockIO{
			LogicalBlockSize: found.Logical, PhysicalBlockSize: found.Physical, DiscardGranularity: ptr(found.Discard),
		}
	}
}

func virtioModel(spec *v1.DomainSpec) string {
	if isTrue(spec.Devices.UseVirtioTransitional) {
		return modelTransitional
	}
	return modelVirtio
}

func itoa(i int) string { return strconv.Itoa(i) }
