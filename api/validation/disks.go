package validation

import (
	"regexp"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

const (
	maxSerial    = 256
	minBlockSize = 512
	maxBlockSize = 2 << 20
)

func diskRules() []element {
	serial := regexp.MustCompile(`^[A-Za-z0-9_.+-]+$`)
	return []element{
		{"name differs", diskNameDiffers},
		{"one target", diskTargetOne},
		{"PCI address", diskPCIAddress},
		{"boot order", diskBootOrder},
		{"bus", diskBus},
		{"serial number", func(s subject, i int) []metav1.StatusCause { return diskSerial(s, i, serial) }},
		{"length of the serial number", diskSerialLength},
		{"cache mode", diskCache},
		{"I/O mode", diskIO},
		{"error policy", diskErrorPolicy},
		{"name", diskName},
		{"block size", diskBlockSize},
	}
}

func diskCount(s subject) int { return len(s.spec.Domain.Devices.Disks) }

func (s subject) diskOf(i int) *kubevirtv1.Disk { return &s.spec.Domain.Devices.Disks[i] }

func (s subject) disk(i int) *field.Path { return s.domain("devices", "disks").Index(i) }

// doubled returns the path of a disk as KubeVirt writes it in some places.
func (s subject) doubled(i int, more ...string) *field.Path {
	p := field.NewPath(s.domain("devices", "disks").String()).
		Child("domain", append([]string{"devices", "disks"}, more...)...)
	return p.Index(i)
}

// maxSameNames bounds the disks with which one is compared: there may be very many of one name.
const maxSameNames = 100

func diskNameDiffers(s subject, i int) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for j := range min(i, maxSameNames) {
		if s.diskOf(j).Name == s.diskOf(i).Name {
			causes = append(causes, invalid(s.disk(i).Child("name"), "%s and %s must not have the same Name.",
				s.disk(i), s.disk(j))...)
		}
	}
	return causes
}

func diskTargetOne(s subject, i int) []metav1.StatusCause {
	d, targets := s.diskOf(i), 0
	for _, set := range []bool{d.Disk != nil, d.CDRom != nil, d.LUN != nil} {
		if set {
			targets++
		}
	}
	if targets <= 1 {
		return nil
	}
	return invalid(s.disk(i), "%s can only have a single target type defined", s.disk(i))
}

func diskPCIAddress(s subject, i int) []metav1.StatusCause {
	d := s.diskOf(i).Disk
	if d == nil || d.PciAddress == "" {
		return nil
	}
	at := s.doubled(i, "disk")
	var causes []metav1.StatusCause
	if d.Bus != kubevirtv1.DiskBusVirtio {
		causes = invalid(at.Child("pciAddress"),
			"disk %s - setting a PCI address is only possible with bus type virtio.", at.Child("name"))
	}
	if !isPCIAddress(d.PciAddress) {
		causes = append(causes, invalid(at.Child("pciAddress"), "disk %s has malformed PCI address (%s).",
			at.Child("name"), d.PciAddress)...)
	}
	return causes
}

func isPCIAddress(a string) bool {
	return regexp.MustCompile(`^[\da-fA-F]{4}:[\da-fA-F]{2}:[\da-fA-F]{2}\.[0-7]$`).MatchString(a)
}

func diskBootOrder(s subject, i int) []metav1.StatusCause {
	if o := s.diskOf(i).BootOrder; o == nil || *o >= 1 {
		return nil
	}
	return invalid(s.disk(i).Child("bootOrder"), "%s must have a boot order > 0, if supplied", s.disk(i))
}

// target returns the kind of a disk and its bus.
func target(d *kubevirtv1.Disk) (string, kubevirtv1.DiskBus) {
	switch {
	case d.Disk != nil:
		return "disk", d.Disk.Bus
	case d.LUN != nil:
		return "lun", d.LUN.Bus
	case d.CDRom != nil:
		return "cdrom", d.CDRom.Bus
	default:
		return "", ""
	}
}

func diskBus(s subject, i int) []metav1.StatusCause {
	d := s.diskOf(i)
	kind, bus := target(d)
	p := s.disk(i).Child(kind, "bus")
	var causes []metav1.StatusCause
	switch bus {
	case "":
		return nil
	case kubevirtv1.DiskBusSCSI, kubevirtv1.DiskBusUSB:
	case kubevirtv1.DiskBusVirtio:
		if kind == "cdrom" {
			causes = invalid(p, "Bus type %s is invalid for CD-ROM device", bus)
		}
	case kubevirtv1.DiskBusSATA:
		if d.Disk != nil && d.Disk.ReadOnly {
			causes = invalid(p, "%s hard-disks do not support read-only.", bus)
		}
	case "ide":
		causes = invalid(p, "IDE bus is not supported")
	default:
		causes = invalid(p, "%s is set with an unrecognized bus %s, must be one of: [virtio scsi sata usb]", s.disk(i),
			bus)
	}
	if isTrue(d.DedicatedIOThread) && bus != kubevirtv1.DiskBusVirtio {
		causes = append(causes, unsupported(s.doubled(i), "IOThreads are not supported for disks on a %s bus", bus)...)
	}
	return causes
}

