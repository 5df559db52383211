package validation

import (
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

const maxSerial = 256

func (s subject) disk(i int) *field.Path { return s.domain("devices", "disks").Index(i) }

func diskNames(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	first := map[string]int{}
	for i, d := range s.spec.Domain.Devices.Disks {
		if errs := validation.IsDNS1123Label(d.Name); len(errs) > 0 {
			// The doubled path is KubeVirt's.
			p := field.NewPath(s.domain("devices", "disks").String()).Child("domain", "devices", "disks").Index(i).Child("name")
			for _, e := range errs {
				causes = append(causes, invalid(p, "%s", e)...)
			}
		}
		if j, ok := first[d.Name]; ok {
			causes = append(causes, invalid(s.disk(i).Child("name"), "%s and %s must not have the same Name.", s.disk(i), s.disk(j))...)
			continue
		}
		first[d.Name] = i
	}
	return causes
}

func diskVolumes(s subject) []metav1.StatusCause {
	volumes := map[string]bool{}
	for _, v := range s.spec.Volumes {
		volumes[v.Name] = true
	}
	var causes []metav1.StatusCause
	for i, d := range s.spec.Domain.Devices.Disks {
		// An empty CD-ROM drive needs no volume.
		if !volumes[d.Name] && d.CDRom == nil {
			causes = append(causes, invalid(s.disk(i).Child("name"), "%s '%s' not found.", s.disk(i).Child("Name"), d.Name)...)
		}
	}
	return causes
}

func diskTargets(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for i, d := range s.spec.Domain.Devices.Disks {
		targets := 0
		for _, set := range []bool{d.Disk != nil, d.CDRom != nil, d.LUN != nil} {
			if set {
				targets++
			}
		}
		if targets > 1 {
			causes = append(causes, invalid(s.disk(i), "%s can only have a single target type defined", s.disk(i))...)
		}
	}
	return causes
}

// diskTarget is the bus of a disk and where it is written.
func (s subject) diskTarget(d kubevirtv1.Disk) (string, kubevirtv1.DiskBus) {
	switch {
	case d.LUN != nil:
		return "lun", d.LUN.Bus
	case d.CDRom != nil:
		return "cdrom", d.CDRom.Bus
	case d.Disk != nil:
		return "disk", d.Disk.Bus
	default:
		return "", ""
	}
}

func diskBuses(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for i, d := range s.spec.Domain.Devices.Disks {
		kind, bus := s.diskTarget(d)
		p := s.disk(i).Child(kind, "bus")
		switch bus {
		case "", kubevirtv1.DiskBusSCSI, kubevirtv1.DiskBusUSB:
		case kubevirtv1.DiskBusVirtio:
			if d.CDRom != nil {
				causes = append(causes, invalid(p, "Bus type %s is invalid for CD-ROM device", bus)...)
			}
		case kubevirtv1.DiskBusSATA:
			if d.Disk != nil && d.Disk.ReadOnly {
				causes = append(causes, invalid(p, "%s hard-disks do not support read-only.", bus)...)
			}
		case "ide":
			causes = append(causes, invalid(p, "IDE bus is not supported")...)
		default:
			causes = append(causes, invalid(p, "%s is set with an unrecognized bus %s, must be one of: [virtio scsi sata usb]", s.disk(i), bus)...)
		}
	}
	return causes
}

func diskSerials(s subject) []metav1.StatusCause {
	allowed := regexp.MustCompile(`^[A-Za-z0-9_.+-]+$`)
	var causes []metav1.StatusCause
	for i, d := range s.spec.Domain.Devices.Disks {
		p := s.disk(i).Child("serial")
		if d.Serial != "" && !allowed.MatchString(d.Serial) {
			causes = append(causes, invalid(p, "%s must be made up of the following characters [A-Za-z0-9_.+-], if specified", s.disk(i))...)
		}
		if len(d.Serial) > maxSerial {
			causes = append(causes, invalid(p, "%s must be less than or equal to %d in length, if specified", s.disk(i), maxSerial)...)
		}
	}
	return causes
}

func diskDrivers(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for i, d := range s.spec.Domain.Devices.Disks {
		switch d.Cache {
		case "", kubevirtv1.CacheNone, kubevirtv1.CacheWriteThrough, kubevirtv1.CacheWriteBack:
		default:
			p := s.disk(i).Child("cache")
			causes = append(causes, invalid(p, "%s has invalid value %s", p, d.Cache)...)
		}
		// The doubled path is KubeVirt's.
		doubled := field.NewPath(s.domain("devices", "disks").String()).Child("domain", "devices", "disks").Index(i)
		switch d.IO {
		case "", kubevirtv1.IONative, kubevirtv1.IOThreads:
		default:
			causes = append(causes, unsupported(doubled.Child("io"), "Disk IO mode for %s is not supported. Supported modes are: native, threads.", s.domain("devices", "disks"))...)
		}
		if d.ErrorPolicy != nil {
			switch *d.ErrorPolicy {
			case kubevirtv1.DiskErrorPolicyStop, kubevirtv1.DiskErrorPolicyIgnore, kubevirtv1.DiskErrorPolicyReport, kubevirtv1.DiskErrorPolicyEnospace:
			default:
				p := s.disk(i).Child("errorPolicy")
				causes = append(causes, invalid(p, "%s has invalid value \"%s\"", p, *d.ErrorPolicy)...)
			}
		}
		if _, bus := s.diskTarget(d); isTrue(d.DedicatedIOThread) && bus != "" && bus != kubevirtv1.DiskBusVirtio {
			causes = append(causes, unsupported(doubled, "IOThreads are not supported for disks on a %s bus", bus)...)
		}
	}
	return causes
}

// bootOrder: each number belongs to one disk or interface.
func bootOrder(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	used := map[uint]bool{}
	check := func(order *uint, device, reported *field.Path) {
		switch {
		case order == nil:
		case *order < 1:
			causes = append(causes, invalid(reported.Child("bootOrder"), "%s must have a boot order > 0, if supplied", reported)...)
		case used[*order]:
			p := device.Child("bootOrder")
			causes = append(causes, invalid(p, "Boot order for %s already set for a different device.", p)...)
		default:
			used[*order] = true
		}
	}
	for i, d := range s.spec.Domain.Devices.Disks {
		check(d.BootOrder, s.disk(i), s.disk(i))
	}
	for i, n := range s.spec.Domain.Devices.Interfaces {
		// KubeVirt reports an interface's order of 0 at the spec itself.
		check(n.BootOrder, s.iface(i), s.path.Index(i))
	}
	return causes
}