func diskSerial(s subject, i int, allowed *regexp.Regexp) []metav1.StatusCause {
	if serial := s.diskOf(i).Serial; serial == "" || allowed.MatchString(serial) {
		return nil
	}
	return invalid(s.disk(i).Child("serial"),
		"%s must be made up of the following characters [A-Za-z0-9_.+-], if specified", s.disk(i))
}

func diskSerialLength(s subject, i int) []metav1.StatusCause {
	if utf8.RuneCountInString(s.diskOf(i).Serial) <= maxSerial {
		return nil
	}
	return invalid(s.disk(i).Child("serial"), "%s must be less than or equal to %d in length, if specified", s.disk(i),
		maxSerial)
}

func diskCache(s subject, i int) []metav1.StatusCause {
	switch c := s.diskOf(i).Cache; c {
	case "", kubevirtv1.CacheNone, kubevirtv1.CacheWriteThrough, kubevirtv1.CacheWriteBack:
		return nil
	default:
		p := s.disk(i).Child("cache")
		return invalid(p, "%s has invalid value %s", p, c)
	}
}

func diskIO(s subject, i int) []metav1.StatusCause {
	switch s.diskOf(i).IO {
	case "", kubevirtv1.IONative, kubevirtv1.IOThreads:
		return nil
	default:
		return unsupported(s.doubled(i).Child("io"),
			"Disk IO mode for %s is not supported. Supported modes are: native, threads.", s.domain("devices", "disks"))
	}
}

func diskErrorPolicy(s subject, i int) []metav1.StatusCause {
	e := s.diskOf(i).ErrorPolicy
	if e == nil {
		return nil
	}
	switch *e {
	case kubevirtv1.DiskErrorPolicyStop, kubevirtv1.DiskErrorPolicyIgnore, kubevirtv1.DiskErrorPolicyReport,
		kubevirtv1.DiskErrorPolicyEnospace:
		return nil
	default:
		p := s.disk(i).Child("errorPolicy")
		return invalid(p, "%s has invalid value \"%s\"", p, *e)
	}
}

// diskName: containers are named after disks.
func diskName(s subject, i int) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for _, e := range validation.IsDNS1123Label(s.diskOf(i).Name) {
		causes = append(causes, invalid(s.doubled(i).Child("name"), "%s", e)...)
	}
	return causes
}

func diskBlockSize(s subject, i int) []metav1.StatusCause {
	d := s.diskOf(i)
	if d.BlockSize == nil || d.BlockSize.Custom == nil {
		return nil
	}
	p := s.disk(i).Child("blockSize")
	if m := d.BlockSize.MatchVolume; m != nil && on(m.Enabled) {
		return invalid(p, "Block size matching can't be enabled together with a custom value")
	}
	c, custom := d.BlockSize.Custom, p.Child("custom")
	_, bus := target(d)
	switch {
	case c.Logical > c.Physical:
		return invalid(custom.Child("logical"), "Logical size %d must be the same or less than the physical size of %d",
			c.Logical, c.Physical)
	case bus == kubevirtv1.DiskBusSATA && c.Logical != minBlockSize:
		return invalid(custom.Child("logical"), "Logical size %d must be %d for SATA devices", c.Logical, minBlockSize)
	case c.DiscardGranularity != nil && c.Logical != 0 && *c.DiscardGranularity%c.Logical != 0:
		return invalid(custom.Child("discardGranularity"),
			"Discard granularity %d must be multiples of logical size %d", *c.DiscardGranularity, c.Logical)
	}
	return append(blockSize(custom.Child("logical"), c.Logical), blockSize(custom.Child("physical"), c.Physical)...)
}

func blockSize(p *field.Path, size uint) []metav1.StatusCause {
	switch {
	case size < minBlockSize:
		return invalid(p, "Provided size of %d is less than the supported minimum size of %d", size, minBlockSize)
	case size > maxBlockSize:
		return invalid(p, "Provided size of %d is greater than the supported maximum size of %d", size, maxBlockSize)
	case size&(size-1) != 0:
		return invalid(p, "Provided size of %d is not a power of 2", size)
	default:
		return nil
	}
}
